"""Inspects whatever broker the assertions are given: simulated or real."""

from __future__ import annotations

from typing import Any

from simulator.testing.brokers.inspection import Inspection


def inspect(broker: Any) -> Inspection:
    """Return the inspection of a broker that the assertions accept. Raises ``TypeError`` for anything else."""
    # Imported here: whoever tests on the simulator needs no client, and on a server no simulator.
    from simulator.testing.brokers.running_server import ServerBroker

    if isinstance(broker, ServerBroker):
        from simulator.testing.brokers.inspect_server import ServerInspection

        return ServerInspection(broker)
    from simulator.testing.brokers.inspect_simulator import SimulatorInspection, subject

    return SimulatorInspection(subject(broker))
