"""Destinations of ActiveMQ: names, composites, wildcards, and the value that applies where several patterns match.

Names are split at ``.``; in a pattern ``*`` is one element and ``>`` any number of
trailing ones, none included: ``A.>`` also matches ``A``.

Source: activemq-client, DestinationFilter, PrefixDestinationFilter,
WildcardDestinationFilter, ActiveMQDestination.compare, DestinationMap.chooseValue, DestinationMapEntry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Generic, Literal, TypeVar, get_args
from urllib.parse import parse_qsl

import msgspec

Kind = Literal["queue", "topic", "temp-queue", "temp-topic"]
KINDS: tuple[Kind, ...] = get_args(Kind)
ANY_CHILD = "*"
ANY_DESCENDANT = ">"
SEPARATOR = "."
ADVISORY = "ActiveMQ.Advisory."
"""Begins the names of the topics in which a broker tells what happens."""
COMPOSITE = ","


class Destination(msgspec.Struct, frozen=True):
    """A queue or topic, or a pattern of them: ``queue://orders.>``."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"{self.kind}://{self.name}"

    @property
    def qualified_name(self) -> str:
        """The name as JMS shows it: with the kind, but not that of a composite destination."""
        if COMPOSITE not in self.name:
            return str(self)
        return COMPOSITE.join(part.name if part.kind == self.kind else str(part) for part in _listed(self))

    @property
    def is_queue(self) -> bool:
        """Whether it is a queue, temporary or not."""
        return self.kind in ("queue", "temp-queue")

    @property
    def is_pattern(self) -> bool:
        """Whether the name has a wildcard."""
        return any(element in (ANY_CHILD, ANY_DESCENDANT) for element in self.elements)

    @property
    def elements(self) -> list[str]:
        """The parts of the name."""
        return self.name.split(SEPARATOR)


def parse_destination(text: str, default: Kind = "queue") -> Destination:
    """Read ``queue://orders``, ``topic://news`` or, with the ``default`` kind, a bare name.

    Options after a ``?`` are not part of the name. Raises ``ValueError`` for an unknown kind, also of a later part of
    a composite, and for an empty name.
    """
    text, _ = split_options(text)
    kind, mark, name = text.partition("://")
    if not mark or COMPOSITE in kind:  # the kind is that of a later part of a composite
        kind, name = default, text
    if kind not in KINDS:
        raise ValueError(f"expected {', '.join(f'{each}://NAME' for each in KINDS)} or a name, got '{text}'")
    if not name.strip():
        raise ValueError(f"expected the name of a destination, got '{text}'")
    found = Destination(kind, name.strip())
    parts(found)
    return found


def split_options(text: str) -> tuple[str, dict[str, str]]:
    """Split ``orders?consumer.prefetchSize=1`` into the name and its options.

    Source: activemq-client, ActiveMQDestination.setPhysicalName.
    """
    name, _, options = text.partition("?")
    return name, dict(parse_qsl(options, keep_blank_values=True))


def parts(destination: Destination) -> tuple[Destination, ...]:
    """Return the destinations of a composite ``A,topic://B``, each once; for a simple one, only itself."""
    if COMPOSITE not in destination.name:
        return (destination,)
    return tuple(dict.fromkeys(_listed(destination)))


def _listed(destination: Destination) -> Iterator[Destination]:
    names = (name for name in destination.name.split(COMPOSITE) if name.strip())
    return (parse_destination(name, destination.kind) for name in names)


def matches(pattern: Destination, destination: Destination) -> bool:
    """Return whether the pattern, or plain name, matches the destination, which may itself be a pattern."""
    if pattern.kind != destination.kind:
        return False
    if pattern.elements[-1] == ANY_DESCENDANT:
        return _matches_prefix(pattern.elements, destination.elements)
    if ANY_CHILD in pattern.elements:
        wanted, found = pattern.elements, destination.elements
        return len(wanted) == len(found) and all(
            each in (ANY_CHILD, other) for each, other in zip(wanted, found, strict=True)
        )
    return pattern.name == destination.name


def meets(one: Destination, other: Destination) -> bool:
    """Return whether two names or patterns have a name in common: what is sent to either comes to both."""
    return one.kind == other.kind and _meet(one.elements, other.elements)


def _meet(one: list[str], other: list[str]) -> bool:
    for left, right in zip_longest(one, other):
        if ANY_DESCENDANT in (left, right):
            return True
        if None in (left, right) or (ANY_CHILD not in (left, right) and left != right):
            return False
    return True


def _matches_prefix(pattern: list[str], found: list[str]) -> bool:
    prefix = list(pattern)
    while prefix and prefix[-1] == ANY_DESCENDANT:
        prefix.pop()
    return len(found) >= len(prefix) and all(
        ANY_CHILD in (each, other) or each == other for each, other in zip(prefix, found, strict=False)
    )


def compare(left: Destination | None, right: Destination | None) -> int:
    """Compare by how special they are, then by text: negative if ``left`` comes first. ``None`` comes before any."""
    if left is None or right is None:
        return (left is not None) - (right is not None)
    if left == right:
        return 0
    if left.kind != right.kind:
        return -1 if left.is_queue else 1
    if left.is_pattern and matches(left, right):
        return 1
    if right.is_pattern and matches(right, left):
        return -1
    return -1 if _text(left) < _text(right) else 1


def _text(destination: Destination) -> bytes:
    """Return the name in bytes that sort as Java's strings do."""
    return destination.name.encode("utf-16-be", "surrogatepass")


Value = TypeVar("Value")


class DestinationEntry(msgspec.Struct, Generic[Value], frozen=True):
    """A value under a key.

    ``own`` is the destination that the value itself names. It decides between two
    entries, and is ``None`` for a value that was put under a key without naming one.
    """

    key: Destination
    value: Value
    own: Destination | None = None


class DestinationMap(msgspec.Struct, Generic[Value], frozen=True):
    """Values by pattern, and the one for the destinations that no pattern matches."""

    entries: tuple[DestinationEntry[Value], ...] = ()
    default: Value | None = None

    def lookup(self, destination: Destination) -> Value | None:
        """Return the value of the exact name, else of the most special pattern, else the default.

        Patterns that do not contain each other go by their text: ``P.*.X`` before ``P.A.*``. What a part of a
        composite destination has counts only if it is for the whole text as well, as ``>`` is, and ``A.>`` for
        ``A.x,B.y``.

        Raises ``UndefinedError`` where nothing says which of two values comes first: neither names its destination,
        or both name the same. ActiveMQ takes either, from run to run.
        """
        fitting = [
            entry
            for entry in self.entries
            if matches(entry.key, destination) and any(matches(entry.key, part) for part in parts(destination))
        ]
        best: DestinationEntry[Value] | None = None
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


def entries(key: Destination, value: Value, *, named: bool = True) -> Iterable[DestinationEntry[Value]]:
    """Make the entries of one key, which may be composite. ``named``: whether the value names its destination."""
    return (DestinationEntry(part, value, part if named else None) for part in parts(key))


def _before(left: DestinationEntry[Value], right: DestinationEntry[Value], destination: Destination) -> bool:
    if right.own == destination:
        return False
    return left.own == destination or compare(left.own, right.own) < 0
