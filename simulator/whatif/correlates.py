"""Counts what messages have that tells them from others, such as routing keys, by name and value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from simulator.whatif.stories import Story

VALUES_MAX = 10_000
"""Something with more values than these tells nothing, and is forgotten: each message may have one of its own."""


Mark = tuple[str, str]
"""A name and a value."""
_PROPERTIES = ("app_id", "content_type", "type", "priority", "expiration")


def marks_of(story: Story) -> Iterator[Mark]:
    """Yield what tells a message from others: where it was published first, and with which properties and headers."""
    if not story.publications:
        return
    published = story.publications[0]
    properties = published.properties
    yield "exchange", published.exchange
    yield "routing key", published.routing_key
    for name in _PROPERTIES:
        if name in properties:
            yield name.replace("_", " "), str(properties[name])
    headers: Mapping[str, Any] = properties.get("headers") or {}
    for name, value in headers.items():
        if isinstance(value, str | int | bool):
            yield f"header {name}", str(value)


class Correlates:
    """How many messages have what. It can be pickled.

    Attributes:
        too_many: the names of what has more than ``VALUES_MAX`` values: nothing is counted of it.
    """

    def __init__(self) -> None:
        self.too_many: set[str] = set()
        self._values: dict[str, dict[str, int]] = {}

    def add(self, marks: Iterable[Mark]) -> None:
        """Count a message that has all of these."""
        for what, value in marks:
            self._count(what, value, 1)

    def merge(self, other: Correlates) -> None:
        """Add what other messages have. In whatever parts they come, the same is forgotten."""
        for what in other.too_many:
            self._forget(what)
        for what, values in other._values.items():
            for value, messages in values.items():
                self._count(what, value, messages)

    def of(self, what: str, value: str) -> int:
        """Return how many messages have it."""
        return self._values.get(what, {}).get(value, 0)

    def most_common(self) -> list[tuple[str, str, int]]:
        """Return all that is counted, the most frequent first."""
        counted = [(what, value, number) for what, each in self._values.items() for value, number in each.items()]
        return sorted(counted, key=lambda each: -each[2])

    def _count(self, what: str, value: str, messages: int) -> None:
        if what in self.too_many:
            return
        values = self._values.setdefault(what, {})
        values[value] = values.get(value, 0) + messages
        if len(values) > VALUES_MAX:
            self._forget(what)

    def _forget(self, what: str) -> None:
        self.too_many.add(what)
        self._values.pop(what, None)
