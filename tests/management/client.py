"""Calls the management API: of the simulator within this process, or of a real server."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

from simulator.clock import VirtualClock
from simulator.message_history import RecordingBroker
from simulator.server.management.application import Application
from simulator.server.node import Node

GUEST = "guest:guest"
Headers = Mapping[str, str | None]
"""Headers by name; the value ``None`` takes one away that would be sent otherwise."""


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str] = field(repr=False)
    body: bytes

    @property
    def json(self) -> Any:
        """The body, which must be JSON."""
        return json.loads(self.body)

    @property
    def value(self) -> Any:
        """The body as JSON; as text where it is none, ``None`` where there is none."""
        if not self.body:
            return None
        try:
            return json.loads(self.body)
        except ValueError:
            return self.body.decode("utf-8", "replace")


class Caller(Protocol):
    """Something that answers HTTP requests."""

    def __call__(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        auth: str | None = GUEST,
        headers: Headers | None = None,
    ) -> Answer: ...


def _encoded(body: object, auth: str | None, headers: Headers | None) -> tuple[bytes, dict[str, str]]:
    """The body's bytes and the headers. A string or bytes go as they are, anything else as JSON."""
    given = {"content-type": "application/json", **(headers or {})} if body is not None else headers or {}
    sent = {name: value for name, value in given.items() if value is not None}
    if auth is not None:
        sent["authorization"] = "Basic " + base64.b64encode(auth.encode()).decode()
    if body is None:
        return b"", sent
    if isinstance(body, bytes):
        return body, sent
    return (body if isinstance(body, str) else json.dumps(body)).encode(), sent


class Simulated:
    """The simulator's management API, without a socket, on a clock that stands still.

    Attributes:
        node: the node that is managed.
        application: its management API.
        peer_host: where requests come from.
    """

    def __init__(self, release: str = "4.3") -> None:
        self.node = Node(RecordingBroker(release), VirtualClock(1_700_000_000_000_000))
        self.node.amqp_port = 5672
        self.application = Application(self.node)
        self.peer_host = "127.0.0.1"

    def __call__(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        auth: str | None = GUEST,
        headers: Headers | None = None,
    ) -> Answer:
        """Send one request."""
        sent, named = _encoded(body, auth, headers)
        named.setdefault("host", "localhost:15672")
        return asyncio.run(self._ask(method, path, sent, named))

    async def _ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        raw, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": raw,
            "raw_path": raw.encode(),
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
            "client": (self.peer_host, 50_000),
            "server": ("127.0.0.1", 15_672),
        }
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.application(scope, receive, send)
        named = {name.decode().lower(): value.decode(errors="replace") for name, value in sent[0]["headers"]}
        return Answer(sent[0]["status"], named, b"".join(part.get("body", b"") for part in sent[1:]))


class Real:
    """A real server's management API at a URL."""

    def __init__(self, management_url: str) -> None:
        parts = urlsplit(management_url)
        self._host, self._port = parts.hostname or "localhost", parts.port or 15_672

    def __call__(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        auth: str | None = GUEST,
        headers: Headers | None = None,
    ) -> Answer:
        """Send one request."""
        sent, named = _encoded(body, auth, headers)
        connection = http.client.HTTPConnection(self._host, self._port, timeout=60)
        try:
            connection.request(method, path, sent or None, named)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()
