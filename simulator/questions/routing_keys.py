"""Routing keys that go different ways through a topology.

Two keys go the same way where the same bindings take them. So of each pattern there is a
key that no other binding knows, keys that patterns ahead take, too, and keys of every
number of words that some pattern can tell apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain, count

from dlx.topology import Topology

LENGTH_MAX = 12
MEETINGS_MAX = 6
Pattern = tuple[str, ...]


class Keys:
    """Makes routing keys for one topology."""

    def __init__(self, topology: Topology) -> None:
        bound = (each for bindings in topology.bindings.values() for each in bindings if each.source)
        patterns = {_split(each.routing_key) for each in bound}
        words = {word for pattern in patterns for word in pattern}
        self.other = next(word for word in chain(["other"], map("other{}".format, count(2))) if word not in words)

    def plain(self, pattern: str) -> str:
        """Return a key that the pattern takes, and no other one that need not."""
        return self._filled(_split(pattern))

    def met_by(self, pattern: str, ahead: Iterable[str]) -> Iterator[str]:
        """Yield keys that the pattern takes, and that the patterns ahead tell apart."""
        own, others = _split(pattern), [_split(each) for each in ahead]
        longest = min(max(map(len, (own, *others))), LENGTH_MAX)
        yield from self._lengths(own, longest)
        for other in others:
            for both in meeting(own, other):
                yield from self._lengths(both, longest)

    def of_any(self, ahead: Iterable[str]) -> Iterator[str]:
        """Yield a key that no pattern of the topology names, and keys that the patterns ahead tell apart."""
        yield self.other
        yield from self.met_by("#", ahead)

    def _lengths(self, pattern: Pattern, longest: int) -> Iterator[str]:
        """Yield the pattern filled with a word that the topology does not have: one for ``*``, any number for ``#``."""
        for number in range(longest + 2 if "#" in pattern else 1):
            yield self._filled(pattern, hashes=number)

    def _filled(self, pattern: Pattern, hashes: int = 1) -> str:
        words: list[str] = []
        for part in pattern:
            words += [self.other] * hashes if part == "#" else [self.other if part == "*" else part]
        return ".".join(words)


def _split(pattern: str) -> Pattern:
    return tuple(pattern.split("."))


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
