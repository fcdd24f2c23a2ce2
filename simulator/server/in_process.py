"""A server in a thread of this process, for tests: it starts in a tenth of a second, and its time can be moved."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, TypeVar

from simulator.broker import Broker
from simulator.broker.commands import Command
from simulator.broker.replies import Reply
from simulator.clock import Clock, duration_us
from simulator.events import Happened
from simulator.extras import importing
from simulator.server.faults.fault import FaultError, read_fault
from simulator.server.faults.striking import ShownFault
from simulator.server.listeners import Listeners
from simulator.server.node import Node
from simulator.server.tls import Tls

Result = TypeVar("Result")
_STOP_S = 10
THREAD_NAME = "dlx serve"
"""The thread that a server runs in."""


class ServerClock:
    """The clock of a running server. Moving it makes everything happen that becomes due, and sends the effects."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def now_us(self) -> int:
        """Return the time, microseconds since 1970."""
        return self._server.run(lambda node: node.clock.now_us())

    def advance(
        self,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        milliseconds: float = 0,
    ) -> int:
        """Move the time forward and return the new time (microseconds since 1970).

        Everything that becomes due happens, each thing at its own time, and is handed
        to the clients' sockets before this returns; what clients answer comes later.
        Raises ``ValueError`` for a negative duration and beyond the year 9999, and
        ``TypeError`` on wall time.
        """
        us = duration_us(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)
        return self._server.wait(lambda node: node.pass_time(us), lambda node: node.advance(us))

    def jump(self) -> bool:
        """Move the time to the next thing that happens by itself; return whether there was one."""
        return self._server.wait(lambda node: node.pass_to_next(), lambda node: node.jump())


class ServerFaults:
    """What goes wrong on a running server, on request. docs/how-to/faults.md has the faults and their fields."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def add(self, fault: str, **fields: Any) -> ShownFault:
        """Have something go wrong, such as ``add("close_channel", queue="orders", nth=3)``; return it with its id.

        Raises ``FaultError`` (a ``ValueError``), which names the field that is wrong.
        """
        __tracebackhide__ = True  # pytest shows the line of the test instead
        try:
            asked = read_fault({"fault": fault, **fields})
        except FaultError as error:
            raise error.with_traceback(None) from None
        return self._server.run(lambda node: node.faults.shown_one(node.set_fault(asked)))

    def all(self) -> list[ShownFault]:
        """Return the faults as they are now, with how often each struck."""
        return self._server.run(lambda node: node.faults.shown())

    def get(self, number: int) -> ShownFault:
        """Return one fault as it is now. Raises ``KeyError`` for an id that no fault has."""
        return self._server.run(lambda node: node.faults.shown_one(node.faults.known[number]))

    def clear(self, number: int | None = None) -> None:
        """Have nothing more go wrong, or not the fault of that id. Raises ``KeyError`` for one that no fault has."""
        self._server.run(lambda node: node.clear_faults(number))


class Server:
    """A running server; ``simulator.serve()`` makes one. Its methods may be called from any thread.

    Attributes:
        amqp_url: where AMQP clients find it.
        amqps_url: where AMQP clients find it with TLS; ``None`` without TLS.
        management_url, metrics_url: the management API and the metrics; ``None`` without such a port.
        management_https_url: the management API with TLS; ``None`` without such a port.
        tls: the certificates, as files, and the ports with TLS; ``None`` without TLS.
        clock: tells and moves its time.
        faults: what goes wrong on request.
    """

    def __init__(
        self,
        broker: Broker,
        clock: Clock,
        *,
        host: str,
        port: int,
        management_port: int | None,
        metrics_port: int | None = None,
        memory_limit_bytes: int,
        send_timeout_s: float,
        tls: Tls | None = None,
    ) -> None:
        self._files = contextlib.ExitStack()
        if tls is not None and tls.cert is None:
            certificates = importing("testing")("simulator.server.certificates")
            folder = self._files.enter_context(TemporaryDirectory(prefix="dlx-tls-"))
            tls = certificates.generated(tls, Path(folder))
        self._loop = asyncio.new_event_loop()
        self._node = Node(
            broker, clock, self._loop, memory_limit_bytes=memory_limit_bytes, send_timeout_s=send_timeout_s
        )
        self._thread = threading.Thread(target=self._loop.run_forever, name=THREAD_NAME, daemon=True)
        self._thread.start()
        starting = Listeners.start(self._node, host, port, management_port, metrics_port, tls)
        try:
            self._listeners = asyncio.run_coroutine_threadsafe(starting, self._loop).result()
        except BaseException:
            self._end_loop()
            raise
        self.amqp_url = str(self._listeners.amqp_url)
        self.amqps_url = self._listeners.amqps_url
        self.management_url = self._listeners.management_url
        self.management_https_url = self._listeners.management_https_url
        self.metrics_url = self._listeners.metrics_url
        self.tls = self._node.tls
        self.clock = ServerClock(self)
        self.faults = ServerFaults(self)

    def run(self, act: Callable[[Node], Result]) -> Result:
        """Return ``act`` of the node, called in the server's thread. Raises ``RuntimeError`` when stopped.

        It is called when long work that was begun before is done.
        """

        async def acting(node: Node) -> Result:
            await node.caught_up()
            return act(node)

        return self.wait(acting, act)

    def wait(self, act: Callable[[Node], Coroutine[Any, Any, Result]], at_once: Callable[[Node], Result]) -> Result:
        """Wait for ``act`` of the node, which lets clients have their turn; in the server's thread, do ``at_once``.

        Raises ``RuntimeError`` when stopped.
        """
        self.check_running()
        if threading.current_thread() is self._thread:
            return at_once(self._node)
        acted = act(self._node)
        try:
            return asyncio.run_coroutine_threadsafe(acted, self._loop).result()
        except RuntimeError:
            acted.close()
            raise

    def handle(self, command: Command) -> list[Reply | Happened]:
        """Give the broker a command at the clock's time, and send its effects to the clients.

        Returns the replies and events that belong to no client. Raises ``OperatorError``
        for an operator's command that RabbitMQ refuses.
        """
        return self.wait(lambda node: node.carry_out(command), lambda node: node.handle(command))

    def snapshot(self) -> bytes:
        """Return the broker's whole state, for ``simulator.broker.Broker.restore``."""
        return self.run(lambda node: node.broker.snapshot())

    def check_running(self) -> None:
        """Raise ``RuntimeError`` if the server was stopped."""
        if self._loop.is_closed():
            raise RuntimeError("the broker is stopped")

    def stop(self) -> None:
        """Drop all clients and stop listening. Stopping again does nothing."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._listeners.stop(), self._loop).result(_STOP_S)
        self._end_loop()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_S)
        self._loop.close()
        self._files.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
