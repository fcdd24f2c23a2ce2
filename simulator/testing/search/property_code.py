"""Writes a property in the code of a test: its expression, and the import that the expression needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from simulator.scenario.properties.property_registry import BUILT_IN, Maker, made


class InCode(NamedTuple):
    """An expression for a property, and the line before it: an import, or a comment where there can be none."""

    text: str
    before: str = ""


def built_in(name: str) -> list[InCode]:
    """Return a built-in property by name; an empty list if there is no such property."""
    return [InCode(repr(name))] if name in BUILT_IN else []


def in_code(machine: type, makers: Sequence[Maker], name: str) -> list[InCode]:
    """Return the properties of that name among those that the machine's attribute ``properties`` makes."""
    found = []
    for index, maker in enumerate(makers):
        property = made(maker)
        if property.name != name:
            continue
        if isinstance(maker, str):
            found.append(InCode(repr(maker)))
        elif maker is type(property):
            found.append(_of(maker, "()"))
        else:  # only the machine knows with which arguments
            found.append(_of(machine, f".properties[{index}]()"))
    return found or built_in(name)


def _of(cls: type, rest: str) -> InCode:
    if "<locals>" in cls.__qualname__ or cls.__module__ == "__main__":
        return InCode(f"{cls.__name__}{rest}", f"# {cls.__name__}: put this test where the class is defined")
    outermost = cls.__qualname__.partition(".")[0]
    return InCode(f"{cls.__qualname__}{rest}", f"from {cls.__module__} import {outermost}")
