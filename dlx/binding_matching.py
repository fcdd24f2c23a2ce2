"""Tell whether a message meets a binding: topic patterns and headers, one binding at a time.

This is the definition; ``dlx.binding_index`` finds the same bindings without trying all of them.

Source: rabbit_exchange_type_topic.erl, rabbit_exchange_type_headers.erl.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from dlx.deaths import seconds
from dlx.field_values import Timestamp, same_on_wire
from dlx.releases import Release

# Topic


def words(key: str) -> list[str]:
    """Return a topic key's words; the empty key has none."""
    return key.split(".") if key else []


def topic_matches(pattern: list[str], key: list[str]) -> bool:
    """Tell whether the binding key's words match: ``*`` is one word, ``#`` any number, none included."""
    # Positions in the pattern that the words read so far can have led to.
    positions = _past_hashes(pattern, {0})
    for word in key:
        stay = {p for p in positions if p < len(pattern) and pattern[p] == "#"}
        step = {p + 1 for p in positions if p < len(pattern) and pattern[p] in ("*", word)}
        # '#' as a word of the key is literal text and matches a '#' by staying on it.
        positions = _past_hashes(pattern, stay | {p for p in step if pattern[p - 1] != "#"})
        if not positions:
            return False
    return len(pattern) in positions


def _past_hashes(pattern: list[str], positions: Iterable[int]) -> set[int]:
    reached = set(positions)
    for position in sorted(reached):
        while position < len(pattern) and pattern[position] == "#":
            position += 1
            reached.add(position)
    return reached


# Headers


class Wanted(NamedTuple):
    """What a headers binding asks of a message's headers; a value of ``None`` asks for presence.

    Attributes:
        any_suffices: whether one of them is enough.
        compared: the arguments that are compared on all releases: those without ``x-``.
        compared_with_x: those that are compared where x-match knows all-with-x and any-with-x.
    """

    any_suffices: bool
    compared: Mapping[str, Any]
    compared_with_x: Mapping[str, Any]

    @classmethod
    def by(cls, arguments: Mapping[str, Any]) -> Wanted:
        """Return what a binding with these arguments asks."""
        kind = arguments.get("x-match", "all")
        every = {name: value for name, value in arguments.items() if name != "x-match"}
        own = {name: value for name, value in every.items() if not name.startswith("x-")}
        return cls(kind in ("any", "any-with-x"), own, every if kind in ("all-with-x", "any-with-x") else own)

    def fields(self, release: Release) -> Mapping[str, Any]:
        """Return the arguments that the release compares."""
        return self.compared_with_x if release.headers_match_with_x else self.compared

    def met_by(self, headers: Mapping[str, Any], release: Release) -> bool:
        """Tell whether headers meet it. ``all`` of nothing is met, ``any`` of nothing is not."""
        compared = self.fields(release)
        results = (name in headers and _value_matches(compared[name], headers[name], release) for name in compared)
        return any(results) if self.any_suffices else all(results)


def headers_match(arguments: Mapping[str, Any], headers: Mapping[str, Any], release: Release) -> bool:
    """Tell whether a headers binding with these arguments matches."""
    return Wanted.by(arguments).met_by(headers, release)


def _value_matches(wanted: Any, value: Any, release: Release) -> bool:
    """Tell whether a binding argument matches a header; at the outermost level, types hardly count."""
    if wanted is None:  # a void argument asks for presence
        return True
    one, other = _untyped(wanted, "seconds"), _untyped(value, release.headers_match_message_timestamps)
    numbers = isinstance(one, int | float) and isinstance(other, int | float)
    if numbers and not isinstance(one, bool) and not isinstance(other, bool):
        by_value = release.headers_match_numbers == "by value"
        return one == other and (by_value or isinstance(one, float) == isinstance(other, float))
    return same_on_wire(one, other)


def _untyped(value: Any, timestamps_in: str) -> Any:
    """Return a timestamp as the integer it is compared as, a byte array as the string of the same bytes."""
    if isinstance(value, datetime | Timestamp):
        return (seconds(value) or 0) * (1000 if timestamps_in == "milliseconds" else 1)
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return value
