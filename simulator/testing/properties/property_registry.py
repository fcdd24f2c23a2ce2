"""The properties that a trial or a machine is given: what makes each, and how it stands in code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from simulator.testing.properties.message_properties import INVARIANTS, PROMISES, Property, named

Maker = str | Callable[[], Property]
BUILT_IN = PROMISES | INVARIANTS


def instances(given: Iterable[str | Property]) -> list[Property]:
    """The properties of a trial, by name or as they are.

    Raises:
        TypeError: something is neither.
        ValueError: there is no property of a name, or a property has none.
    """
    return [_checked(named(each) if isinstance(each, str) else each) for each in listed(given)]


def made(maker: Maker) -> Property:
    """A new property, by its name or by what makes it.

    Raises:
        TypeError: it makes none.
        ValueError: there is no property of that name, or the property has none.
    """
    if isinstance(maker, str):
        return named(maker)
    if isinstance(maker, Property) or not callable(maker):
        raise TypeError(
            f"properties: got {maker!r}; a machine takes names, and what makes a Property anew for each "
            "example, such as its class"
        )
    return _checked(maker())


def listed(given: Any) -> list[Any]:
    """The properties one by one. Raises ``TypeError`` where one name stands for the list."""
    if isinstance(given, (str, type, Property)):
        raise TypeError(f"properties: got {given!r}; expected a list, such as [{given!r}]")
    return list(given)


def _checked(property: Any) -> Property:
    if isinstance(property, type) and issubclass(property, Property):
        raise TypeError(f"properties: got the class {property.__name__}; expected a property: {property.__name__}()")
    if not isinstance(property, Property):
        raise TypeError(f"properties: got {property!r}; expected names of properties, or a subclass of Property")
    if not property.name:
        name = type(property).__name__
        raise ValueError(f'{name} has no name; give the class one: name = "{name.lower()}"')
    return property


# In code


class InCode(NamedTuple):
    """An expression for a property, and the line before it: an import, or a comment where there can be none."""

    text: str
    before: str = ""


def built_in(name: str) -> list[InCode]:
    """A built-in property by name; none where the name is no such name."""
    return [InCode(repr(name))] if name in BUILT_IN else []


def in_code(machine: type, makers: Sequence[Maker], name: str) -> list[InCode]:
    """The properties of that name among those that the machine's attribute ``properties`` makes."""
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
