"""Asks an ASGI application in this process, without a socket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from starlette.applications import Starlette


class AsgiAnswer(NamedTuple):
    """What came back: the status, the headers by their names in small letters, and the body."""

    status: int
    headers: dict[str, str]
    content: bytes


async def ask(
    application: Starlette, method: str, path: str, headers: Mapping[str, str], body: bytes | None
) -> AsgiAnswer:
    """Send one request. ``path`` is as a client writes it, with its query."""
    raw, _, query = path.partition("?")
    if body is not None:
        headers = {**headers, "Content-Length": str(len(body))}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(raw),
        "raw_path": raw.encode(),
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 80),
    }
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body or b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await application(scope, receive, send)
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return AsgiAnswer(sent[0]["status"], found, b"".join(part.get("body", b"") for part in sent[1:]))
