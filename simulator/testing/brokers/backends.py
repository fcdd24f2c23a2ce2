"""Finds the backend that ``--dlx-broker`` names: the simulator, a container that it starts, or a running server."""

from __future__ import annotations

import time
import warnings
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import urlsplit

from dlx.nearest_names import suggestion
from dlx.releases import RELEASES, release
from simulator.testing.brokers.broker_under_test import Backend, Broker, BrokerUnavailableError
from simulator.testing.brokers.running_server import RunningServer, asked
from simulator.testing.brokers.servers import NoSuchServerError, Server, hidden
from simulator.testing.brokers.simulated import Simulator
from simulator.testing.fuzz.topology_under_test import OneTopology

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
    raise ValueError(f"{_EXPECTED}, got {hidden(named)!r}{f'; {near}' * near.startswith('did')}")


def _check_url(amqp_url: str) -> None:
    """Raise ``ValueError`` unless the URL names a host, has no impossible port, and names no virtual host."""
    try:
        parts = urlsplit(amqp_url)
        wrong = not parts.hostname or parts.port == 0
    except ValueError:  # whose text may repeat a password
        wrong = True
    if wrong:
        raise ValueError(f"{_EXPECTED}, got {hidden(amqp_url)!r}")
    if parts.path.lower() not in ("", "/", "/%2f"):
        raise ValueError(
            f"every test gets a virtual host of its own, so leave {parts.path!r} out of {hidden(amqp_url)!r}"
        )


# Runs a server in a container as a broker under test.


_AMQP_PORT, _MANAGEMENT_PORT = 5672, 15672
_MANAGEMENT_WAIT_S = 60


class Container:
    """A server in a container, which is started when the first test needs it and removed at the end."""

    simulated = False

    def __init__(self, image: str, release_name: str | None = None) -> None:
        self.id = f"container-{image.rpartition('/')[2]}"
        self._image = image
        self._release = release_name
        self._container: Any = None
        self._server: RunningServer | None = None

    def broker(self, release: str | None, topology: OneTopology | None) -> AbstractContextManager[Broker]:
        """Yield a new virtual host on the container's server."""
        if self._server is None:
            self._server = RunningServer(self._start())
        return self._server.broker(release, topology)

    def close(self) -> None:
        """Remove the container."""
        if self._container is not None:
            self._container.stop()
            self._container = None

    def _start(self) -> Server:
        container_of, unavailable = _testcontainers()
        try:
            self._container = container = container_of(self._image).with_exposed_ports(_MANAGEMENT_PORT)
            container.start()
            host, amqp = container.get_container_host_ip(), container.get_exposed_port(_AMQP_PORT)
            management = container.get_exposed_port(_MANAGEMENT_PORT)
            user = f"{container.username}:{container.password}"
            return self._ready(f"amqp://{user}@{host}:{amqp}/|http://{host}:{management}/")
        except (unavailable, OSError, TimeoutError) as error:
            self.close()
            raise BrokerUnavailableError(
                f"the image {self._image} cannot be run: {_first_line(error)}\n"
                "It takes a container engine such as Docker, and the image. Where testcontainers' own image cannot be "
                "had, set TESTCONTAINERS_RYUK_DISABLED=true."
            ) from error

    def _ready(self, urls: str) -> Server:
        """Return the server, once its management API answers."""
        until = time.monotonic() + _MANAGEMENT_WAIT_S
        while True:
            try:
                return asked(urls, self._release)
            except BrokerUnavailableError as error:
                if not isinstance(error.__cause__, NoSuchServerError):
                    self.close()
                    raise
                if time.monotonic() > until:
                    self.close()
                    raise BrokerUnavailableError(
                        f"{error}\nThe image {self._image} must have the management plugin on, "
                        "as the tags of RabbitMQ that end in -management have."
                    ) from error
            time.sleep(0.5)


def _testcontainers() -> tuple[Any, type[Exception]]:
    """Return the class of RabbitMQ containers, if testcontainers has it, and the error of container engines."""
    try:
        from docker.errors import DockerException

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it uses what it has deprecated itself
            try:
                from testcontainers.community.rabbitmq import RabbitMqContainer
            except ImportError:
                from testcontainers.rabbitmq import RabbitMqContainer
    except ImportError as error:
        raise BrokerUnavailableError(
            f"this needs testcontainers and pika: pip install '.[testing]' in a checkout of dlx ({error})"
        ) from error
    return RabbitMqContainer, DockerException


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
