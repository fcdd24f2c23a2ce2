"""Plants faults: rows of a log that say what no broker could have delivered, each of which a replay has to find."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import msgspec

from simulator.capture.schema import Observation
from simulator.events import Event
from simulator.json_values import canonical_json

MANY = 1_000
"""By how much the count of a death is raised: no message dies that often."""


class Fault(msgspec.Struct, frozen=True):
    """One altered row.

    Attributes:
        file, line: where it stands.
        message: whose row it is.
        what: the column that was altered.
        was, altered: its value before and after, as JSON.
    """

    file: str
    line: int
    message: str
    what: str
    was: str
    altered: str


def plant(rows: Sequence[Observation], wanted: int, random: Random) -> list[Fault]:
    """Alter that many deliveries, or as many as there are, and return what was done to them.

    Only the last delivery of a message is altered: so it explains no other, and the replay finds these rows alone.
    """
    last = {row.message: row for row in rows}
    deliveries = [row for row in last.values() if row.event == Event.DELIVERED]
    return [_alter(row, random) for row in random.sample(deliveries, min(wanted, len(deliveries)))]


def _alter(row: Observation, random: Random) -> Fault:
    what = random.choice([name for name in _ALTERED if name != "x_death" or row.x_death is not None])
    was = getattr(row, what)
    setattr(row, what, _ALTERED[what](was))
    shown = (msgspec.json.encode(value).decode() for value in (was, getattr(row, what)))
    return Fault(row.file, row.line, row.message, what, *shown)


def _dies_often(x_death: str) -> str:
    entries: list[dict[str, Any]] = msgspec.json.decode(x_death)
    return canonical_json([{**entries[0], "count": entries[0].get("count", 0) + MANY}, *entries[1:]])


def _with_header(headers: str) -> str:
    return canonical_json({**msgspec.json.decode(headers), "altered": True})


_ALTERED: Mapping[str, Callable[[Any], Any]] = {
    "exchange": lambda name: f"{name}.altered",
    "routing_keys": lambda keys: [f"{keys[0]}.altered", *keys[1:]],
    "headers": _with_header,
    "x_death": _dies_often,
}
