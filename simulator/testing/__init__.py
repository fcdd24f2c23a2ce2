"""The harness: a pytest plugin, assertions, Hypothesis strategies, and machines that try to break a topology.

    from simulator.testing import Broker, Trial, assert_nothing_lost

The fixture ``dlx_broker`` is a ``Broker``, ``dlx_clock`` a ``Clock``, ``dlx_topology`` a ``dlx.Topology``, and
``dlx_amqp_url`` a ``str``; ``dlx_session_broker`` and ``dlx_session_amqp_url`` are the same for a whole run.

Names are loaded on first use; the plugin is loaded by pytest itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlx._lazy import lazy
from simulator.extras import importing

if TYPE_CHECKING:
    from simulator.capture.management_api import ManagementError as ManagementError
    from simulator.scenario.properties.property import Property as Property
    from simulator.scenario.properties.property import PropertyBroken as PropertyBroken
    from simulator.scenario.trial import Trial as Trial
    from simulator.scenario.trial import replay as replay
    from simulator.testing.assertions import assert_dead_lettered as assert_dead_lettered
    from simulator.testing.assertions import assert_nothing_lost as assert_nothing_lost
    from simulator.testing.assertions import assert_settles as assert_settles
    from simulator.testing.brokers.broker_under_test import Broker as Broker
    from simulator.testing.brokers.broker_under_test import Clock as Clock
    from simulator.testing.brokers.client import ReceivedMessage as ReceivedMessage
    from simulator.testing.fuzz.topology_under_test import OneTopology as OneTopology
    from simulator.testing.topology_machine import TopologyMachine as TopologyMachine
else:
    __all__, __getattr__, __dir__ = lazy(
        __name__,
        {
            "simulator.capture.management_api": ("ManagementError",),
            "simulator.scenario.properties.property": ("Property", "PropertyBroken"),
            "simulator.scenario.trial": ("Trial", "replay"),
            "simulator.testing.assertions": ("assert_dead_lettered", "assert_nothing_lost", "assert_settles"),
            "simulator.testing.brokers.broker_under_test": ("Broker", "Clock"),
            "simulator.testing.brokers.client": ("ReceivedMessage",),
            "simulator.testing.fuzz.topology_under_test": ("OneTopology",),
            "simulator.testing.topology_machine": ("TopologyMachine",),
        },
        load=importing("testing"),
    )
