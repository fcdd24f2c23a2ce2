"""All resources of the management API, collected from the modules that describe them."""

from __future__ import annotations

from simulator.server.management import (
    bindings,
    clock,
    connections,
    definitions,
    deprecated_features,
    exchanges,
    faults,
    health,
    histories,
    limits,
    overview,
    parameters,
    policies,
    queues,
    traces,
    users,
    vhosts,
)

RESOURCES = (
    *overview.RESOURCES,
    *health.RESOURCES,
    *deprecated_features.RESOURCES,
    *definitions.RESOURCES,
    *vhosts.RESOURCES,
    *users.RESOURCES,
    *policies.RESOURCES,
    *parameters.RESOURCES,
    *limits.RESOURCES,
    *exchanges.RESOURCES,
    *queues.RESOURCES,
    *bindings.RESOURCES,
    *connections.RESOURCES,
    *traces.RESOURCES,
    *clock.RESOURCES,
    *histories.RESOURCES,
    *faults.RESOURCES,
)
