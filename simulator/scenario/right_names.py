"""What would be right in a scenario where msgspec says only what is wrong: names of fields, values of a choice."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import inspect

from dlx.nearest_names import nearest

_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_INVALID = re.compile(r"Invalid (?:enum )?value '(.*)'")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_STEP = re.compile(r"\.(\w+)|\[(\d+|\.{3})\]")


def hint(problem: str, path: str, document: Any, kind: Any) -> str:
    """Return what would be right, behind a semicolon; an empty text where msgspec says it itself.

    Args:
        problem: what msgspec says, without the place.
        path: the place, such as ``.steps[0].do``; empty for the document itself.
        document: what was read.
        kind: the type that it was to be.
    """
    unknown, invalid, missing = (each.fullmatch(problem) for each in (_UNKNOWN, _INVALID, _MISSING))
    if unknown:
        names = [name for found in _at(path, document, kind) for name in _fields(found)]
        return _said(unknown[1], names, "expected ")
    if invalid or missing:
        place, _, last = path.rpartition(".") if invalid else (path, "", missing[1] if missing else "")
        values = list(_values(_at(place, document, kind), last))
        return _said(invalid[1] if invalid else "", values, "expected one of ") if values else ""
    return ""


def _said(wrong: str, names: Iterable[str], expected: str) -> str:
    known = list(dict.fromkeys(names))
    near = nearest(wrong, known)
    question = f"did you mean {' or '.join(near)}? " if near else ""
    return f"; {question}{expected}{', '.join(known)}"


def _at(path: str, document: Any, kind: Any) -> list[inspect.Type]:
    """Return the types that may be at a place: one, but where a choice is open."""
    found, value = _chosen(inspect.type_info(kind), document), document
    for name, index in _STEP.findall(path):
        value = _inner(value, name, index)
        inner = [each for outer in found for each in _inside(outer, name)]
        found = [each for outer in inner for each in _chosen(outer, value)]
    return found


def _inner(value: Any, name: str, index: str) -> Any:
    if index == "..." or value is None:
        return None
    if isinstance(value, Mapping):
        return value.get(name)
    return value[int(index)] if index and isinstance(value, list | tuple) else None


def _inside(kind: inspect.Type, name: str) -> list[inspect.Type]:
    if isinstance(kind, inspect.StructType):
        return [field.type for field in kind.fields if field.encode_name == name]
    if isinstance(kind, inspect.DictType):
        return [kind.value_type]
    return [kind.item_type] if isinstance(kind, inspect.ListType | inspect.VarTupleType) else []


def _chosen(kind: inspect.Type, value: Any) -> list[inspect.Type]:
    """Return the types that a value may be of, by its tag where it has one."""
    if isinstance(kind, inspect.Metadata):
        return _chosen(kind.type, value)
    if not isinstance(kind, inspect.UnionType):
        return [kind]
    found = [each for part in kind.types for each in _chosen(part, value)]
    tagged = [each for each in found if isinstance(each, inspect.StructType) and each.tag_field]
    fitting = [each for each in tagged if isinstance(value, Mapping) and value.get(each.tag_field or "") == each.tag]
    return list(fitting) or found


def _fields(kind: inspect.Type) -> list[str]:
    if not isinstance(kind, inspect.StructType):
        return []
    return [*filter(None, [kind.tag_field]), *(field.encode_name for field in kind.fields)]


def _values(kinds: Iterable[inspect.Type], name: str) -> Iterable[str]:
    """Yield the values of a choice: the tags of structs, or what a field may be."""
    for kind in kinds:
        if not isinstance(kind, inspect.StructType):
            continue
        if kind.tag_field == name:
            yield str(kind.tag)
        for field in kind.fields:
            if field.encode_name == name:
                for choice in _chosen(field.type, None):
                    if isinstance(choice, inspect.LiteralType):
                        yield from map(str, choice.values)
                    elif isinstance(choice, inspect.EnumType):
                        yield from (str(each.value) for each in choice.cls)
