"""Reads YAML, and keeps the line of each value, for messages. JSON is YAML, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from simulator.queue_tests.file_error import CaseFileError

Place = tuple[str | int, ...]
"""Where a value is: the keys and positions on the way to it."""
Lines = Mapping[Place, int]
VALUES_MAX = 1_000_000
"""Aliases of aliases can make more values than any memory holds."""
_TEXT_WHERE = "releases"  # 3.10 is no number there


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
        reader = _Reader(loader, source)
        return (None if node is None else reader.value(node, ())), reader.lines
    except yaml.MarkedYAMLError as error:
        line = 0 if error.problem_mark is None else error.problem_mark.line + 1
        raise CaseFileError(source, line, f"not YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise CaseFileError(source, 0, f"not YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise CaseFileError(source, 0, "nested too deeply, or in itself") from error
    finally:
        loader.dispose()


class _Reader:
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
            raise self._error(node, "a key is there twice")
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
