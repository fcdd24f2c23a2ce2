"""The systems that there are simulators of, each with a scenario of its own form; they are loaded on first use."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

# A system's name, and where its `simulate` is.
SYSTEMS = {
    "rabbitmq": "simulator.scenario.rabbitmq_scenario",
    "activemq": "simulator.activemq",
    "ibm_mq": "simulator.ibm_mq",
    "ironmq": "simulator.ironmq",
    "zaqar": "simulator.zaqar",
}


def simulate(system: str, scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Run a scenario of one of ``SYSTEMS`` on virtual time; the trace as JSON values.

    Raises ``ScenarioError`` with the place that is wrong, and ``ValueError`` for a system that there is not.
    """
    if system not in SYSTEMS:
        raise ValueError(f"no system {system!r}; there are {', '.join(SYSTEMS)}")
    trace: dict[str, Any] = importlib.import_module(SYSTEMS[system]).simulate(scenario)
    return trace
