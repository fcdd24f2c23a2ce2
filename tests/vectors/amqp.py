"""AMQP 0-9-1 field values with their types, as JSON and on the wire.

In JSON a field value is an object with one key, the type tag that RabbitMQ
uses on the wire: ``{"S": "text"}``, ``{"l": 5}``, ``{"A": [...]}``,
``{"F": {"name": value}}``, ``{"V": null}``. A table is an object of such
values in wire order. In Python such a value is a ``Field``.

``wire`` puts them on the wire.
"""

from __future__ import annotations

import base64
from typing import Any, NamedTuple


class Field(NamedTuple):
    """One field value: its type tag and its value (``A``: list of Field, ``F``: dict of Field)."""

    tag: str
    value: Any


def field(value: Any) -> Field:
    """The field a client would send for a Python value; a ``Field`` stays as it is."""
    match value:
        case Field():
            return value
        case None:
            return Field("V", None)
        case bool():
            return Field("t", value)
        case int():
            return Field("I" if -(2**31) <= value < 2**31 else "l", value)
        case float():
            return Field("d", value)
        case str():
            return Field("S", value)
        case bytes():
            return Field("x", value)
        case list():
            return Field("A", [field(item) for item in value])
        case dict():
            return Field("F", table(value))
    raise TypeError(f"no AMQP type for {value!r}")


def table(values: dict[str, Any]) -> dict[str, Field]:
    """A field table of Python values."""
    return {name: field(value) for name, value in values.items()}


def to_json(value: Field) -> dict[str, Any]:
    """``Field("S", "x")`` -> ``{"S": "x"}``."""
    match value.tag:
        case "A":
            return {"A": [to_json(item) for item in value.value]}
        case "F":
            return {"F": table_to_json(value.value)}
        case "x":
            return {"x": base64.b64encode(value.value).decode()}
        case tag:
            return {tag: value.value}


def table_to_json(fields: dict[str, Field]) -> dict[str, Any]:
    """A table of fields as a JSON object, in the same order."""
    return {name: to_json(value) for name, value in fields.items()}


def from_json(value: dict[str, Any]) -> Field:
    """``{"S": "x"}`` -> ``Field("S", "x")``."""
    ((tag, content),) = value.items()
    match tag:
        case "A":
            return Field("A", [from_json(item) for item in content])
        case "F":
            return Field("F", table_from_json(content))
        case "x":
            return Field("x", base64.b64decode(content))
    return Field(tag, content)


def table_from_json(values: dict[str, Any]) -> dict[str, Field]:
    """The inverse of ``table_to_json``."""
    return {name: from_json(value) for name, value in values.items()}
