"""How the management API says no."""

from __future__ import annotations

from typing import Any


class ApiError(Exception):
    """An answer with an error: ``{"error": ..., "reason": ...}`` under a status.

    ``reason`` is a text, or what RabbitMQ makes of an Erlang tuple: a list.
    """

    def __init__(self, status: int, error: str, reason: Any, headers: dict[str, str] | None = None) -> None:
        super().__init__(f"{status} {error}: {reason}")
        self.status = status
        self.error = error
        self.reason = reason
        self.headers = headers or {}


class Crash(Exception):
    """RabbitMQ's own handler fails on this request: it answers 500 without a word."""


class NoCredentials(Exception):
    """The request names no user: 401, asking for one."""


def json_form(term: Any) -> Any:
    """An Erlang term (``dlx.erlang_printing``) as RabbitMQ writes it in JSON: tuples and strings become lists."""
    if isinstance(term, bytes | str):
        return term.decode() if isinstance(term, bytes) else str(term)
    return [json_form(item) for item in term] if isinstance(term, list | tuple) else term


def bad_request(reason: Any) -> ApiError:
    """400."""
    return ApiError(400, "bad_request", reason)


def not_found(reason: Any) -> ApiError:
    """404 with a reason; resources that do not exist answer ``OBJECT_NOT_FOUND`` instead."""
    return ApiError(404, "not_found", reason)


def not_authorised(reason: Any) -> ApiError:
    """401."""
    return ApiError(401, "not_authorised", reason)


def object_not_found() -> ApiError:
    """404 of a resource that does not exist."""
    return ApiError(404, "Object Not Found", "Not Found")
