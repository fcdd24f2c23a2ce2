"""The answers of the management API: its errors, and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from dlx.operator_errors import OBJECT_NOT_FOUND
from simulator.json_reading import DEPTH_MAX
from simulator.server.management.management_releases import Api


class ApiError(Exception):
    """An answer with a status and a body ``{"error": ..., "reason": ...}``.

    ``reason`` is a text, or a list where RabbitMQ's reason is an Erlang tuple; so is ``error`` where it is an
    Erlang string.
    """

    def __init__(self, status: int, error: str | list[int], reason: Any, headers: dict[str, str] | None = None) -> None:
        super().__init__(f"{status} {error}: {reason}")
        self.status = status
        self.error = error
        self.reason = reason
        self.headers = headers or {}


class TooDeepError(ApiError):
    """JSON that is nested more deeply than the simulator goes; RabbitMQ has no limit."""

    def __init__(self) -> None:
        reason = f"JSON is nested too deeply for the simulator, which reads up to {DEPTH_MAX} levels"
        super().__init__(400, "bad_request", reason)


class MalformedRequest(Exception):
    """RabbitMQ's HTTP server refuses the request itself: 400, without a reason."""


class HandlerCrash(Exception):
    """RabbitMQ's own handler crashes on this request and answers 500, without a reason."""


def told(error: ApiError, api: Api) -> ApiError | HandlerCrash:
    """Return an error whose reason RabbitMQ puts together from words and names, or the crash that comes of it."""
    fails = api.names_in_reasons == "ASCII" and isinstance(error.reason, str) and not error.reason.isascii()
    return HandlerCrash() if fails else error


class NoCredentials(Exception):
    """The request names no user; the answer is 401 and asks for one."""


_WORDS = {"true": True, "false": False, "null": None}


def json_form(term: Any) -> Any:
    """Return an Erlang term (``dlx.erlang_printing``) in JSON as RabbitMQ writes it: tuples become lists."""
    if isinstance(term, bytes):
        return term.decode()
    if isinstance(term, str):
        return _WORDS.get(term, str(term))
    return [json_form(item) for item in term] if isinstance(term, list | tuple) else term


def bad_request(reason: Any) -> ApiError:
    """Return an error 400."""
    return ApiError(400, "bad_request", reason)


def crashed(node: str, why: str) -> ApiError:
    """Return the error 400 of a declaration on which the node crashes; RabbitMQ has the whole stack in place of why."""
    return bad_request(f"Request to node {node} failed with {why}")


def not_found(reason: Any) -> ApiError:
    """Return an error 404 with a reason; for a resource that does not exist see ``object_not_found``."""
    return ApiError(404, "not_found", reason)


def not_authorised(reason: Any) -> ApiError:
    """Return an error 401 with a reason."""
    return ApiError(401, "not_authorised", reason)


def object_not_found() -> ApiError:
    """Return the error 404 of a resource that does not exist."""
    return ApiError(404, OBJECT_NOT_FOUND, "Not Found")


# Makes responses of JSON.


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
