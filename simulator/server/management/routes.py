"""All resources of the management API; each is described where its subject is."""

from __future__ import annotations

from simulator.server.management import (
    bindings,
    connections,
    definitions,
    exchanges,
    health,
    overview,
    policies,
    queues,
    simulation,
    traces,
    users,
    vhosts,
)

RESOURCES = (
    *overview.RESOURCES,
    *health.RESOURCES,
    *definitions.RESOURCES,
    *vhosts.RESOURCES,
    *users.RESOURCES,
    *policies.RESOURCES,
    *exchanges.RESOURCES,
    *queues.RESOURCES,
    *bindings.RESOURCES,
    *connections.RESOURCES,
    *traces.RESOURCES,
    *simulation.RESOURCES,
)
