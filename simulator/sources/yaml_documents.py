"""Reads YAML as Kubernetes does, and keeps the line of each value.

Plain scalars are what the YAML of Kubernetes and Helm takes them for: ``yes``, ``on`` and ``y`` are true, there are
no numbers to the base 60, and a date is text. Source: goyaml.v2 of sigs.k8s.io/yaml, resolve.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from simulator.definitions import DefinitionsError, Place
from simulator.definitions.places import Path
from simulator.extras import importing
from simulator.sources.document import Document

VALUES_MAX = 1_000_000
"""Aliases of aliases can make more values than any memory holds."""
_DEPTH_MAX = 100
_TAG = "tag:yaml.org,2002:"
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
}
_INTEGER = re.compile(r"[-+]?(?:0b[01]+|0x[0-9a-fA-F]+|0o?[0-7]+|0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
# The first line of a mapping, or of a template of Helm, which is neither YAML nor JSON; text that is JSON, or no
# document at all, has none before its first bracket.
_FIRST_LINE = re.compile(
    rb"""(?x) \A (?: \s | \#[^\n]*\n )*+ (?: --- | %YAML | -\ | \{\{ | ["']?[\w.$/<-]+["']?\s*: (?:\s|\Z) )"""
)
TEMPLATE = re.compile(r"{{.*?}}")
"""A place that a template of Helm fills in."""


def is_yaml(data: bytes) -> bool:
    """Return whether a text begins as a mapping or a list in YAML does, or a template of it, and not as JSON."""
    return _FIRST_LINE.match(data.removeprefix(b"\xef\xbb\xbf")) is not None


def yaml_documents(data: bytes, file: str) -> list[Document]:
    """Return the documents of a YAML text, without empty ones.

    Raises:
        DefinitionsError: it is not YAML, or has what JSON has not; names file and line.
        ModuleNotFoundError: the extra ``yaml`` is not installed; says what to install.
    """
    yaml = importing("yaml")("yaml")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DefinitionsError(str(Place(file, line)), "", "not UTF-8; expected text in UTF-8") from error
    if unprintable := yaml.reader.Reader.NON_PRINTABLE.search(text):
        place = Place(file, text.count("\n", 0, unprintable.start()) + 1)
        raise DefinitionsError(str(place), "", f"not YAML: a character {unprintable[0]!r}")
    try:
        nodes = list(yaml.compose_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except yaml.MarkedYAMLError as error:
        line = 1 if error.problem_mark is None else error.problem_mark.line + 1
        raise DefinitionsError(str(Place(file, line)), "", _not_yaml(error.problem, text)) from error
    except RecursionError as error:
        raise DefinitionsError(file, "", "not YAML: nested too deeply") from error
    numbered = len(nodes) > 1
    documents = [_Read(file, at if numbered else None, data).document(node) for at, node in enumerate(nodes, 1)]
    return [each for each in documents if each.value is not None]


def _not_yaml(problem: str, text: str) -> str:
    return f"not YAML: {problem}{_of_helm(text)}"


def _of_helm(text: str) -> str:
    return "; a template of Helm: `helm template` writes what it makes" if TEMPLATE.search(text) else ""


class _Read:
    """Reads one document."""

    def __init__(self, file: str, number: int | None, data: bytes) -> None:
        self._file, self._number, self._data = file, number, data
        self._lines: dict[Path, int] = {}
        self._blocks: dict[Path, int] = {}
        self._repeated: dict[Path, int] = {}

    def document(self, node: Any) -> Document:
        value = self._value(node, ())
        return Document(self._file, self._number, value, lambda: self._lines, self._data, self._blocks, self._repeated)

    def _value(self, node: Any, path: Path) -> Any:
        line = node.start_mark.line + 1
        self._lines.setdefault(path, line)
        if len(self._lines) > VALUES_MAX or len(path) > _DEPTH_MAX:
            problem = f"more than {VALUES_MAX:,} values, or nested more than {_DEPTH_MAX} deep"
            raise self._error(line, path, problem)
        if node.id == "sequence":
            return [self._value(each, (*path, index)) for index, each in enumerate(node.value)]
        if node.id == "mapping":
            return dict(self._fields(node, path))
        if node.style == "|":
            self._blocks[path] = line + 1
        return self._scalar(node, path)

    def _fields(self, node: Any, path: Path) -> Iterator[tuple[str, Any]]:
        """Yield the fields of a mapping: first those that ``<<`` merges into it, which its own replace."""
        own = [(key, value) for key, value in node.value if key.tag != f"{_TAG}merge"]
        for key, value in node.value:
            if key.tag == f"{_TAG}merge":
                for merged in reversed(value.value) if value.id == "sequence" else [value]:
                    if merged.id != "mapping":
                        raise self._error(merged.start_mark.line + 1, path, "expected an object behind <<")
                    yield from self._fields(merged, path)
        seen = set()
        for key, value in own:
            line = key.start_mark.line + 1
            if key.id != "scalar":
                template = _of_helm(self._data.decode("utf-8-sig"))
                raise self._error(line, path, f"expected a key that is text{template}")
            name = _key(key)
            if name in seen:
                self._repeated[*path, name] = line
            seen.add(name)
            self._lines[*path, name] = line
            yield name, self._value(value, (*path, name))

    def _scalar(self, node: Any, path: Path) -> Any:
        text: str = node.value
        kind = node.tag.removeprefix(_TAG)
        if node.style or kind == "str":
            return text
        if kind not in ("bool", "int", "float", "null", "timestamp", "value", "merge"):
            raise self._error(node.start_mark.line + 1, path, f"expected a value that JSON has, got {node.tag}")
        return plain_scalar(text)

    def _error(self, line: int, path: Path, problem: str) -> DefinitionsError:
        where = Document(self._file, self._number, None, lambda: {(): line})
        return where.error(path, problem)


def _key(key: Any) -> str:
    """Return a key as the JSON that Kubernetes makes of it has it: ``on`` is the key ``true`` there."""
    value = key.value if key.style else plain_scalar(key.value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)


def plain_scalar(text: str) -> Any:
    """Return what a scalar without quotes is to Kubernetes: true, false, null, a number or text."""
    if text in _WORDS:
        return _WORDS[text]
    number = text.replace("_", "")
    if _INTEGER.fullmatch(number):
        is_octal = re.fullmatch(r"[-+]?0[0-7]+", number)
        return int(number, 8 if is_octal else 0)
    return float(number) if _FLOAT.fullmatch(number) else text
