"""Name the kind of a value in words that fit into a sentence, for messages about values of the wrong kind."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

_WORDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (type(None), "nothing (None)"),
    (bool, "a boolean"),
    (int, "an integer"),
    (float, "a fraction"),
    (str, "a string"),
    ((bytes, bytearray), "a byte string"),
    ((list, tuple), "an array"),
    (Mapping, "a table"),
    (datetime, "a time"),
)


def value_kind(value: Any) -> str:
    """Return the kind of a value with its article: ``an integer``, ``a table``, or ``a`` and the name of its class."""
    for types, words in _WORDS:
        if isinstance(value, types):
            return words
    if isinstance(value, type):
        return f"a class ({value.__name__})"
    name = type(value).__name__
    return f"an {name}" if name[:1] in "AEIOUaeiou" else f"a {name}"
