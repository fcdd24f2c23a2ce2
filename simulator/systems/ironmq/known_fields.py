"""The fields that requests have, and those of a request that IronMQ knows nothing of and ignores.

Source: API reference, Queues and Messages; dead letter queue reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dlx.nearest_names import nearest

Shape = Mapping[str, Any]
"""Fields by name: of an object its shape, of a list that of its items in a list, of any other value ``None``."""

_ALIKE = 0.55
_SUBSCRIBERS = [{"name": None, "url": None, "headers": None}]
_OF_RESERVED = {"reservation_id": None, "subscriber_name": None}
QUEUE: Shape = {
    "queue": {
        "message_timeout": None,
        "message_expiration": None,
        "type": None,
        "push": {"subscribers": _SUBSCRIBERS, "retries": None, "retries_delay": None, "error_queue": None},
        "dead_letter": {"queue_name": None, "max_reservations": None},
        # What answers show; clients send it back.
        **dict.fromkeys(("name", "project_id", "size", "total_messages")),
    }
}
SUBSCRIBERS: Shape = {"subscribers": _SUBSCRIBERS}
MESSAGES: Shape = {"messages": [{"body": None, "delay": None, "push_headers": None}]}
RESERVATION: Shape = dict.fromkeys(("n", "timeout", "wait", "delete"))
TOUCH: Shape = {**_OF_RESERVED, "timeout": None}
RELEASE: Shape = {**_OF_RESERVED, "delay": None}
DELETION: Shape = _OF_RESERVED
DELETIONS: Shape = {"ids": [{"id": None, **_OF_RESERVED}]}


def ignored(request: Mapping[str, Any], shape: Shape) -> list[str]:
    """Say of each field that the shape has not that it is ignored, with the field that was likely meant."""
    return [
        f"{path} is ignored: IronMQ has no such field here{_meant(path, name, known, shape)}"
        for path, name, known in unknown_fields(request, shape)
    ]


def unknown_fields(value: Any, shape: Any, path: str = "") -> Iterator[tuple[str, str, Shape]]:
    """Yield path and name of each unknown field, and the shape of the object that it is in."""
    if isinstance(shape, list) and isinstance(value, list):
        for index, item in enumerate(value):
            yield from unknown_fields(item, shape[0], f"{path}[{index}]")
    elif isinstance(shape, Mapping) and isinstance(value, Mapping):
        for name, inner in value.items():
            inside = f"{path}.{name}" if path else name
            if name not in shape:
                yield inside, name, shape
            else:
                yield from unknown_fields(inner, shape[name], inside)


def _meant(path: str, name: str, known: Shape, whole: Shape) -> str:
    near = [path.removesuffix(name) + each for each in nearest(name, known, _ALIKE)]
    near = near or [place for place in _places(whole) if place.rpartition(".")[2] == name]
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _places(shape: Any, path: str = "") -> Iterator[str]:
    if isinstance(shape, list):
        yield from _places(shape[0], f"{path}[...]")
    elif isinstance(shape, Mapping):
        for name, inner in shape.items():
            inside = f"{path}.{name}" if path else name
            yield inside
            yield from _places(inner, inside)
