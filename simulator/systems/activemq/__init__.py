"""ActiveMQ Classic in virtual time: a broker, its clients, and the scenarios that they play.

The form of a scenario is in ``docs/reference/activemq.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from simulator.systems.activemq.activemq_scenario import read
from simulator.systems.activemq.running import Run


def simulate(scenario: Mapping[str, Any], random: Random | None = None) -> dict[str, Any]:
    """Run a scenario and return what happened as plain JSON values.

    Args:
        scenario: configuration and steps, as ``docs/reference/activemq.md`` has them.
        random: for collision avoidance; by default from the scenario's ``seed``.

    Raises ``ScenarioError`` with the field that is wrong and what would be right.
    """
    return Run(read(scenario), random).result()
