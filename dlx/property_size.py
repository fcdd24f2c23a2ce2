"""Counts the bytes that a message's properties take on the wire, as quorum queues of some releases charge for them.

Two bytes of flags, then each property that is set. They are counted as the publisher
sent them: BCC is not among the headers any more, and a dead letter is charged for
the expiration that it no longer has, but not for its deaths.

Source: rabbit_binary_generator.erl; mc_amqpl.erl size; live servers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dlx.field_values import wire_type
from dlx.message import Message, published_expiration

_FLAGS = 2
_PROPERTIES = {"delivery_mode": 1, "priority": 1, "timestamp": 8}  # the others are short strings
_VALUES = {"t": 1, "b": 1, "B": 1, "s": 2, "u": 2, "I": 4, "i": 4, "l": 8, "f": 4, "d": 8, "D": 5, "T": 8, "V": 0}


def properties_size(message: Message) -> int:
    """Count the bytes that the properties of ``message`` took when they were published."""
    size = _FLAGS
    for name, value in message.properties.items():
        if value is not None:
            size += _PROPERTIES.get(name) or 1 + _length(value)
    expiration = published_expiration(message)
    if expiration is not None:
        size += 1 + len(expiration) + message.expiration_padding
    return size if message.headers is None else size + _table_size(message.headers)


def _table_size(table: Mapping[str, Any]) -> int:
    return 4 + sum(2 + _length(key) + _value_size(value) for key, value in table.items())


def _value_size(value: Any) -> int:
    """Count the bytes of a field value, without its type's tag."""
    tag = wire_type(value)[0]
    if tag == "F":
        return _table_size(value)
    if tag == "A":
        return 4 + _array_size(value)
    return _VALUES[tag] if tag in _VALUES else 4 + _length(value)


def _array_size(values: Sequence[Any]) -> int:
    return sum(1 + _value_size(value) for value in values)


def _length(text: str | bytes) -> int:
    return len(text.encode(errors="surrogateescape")) if isinstance(text, str) else len(text)
