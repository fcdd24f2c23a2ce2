"""Routing keys that go different ways through a topology.

Two keys go the same way where the same bindings take them. So of each pattern there is a
key that no other binding knows, keys that another pattern takes, too, and keys of every
number of words that some pattern can tell apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain, count

from dlx.topology import Binding, Exchange, Topology

WORDS_MAX = 30
LENGTH_MAX = 12
MEETINGS_MAX = 6
Pattern = tuple[str, ...]


class Keys:
    """The routing keys of one topology, and its patterns."""

    def __init__(self, topology: Topology) -> None:
        bound = (each for bindings in topology.bindings.values() for each in bindings if each.source)
        self._patterns = list(dict.fromkeys(tuple(each.routing_key.split(".")) for each in bound))
        words = {word for pattern in self._patterns for word in pattern}
        self._other = next(word for word in chain(["other"], map("other{}".format, count(2))) if word not in words)
        self._words = sorted(words - {"", "*", "#"})[:WORDS_MAX]
        self._longest = min(max(map(len, self._patterns), default=0), LENGTH_MAX)

    def first(self, exchange: Exchange, bindings: Iterable[Binding]) -> Iterator[str]:
        """Yield a key for each binding of an exchange."""
        for binding in bindings:
            yield self._filled(tuple(binding.routing_key.split("."))) if _wild(exchange) else binding.routing_key

    def more(self, exchange: Exchange, bindings: Iterable[Binding]) -> Iterator[str]:
        """Yield further keys that the bindings of a topic exchange take."""
        if not _wild(exchange):
            return
        own = [tuple(binding.routing_key.split(".")) for binding in bindings]
        for pattern in own:
            yield from self._lengths(pattern)
        for pattern in own:
            for other in self._patterns:
                for both in meeting(pattern, other):
                    yield from self._lengths(both)
        for pattern in own:
            for word in self._words:
                yield self._filled(pattern, word)

    def others(self) -> Iterator[str]:
        """Yield keys of the whole topology, and one that no binding of it has."""
        yield self._other
        yield from map(self._filled, self._patterns)
        for pattern in self._patterns:
            yield from self._lengths(pattern)

    def _lengths(self, pattern: Pattern) -> Iterator[str]:
        """Yield the pattern filled with a word that the topology does not have: one for ``*``, any number for ``#``."""
        for number in range(self._longest + 2 if "#" in pattern else 1):
            yield self._filled(pattern, hashes=number)

    def _filled(self, pattern: Pattern, word: str = "", hashes: int = 1) -> str:
        words: list[str] = []
        for part in pattern:
            words += [word or self._other] * hashes if part == "#" else [word or self._other if part == "*" else part]
        return ".".join(words)


def _wild(exchange: Exchange) -> bool:
    return exchange.type == "topic"


@lru_cache(maxsize=10_000)
def meeting(one: Pattern, two: Pattern) -> tuple[Pattern, ...]:
    """Return patterns of the keys that both patterns take; only some of them if there are many."""
    if not one or not two:
        return ((),) if set(one + two) <= {"#"} else ()
    found: list[Pattern] = []
    if one[0] == two[0]:
        found += [(one[0], *tail) for tail in meeting(one[1:], two[1:])]
    elif "#" in (one[0], two[0]):
        hashed, words = (one, two) if one[0] == "#" else (two, one)
        found += [(words[0], *tail) for tail in meeting(hashed, words[1:])]
        found += meeting(hashed[1:], words)
    elif "*" in (one[0], two[0]):
        word = two[0] if one[0] == "*" else one[0]
        found += [(word, *tail) for tail in meeting(one[1:], two[1:])]
    return tuple(dict.fromkeys(found))[:MEETINGS_MAX]
