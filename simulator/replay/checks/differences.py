"""Compares a predicted message with a delivered one, field by field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from dlx.field_values import plain
from simulator.replay.rows.row_codec import read_content
from simulator.replay.rows.verdict_words import Difference
from simulator.replay.search.visible_state import Visible

ABSENT = "absent"
_encode = msgspec.json.Encoder(order="deterministic", enc_hook=plain).encode
_MISSING = object()


def visible_differences(expected: Visible, seen: Visible) -> list[Difference]:
    """Return the fields in which a predicted and a delivered message differ."""
    found: list[Difference] = []
    _compare("exchange", expected.exchange, seen.exchange, found)
    _compare("routing_keys", list(expected.routing_keys), list(seen.routing_keys), found)
    _compare("expiration", _or_missing(expected.expiration), _or_missing(seen.expiration), found)
    if expected.x_death != seen.x_death:
        _compare_deaths(_decoded(expected.x_death), _decoded(seen.x_death), found)
    if expected.broker_headers != seen.broker_headers:
        _compare_tables("", _decoded(expected.broker_headers), _decoded(seen.broker_headers), found)
    return found


def weight(differences: Sequence[Difference]) -> int:
    """Return how far apart the two are: another way through the queues weighs more than another header."""
    return sum(_weight(difference.field) for difference in differences)


def _weight(field: str) -> int:
    if field.startswith(("properties.", "headers.")):
        return 8  # of another publish, then
    if field.startswith("x-death"):
        history = field.endswith((".count", ".queue", ".reason")) or field in ("x-death", "x-death length")
        return 6 if history else 1
    return 3 if field.startswith(("exchange", "routing_keys")) else 1


def content_differences(expected: str, seen: str) -> list[Difference]:
    """Return the differences in properties and user headers between two contents (``row_codec``)."""
    found: list[Difference] = []
    parts = zip(("properties.", "headers."), read_content(expected), read_content(seen), strict=True)
    for part, wanted, got in parts:
        if wanted != got:
            _compare_tables(part, msgspec.json.decode(wanted), msgspec.json.decode(got), found)
    return found


def _compare_deaths(expected: Any, seen: Any, found: list[Difference]) -> None:
    """Report entries in another order as one difference, not as one for each field of each entry."""
    if isinstance(expected, list) and isinstance(seen, list):
        if sorted(map(_encode, expected)) == sorted(map(_encode, seen)):
            found.append(Difference("x-death order", _text(_keys(expected)), _text(_keys(seen))))
            return
        if len(expected) != len(seen):
            found.append(Difference("x-death length", _text(_keys(expected)), _text(_keys(seen))))
            return
    _compare("x-death", expected, seen, found)


def _keys(entries: list[Any]) -> list[str]:
    tables = (entry if isinstance(entry, dict) else {} for entry in entries)
    return [f"{entry.get('queue')} {entry.get('reason')} x{entry.get('count')}" for entry in tables]


def _compare(field: str, expected: Any, seen: Any, found: list[Difference]) -> None:
    if isinstance(expected, dict) and isinstance(seen, dict):
        _compare_tables(f"{field}.", expected, seen, found)
    elif isinstance(expected, list) and isinstance(seen, list) and len(expected) == len(seen):
        for index, (wanted, got) in enumerate(zip(expected, seen, strict=True)):
            _compare(f"{field}[{index}]", wanted, got, found)
    elif not _same(expected, seen):
        found.append(Difference(field, _text(expected), _text(seen)))


def _compare_tables(prefix: str, expected: dict[str, Any], seen: dict[str, Any], found: list[Difference]) -> None:
    for name in sorted({*expected, *seen}):
        _compare(f"{prefix}{name}", expected.get(name, _MISSING), seen.get(name, _MISSING), found)


def _same(one: Any, other: Any) -> bool:
    return one is other if _MISSING in (one, other) else type(one) is type(other) and bool(one == other)


def _or_missing(value: str | None) -> Any:
    return _MISSING if value is None else value


def _decoded(text: str | None) -> Any:
    return _MISSING if text is None else msgspec.json.decode(text)


def _text(value: Any) -> str:
    return ABSENT if value is _MISSING else _encode(value).decode()
