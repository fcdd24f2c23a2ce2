"""Takes from definitions what a replay needs: a topology for each virtual host, and the release that exported them."""

from __future__ import annotations

from dlx.releases import Release, neighbours, release
from dlx.topology import Topology
from simulator.definitions import Definitions


def topologies(definitions: Definitions) -> dict[str | None, Topology]:
    """Return the topologies by virtual host; an export that does not name its own serves all (``None``)."""
    if not definitions.vhost_named:
        return {None: definitions.topology("/")}
    return {vhost: definitions.topology(vhost) for vhost in definitions.vhosts}


def exporting_release(definitions: Definitions) -> Release | None:
    """Return the release of the server that wrote the definitions, or the nearest older one whose rules are known."""
    version = definitions.rabbitmq_version
    nearest, _ = neighbours(version) if version is not None else (None, None)
    return release(nearest) if nearest is not None else None
