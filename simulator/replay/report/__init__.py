"""The report of a replay: one HTML page, and its tables and pictures for notebooks.

``aggregate`` reduces a replay of any size to a small ``ReportData``; ``page`` and
the pictures need nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from simulator.capture import FileReport
from simulator.definitions import Definitions
from simulator.files import write_whole
from simulator.replay.coverage.totals import Coverage
from simulator.replay.repair.repair_report import NO_REPAIRS, Repairs
from simulator.replay.report.aggregation import aggregate as aggregate
from simulator.replay.report.data import ReportData as ReportData
from simulator.replay.report.document import page as page
from simulator.replay.report.grouping import QueueGroup as QueueGroup
from simulator.replay.report.grouping import groups as groups
from simulator.replay.report.pictures import deaths_picture as deaths_picture
from simulator.replay.report.pictures import flow_picture as flow_picture
from simulator.replay.report.pictures import paths_picture as paths_picture
from simulator.replay.results.counters import Balance
from simulator.replay.results.summary import Summary
from simulator.replay.rows.assumptions import DEFAULT_ASSUMPTIONS, Assumptions
from simulator.replay.rows.tables import Table


def build_report(
    replayed: Table,
    definitions: Definitions,
    rules: str,
    summary: Summary,
    files: Iterable[FileReport],
    captured: Table | None = None,
    assumptions: Assumptions = DEFAULT_ASSUMPTIONS,
    balance: Balance | None = None,
    repairs: Repairs = NO_REPAIRS,
    coverage: Coverage | None = None,
) -> str:
    """Return the report on the result of ``simulator.replay.replay`` as an HTML page.

    ``captured`` are the rows that were replayed; where they have the column
    ``routed_queues``, the page shows where publishes went and what was lost there.
    With ``balance`` it shows what the broker counted, with ``repairs`` what may be behind
    deliveries that are not as predicted, with ``coverage`` which rules the log has exercised.
    """
    data = aggregate(replayed, definitions, rules, summary, files, captured, assumptions)
    return page(msgspec.structs.replace(data, balance=balance, repairs=repairs, coverage=coverage))


def write_report(
    path: Path,
    replayed: Table,
    definitions: Definitions,
    rules: str,
    summary: Summary,
    files: Iterable[FileReport],
    captured: Table | None = None,
    assumptions: Assumptions = DEFAULT_ASSUMPTIONS,
    balance: Balance | None = None,
    repairs: Repairs = NO_REPAIRS,
    coverage: Coverage | None = None,
) -> None:
    """Write the page of ``build_report`` to ``path``, whole or not at all."""
    report = build_report(
        replayed, definitions, rules, summary, files, captured, assumptions, balance, repairs, coverage
    )
    write_whole(path, report)
