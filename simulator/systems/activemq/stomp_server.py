"""Serves a simulated broker to clients of STOMP over asyncio.

Heart-beats are in wall time, whatever the broker's clock says.

Source: activemq-client, AbstractInactivityMonitor.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from simulator.clock import Clock
from simulator.systems.activemq.served_broker import ServedBroker
from simulator.systems.activemq.settings import BrokerSettings
from simulator.systems.activemq.stomp_connection import StompConnection

BACKLOG_BYTES = 1 << 26
"""Unsent bytes at which a client that does not read is dropped."""
CONNECT_WITHIN_S = 30
"""How long a client may take until it is connected."""
_log = logging.getLogger(__name__)


class StompServer:
    """A broker and its clients.

    Args:
        settings: of the broker.
        clock: its time. Whoever moves a virtual one calls ``catch_up``.

    Attributes:
        served: the broker. It is at the time of its last deadline, or last frame.
        clients: those whose sockets are open.
    """

    def __init__(self, settings: BrokerSettings, clock: Clock) -> None:
        self.served, self.clock = ServedBroker(settings, clock.now_us() // 1_000), clock
        self.clients: set[StompClient] = set()
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def listen(self, host: str, port: int) -> str:
        """Listen on an address, port 0 for a free one. Return the URL. Raises ``OSError``."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: StompClient(self), host, port)
        bound = self._server.sockets[0].getsockname()[1]
        shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
        return f"stomp://{shown}:{bound}"

    def catch_up(self) -> None:
        """Do what has fallen due, and plan for what will."""
        try:
            self.served.pass_time(self.clock.now_us() // 1_000)
        finally:
            self.plan()

    def plan(self) -> None:
        """Plan for what falls due next."""
        if self._timer is not None:
            self._timer.cancel()
        due_ms = self.served.next_due_ms()
        wait_s = None if due_ms is None else self.clock.wait_s(due_ms * 1_000)
        loop = asyncio.get_running_loop()
        self._timer = None if wait_s is None else loop.call_later(wait_s, self.catch_up)

    async def stop(self) -> None:
        """Stop listening, and drop all clients."""
        if self._timer is not None:
            self._timer.cancel()
        if self._server is not None:
            self._server.close()
        for client in list(self.clients):
            client.drop()
        await asyncio.sleep(0)  # the transports tell their protocols that they are closed


class StompClient(asyncio.Protocol):
    """One client's socket."""

    def __init__(self, server: StompServer) -> None:
        self._server, self._loop = server, asyncio.get_running_loop()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        host, port = (transport.get_extra_info("peername") or ("?", 0))[:2]  # none: it is gone already
        self._address = f"tcp://{host}:{port}"
        self._connection = StompConnection(self._server.served, self._address, self._write, transport.close)
        self._server.clients.add(self)
        self._timers["connect"] = self._loop.call_later(CONNECT_WITHIN_S, self.drop)

    def data_received(self, data: bytes) -> None:
        """Take what a client sent."""
        self._server.catch_up()
        connected = self._connection.connected
        self._connection.receive(data)
        if self._connection.connected and not connected:
            self._begin_heart_beats()
        self._server.plan()

    def connection_lost(self, error: Exception | None) -> None:
        """Let the broker know that the client is gone."""
        for timer in self._timers.values():
            timer.cancel()
        self._server.clients.discard(self)
        self._server.catch_up()
        self._connection.lost()
        self._server.plan()

    def drop(self) -> None:
        """Break the connection."""
        self._transport.abort()

    def _write(self, data: bytes) -> None:
        if self._transport.get_write_buffer_size() > BACKLOG_BYTES:
            _log.warning("client %s takes nothing of %d bytes: it is dropped", self._address, BACKLOG_BYTES)
            self.drop()
        elif not self._transport.is_closing():
            self._transport.write(data)

    def _begin_heart_beats(self) -> None:
        self._timers.pop("connect").cancel()
        beats = self._connection.heart_beats
        self._each("told", beats.writes_ms, self._connection.beat)
        self._each("heard", beats.reads_ms, self._connection.listen)

    def _each(self, name: str, every_ms: int, act: Callable[[], None]) -> None:
        """Act each time that a heart-beat is due."""

        def due() -> None:
            act()
            self._each(name, every_ms, act)

        if every_ms and not self._transport.is_closing():
            self._timers[name] = self._loop.call_later(every_ms / 1_000, due)
