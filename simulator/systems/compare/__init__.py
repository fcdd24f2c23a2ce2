"""Runs one neutral scenario under several systems, and shows what came of each message under each.

``read`` takes a scenario from plain JSON values, ``compare`` runs it; ``docs/how-to/compare.md`` describes both.
"""

from __future__ import annotations

from simulator.systems.compare.comparing import ADAPTERS as ADAPTERS
from simulator.systems.compare.comparing import compare as compare
from simulator.systems.compare.neutral_scenario import NeutralScenario as NeutralScenario
from simulator.systems.compare.neutral_scenario import read as read
from simulator.systems.compare.outcome import MessageOutcome as MessageOutcome
from simulator.systems.compare.outcome import SystemOutcome as SystemOutcome
