"""The harness: a pytest plugin, assertions, Hypothesis strategies, and machines that try to break a topology.

    from simulator.testing import Trial, assert_nothing_lost

Names are loaded on first use; the plugin is loaded by pytest itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlx._lazy import lazy
from simulator.extras import importing

if TYPE_CHECKING:
    from simulator.scenario.properties.property import Property, PropertyBroken
    from simulator.scenario.trial import Trial, replay
    from simulator.testing.assertions import assert_dead_lettered, assert_nothing_lost, assert_settles
    from simulator.testing.topology_machine import TopologyMachine
else:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "simulator.scenario.trial": ("Trial", "replay"),
            "simulator.testing.assertions": ("assert_dead_lettered", "assert_nothing_lost", "assert_settles"),
            "simulator.scenario.properties.property": ("Property", "PropertyBroken"),
            "simulator.testing.topology_machine": ("TopologyMachine",),
        },
        load=importing("testing"),
    )


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
