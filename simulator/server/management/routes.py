"""All resources of the management API, collected from the modules that describe them."""

from __future__ import annotations

from simulator.server.management import (
    bindings,
    clock,
    connections,
    definitions,
    exchanges,
    health,
    histories,
    overview,
    policies,
    queues,
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
    *clock.RESOURCES,
    *histories.RESOURCES,
)
