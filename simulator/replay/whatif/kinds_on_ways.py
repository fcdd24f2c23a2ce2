"""Takes what is known of messages on one way over to those on another one that is the same but for names.

Sixty ladders that differ in names alone need one example of each kind, not sixty (``alike_ways``): rows of messages are
compared with the names on their way numbered, and a kind that is known on one way gets the names of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
import numpy as np

from dlx.deaths import FIRST_DEATH_HEADERS, LAST_DEATH_HEADERS, X_DEATH
from simulator.replay.memory import Numbered
from simulator.replay.states import Row
from simulator.replay.whatif.alike_ways import OtherNames, Way, Ways
from simulator.replay.whatif.coupling import Reaches
from simulator.replay.whatif.kinds import Found, Kind
from simulator.replay.whatif.other_keys import AnyKey
from simulator.replay.whatif.row_numbers import HOPS, SIGNATURES, NumberedRows, RowNumbers
from simulator.replay.whatif.stage import Queue
from simulator.replay.whatif.stories import Publication

OWN_KEY = -1
"""The number of the key that a message was published with, where no exchange tells it from others."""
_NAMING = frozenset(name for name in (*FIRST_DEATH_HEADERS, *LAST_DEATH_HEADERS) if not name.endswith("-reason"))
_NAMES_OF_DEATH = ("queue", "exchange", "routing-keys")


class OnWay(NamedTuple):
    """The rows of a message as they are but for the names on its way.

    Attributes:
        rows: equal for messages whose rows are the same but for names.
        way: the way of the message.
        routing_key: what it was published with.
    """

    rows: bytes
    way: Way
    routing_key: str


class RowsOnWays:
    """Numbers the names in rows of messages.

    Args:
        rows: numbers rows.
        ways: tells the ways of messages.
        reaches: tells which keys are alike.
        differing: the queues that are not the same on both sides: what comes to one of these is left alone.
    """

    def __init__(self, rows: RowNumbers, ways: Ways, reaches: Reaches, differing: frozenset[Queue]) -> None:
        self._rows, self._ways, self._reaches, self._differing = rows, ways, reaches, differing
        self._numbers: Numbered[Hashable] = Numbered()
        self._templates: dict[tuple[int, tuple[str, ...], int | None], int] = {}
        self._hops: dict[tuple[int, tuple[str, ...]], int] = {}

    def of(self, batch: NumberedRows, own: slice) -> OnWay | None:
        """Return the rows of a message on its way; nothing if more than that decides."""
        templates, published = batch.numbers[SIGNATURES, own], np.flatnonzero(batch.published[own])
        if len(published) != 1 or (templates & 1).any():
            return None
        signature = self._rows.signatures.signature(int(batch.signatures[own][published[0]]))
        vhost, key = self._rows.vhost(signature.vhost), (*signature.routing_keys, "")[0]
        way = self._ways.of_publish(vhost, Publication(0, 0, signature.exchange, key, {}, b""))
        if way is None or not self._differing.isdisjoint((vhost, name) for name in way.names):
            return None
        alike = self._reaches.alike_number(vhost, key)
        numbers = batch.numbers[:, own].copy()
        numbers[SIGNATURES] = [self._template(number >> 1, way, alike) for number in templates.tolist()]
        numbers[HOPS] = [self._hops_of(number, way) for number in numbers[HOPS].tolist()]
        rows = blake2b(numbers.tobytes() + way.shape.to_bytes(8, "big"), digest_size=16).digest()
        return OnWay(rows, way, key)

    def _template(self, template: int, way: Way, alike: int | None) -> int:
        known = self._templates.get((template, way.names, alike))
        if known is None:
            row = self._rows.signatures.example(template)
            known = self._templates[template, way.names, alike] = self._numbers.number(self._row(row, way, alike))
        return known

    def _row(self, row: Row, way: Way, alike: int | None) -> Hashable:
        """Return what a row shows, with the names numbered."""
        of, vhost = _numbered(way), self._rows.vhost(row.vhost)

        def of_key(key: Any) -> Hashable:
            own = alike is not None and isinstance(key, str) and self._reaches.alike_number(vhost, key) == alike
            return OWN_KEY if own else of(key)

        def of_header(name: str, value: Any) -> Hashable:
            if name == X_DEATH and isinstance(value, list):
                return tuple(map(of_death, value))
            return of(value) if name in _NAMING else repr(value)

        def of_death(death: Any) -> Hashable:
            if not isinstance(death, dict) or not isinstance(death.get("routing-keys"), list):
                return repr(death)
            rest = repr([(name, value) for name, value in death.items() if name not in _NAMES_OF_DEATH])
            return of(death.get("queue")), of(death.get("exchange")), tuple(map(of_key, death["routing-keys"])), rest

        shown = row.visible
        routed = None if row.routed_queues is None else tuple(map(of, row.routed_queues))
        headers = tuple([(name, of_header(name, value)) for name, value in row.headers.items()])
        keys = tuple(map(of_key, shown.routing_keys))
        return row.event, row.vhost, of(row.queue), of(shown.exchange), keys, shown.expiration, headers, routed

    def _hops_of(self, number: int, way: Way) -> int:
        key = number, way.names
        known = self._hops.get(key)
        if known is None:
            of = _numbered(way)
            hops = tuple([(of(queue), reason) for queue, reason in self._rows.hops(number)])
            known = self._hops[key] = self._numbers.number(hops)
        return known


def _numbered(way: Way) -> Callable[[Any], Hashable]:
    """Return what gives the number of a name on the way; any other value is told by its text."""
    numbers = {name: number for number, name in enumerate(way.names)}
    return lambda value: numbers.get(value, value) if isinstance(value, str) else repr(value)


class KindsOnWays:
    """The kinds that are known of messages whose rows are the same but for names, in the order they became known."""

    def __init__(self) -> None:
        self._known: dict[Hashable, list[tuple[Kind, OnWay] | None]] = {}

    def add(self, key: Hashable, nth: int, kind: Kind | None, on_way: OnWay) -> None:
        """Take note of a kind that became known as the ``nth`` of those with a key, on some way."""
        known = self._known.setdefault(key, [])
        if len(known) == nth:
            known.append((kind, on_way) if kind is not None and _holds_elsewhere(kind) else None)

    def on(self, key: Hashable, nth: int, on_way: OnWay) -> Kind | None:
        """Return the ``nth`` kind with a key, with the names of another way; nothing if it does not hold there."""
        known = self._known.get(key, ())
        if len(known) <= nth or (there := known[nth]) is None:
            return None
        kind, other = there
        return kind if other.way.names == on_way.way.names else _renamed(kind, other, on_way)


def _holds_elsewhere(kind: Kind) -> bool:
    """Tell whether nothing but the way of a message decides what becomes of it, and nothing of it is said in words."""
    told = kind.told
    return isinstance(told, Found) and told.only_way and told.fates.other is None and not told.ends.assumed


def _renamed(kind: Kind, one: OnWay, other: OnWay) -> Kind:
    found = kind.told
    assert isinstance(found, Found)
    names = OtherNames(one.way, other.way)
    own_key = names.of(one.routing_key)
    fate = names.fate(found.fates.before)
    if own_key == one.routing_key:
        fate = msgspec.structs.replace(fate, deliveries=AnyKey(fate.deliveries, own_key).at(other.routing_key))
    ends = found.ends._replace(before=fate.ends, after=fate.ends)
    told = found._replace(fates=msgspec.structs.replace(found.fates, before=fate), ends=ends)
    stays = [each._replace(queue=(each.queue[0], names.of(each.queue[1]))) for each in kind.stays]
    return kind._replace(told=told, stays=stays)
