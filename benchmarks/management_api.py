"""Requests to a management API, a live server's or the simulator's."""

from __future__ import annotations

import base64
import http.client
import json
from typing import Any
from urllib.parse import urlsplit

HEADERS = {"Authorization": f"Basic {base64.b64encode(b'guest:guest').decode()}", "Content-Type": "application/json"}


def request(url: str, method: str, path: str, body: bytes = b"") -> Any:
    """The answer to one request below ``/api/``, None where it has no body. Raises ``RuntimeError`` if refused."""
    connected = http.client.HTTPConnection(urlsplit(url).netloc)
    connected.request(method, f"/api/{path}", body, HEADERS)
    answer = connected.getresponse()
    said = answer.read()
    connected.close()
    if answer.status >= 300:
        raise RuntimeError(f"{method} {path}: {answer.status} {said!r}")
    return json.loads(said) if said else None
