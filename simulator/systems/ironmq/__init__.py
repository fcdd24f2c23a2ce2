"""IronMQ v3 in virtual time: queues with a dead letter queue, its API, and scenarios.

``simulate(scenario)`` runs a scenario and returns its trace; ``simulator.systems.ironmq.http.app()`` is the HTTP API.

Source: the reference of IronMQ v3 (dead letter queue, API, push queues). The server's source
is not public, so the reference can be checked only against the authors' own client
tests. Behaviour that neither describes is marked "not documented".
"""

from __future__ import annotations

from simulator.systems.ironmq.simulation import simulate as simulate
