"""Turns a virtual host's firehose on through the management API, and back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from simulator.capture.capture_errors import CaptureUnavailable
from simulator.capture.management_api import ManagementError, call, server_of

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
    method = "GET" if body is None else "PUT"
    try:
        return dict(call(management_url, f"vhosts/{quote(vhost, safe='')}", method=method, body=body) or {})
    except ManagementError as error:
        known = {401: "wrong user or password", 404: f"no virtual host {vhost!r}"}
        problem = known.get(error.status, error.reason)
        raise CaptureUnavailable(server_of(management_url), f"management API: {problem}") from error
    except OSError as error:
        raise CaptureUnavailable(server_of(management_url), f"management API: no answer: {error}") from error
