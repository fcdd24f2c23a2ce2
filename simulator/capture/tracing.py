"""Turns a virtual host's firehose on through the management API, and back."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from simulator.capture.capture_errors import CaptureUnavailable
from simulator.capture.http_authorization import authorization

_TIMEOUT_SECONDS = 30
_KEPT = ("description", "tags", "default_queue_type")  # a PUT without them might reset them


@contextmanager
def tracing(management_url: str, vhost: str) -> Iterator[None]:
    """Turn tracing on in ``vhost`` for the time of the block, then restore it.

    Args:
        management_url: such as ``http://guest:guest@localhost:15672``.
        vhost: name of the virtual host.

    Raises:
        CaptureUnavailable: the API does not answer, or refuses.
    """
    before = _call(management_url, vhost)
    if before.get("tracing"):
        yield
        return
    kept = {key: before[key] for key in _KEPT if before.get(key) not in (None, "", [], "undefined")}
    if "tags" in kept:
        kept["tags"] = ",".join(kept["tags"])
    _call(management_url, vhost, {**kept, "tracing": True})
    try:
        yield
    finally:
        _call(management_url, vhost, {**kept, "tracing": False})


def _call(management_url: str, vhost: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """GET the virtual host, or PUT it."""
    parts = urlsplit(management_url)
    server = f"{parts.scheme}://{parts.hostname}:{parts.port or 15672}"
    user, password = unquote(parts.username or "guest"), unquote(parts.password or "guest")
    request = urllib.request.Request(
        f"{server}{parts.path.rstrip('/').removesuffix('/api')}/api/vhosts/{quote(vhost, safe='')}",
        data=None if body is None else json.dumps(body).encode(),
        headers={**authorization(user, password), "Content-Type": "application/json"},
        method="GET" if body is None else "PUT",
    )
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
            answer = response.read()
    except urllib.error.HTTPError as error:
        known = {401: "wrong user or password", 404: f"no virtual host {vhost!r}"}
        problem = known.get(error.code, error.reason)
        raise CaptureUnavailable(server, f"management API: {problem}") from error
    except (OSError, http.client.HTTPException) as error:
        raise CaptureUnavailable(server, f"management API: no answer: {error}") from error
    return dict(json.loads(answer)) if answer else {}
