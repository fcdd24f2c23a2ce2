"""The listeners of a node, in one event loop: AMQP and, with a management port, the management API."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from simulator.server.amqp.server import listen
from simulator.server.node import Node

_STOP_S = 2


class Listeners:
    """The listeners of one node; ``start`` makes them.

    Attributes:
        amqp_url, management_url: where clients find them; the latter is ``None`` without a management port.
    """

    def __init__(self, node: Node, host: str, amqp: asyncio.Server) -> None:
        shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
        self.amqp_url = f"amqp://{shown}:{node.amqp_port}/"
        self.management_url: str | None = None
        self._node = node
        self._amqp = amqp
        self._management: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    @classmethod
    async def start(cls, node: Node, host: str, port: int, management_port: int | None) -> Listeners:
        """Start to listen; port 0 takes a free one. Raises ``OSError``."""
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
        from simulator.server.http_server import serve
        from simulator.server.management import application

        url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        serving = serve(application(self._node), host=host, port=port, ready=url.set_result, stop=self._stopping)
        self._management = asyncio.create_task(serving)
        first: list[asyncio.Future[Any]] = [self._management, url]
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if self._management.done():
            self._management.result()
        self.management_url = url.result()

    async def stop(self) -> None:
        """Stop listening, and drop all clients."""
        self._amqp.close()
        self._node.stop()
        self._stopping.set()
        if self._management is not None:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._management, 2 * _STOP_S)
        await asyncio.sleep(0)  # the transports tell their protocols that they are closed
