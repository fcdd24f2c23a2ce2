"""Chooses the value that applies to a destination when several patterns match.

Source: activemq-client, DestinationMap.chooseValue, DestinationMapEntry.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

import msgspec

from simulator.systems.activemq.destinations import Destination, compare, matches, parts

Value = TypeVar("Value")


class Entry(msgspec.Struct, Generic[Value], frozen=True):
    """A value under a key.

    ``own`` is the destination that the value itself names. It decides between two
    entries, and is ``None`` for a value that was put under a key without naming one.
    """

    key: Destination
    value: Value
    own: Destination | None = None


class DestinationMap(msgspec.Struct, Generic[Value], frozen=True):
    """Values by pattern, and the one for the destinations that no pattern matches."""

    entries: tuple[Entry[Value], ...] = ()
    default: Value | None = None

    def lookup(self, destination: Destination) -> Value | None:
        """Return the value of the exact name, else of the most special pattern, else the default.

        Patterns that do not contain each other go by their text: ``P.*.X`` before ``P.A.*``.

        Raises ``UndefinedError`` where nothing says which of two values comes first: neither names its destination,
        or both name the same. ActiveMQ takes either, from run to run.
        """
        fitting = [entry for entry in self.entries if any(matches(entry.key, part) for part in parts(destination))]
        best: Entry[Value] | None = None
        for entry in fitting:
            if best is None or _before(entry, best, destination):
                best = entry
        if best is None:
            return self.default
        for entry in fitting:
            if entry.value != best.value and not _before(best, entry, destination):
                raise UndefinedError(
                    f"expected one policy for {destination}; those of {best.key} and of {entry.key} both apply, and"
                    f" {'name the same destination' if best.own else 'do not name it'}: a broker takes either"
                )
        return best.value


class UndefinedError(ValueError):
    """A choice that a broker makes one way or the other."""


def entries(key: Destination, value: Value, *, named: bool = True) -> Iterable[Entry[Value]]:
    """Make the entries of one key, which may be composite. ``named``: whether the value names its destination."""
    return (Entry(part, value, part if named else None) for part in parts(key))


def _before(left: Entry[Value], right: Entry[Value], destination: Destination) -> bool:
    if right.own == destination:
        return False
    return left.own == destination or compare(left.own, right.own) < 0
