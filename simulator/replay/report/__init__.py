"""The report of a replay: one HTML page, and its tables and pictures for notebooks.

``aggregate`` reduces a replay of any size to a small ``ReportData``; ``page`` and
the pictures need nothing else.
"""

from __future__ import annotations

from simulator.replay.report.aggregation import aggregate as aggregate
from simulator.replay.report.data import ReportData as ReportData
from simulator.replay.report.document import page as page
from simulator.replay.report.grouping import QueueGroup as QueueGroup
from simulator.replay.report.grouping import groups as groups
from simulator.replay.report.pictures import deaths_picture as deaths_picture
from simulator.replay.report.pictures import flow_picture as flow_picture
from simulator.replay.report.pictures import paths_picture as paths_picture
