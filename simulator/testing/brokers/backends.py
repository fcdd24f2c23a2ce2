"""Finds the backend that ``--dlx-broker`` names: the simulator, a container, or a server that runs already."""

from __future__ import annotations

from urllib.parse import urlsplit

from dlx.releases import RELEASES, release
from simulator.nearest_names import suggestion
from simulator.testing.brokers.broker_under_test import Backend
from simulator.testing.brokers.containers import Container
from simulator.testing.brokers.running_server import RunningServer, asked
from simulator.testing.brokers.servers import hidden
from simulator.testing.brokers.simulated import Simulator

_SIMULATOR = "simulator"
_CONTAINER = "container:"
_EXPECTED = (
    "expected simulator, a release such as 4.3, container:IMAGE, amqp://user:password@host:port/ "
    "or 'AMQP_URL|MANAGEMENT_URL'"
)


def backend(named: str, release_name: str | None = None) -> Backend:
    """Return the backend that an option names; ``release_name`` is the release that tests want, if they say so.

    Raises:
        ValueError: no backend has that name.
        UnknownReleaseError: there are no rules for that release.
        BrokerUnavailableError: no server answers there, or one of another release.
    """
    if named == _SIMULATOR:
        return Simulator(release_name and release(release_name).name)
    if named[:1].isdigit():
        return Simulator(release(named).name, only=True)
    if named.startswith(_CONTAINER) and named != _CONTAINER:
        return Container(named.removeprefix(_CONTAINER), release_name)
    if named.startswith(("amqp://", "amqps://")):
        _check_url(named.partition("|")[0])
        return RunningServer(asked(named, release_name))
    near = suggestion(named, (_SIMULATOR, *RELEASES))
    raise ValueError(f"{_EXPECTED}, got {named!r}{f'; {near}' * near.startswith('did')}")


def _check_url(amqp_url: str) -> None:
    """Raise ``ValueError`` unless the URL names a host, has no impossible port, and names no virtual host."""
    parts = urlsplit(amqp_url)
    if not parts.hostname or parts.port == 0:
        raise ValueError(f"{_EXPECTED}, got {hidden(amqp_url)!r}")
    if parts.path.lower() not in ("", "/", "/%2f"):
        raise ValueError(
            f"every test gets a virtual host of its own, so leave {parts.path!r} out of {hidden(amqp_url)!r}"
        )
