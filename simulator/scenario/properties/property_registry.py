"""The properties by name, and those that a trial or a machine is given, checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from simulator.scenario.properties.invariants import ComesToRest, Conservation, DeathCounts, SettingsFixpoint
from simulator.scenario.properties.promises import Accepts, Lossless, Punctual, Settles
from simulator.scenario.properties.property import Property

Maker = str | Callable[[], Property]

PROMISES: dict[str, type[Property]] = {each.name: each for each in (Lossless, Settles, Punctual, Accepts)}
"""What a topology may keep or break."""
INVARIANTS: dict[str, type[Property]] = {
    each.name: each for each in (Conservation, DeathCounts, SettingsFixpoint, ComesToRest)
}
"""What holds whatever the topology."""
BUILT_IN = PROMISES | INVARIANTS


def named(name: str) -> Property:
    """Return a new property of that name. Raises ``ValueError`` if there is no such property."""
    if name not in BUILT_IN:
        raise ValueError(f"no property {name!r}; there are {', '.join(BUILT_IN)}")
    return BUILT_IN[name]()


def instances(given: Iterable[str | Property]) -> list[Property]:
    """Return the properties of a trial, which are given by name or as they are.

    Raises:
        TypeError: something is neither a name nor a property.
        ValueError: there is no property of a name, or a property has no name.
    """
    return [_checked(named(each) if isinstance(each, str) else each) for each in listed(given)]


def made(maker: Maker) -> Property:
    """Return a new property, by its name or by the callable that makes it.

    Raises:
        TypeError: the callable makes something else.
        ValueError: there is no property of that name, or the property has no name.
    """
    if isinstance(maker, str):
        return named(maker)
    if isinstance(maker, Property) or not callable(maker):
        raise TypeError(
            f"properties: got {maker!r}; a machine takes names, and what makes a new Property for each "
            "example, such as its class"
        )
    return _checked(maker())


def listed(given: Any) -> list[Any]:
    """Return the properties one by one. Raises ``TypeError`` where one property stands for the list."""
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
