"""Requests to a management API, a live server's or the simulator's."""

from __future__ import annotations

import base64
import http.client
import json
from typing import Any
from urllib.parse import urlsplit

HEADERS = {"Authorization": f"Basic {base64.b64encode(b'guest:guest').decode()}", "Content-Type": "application/json"}


def request(url: str, method: str, path: str, body: bytes = b"") -> Any:
    """The answer to one request below ``/api/``, None where it has no body.

    Raises ``RuntimeError`` if it is refused, and ``TimeoutError`` if the server hangs up first, as RabbitMQ
    does on work of minutes.
    """
    connected = http.client.HTTPConnection(urlsplit(url).netloc)
    connected.request(method, f"/api/{path}", body, HEADERS)
    try:
        answer = connected.getresponse()
    except http.client.RemoteDisconnected as error:
        raise TimeoutError(f"{method} {path}: the server hung up before it answered; ask for less at once") from error
    said = answer.read()
    connected.close()
    if answer.status >= 300:
        raise RuntimeError(f"{method} {path}: {answer.status} {said!r}")
    return json.loads(said) if said else None
