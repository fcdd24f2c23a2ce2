"""Reads files of cases; its errors name the file, the line, and what would be right."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec
import yaml

from dlx.nearest_names import suggestion
from dlx.releases import DEFAULT, release
from dlx.topology import STREAM, Topology
from simulator.bootstrap import completed_definitions
from simulator.definitions import Definitions, DefinitionsError, importable
from simulator.scenario.scenario_errors import in_our_words, located_unknown_names
from simulator.scenario.steps import Get, Step, Wait
from simulator.server.faults.fault import Fault, FaultError, read_fault
from simulator.sources import definitions_from_file
from simulator.testing.cases.file_format import (
    FIELDS_AT,
    AnyFault,
    Case,
    CaseFile,
    CaseStep,
    Expect,
    LossKind,
    SetFaults,
    Until,
)
from simulator.testing.cases.given_case import GivenCase, fits, milliseconds, modified_queues, single_steps, waited_ms

VHOST = "/"
"""The virtual host that steps name, or leave out: each case has one, whatever its export calls it."""
CASES_MAX = 100_000
_AT = re.compile(r"^(.*) - at `(?:key in )?\$(.*)`$", re.DOTALL)
_PART = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_STEPS: dict[str, type[Step]] = {str(kind.__struct_config__.tag): kind for kind in get_args(CaseStep)}
_FAULTS: dict[str, type[Fault]] = {str(kind.__struct_config__.tag): kind for kind in get_args(AnyFault)}
_FILE_FIELDS = CaseFile.__struct_fields__
_LOSSES: tuple[str, ...] = get_args(LossKind)
_ELSEWHERE: dict[tuple[str | int, ...], str] = {
    ("properties", "expiration"): "a publish has the field expiration_ms beside its properties",
    ("properties", "headers"): "a publish has the field headers beside its properties",
}


def read_cases(path: str | os.PathLike[str]) -> list[GivenCase]:
    """Read the cases of a file, YAML or JSON. Raises ``CaseFileError``."""
    source = os.fspath(path)
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise CaseFileError(source, 0, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise CaseFileError(source, 0, f"expected UTF-8, got the byte {error.object[error.start]:#04x}") from error
    value, lines = parse_yaml(text, source)
    return list(_Reader(source, Path(path).parent, lines).cases(value))


class _Reader:
    def __init__(self, source: str, folder: Path, lines: Lines) -> None:
        self._source, self._folder, self._lines = source, folder, lines
        self._exports: dict[tuple[str, str | None], tuple[dict[str, Any], Topology, Topology]] = {}
        self._names: set[str] = set()

    def cases(self, value: Any) -> Iterator[GivenCase]:
        """Yield the cases of a file's value."""
        for name in value if isinstance(value, dict) else ():
            if name not in _FILE_FIELDS:
                raise self._error((name,), f"unknown field {name!r}; {suggestion(str(name), _FILE_FIELDS)}")
        if not isinstance(value, dict) or not isinstance(value.get("cases"), list):
            raise self._error((), "expected an object with a list of `cases`")
        if not value["cases"]:
            raise self._error(("cases",), "there are no cases")
        own = {name: value[name] for name in ("definitions", "vhost") if name in value}
        for index, raw in enumerate(value["cases"]):
            for filled_in in self._rows(raw, ("cases", index)):
                yield self._case(filled_in, own, ("cases", index))

    def _rows(self, raw: Any, place: Place) -> Iterator[Any]:
        if not isinstance(raw, dict) or "each" not in raw:
            yield raw
            return
        rest = {name: value for name, value in raw.items() if name != "each"}
        try:
            for row in rows(raw["each"]):
                if len(self._names) >= CASES_MAX:
                    raise ValueError(f"more than {CASES_MAX:,} cases")
                yield filled(rest, row)
        except ValueError as error:
            if isinstance(error, CaseFileError):
                raise
            raise self._error((*place, "each"), str(error)) from error

    def _case(self, raw: Any, own: Mapping[str, Any], place: Place) -> GivenCase:
        try:
            case = msgspec.convert(raw, Case)
        except msgspec.ValidationError as error:
            raise self._unreadable(error, raw, place) from error
        if case.name in self._names:
            raise self._error((*place, "name"), f"two cases are called {case.name!r}")
        self._names.add(case.name)
        mine = case.definitions is not None
        given, where = (case.definitions, place) if mine else (own.get("definitions", {}), ())
        vhost = case.vhost if mine or case.vhost else own.get("vhost")
        document, topology, whole = self._definitions(given, vhost, (*where, "definitions"))
        self._check(case, whole, place)
        step_lines = tuple(self._line((*place, "steps", index)) for index in range(len(case.steps)))
        line = self._line(place)
        return GivenCase(case.name, self._source, line, step_lines, document, topology, case.releases, case.steps)

    # Definitions

    def _definitions(self, given: Any, vhost: str | None, place: Place) -> tuple[dict[str, Any], Topology, Topology]:
        """Return the export of the one virtual host that is meant, and its topology, without and with stand-ins."""
        try:
            if isinstance(given, str):
                key = given, vhost
                if key not in self._exports:
                    self._exports[key] = _one_vhost(definitions_from_file(self._folder / given), vhost)
                return self._exports[key]
            if not isinstance(given, dict):
                raise self._error(place, "expected an export, or the path of one")
            return _one_vhost(Definitions(importable(given), ""), vhost)
        except DefinitionsError as error:
            at = () if isinstance(given, str) else tuple(_parts(f".{error.where.split(' ')[0]}"))
            raise self._error((*place, *at), str(error)) from error

    # What one field alone does not show

    def _check(self, case: Case, topology: Topology, place: Place) -> None:
        names = [Wait(0) if isinstance(step, (Expect, Until, SetFaults)) else step for step in case.steps]
        for unknown in located_unknown_names(names, {VHOST: topology}):
            raise self._error((*place, *_parts(f".{unknown.where}")), unknown.problem)
        if not any(isinstance(step, Expect) for step in case.steps):
            raise self._error(place, f"the case {case.name!r} expects nothing; a step {{do: expect, ...}} says what")
        self._condition(case.releases, (*place, "releases"))
        modified = modified_queues(case.steps)
        now = 0
        for index, step in enumerate(case.steps):
            here = (*place, "steps", index)
            if any(isinstance(each, Get) and each.queue in modified for each in single_steps([step])):
                raise self._error(here, "get: the case has 'modify' for this queue, and AMQP 1.0 has no basic.get")
            if isinstance(step, SetFaults):
                self._check_faults(step, topology, (*here, "set"))
            if isinstance(step, Expect):
                self._condition(step.releases, (*here, "releases"))
                self._check_queues(step, topology, here)
            if isinstance(step, (Expect, Until)) and step.at is not None:
                now = self._later(step.at, now, (*here, "at"))
            else:
                now += waited_ms(step)

    def _check_faults(self, step: SetFaults, topology: Topology, place: Place) -> None:
        for index, fault in enumerate(step.set):
            try:
                read_fault(msgspec.to_builtins(fault))
            except FaultError as error:
                raise self._error((*place, index), str(error)) from error
            for kind, known in (("queue", topology.queues), ("exchange", topology.exchanges)):
                name = getattr(fault, kind, None)
                if name is not None and name not in known:
                    raise self._error((*place, index, kind), f"no {kind} {name!r}; {suggestion(name, known)}")

    def _check_queues(self, step: Expect, topology: Topology, place: Place) -> None:
        for name, expected in (step.queues or {}).items():
            at = (*place, "queues", name)
            if name not in topology.queues:
                raise self._error(at, f"no queue {name!r}; {suggestion(name, topology.queues)}")
            if isinstance(expected, int) and expected < 0:
                raise self._error(at, f"{expected} messages; expected 0 or more")
            if isinstance(expected, list) and topology.queues[name].type == STREAM:
                raise self._error(at, "a case does not look into a stream; expected the number of messages")

    def _later(self, at: int | str, now: int, place: Place) -> int:
        try:
            then = milliseconds(at)
        except ValueError as error:
            raise self._error(place, str(error)) from error
        if then < now:
            raise self._error(place, f"{at} has passed: it is {now:,} ms after the start")
        return then

    def _condition(self, condition: str | list[str] | None, place: Place) -> None:
        try:
            fits("4.3", condition)
        except ValueError as error:
            raise self._error(place, str(error)) from error

    # Errors

    def _unreadable(self, error: msgspec.ValidationError, raw: Any, place: Place) -> CaseFileError:
        found = _AT.match(str(error))
        problem, at = (found[1], tuple(_parts(found[2]))) if found else (str(error), ())
        unknown = _UNKNOWN.fullmatch(problem)
        if unknown:
            fields = _fields(raw, at)
            instead = _ELSEWHERE.get((*at, unknown[1])[-2:]) or suggestion(unknown[1], fields)
            problem = f"unknown field {unknown[1]!r}; {instead}"
            return self._error((*place, *at, unknown[1]), problem)
        if at and at[-1] == "do":
            given = _at(raw, at)
            if isinstance(given, str) and given in _STEPS:
                return self._error((*place, *at), f"do: {given!r} cannot be repeated")
            return self._error((*place, *at), f"do: no step {_shown(given)}; {suggestion(str(given), _STEPS)}")
        if at and at[-1] == "fault":
            given = _at(raw, at)
            nearest = suggestion(str(given), _FAULTS)
            return self._error((*place, *at), f"fault: no fault {_shown(given)} in a case; {nearest}")
        if at and at[-1] == "how":
            given = _at(raw, at)
            return self._error((*place, *at), f"how: nothing is {_shown(given)}; {suggestion(str(given), _LOSSES)}")
        where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in at).lstrip(".")
        problem = in_our_words(problem)
        return self._error((*place, *at), f"{where}: {problem}" if where else problem)

    def _error(self, place: Place, problem: str) -> CaseFileError:
        return CaseFileError(self._source, self._line(place), problem)

    def _line(self, place: Place) -> int:
        """Return the line of a value; of one that is not in the file that of what it would be in."""
        while place and place not in self._lines:
            place = place[:-1]
        return self._lines.get(place, 0)


