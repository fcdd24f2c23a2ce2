"""Serves an HTTP application on a port until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from simulator.server.tls import TLS_RECORD, Handshakes

_BACKLOG = 128
_log = logging.getLogger(__name__)
_STOP_S = 2


class _Stoppable(uvicorn.Server):
    """A server that leaves signals to whoever runs the event loop, and ends at once when ``stop`` is set."""

    def __init__(self, config: uvicorn.Config, stop: asyncio.Event) -> None:
        super().__init__(config)
        self._stop = stop

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        """Serve until ``stop`` is set. uvicorn's own loop only looks ten times a second."""
        ticking = asyncio.create_task(super().main_loop())
        try:
            await self._stop.wait()
        finally:
            ticking.cancel()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close idle connections. If requests are under way, uvicorn waits for them, a tenth of a second or more."""
        for listener in (*self.servers, *(sockets or ())):
            listener.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await asyncio.sleep(0)  # the transports tell their protocols that they are closed
        if self.server_state.connections or self.server_state.tasks:
            await super().shutdown(sockets)


def run(application: ASGIApp, *, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT.

    Args:
        application: an ASGI application, such as ``simulator.systems.ironmq.http.app`` makes.
        host, port: where to listen; port 0 takes a free one.
        ready: is called with the URL once requests are answered.

    Raises:
        OSError: the port is taken, or the host not this machine's.
    """
    asyncio.run(_run(application, host, port, ready))


async def _run(application: ASGIApp, host: str, port: int, ready: Callable[[str], None]) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await serve(application, host=host, port=port, ready=ready, stop=stop)


async def serve(
    application: ASGIApp,
    *,
    host: str,
    port: int,
    ready: Callable[[str], None],
    stop: asyncio.Event,
    handshakes: Handshakes | None = None,
) -> None:
    """Serve as ``run`` does, but in the event loop of the caller, until ``stop`` is set; HTTPS with ``handshakes``."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family, backlog=_BACKLOG) as bound:
        # asyncio sets this only for sockets that name their protocol; without it, each answer takes 40 ms.
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        config = uvicorn.Config(
            application,
            log_config=None,
            access_log=False,
            http=_Http if handshakes is None else _https(handshakes),
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=_STOP_S,
        )
        server = _Stoppable(config, stop)
        serving = asyncio.create_task(server.serve(sockets=[bound]))
        while not server.started and not serving.done():
            await asyncio.sleep(0.001)
        if not serving.done():
            ready(_url("http" if handshakes is None else "https", host, bound.getsockname()[1]))
        await serving


class _Http(AutoHTTPProtocol):  # type: ignore[valid-type,misc]  # which of uvicorn's two it is depends on what is installed
    """uvicorn's own, which also says in the log when a client begins with TLS."""

    _begun = False

    def data_received(self, data: bytes) -> None:
        """Take what a client sent."""
        if not self._begun and data[:2] == TLS_RECORD:
            host, port = (self.transport.get_extra_info("peername") or ("?", "?"))[:2]  # none: it is gone already
            _log.warning("client %s:%s uses TLS, and this port takes http:// without TLS", host, port)
        self._begun = True
        super().data_received(data)


def _https(handshakes: Handshakes) -> type[asyncio.Protocol]:
    """Return what makes the protocol of each new client: uvicorn's own, once the client's handshake is done."""

    def protocol(**given: Any) -> asyncio.Protocol:
        return handshakes.protocol(lambda _: AutoHTTPProtocol(**given))

    return cast(type[asyncio.Protocol], protocol)


def _url(scheme: str, host: str, port: int) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"{scheme}://{shown}:{port}/"
