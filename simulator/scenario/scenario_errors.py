"""Scenarios that cannot be run, of any system: the error in our words, what would be right, and unknown names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import inspect

from dlx.nearest_names import nearest, suggestion
from dlx.topology import Topology
from simulator.scenario.steps import AnyStep, Publish, Repeat


class ScenarioError(ValueError):
    """A scenario that cannot be run: the place in it, and what would be right there.

    Attributes:
        where: the field, such as ``steps[3].queue``.
        problem: what is wrong, and what would be right.
    """

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}" if where else problem)
        self.where, self.problem = where, problem


Kind = TypeVar("Kind")
_PLACED = re.compile(r"(.*) - at (?:`key` in )?`\$(.*)`", re.DOTALL)


def convert_part(
    value: Any, kind: type[Kind], where: str = "", expected: Mapping[str, str] = MappingProxyType({})
) -> Kind:
    """Return a part of a scenario as a value of a type.

    Args:
        value: the part, as plain JSON values.
        kind: the type.
        where: the place of the part in the scenario; empty for the scenario itself.
        expected: what would be right in some fields, by their names, if the type does not say it.

    Raises:
        ScenarioError: it does not fit.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        placed = _PLACED.fullmatch(str(error))
        problem, path = placed.groups() if placed else (str(error), "")
        right = expected.get(path.rpartition(".")[2])
        problem += hint(problem, path, value, kind) if right is None else f"; {right}"
        raise ScenarioError((where + path).removeprefix("."), problem) from None


# Says in our words what msgspec says of a value that does not fit its place.


_MISSING = re.compile(r"Object missing required field `(.*?)`", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*?)`", re.DOTALL)
_INVALID = re.compile(r"Invalid (?:enum )?value '(.*?)'", re.DOTALL)
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_COUNTED = {"str": "character", "array": "item", "object": "field"}
_AT_LEAST, _AT_MOST = "at least", "at most"
_LENGTH = re.compile(r"Expected `(\w+)` of length (<=|>=) (\d+)")
_RANGE = re.compile(r"Expected `(\w+)` (<=|>=|<|>) (\S+)")
_TYPES = re.compile(r"Expected `([\w| ]+)`, got `(\w+)`")
_PATTERN = re.compile(r"Expected `str` matching regex ('.*?')(?=$|;| - )")
_PLACE = re.compile(r" - at `\$\.?([^`]*)`")
_COMPARED = {"<=": _AT_MOST, ">=": _AT_LEAST, "<": "less than", ">": "more than"}


def in_our_words(text: str) -> str:
    """Return the text of an error with msgspec's words replaced; any other text stays as it is."""
    text = _MISSING.sub(r"the field \1 is missing", text)
    text = _UNKNOWN.sub(r"there is no field \1", text)
    text = _INVALID.sub(r"'\1' is not one of the values allowed here", text)
    text = _LENGTH.sub(_of_length, text)
    text = _TYPES.sub(_of_types, text)
    text = _RANGE.sub(lambda match: f"expected {_kinds(match[1])}, {_COMPARED[match[2]]} {match[3]}", text)
    text = _PATTERN.sub(r"expected another text", text)
    return _PLACE.sub(r", at \1", text)


def _of_length(match: re.Match[str]) -> str:
    kind, sign, number = match.groups()
    counted = _COUNTED.get(kind, "item")
    return f"expected {_kinds(kind)} of {_COMPARED[sign]} {number} {counted}{'' if number == '1' else 's'}"


def _of_types(match: re.Match[str]) -> str:
    return f"expected {_kinds(match[1])}, got {_kinds(match[2])}"


def _kinds(text: str) -> str:
    return " or ".join(_KINDS.get(kind.strip(), kind.strip()) for kind in text.split("|"))


# What would be right in a scenario where msgspec says only what is wrong: names of fields, values of a choice.


_ANY = "[...]"
"""How msgspec writes the place of a value in a table."""
_STEP = re.compile(r"\.(\w+)|\[(\d+|\.{3})\]")


def hint(problem: str, path: str, document: Any, kind: Any) -> str:
    """Return what would be right, after a semicolon; an empty text where msgspec says it itself.

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
        place, _, last = (
            path.removesuffix(_ANY).rpartition(".") if invalid else (path, "", missing[1] if missing else "")
        )
        last += _ANY if invalid and path.endswith(_ANY) else ""
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
            if field.encode_name == name.removesuffix(_ANY):
                table = field.type if name.endswith(_ANY) and isinstance(field.type, inspect.DictType) else None
                for choice in _chosen(field.type if table is None else table.value_type, None):
                    if isinstance(choice, inspect.LiteralType):
                        yield from map(str, choice.values)
                    elif isinstance(choice, inspect.EnumType):
                        yield from (str(each.value) for each in choice.cls)


# Finds the queues, exchanges and virtual hosts that a history names and its topology does not have.


_MORE_KEYS = ("CC", "BCC")


class UnknownName(NamedTuple):
    """A name that a topology does not have.

    Attributes:
        where: the field that has it, such as ``steps[3].queue``.
        problem: that the name is unknown, in a sentence with the names that come near.
    """

    where: str
    problem: str


def unknown_names(history: Iterable[AnyStep], topologies: Mapping[str, Topology]) -> list[str]:
    """Return a sentence for every name that the steps use and the topology lacks, with the names that come near.

    ``topologies`` holds the topology of each virtual host by its name. A routing key is not checked, except on the
    default exchange, where it names a queue.
    """
    return list(dict.fromkeys(each.problem for each in located_unknown_names(history, topologies)))


def located_unknown_names(
    history: Iterable[AnyStep], topologies: Mapping[str, Topology], where: str = "steps"
) -> Iterator[UnknownName]:
    """Yield each unknown name with its place; ``where`` is the place of the history itself."""
    for index, step in enumerate(history):
        here = f"{where}[{index}]"
        if isinstance(step, Repeat):
            yield from located_unknown_names(step.steps, topologies, f"{here}.steps")
            continue
        vhost: str | None = getattr(step, "vhost", None)
        if vhost is None:
            continue
        topology = topologies.get(vhost)
        if topology is None:
            yield UnknownName(f"{here}.vhost", _missing("virtual host", vhost, topologies))
            continue
        field, queue = _queue(step)
        if isinstance(step, Publish) and step.exchange not in topology.exchanges:
            yield UnknownName(f"{here}.exchange", _missing("exchange", step.exchange, topology.exchanges, vhost))
        elif queue is not None and queue not in topology.queues:
            yield UnknownName(f"{here}.{field}", _missing("queue", queue, topology.queues, vhost))


def _queue(step: AnyStep) -> tuple[str, str | None]:
    """Return the field in which the step names a queue, and the name; ``None`` if it names none."""
    if not isinstance(step, Publish):
        return "queue", getattr(step, "queue", None)
    to_queue = step.exchange == "" and not any(name in step.headers for name in _MORE_KEYS)
    return "routing_key", step.routing_key if to_queue else None


def _missing(kind: str, name: str, known: Iterable[str], vhost: str = "/") -> str:
    where = "" if vhost == "/" else f" in virtual host {vhost!r}"
    return f"no {kind} {name!r}{where}; {suggestion(name, known)}"
