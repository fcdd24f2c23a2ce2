"""The listeners of a node, in one event loop: AMQP, and the management API where it is wanted."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

from simulator.serve.amqp.server import listen
from simulator.serve.node import Node

_BACKLOG = 128
_STOP_S = 2


class Listeners:
    """What listens for a node; ``start`` makes one.

    Attributes:
        amqp_url, management_url: where clients find them; the latter ``None`` where it is not wanted.
    """

    def __init__(self, node: Node, host: str, amqp: asyncio.Server) -> None:
        shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
        self.amqp_url = f"amqp://{shown}:{node.amqp_port}/"
        self.management_url: str | None = None
        self._shown_host = shown
        self._node = node
        self._amqp = amqp
        self._management: asyncio.Task[None] | None = None
        self._stop_management = lambda: None

    @classmethod
    async def start(cls, node: Node, host: str, port: int, management_port: int | None) -> Listeners:
        """Listen; port 0 takes a free one, no management port means no management. Raises ``OSError``."""
        listeners = cls(node, host, await listen(node, host, port))
        if management_port is not None:
            try:
                await listeners._serve_management(host, management_port)
            except BaseException:
                await listeners.stop()
                raise
        return listeners

    async def _serve_management(self, host: str, port: int) -> None:
        # Imported here: those who want AMQP alone start in a tenth of the time.
        import uvicorn

        from simulator.serve.management import application

        class Quiet(uvicorn.Server):
            """One that leaves signals to whoever runs the event loop."""

            @contextlib.contextmanager
            def capture_signals(self) -> Iterator[None]:
                yield

        bound = _bound(host, port)
        config = uvicorn.Config(
            application(self._node),
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=_STOP_S,
        )
        server = Quiet(config)
        self._management = asyncio.create_task(server.serve(sockets=[bound]))
        self._stop_management = lambda: setattr(server, "should_exit", True)
        while not server.started and not self._management.done():
            await asyncio.sleep(0.001)
        if self._management.done():
            self._management.result()
        self.management_url = f"http://{self._shown_host}:{bound.getsockname()[1]}/"

    async def stop(self) -> None:
        """Listen no more, and drop all clients."""
        self._amqp.close()
        self._node.stop()
        self._stop_management()
        if self._management is not None:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._management, 2 * _STOP_S)
        await asyncio.sleep(0)  # the transports tell their protocols that they are closed


def _bound(host: str, port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(_BACKLOG)
    except BaseException:
        bound.close()
        raise
    return bound
