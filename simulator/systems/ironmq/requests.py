"""Reads the requests about messages from their JSON.

Source: API reference, Messages.
"""

from __future__ import annotations

import msgspec

from simulator.systems.ironmq.fields import Fields, an_object, flag, required_id, required_text, some, text, whole
from simulator.systems.ironmq.http_errors import bad_request
from simulator.systems.ironmq.settings import TIMEOUT_MAX_S, TIMEOUT_MIN_S

BATCH_MAX = 100
DELAY_MAX_S = 604_800
WAIT_MAX_S = 30

_PUSH_HEADERS_MAX = 5
_PUSH_HEADER_NAME_BYTES_MAX = 64
_PUSH_HEADER_VALUE_BYTES_MAX = 1024
_PUSH_HEADERS_OF_IRONMQ = frozenset(
    {
        "content-type",
        "user-agent",
        "iron-message-id",
        "iron-reservation-id",
        "iron-subscriber-name",
        "iron-subscriber-message-url",
    }
)


class Post(msgspec.Struct, frozen=True, kw_only=True):
    """One message to be put on a queue, available after ``delay_s`` seconds."""

    body: str
    delay_s: int = 0


class Reserve(msgspec.Struct, frozen=True, kw_only=True):
    """A reservation that is asked for.

    Attributes:
        n: of how many messages, at most.
        timeout_s: for how long; ``None``: as the queue is configured.
        wait_s: how long to wait for a message if no message is available. Whoever drives the queues waits.
        delete: whether the messages are deleted at once.
    """

    n: int = 1
    timeout_s: int | None = None
    wait_s: int = 0
    delete: bool = False


class Touch(msgspec.Struct, frozen=True, kw_only=True):
    """A new reservation in exchange for a running one; ``timeout_s`` as in ``Reserve``."""

    reservation_id: str
    timeout_s: int | None = None


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """A reservation that is given up; the message is available again after ``delay_s`` seconds."""

    reservation_id: str
    delay_s: int = 0


class Delete(msgspec.Struct, frozen=True, kw_only=True):
    """A message to be deleted; ``reservation_id`` is needed where it is reserved."""

    id: str
    reservation_id: str | None = None


def posts(request: Fields) -> tuple[Post, ...]:
    """Read the messages of ``{"messages": [...]}``. Raises ``Refusal`` 400."""
    return tuple(
        _post(an_object(item, f"messages[{index}]"), f"messages[{index}]")
        for index, item in enumerate(some(request.get("messages"), "messages"))
    )


def _post(fields: Fields, path: str) -> Post:
    body = text(fields, "body", f"{path}.body")
    if body is None:
        raise bad_request(f"{path}.body is required")
    _check_push_headers(an_object(fields.get("push_headers"), f"{path}.push_headers"), f"{path}.push_headers")
    return Post(body=body, delay_s=whole(fields, "delay", 0, DELAY_MAX_S, 0, f"{path}.delay"))


def _check_push_headers(headers: Fields, path: str) -> None:
    if len(headers) > _PUSH_HEADERS_MAX:
        raise bad_request(f"{path} must be at most {_PUSH_HEADERS_MAX}")
    for name in headers:
        if not 1 <= len(name.encode(errors="replace")) <= _PUSH_HEADER_NAME_BYTES_MAX:
            raise bad_request(f"{path}: a name must have 1 to {_PUSH_HEADER_NAME_BYTES_MAX} bytes")
        if name.lower() in _PUSH_HEADERS_OF_IRONMQ:
            raise bad_request(f"{path}: {name} is set by IronMQ")
        value = required_text(headers, name, f"{path}.{name}")
        if len(value.encode(errors="replace")) > _PUSH_HEADER_VALUE_BYTES_MAX:
            raise bad_request(f"{path}.{name} must have at most {_PUSH_HEADER_VALUE_BYTES_MAX} bytes")


def reserve(request: Fields) -> Reserve:
    """Read a request for a reservation. Raises ``Refusal`` 400."""
    return Reserve(
        n=whole(request, "n", 1, BATCH_MAX, 1),
        timeout_s=_timeout_s(request),
        wait_s=whole(request, "wait", 0, WAIT_MAX_S, 0),
        delete=flag(request, "delete"),
    )


def touch(request: Fields) -> Touch:
    """Read a request to touch a message. Raises ``Refusal`` 400."""
    return Touch(reservation_id=required_text(request, "reservation_id"), timeout_s=_timeout_s(request))


def release(request: Fields) -> Release:
    """Read a request to release a message. Raises ``Refusal`` 400."""
    return Release(
        reservation_id=required_text(request, "reservation_id"),
        delay_s=whole(request, "delay", 0, DELAY_MAX_S, 0),
    )


def deletes(request: Fields) -> tuple[Delete, ...]:
    """Read the messages of ``{"ids": [...]}``. Raises ``Refusal`` 400."""
    found = []
    for index, item in enumerate(some(request.get("ids"), "ids", BATCH_MAX)):
        fields = an_object(item, f"ids[{index}]")
        found.append(
            Delete(
                id=required_id(fields, "id", f"ids[{index}].id"),
                reservation_id=text(fields, "reservation_id", f"ids[{index}].reservation_id") or None,
            )
        )
    return tuple(found)


def _timeout_s(request: Fields) -> int | None:
    if request.get("timeout") is None:
        return None
    return whole(request, "timeout", TIMEOUT_MIN_S, TIMEOUT_MAX_S, 0)
