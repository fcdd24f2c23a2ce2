"""What a field may be, and the check of a document against it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

from dlx.nearest_names import nearest
from simulator.sources.document import Document
from simulator.sources.yaml_documents import is_yaml

_SHOWN = {str: "a string", bool: "true or false", int: "an integer", dict: "an object", list: "a list"}

HAS_PASSWORD = "the connection has a password, which is not for a repository"
"""The remark on a file that has one, which no export of its topology has."""


def amqp_url(text: str) -> SplitResult | None:
    """Return the parts of an AMQP URL; ``None`` for another text, such as a place that a program fills in."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return None
    return parts if parts.scheme in ("amqp", "amqps") else None


def is_password(value: Any) -> bool:
    """Return whether this is a password, and no place for one such as ``${PASSWORD}`` or ``<password>``."""
    return bool(value) and not re.search("[{<]", str(value))


def checked(document: Document, path: tuple[str | int, ...], value: Any, expected: Any) -> Any:
    """Return a value without the fields that are null, which mean the same as none. Raises ``DefinitionsError``.

    ``expected`` is a type, the strings that it may be, a list of one of these, or an object's fields with theirs.
    """
    if expected is object:
        return value
    if isinstance(expected, Mapping):
        if not isinstance(value, dict):
            raise document.error(path, f"expected an object, got {_told(value)}")
        for name in value:
            if name not in expected:
                raise document.unknown((*path, name), expected)
        given = {name: each for name, each in value.items() if each is not None}
        return {name: checked(document, (*path, name), each, expected[name]) for name, each in given.items()}
    if isinstance(expected, list):
        if not isinstance(value, list):
            raise document.error(path, f"expected a list, got {_told(value)}")
        return [checked(document, (*path, at), each, expected[0]) for at, each in enumerate(value)]
    if isinstance(expected, tuple):
        if value not in expected:
            near = nearest(value, expected) if isinstance(value, str) else []
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise document.error(path, f"expected {expected_of(expected)}, got {_told(value)}{meant}")
    elif type(value) is not expected:
        quotes = "; write text in quotes: without, YAML takes on, off, yes, no, y, n and digits for something else"
        is_plain = expected is str and isinstance(value, bool | int | float) and is_yaml(document.data)
        hint = quotes if is_plain else ""
        raise document.error(path, f"expected {expected_of(expected)}, got {_told(value)}{hint}")
    return value


def expected_of(expected: Any) -> str:
    if isinstance(expected, tuple):
        return f"one of {', '.join(expected)}"
    return _SHOWN[expected if isinstance(expected, type) else list if isinstance(expected, list) else dict]


def _told(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return _SHOWN[type(value)] if isinstance(value, dict | list) else repr(value)
