"""The listeners of a node, in one event loop: AMQP, and where asked for the management API and the metrics."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from simulator.server.amqp.server import listen
from simulator.server.node import Node

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_STOP_S = 2


class Listeners:
    """The listeners of one node; ``start`` makes them.

    Attributes:
        amqp_url: where AMQP clients find the node.
        management_url, metrics_url: the management API and the metrics; ``None`` without such a port.
    """

    def __init__(self, node: Node, host: str, amqp: asyncio.Server) -> None:
        shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
        self.amqp_url = f"amqp://{shown}:{node.amqp_port}/"
        self.management_url: str | None = None
        self.metrics_url: str | None = None
        self._node = node
        self._amqp = amqp
        self._serving: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()

    @classmethod
    async def start(
        cls, node: Node, host: str, port: int, management_port: int | None, metrics_port: int | None = None
    ) -> Listeners:
        """Start to listen; port 0 takes a free one. Raises ``OSError``."""
        listeners = cls(node, host, await listen(node, host, port))
        try:
            # Imported here: those who want AMQP alone start in a tenth of the time.
            if management_port is not None:
                from simulator.server.management.application import Application

                api = _with_metrics(node, Application(node))
                listeners.management_url = await listeners._serve(api, host, management_port)
            if metrics_port is not None:
                from simulator.server.metrics import Metrics

                listeners.metrics_url = f"{await listeners._serve(Metrics(node), host, metrics_port)}metrics"
                node.metrics_port = urlsplit(listeners.metrics_url).port or 0
        except BaseException:
            await listeners.stop()
            raise
        return listeners

    async def _serve(self, application: ASGIApp, host: str, port: int) -> str:
        """Serve an HTTP application until the listeners stop; return its URL."""
        from simulator.server.http_server import serve

        url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(
            serve(application, host=host, port=port, ready=url.set_result, stop=self._stopping)
        )
        self._serving.append(serving)
        first: list[asyncio.Future[Any]] = [serving, url]
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
        return url.result()

    async def stop(self) -> None:
        """Stop listening, and drop all clients."""
        self._amqp.close()
        self._node.stop()
        self._stopping.set()
        for serving in self._serving:
            with contextlib.suppress(asyncio.TimeoutError, OSError):  # one that could not listen
                await asyncio.wait_for(serving, 2 * _STOP_S)
        await asyncio.sleep(0)  # the transports tell their protocols that they are closed


def _with_metrics(node: Node, api: ASGIApp) -> ASGIApp:
    """Return the management API with ``/metrics`` beside it, for whoever asks for one port only."""

    async def both(scope: Scope, receive: Receive, send: Send) -> None:
        chosen = api
        if scope["type"] == "http" and scope["path"] == "/metrics":
            from simulator.server.metrics import Metrics  # few ask for it, and its library takes time to load

            chosen = Metrics(node)
        await chosen(scope, receive, send)

    return both
