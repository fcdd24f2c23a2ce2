"""IronMQ v3 in virtual time: queues with a dead letter queue, its API, and scenarios.

``simulate(scenario)`` runs a scenario and returns its trace; ``simulator.ironmq.http.app()`` is the HTTP API.
"""

from __future__ import annotations

from simulator.ironmq.simulation import simulate

__all__ = ["simulate"]
