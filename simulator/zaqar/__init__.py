"""OpenStack Zaqar with state and virtual time: its queues, claims and dead letters.

``simulate`` runs a scenario. ``Zaqar`` is the service itself, a request and the time in
and an answer out; ``simulator.zaqar.http`` serves it. ``docs/reference/zaqar.md`` tells how to use
it and where it is known to be right.
"""

from __future__ import annotations

from simulator.zaqar.service import Zaqar
from simulator.zaqar.zaqar_scenario import simulate

__all__ = ["Zaqar", "simulate"]
