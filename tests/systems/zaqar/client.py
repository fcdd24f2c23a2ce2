"""A client of the simulator's Zaqar in this process."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from starlette.applications import Starlette

from tests.systems import asgi

HEADERS = {"X-PROJECT-ID": "p", "Client-ID": "3381af92-2b9e-11e3-b191-71861300734c"}


class Client:
    """Sends requests to an ASGI application, one by one."""

    def __init__(self, application: Starlette) -> None:
        self._application = application

    def send(self, method: str, path: str, headers: dict[str, str], body: str | None) -> tuple[int, str | None, bytes]:
        """Send a request: the answer's status, Location and body."""
        status, found, content = self.ask(method, path, headers, None if body is None else body.encode())
        return status, found.get("location"), content

    def ask(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None
    ) -> tuple[int, dict[str, str], bytes]:
        """Send a request: the answer's status, headers by their names in small letters, and body."""
        return asyncio.run(asgi.ask(self._application, method, path, headers, body))

    def call(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        """Send a request with a JSON body: the answer's status and document."""
        sent = HEADERS if headers is None else headers
        status, _, content = self.send(method, path, sent, None if body is None else json.dumps(body))
        return status, json.loads(content) if content else None
