"""Makes responses of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

_encode = msgspec.json.Encoder().encode


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response of JSON, not to be cached. Question marks replace characters that UTF-8 cannot encode."""
    try:
        body = _encode(value)
    except UnicodeEncodeError:
        body = _encode(_readable(value))
    return Response(body, status, {"Cache-Control": "no-cache", **(headers or {})}, "application/json")


def _readable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, Mapping):
        return {_readable(name): _readable(item) for name, item in value.items()}
    return [_readable(item) for item in value] if isinstance(value, list | tuple) else value
