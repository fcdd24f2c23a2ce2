"""The listeners of a node, in one event loop: AMQP, and where asked for the management API and the metrics."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from simulator.server.amqp.server import client_maker, listen
from simulator.server.node import Node
from simulator.server.tls import Handshakes, Tls

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from simulator.server.shovels_to_peers import ShovelsToPeers

_STOP_S = 2


class Listeners:
    """The listeners of one node; ``start`` makes them.

    Attributes:
        amqp_url, amqps_url: where AMQP clients find the node, without and with TLS; ``None`` without such a port.
        management_url, management_https_url, metrics_url: the management API and the metrics; ``None`` likewise.
    """

    def __init__(self, node: Node, host: str) -> None:
        self.amqp_url: str | None = None
        self.amqps_url: str | None = None
        self.management_url: str | None = None
        self.management_https_url: str | None = None
        self.metrics_url: str | None = None
        self._node = node
        self._host = host
        self._amqp: list[asyncio.Server] = []
        self._handshakes: list[Handshakes] = []
        self._serving: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self._shovels: ShovelsToPeers | None = None

    @classmethod
    async def start(
        cls,
        node: Node,
        host: str,
        port: int | None,
        management_port: int | None,
        metrics_port: int | None = None,
        tls: Tls | None = None,
    ) -> Listeners:
        """Start to listen; port 0 takes a free one, and no port (``None``) means no listener.

        With ``tls`` there are listeners with TLS as well, of AMQP, and of the management API if that has a port in it.
        Raises ``OSError``, and ``TlsError`` for a certificate or key that cannot be used.
        """
        listeners = cls(node, host)
        try:
            await listeners._start_amqp(port, tls)
            # Imported here: those who want AMQP alone start in a tenth of the time.
            if management_port is not None or (tls is not None and tls.management_port is not None):
                from simulator.server.management.application import Application

                await listeners._start_management(_with_metrics(node, Application(node)), management_port, tls)
            if metrics_port is not None:
                from simulator.server.metrics import Metrics

                listeners.metrics_url = f"{await listeners._serve(Metrics(node), metrics_port)}metrics"
                node.metrics_port = _port(listeners.metrics_url)
            if node.broker.state.peers and listeners.amqp_url is not None:
                from simulator.server.shovels_to_peers import ShovelsToPeers  # with pika, which few servers need

                listeners._shovels = ShovelsToPeers(node, listeners.amqp_url)
        except BaseException:
            await listeners.stop()
            raise
        return listeners

    async def _start_amqp(self, port: int | None, tls: Tls | None) -> None:
        client = client_maker(self._node)
        if port is not None:
            self._amqp.append(await listen(client, self._host, port))
            self._node.amqp_port = self._amqp[-1].sockets[0].getsockname()[1]
            self.amqp_url = f"amqp://{_shown(self._host)}:{self._node.amqp_port}/"
        if tls is not None:
            handshakes = self._secured(tls, of_clients=True)
            self._amqp.append(await listen(client, self._host, tls.port, handshakes))
            tls_port = self._amqp[-1].sockets[0].getsockname()[1]
            self._node.tls = msgspec.structs.replace(tls, port=tls_port, management_port=None)
            self.amqps_url = f"amqps://{_shown(self._host)}:{tls_port}/"

    async def _start_management(self, api: ASGIApp, port: int | None, tls: Tls | None) -> None:
        if port is not None:
            self.management_url = await self._serve(api, port)
            self._node.management_port = _port(self.management_url)
        if tls is not None and tls.management_port is not None:
            # As on a server, ssl_options are those of AMQP: the management API asks for no certificates.
            handshakes = self._secured(tls, of_clients=False)
            self.management_https_url = url = await self._serve(api, tls.management_port, handshakes)
            assert self._node.tls is not None
            self._node.tls = msgspec.structs.replace(self._node.tls, management_port=_port(url))

    def _secured(self, tls: Tls, *, of_clients: bool) -> Handshakes:
        """Return what takes the clients of one listener through their handshakes, until the listeners stop."""
        self._handshakes.append(Handshakes(tls, of_clients=of_clients))
        return self._handshakes[-1]

    async def _serve(self, application: ASGIApp, port: int, handshakes: Handshakes | None = None) -> str:
        """Serve an HTTP application until the listeners stop; return its URL."""
        from simulator.server.http_server import serve

        url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(
            serve(
                application,
                host=self._host,
                port=port,
                ready=url.set_result,
                stop=self._stopping,
                handshakes=handshakes,
            )
        )
        self._serving.append(serving)
        first: list[asyncio.Future[Any]] = [serving, url]
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
        return url.result()

    def urls(self) -> list[str]:
        """Return the URLs of all listeners."""
        of_management = (self.management_url, self.management_https_url)
        return [url for url in (self.amqp_url, self.amqps_url, *of_management, self.metrics_url) if url is not None]

    async def stop(self) -> None:
        """Stop listening, and drop all clients."""
        if self._shovels is not None:
            await self._shovels.stop()
        for server in self._amqp:
            server.close()
        self._node.stop()
        for handshakes in self._handshakes:
            await handshakes.stop()
        self._stopping.set()
        for serving in self._serving:
            with contextlib.suppress(asyncio.TimeoutError, OSError):  # one that could not listen
                await asyncio.wait_for(serving, 2 * _STOP_S)
        await asyncio.sleep(0)  # the transports tell their protocols that they are closed


def _shown(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)


def _port(url: str) -> int:
    return urlsplit(url).port or 0


def _with_metrics(node: Node, api: ASGIApp) -> ASGIApp:
    """Return the management API with ``/metrics`` beside it, for whoever asks for one port only."""

    async def both(scope: Scope, receive: Receive, send: Send) -> None:
        chosen = api
        if scope["type"] == "http" and scope["path"] == "/metrics":
            from simulator.server.metrics import Metrics  # few ask for it, and its library takes time to load

            chosen = Metrics(node)
        await chosen(scope, receive, send)

    return both
