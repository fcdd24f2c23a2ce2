"""What a replay takes from the definitions: a topology for each virtual host, and the exporting release."""

from __future__ import annotations

from dlx.releases import RELEASES, VERSIONS, Release, UnknownReleaseError, release
from dlx.topology import Topology
from simulator.definitions import Definitions


def topologies(definitions: Definitions) -> dict[str | None, Topology]:
    """The topologies by virtual host; one export that does not name its own serves all (``None``)."""
    if not definitions.vhost_named:
        return {None: definitions.topology("/")}
    return {vhost: definitions.topology(vhost) for vhost in definitions.vhosts}


def exporting_release(definitions: Definitions) -> Release | None:
    """The release of the server that wrote the definitions, where the table has it or a nearest below it."""
    version = definitions.rabbitmq_version
    if version is None:
        return None
    try:
        return release(version)
    except UnknownReleaseError:
        below = [name for name in RELEASES if _parts(VERSIONS[name]) <= _parts(version)]
        return release(below[-1]) if below else None


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