def _one_vhost(definitions: Definitions, vhost: str | None) -> tuple[dict[str, Any], Topology, Topology]:
    """Return one virtual host under the name ``/``, and its topology, without and with stand-ins."""
    used = [name for name in definitions.vhosts if definitions.topology(name).queues] or list(definitions.vhosts)
    if vhost is None and len(used) != 1:
        names = ", ".join(map(repr, used))
        raise DefinitionsError(definitions.source, "", f"several virtual hosts have queues: {names}; name one: vhost")
    name = used[0] if vhost is None else vhost
    document = importable(json.loads(definitions.to_json(name)))
    document = document | {"original_vhost_name": VHOST}
    whole = completed_definitions(Definitions(document, ""), release(DEFAULT)).document
    return document, definitions.topology(name), Definitions(whole, "").topology(VHOST)


def _parts(path: str) -> Iterator[str | int]:
    for name, index in _PART.findall(path):
        if index != "...":
            yield name or int(index)


def _at(value: Any, place: Place) -> Any:
    for part in place:
        try:
            value = value[part]
        except (LookupError, TypeError):
            return None
    return value


def _shown(value: Any) -> str:
    """Return a value as its file has it; a text in quotes."""
    return repr(value) if isinstance(value, str) else as_text(value)


def _fields(raw: Any, at: Place) -> list[str]:
    """Return the fields that an object of a case may have."""
    value = _at(raw, at)
    named = [part for part in reversed(at) if isinstance(part, str) and part in FIELDS_AT]
    kind: type[msgspec.Struct] = FIELDS_AT[named[0] if named else "cases"]
    if isinstance(value, dict) and "fault" in value:
        return [*_FAULTS[str(value["fault"])].__struct_fields__, "fault"]
    if isinstance(value, dict) and "do" in value:
        kind = _STEPS.get(str(value["do"]), kind)
    return [field.encode_name for field in msgspec.structs.fields(kind)] + ["do"] * issubclass(kind, Step)


