"""What tests of readers share: texts that are read, or that cannot be, and the fields of which a reader knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from simulator.definitions import Definitions, DefinitionsError
from simulator.sources import definitions_from_text


def parsed(*texts: str) -> Definitions:
    return definitions_from_text("".join(texts).encode(), "given.yaml")


def failing(*texts: str) -> str:
    """Return what is said of texts that cannot be read."""
    with pytest.raises(DefinitionsError) as caught:
        parsed(*texts)
    return str(caught.value)


def named(definitions: Definitions, section: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in definitions.document[section] if each["name"] == name)
    return found


def paths(given: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[str]:
    """Yield the path to each field of an object, down to those of which ``known`` has none."""
    for name, value in given.items():
        below = known.get(name)
        for each in value if isinstance(value, list) else [value]:
            inside = below[0] if isinstance(below, list) else below
            if isinstance(inside, Mapping) and isinstance(each, Mapping):
                yield from (f"{name}.{path}" for path in paths(each, inside))
            else:
                yield name
