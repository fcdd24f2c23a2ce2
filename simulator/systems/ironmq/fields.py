"""Fields of JSON requests: their types and ranges. ``null`` counts as not given.

Every function takes the request, the field's name in it and, as ``path``, the name to show. All raise
``Refusal`` 400.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simulator.systems.ironmq.http_errors import bad_request

Fields = Mapping[str, Any]


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