# Makes many cases of one: a case for each row of a table, with the values of the row in place of ``$name``.


_NAME = re.compile(r"\$(?:\$|([A-Za-z_]\w*)|\(([A-Za-z_]\w*)\))")


def rows(each: Any) -> list[dict[str, Any]]:
    """Return the rows that ``each`` of a case says: its own, or every combination of the values in its lists.

    Raises ``ValueError`` for anything else.
    """
    if isinstance(each, list) and each and all(isinstance(row, dict) for row in each):
        return each
    if isinstance(each, dict) and each and all(isinstance(values, list) and values for values in each.values()):
        return [dict(zip(each, values, strict=True)) for values in itertools.product(*each.values())]
    raise ValueError("each: expected rows ([{type: classic}, {type: quorum}]) or lists ({type: [classic, quorum]})")


def filled(value: Any, row: Mapping[str, Any]) -> Any:
    """Return the value with those of the row in place of their names, also in keys.

    A text that is a ``$name`` and nothing else becomes the value itself; ``$(name)`` is always text. Raises
    ``ValueError`` for a name that is in no column.
    """
    if isinstance(value, list):
        return [filled(each, row) for each in value]
    if isinstance(value, dict):
        return {_text(key, row): filled(each, row) for key, each in value.items()}
    if not isinstance(value, str):
        return value
    whole = _NAME.fullmatch(value)
    return _of(whole[1], row) if whole and whole[1] else _text(value, row)


