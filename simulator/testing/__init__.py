"""The harness: a pytest plugin, assertions, Hypothesis strategies, and machines that try to break a topology.

    from simulator.testing import Trial, assert_nothing_lost

Names are loaded on first use; the plugin is loaded by pytest itself.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulator.scenario.properties.property import Property, PropertyBroken
    from simulator.scenario.trial import Trial, replay
    from simulator.testing.assertions import assert_dead_lettered, assert_nothing_lost, assert_settles
    from simulator.testing.topology_machine import TopologyMachine

_HOME = {
    "Property": "simulator.scenario.properties.property",
    "PropertyBroken": "simulator.scenario.properties.property",
    "TopologyMachine": "simulator.testing.topology_machine",
    "Trial": "simulator.scenario.trial",
    "assert_dead_lettered": "simulator.testing.assertions",
    "assert_nothing_lost": "simulator.testing.assertions",
    "assert_settles": "simulator.testing.assertions",
    "replay": "simulator.scenario.trial",
}

__all__ = [
    "Property",
    "PropertyBroken",
    "TopologyMachine",
    "Trial",
    "assert_dead_lettered",
    "assert_nothing_lost",
    "assert_settles",
    "replay",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'simulator.testing' has no attribute {name!r}")
    try:
        home = importlib.import_module(_HOME[name])
    except ModuleNotFoundError as error:
        from simulator.extras import missing

        raise ModuleNotFoundError(missing(error) or str(error), name=error.name) from None
    return getattr(home, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
