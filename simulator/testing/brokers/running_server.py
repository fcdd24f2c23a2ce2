"""Makes a server that runs already a broker under test; every test has a virtual host of its own there."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from simulator.clock import duration_us
from simulator.definitions import DefinitionsError
from simulator.testing.brokers.broker_under_test import AwaitableClock, BrokerUnavailableError
from simulator.testing.brokers.publish_and_get import PublishAndGet
from simulator.testing.brokers.servers import ManagementError, NoSuchServerError, Server, ask, hidden
from simulator.testing.fuzz.topology_under_test import OneTopology

__tracebackhide__ = True  # pytest shows the line of the test instead


def asked(urls: str, release_name: str | None) -> Server:
    """Return the server at these URLs. Raises ``BrokerUnavailableError`` if none answers, or one of another release."""
    try:
        server = ask(urls)
    except NoSuchServerError as error:
        raise BrokerUnavailableError(str(error)) from error
    if release_name not in (None, server.release):
        raise BrokerUnavailableError(
            f"the server at {hidden(server.management_url)} is RabbitMQ {server.version}, not {release_name}"
        )
    return server


_POLL_S = 0.05
MARGIN_S = 0.25
"""What ``advance`` waits beyond what is asked for: a server needs a moment to expire a message and to route it."""


class WallClock(AwaitableClock):
    """Real time. Advancing it means waiting."""

    def now_us(self) -> int:
        """Return the time, microseconds since 1970."""
        return time.time_ns() // 1000

    def advance(
        self,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        milliseconds: float = 0,
        answer_within_s: float | None = None,
    ) -> int:
        """Wait for that long and a quarter of a second more; return the new time."""
        us = duration_us(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)
        self.cancelled.wait(us / 1_000_000 + MARGIN_S)
        return self.now_us()


class ServerBroker(PublishAndGet):
    """A virtual host of its own on a real server."""

    simulated = False
    clock: WallClock

    def __init__(self, server: Server, vhost: str, topology: OneTopology | None) -> None:
        self.server = server
        self.vhost = vhost
        self.release = server.release
        self.topology = topology
        self.clock = WallClock()
        self.amqp_url = server.vhost_url(vhost)
        self.management_url = server.management_url

    def api(self, method: str, path: str, body: object = None) -> Any:
        """Call the management API; return its answer. Raises ``ManagementError``."""
        return self.server.api(method, path, body)

    def _hear(self) -> None:
        self._client.flush()

    def _ready(self, queue: str) -> int | None:
        return self._client.ready(queue)

    def _pass_time_until_ready(
        self,
        queue: str,
        messages: int,
        within_us: int,
        answer_within_s: float | None,
    ) -> int | None:
        began = time.monotonic()
        while True:
            found, passed_us = self._ready(queue), round((time.monotonic() - began) * 1_000_000)
            if found == messages:
                return passed_us
            if passed_us > within_us or self.clock.cancelled.is_set():
                return None
            time.sleep(_POLL_S)

    def _in_queues(self) -> list[str]:
        return ["Ready in the queues:", *(f"  {name}: {self._count(name)}" for name in sorted(self._names("queue")))]

    def _count(self, queue: str) -> str:
        try:
            return f"{self._ready(queue) or 'nothing'}"
        except LookupError:
            return "it is exclusive, so only its own connection can see"


class RunningServer:
    """Makes virtual hosts on a server that runs already."""

    simulated = False

    def __init__(self, server: Server) -> None:
        self.server = server
        self.id = f"live-{server.release}"

    @contextlib.contextmanager
    def broker(self, release: str | None, topology: OneTopology | None) -> Iterator[ServerBroker]:
        """Yield a new virtual host, which is deleted at the end. The server's release cannot be chosen."""
        server, vhost = self.server, f"dlx-test-{uuid.uuid4().hex[:12]}"
        _add_vhost(server, vhost, None if topology is None else topology.default_queue_type)
        try:
            if topology is not None:
                _import_into(server, vhost, topology)
            broker = ServerBroker(server, vhost, topology)
            try:
                yield broker
            finally:
                broker.disconnect()
        finally:
            server.api("DELETE", f"vhosts/{vhost}")

    def close(self) -> None:
        """Do nothing: the server was running before."""


def _add_vhost(server: Server, vhost: str, default_queue_type: str | None) -> None:
    try:
        server.api("PUT", f"vhosts/{vhost}", {"default_queue_type": default_queue_type} if default_queue_type else {})
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        server.api("PUT", f"permissions/{vhost}/{quote(server.user, safe='')}", everything)
    except (OSError, ManagementError) as error:
        raise BrokerUnavailableError(
            f"the server at {hidden(server.management_url)} gives a test no virtual host of its own: {error}"
        ) from error


def _import_into(server: Server, vhost: str, topology: OneTopology) -> None:
    try:
        server.api("POST", f"definitions/{vhost}", topology.document)
    except ManagementError as error:
        raise DefinitionsError(topology.source, "", f"RabbitMQ {server.version} refuses it: {error.reason}") from error