def as_text(value: Any) -> str:
    """Return a value as YAML and JSON write it, such as ``null``; a text as it is."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _text(text: str, row: Mapping[str, Any]) -> str:
    return _NAME.sub(lambda found: as_text(_of(found[1] or found[2], row)) if found[0] != "$$" else "$", text)


def _of(name: str, row: Mapping[str, Any]) -> Any:
    if name not in row:
        raise ValueError(f"no ${name} in `each`; {suggestion(name, row)} (write $$ for a dollar)")
    return row[name]


# Reads YAML, and keeps the line of each value, for messages. JSON is YAML, too.


Place = tuple[str | int, ...]
"""Where a value is: the keys and positions on the way to it."""
Lines = Mapping[Place, int]
VALUES_MAX = 1_000_000
"""Aliases of aliases can make more values than any memory holds."""
_TEXT_WHERE = "releases"  # 3.10 is not a number there


def parse_yaml(text: str, source: str) -> tuple[Any, dict[Place, int]]:
    """Return the value of a document, and the line of each value in it, counted from 1.

    Raises ``CaseFileError`` for text that is not YAML, or that has what JSON has not.
    """
    try:
        loader = yaml.SafeLoader(text)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise CaseFileError(source, line, f"not YAML: the character {chr(error.character)!r} is not allowed") from error
    try:
        node = loader.get_single_node()
        reader = _YamlReader(loader, source)
        return (None if node is None else reader.value(node, ())), reader.lines
    except yaml.MarkedYAMLError as error:
        line = 0 if error.problem_mark is None else error.problem_mark.line + 1
        raise CaseFileError(source, line, f"not YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise CaseFileError(source, 0, f"not YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise CaseFileError(source, 0, "nested too deeply, or within itself") from error
    finally:
        loader.dispose()


class _YamlReader:
    def __init__(self, loader: yaml.SafeLoader, source: str) -> None:
        self.lines: dict[Place, int] = {}
        self._loader, self._source = loader, source

    def value(self, node: yaml.Node, place: Place) -> Any:
        self.lines[place] = node.start_mark.line + 1
        if len(self.lines) > VALUES_MAX:
            raise self._error(node, f"more than {VALUES_MAX:,} values")
        if isinstance(node, yaml.SequenceNode):
            return [self.value(each, (*place, index)) for index, each in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, place)
        return self._scalar(node, place)

    def _mapping(self, node: yaml.MappingNode, place: Place) -> dict[str, Any]:
        own = {key.value for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"}
        if len(own) < sum(key.tag != "tag:yaml.org,2002:merge" for key, _ in node.value):
            raise self._error(node, "the key is there twice")
        self._loader.flatten_mapping(node)  # carries `<<` out; what it brings comes first
        found = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._error(key, "a key has to be text")
            if key.tag.endswith(":bool") and key.value not in ("true", "false"):
                raise self._error(key, f"YAML takes the key {key.value} for true or false; write '{key.value}'")
            found[key.value] = self.value(value, (*place, key.value))
            self.lines[*place, key.value] = key.start_mark.line + 1
        return found

    def _scalar(self, node: yaml.Node, place: Place) -> Any:
        kind = node.tag.rpartition(":")[2]
        if kind == "timestamp" or (kind in ("float", "int") and _TEXT_WHERE in place[-2:]):
            return node.value
        if kind not in ("str", "int", "float", "bool", "null"):
            raise self._error(node, f"a value of the kind {kind} is not possible here")
        return self._loader.construct_object(node)

    def _error(self, node: yaml.Node, problem: str) -> CaseFileError:
        return CaseFileError(self._source, node.start_mark.line + 1, problem)


# The error of a file of tests that cannot be run.


class CaseFileError(ValueError):
    """A file of tests that cannot be run.

    Attributes:
        source: the file.
        line: the line in it, counted from 1; 0 where none is to blame.
        problem: what is wrong, and what would be right.
    """

    def __init__(self, source: str, line: int, problem: str) -> None:
        super().__init__(f"{source}:{line}: {problem}" if line else f"{source}: {problem}")
        self.source, self.line, self.problem = source, line, problem
