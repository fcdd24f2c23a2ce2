"""Compute where an x-consistent-hash exchange sends a message: a hash of it names a bucket, and that a destination.

Each binding adds as many buckets as its key says, behind those that are there. When one is removed, the
buckets behind it move up.

Source: rabbit_exchange_type_consistent_hash.erl; rand.erl (exs1024); live servers of 3.8, 3.10, 4.0 and 4.3.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import islice
from operator import itemgetter
from typing import Any

from dlx.deaths import seconds
from dlx.erlang_hash import phash2
from dlx.erlang_printing import Atom, field_term
from dlx.field_values import type_name
from dlx.message import Message
from dlx.releases import Release
from dlx.topology import Arguments, Binding

HASH_HEADER, HASH_PROPERTY = "hash-header", "hash-property"
PROPERTIES = ("correlation_id", "message_id", "timestamp")
"""The properties that an exchange may hash instead of routing keys."""
WEIGHT_MAX = 2**30
"""More buckets than a server has memory for."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,1000}")
_UNDEFINED = Atom("undefined")
_WORD = 2**64 - 1
_HASHES = 2**27


def weight(key: str) -> int | None:
    """Return the number that a binding key spells, ``None`` where it spells none."""
    return int(key) if _INTEGER.fullmatch(key) else None


class Ring:
    """The buckets of one exchange.

    Args:
        is_taken_twice: whether the second binding of a destination adds buckets, too.
    """

    def __init__(self, *, is_taken_twice: bool) -> None:
        self._is_taken_twice = is_taken_twice
        self._spans: list[tuple[int, int, Binding]] = []
        """The first bucket of each binding, the one behind its last, and the binding, in this order."""
        self._end = 0
        self._count = 0

    def add(self, binding: Binding) -> None:
        """Add the buckets of a binding."""
        buckets = min(weight(binding.routing_key) or 0, WEIGHT_MAX)
        if buckets > 0 and (self._is_taken_twice or not self._of(binding)):
            self._spans.append((self._end, self._end + buckets, binding))
            self._end += buckets
            self._count += buckets

    def remove(self, binding: Binding) -> None:
        """Remove all buckets of a binding's destination, and what lies between them.

        Where a destination can have been taken twice, the others move up, and new buckets begin, by the weight of
        this binding alone. Then there are fewer buckets than their numbers say, and some have no destination.
        """
        mine = self._of(binding)
        if not mine:
            return
        begin, end = mine[0][0], mine[-1][1]
        moved = (weight(binding.routing_key) or 0) if self._is_taken_twice else end - begin
        before = [span for span in self._spans if span[1] <= begin]
        behind = [(first - moved, last - moved, each) for first, last, each in self._spans if first >= end]
        self._spans = before + behind
        self._end -= moved
        self._count = sum(last - first for first, last, _ in self._spans)

    def binding_of(self, value: Any) -> Binding | None:
        """Return the binding whose bucket a hashed value names, ``None`` where there is no such bucket."""
        bucket = _bucket(value, self._count)
        place = bisect_right(self._spans, bucket, key=itemgetter(0)) - 1
        return self._spans[place][2] if place >= 0 and bucket < self._spans[place][1] else None

    def _of(self, binding: Binding) -> list[tuple[int, int, Binding]]:
        to = binding.destination_type, binding.destination
        return [span for span in self._spans if (span[2].destination_type, span[2].destination) == to]


def hashed_value(message: Message, arguments: Arguments, headers: Mapping[str, Any], release: Release) -> Any:
    """Return the Erlang term that an exchange with these arguments hashes of a message.

    ``headers`` are those that the message has for an exchange: a death's among them. Of several keys it is the first.
    """
    header, name = arguments.get(HASH_HEADER), arguments.get(HASH_PROPERTY)
    if isinstance(header, str):
        return _header_term(headers[header], release) if header in headers else _UNDEFINED
    if not isinstance(name, str):
        return field_term(message.routing_key)
    value = message.properties.get(name)
    if value is None:
        return _UNDEFINED
    return field_term(str(seconds(value)) if name == "timestamp" else value)


def _header_term(value: Any, release: Release) -> Any:
    term = field_term(value)
    if release.consistent_hash_header == "type and value":
        return Atom(type_name(value)), term
    if type_name(value) == "timestamp" and release.headers_match_message_timestamps == "milliseconds":
        return term * 1000
    if isinstance(term, list):  # a server takes it for a list of keys; an empty one ends the connection
        return term[0] if term else _UNDEFINED
    return term


def _bucket(value: Any, count: int) -> int:
    """Return a number below ``count`` by a jump consistent hash, -1 where that is 0; an integer seeds it as it is."""
    number = value if isinstance(value, int) else phash2(value) % _HASHES
    bucket, ahead, uniform = -1, 0, _uniform(number)
    while ahead < count:
        bucket = ahead
        ahead = int((bucket + 1) / next(uniform))
    return bucket


def _uniform(seed: int) -> Iterator[float]:
    """Yield the numbers that Erlang's ``rand`` (exs1024) draws with the seed ``{seed, seed, seed}``."""
    low = (1 << 21) - 1
    parts = [((seed & low) + 1) * factor & low for factor in (2_097_131, 2_097_133, 2_097_143)]
    state = [*islice(_words(parts[0] << 43 | parts[1] << 22 | parts[2] << 1 | 1), 16)][::-1]
    place = 0
    while True:
        one, other = state[place], state[(place + 1) % 16]
        other ^= other << 31 & _WORD
        place = (place + 1) % 16
        state[place] = one ^ one >> 30 ^ other ^ other >> 11
        yield (state[place] * 1_181_783_497_276_652_981 & _WORD) / 2**64


def _words(state: int) -> Iterator[int]:
    """Yield the words that Erlang's ``rand`` fills a state with (xorshift64*)."""
    while True:
        state ^= state >> 12
        state ^= state << 25 & _WORD
        state ^= state >> 27
        yield state * 2_685_821_657_736_338_717 & _WORD
