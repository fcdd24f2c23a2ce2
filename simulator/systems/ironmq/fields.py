"""Fields of JSON requests: their types and ranges, and those that IronMQ knows nothing of and ignores.

Source: API reference, Queues and Messages; dead letter queue reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dlx.nearest_names import nearest
from simulator.systems.ironmq.http_errors import bad_request

Fields = Mapping[str, Any]


# Types and ranges. Every function takes the request, the field's name in it and, as ``path``, the name
# to show; ``null`` counts as not given. All raise ``Refusal`` 400.


def an_object(value: object, path: str) -> Fields:
    """Return ``value`` as a JSON object; an empty one for ``null``."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise bad_request(f"{path} must be an object")
    return value


def some(value: object, path: str, at_most: int | None = None) -> list[Any]:
    """Return ``value`` as a list that is neither empty nor longer than ``at_most``."""
    if not isinstance(value, list) or not value or (at_most is not None and len(value) > at_most):
        raise bad_request(f"{path} must be a list of " + (f"1 to {at_most}" if at_most else "at least 1"))
    return value


def whole(fields: Fields, name: str, low: int, high: int, default: int, path: str = "") -> int:
    """Read a whole number from ``low`` to ``high``; ``default`` if it is not given."""
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise bad_request(f"{path or name} must be a whole number from {low} to {high}")
    return value


def text(fields: Fields, name: str, path: str = "") -> str | None:
    """Read a string; ``None`` if it is not given."""
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise bad_request(f"{path or name} must be a string")
    return value


def required_id(fields: Fields, name: str, path: str = "") -> str:
    """Read an identifier that must be given: a string, or a number, as in the reference's own example."""
    value = fields.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return required_text(fields, name, path)


def required_text(fields: Fields, name: str, path: str = "") -> str:
    """Read a string that must be given and must not be empty."""
    value = text(fields, name, path)
    if not value:
        raise bad_request(f"{path or name} must be a non-empty string")
    return value


def flag(fields: Fields, name: str) -> bool:
    """Read true or false; false if it is not given."""
    value = fields.get(name, False)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise bad_request(f"{name} must be true or false")


# The fields that there are


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
