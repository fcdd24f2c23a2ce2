"""The JSON Schema (draft 2020-12) of a system's scenarios, made from the types that read them.

Editors complete and check scenarios by it. It has what the types know: fields, their values, and
what docstrings say of them. What needs more than one field (a queue that no step creates, an id
that is taken) the reader of a scenario says.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import msgspec

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_FIELD = re.compile(r"^    (\w+(?:, \w+)*): ", re.MULTILINE)


def scenario_schema(kind: type[msgspec.Struct], title: str) -> dict[str, Any]:
    """Return the schema of what ``kind`` reads, as plain JSON values."""
    schema = msgspec.json.schema(kind)
    for struct in _structs(kind, set()):
        described = schema["$defs"][struct.__name__]
        described["description"] = _said(struct)[0]
        names = {field.name: field.encode_name for field in msgspec.structs.fields(struct)}
        for name, text in _field_texts(struct).items():
            described["properties"][names[name]].setdefault("description", text)
    return {"$schema": DIALECT, "title": title, **schema}


def _structs(kind: Any, seen: set[type]) -> Iterator[type[msgspec.Struct]]:
    """Yield the structs that a type is made of, each once."""
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        for part in get_args(kind):
            yield from _structs(part, seen)
    elif kind not in seen:
        seen.add(kind)
        yield kind
        for hint in get_type_hints(kind).values():
            yield from _structs(hint, seen)


def _field_texts(struct: type) -> dict[str, str]:
    """Return what the docstrings of a struct and of its bases say of its fields."""
    texts: dict[str, str] = {}
    for each in reversed(struct.__mro__):
        if each is not msgspec.Struct and issubclass(each, msgspec.Struct):
            texts |= _said(each)[1]
    known = {field.name for field in msgspec.structs.fields(struct)}
    return {name: text for name, text in texts.items() if name in known}


def _said(struct: type) -> tuple[str, dict[str, str]]:
    """Return what a docstring says of the struct, and of its fields in the section ``Attributes``."""
    whole, _, attributes = inspect.cleandoc(struct.__doc__ or "").partition("\n\nAttributes:\n")
    _, *parts = _FIELD.split(attributes)
    texts: dict[str, str] = {}
    for names, text in zip(parts[::2], parts[1::2], strict=True):
        texts |= dict.fromkeys(names.split(", "), " ".join(text.split()))
    return whole, texts
