"""Runs scenarios of every system that has a simulator; each has a form of its own, and is loaded on first use.

Another distribution adds a system by an entry point in the group ``dlx.systems``: its
name, and a callable that takes a scenario and returns its trace as ``simulate`` does. One in the
group ``dlx.scenario_types`` gives the system a schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dlx.plugins import Registry

SYSTEMS = Registry(
    "dlx.systems",
    "system",
    {
        "rabbitmq": "simulator.scenario.rabbitmq_scenario:simulate",
        "activemq": "simulator.systems.activemq:simulate",
        "ibm_mq": "simulator.systems.ibm_mq:simulate",
        "ironmq": "simulator.systems.ironmq:simulate",
        "zaqar": "simulator.systems.zaqar:simulate",
    },
    needs=("__call__",),
)
"""The systems by name, the built-in ones first."""

SCENARIO_TYPES = Registry(
    "dlx.scenario_types",
    "scenario type",
    {
        "rabbitmq": "simulator.scenario.rabbitmq_scenario:Scenario",
        "activemq": "simulator.systems.activemq.activemq_scenario:Scenario",
        "ibm_mq": "simulator.systems.ibm_mq.ibm_mq_scenario:Scenario",
        "ironmq": "simulator.systems.ironmq.ironmq_scenario:Scenario",
        "zaqar": "simulator.systems.zaqar.zaqar_scenario:Scenario",
    },
    needs=("__struct_fields__",),
)
"""The types that scenarios are read by, by system: their schema is made from these."""


def simulate(system: str, scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Run a scenario of one of ``SYSTEMS`` in virtual time, and return the trace as JSON values.

    Raises:
        ScenarioError: the scenario is wrong; the error has the place.
        ValueError: there is no such system.
        dlx.plugins.PluginError: another distribution adds the system, and it cannot be loaded.
    """
    if system not in SYSTEMS:
        raise ValueError(f"no system {system!r}; there are {', '.join(SYSTEMS)}")
    trace: dict[str, Any] = SYSTEMS.load(system)(scenario)
    return trace
