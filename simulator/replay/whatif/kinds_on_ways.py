"""Takes what is known of messages on one way over to those on another one that is the same but for names.

Sixty ladders that differ in names alone need one example of each kind, not sixty (``alike_ways``): rows of messages are
compared with the names on their way numbered, and a kind that is known on one way gets the names of the other. A way
is what both sides say of it, so that holds of second plays, too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from dlx.deaths import FIRST_DEATH_HEADERS, LAST_DEATH_HEADERS, X_DEATH
from simulator.replay.memory import Numbered
from simulator.replay.states import Row
from simulator.replay.whatif.alike_ways import OnWay, OtherNames, Way, Ways
from simulator.replay.whatif.both_ends import Way as WayOfChange
from simulator.replay.whatif.coupling import Reaches
from simulator.replay.whatif.fates import Fate
from simulator.replay.whatif.kinds import Found, Kind, Unknown
from simulator.replay.whatif.other_keys import AnyKey
from simulator.replay.whatif.row_numbers import HOPS, SIGNATURES, NumberedRows, RowNumbers
from simulator.replay.whatif.stories import Publication

OWN_KEY = -1
"""The number of the key that a message was published with, where no exchange tells it from others."""
_NAMING = frozenset(name for name in (*FIRST_DEATH_HEADERS, *LAST_DEATH_HEADERS) if not name.endswith("-reason"))
_NAMES_OF_DEATH = ("queue", "exchange", "routing-keys")


class RowsOnWay(NamedTuple):
    """The rows of a message as they are but for the names on its way.

    Attributes:
        rows: equal for messages whose rows are the same but for names.
        on: where the message is.
    """

    rows: bytes
    on: OnWay


class RowsOnWays:
    """Numbers the names in rows of messages.

    Args:
        rows: numbers rows.
        ways: tells the ways of messages, on both sides.
        reaches: tells which keys are alike.
    """

    def __init__(self, rows: RowNumbers, ways: Ways, reaches: Reaches) -> None:
        self._rows, self._ways, self._reaches = rows, ways, reaches
        self._numbers: Numbered[Hashable] = Numbered()
        self._templates: dict[tuple[int, tuple[str, ...], int | None], int] = {}
        self._hops: dict[tuple[int, tuple[str, ...]], int] = {}

    def of(self, batch: NumberedRows, own: slice) -> RowsOnWay | None:
        """Return the rows of a message on its way; nothing if more than that decides."""
        templates, published = batch.numbers[SIGNATURES, own], np.flatnonzero(batch.published[own])
        if len(published) != 1 or (templates & 1).any():
            return None
        signature = self._rows.signatures.signature(int(batch.signatures[own][published[0]]))
        vhost, key = self._rows.vhost(signature.vhost), (*signature.routing_keys, "")[0]
        way = self._ways.of_publish(vhost, Publication(0, 0, signature.exchange, key, {}, b""))
        if way is None:
            return None
        alike = self._reaches.alike_number(vhost, key)
        numbers = batch.numbers[:, own].copy()
        numbers[SIGNATURES] = [self._template(number >> 1, way, alike) for number in templates.tolist()]
        numbers[HOPS] = [self._hops_of(number, way) for number in numbers[HOPS].tolist()]
        rows = blake2b(numbers.tobytes() + way.shape.to_bytes(8, "big"), digest_size=16).digest()
        return RowsOnWay(rows, OnWay(way, key))

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

    def add(self, key: Hashable, nth: int, kind: Kind | None, on: OnWay) -> None:
        """Take note of a kind that became known as the ``nth`` of those with a key, on some way."""
        known = self._known.setdefault(key, [])
        if len(known) == nth:
            known.append((kind, on) if kind is not None and _holds_elsewhere(kind) else None)

    def on(self, key: Hashable, nth: int, on: OnWay) -> Kind | None:
        """Return the ``nth`` kind with a key, with the names of another way; nothing if it does not hold there."""
        known = self._known.get(key, ())
        if len(known) <= nth or (there := known[nth]) is None:
            return None
        kind, other = there
        return kind if other.way.names == on.way.names else _renamed(kind, other, on)


def _holds_elsewhere(kind: Kind) -> bool:
    """Tell whether nothing but the way of a message decides what becomes of it, and nothing of it is said in words."""
    told = kind.told
    return told.only_way and not told.ends.assumed if isinstance(told, Found) else told.timed.play.only_way


def _renamed(kind: Kind, one: OnWay, other: OnWay) -> Kind:
    told, names = kind.told, OtherNames(one.way, other.way)
    told = _found_on(told, names, one, other) if isinstance(told, Found) else told._replace(on=other)
    stays = [each._replace(queue=(each.queue[0], names.of(each.queue[1]))) for each in kind.stays]
    return kind._replace(told=told, stays=stays)


def _found_on(found: Found, names: OtherNames, one: OnWay, other: OnWay) -> Found:
    """Return what becomes of messages under other names."""
    own_key = names.of(one.routing_key)

    def under(fate: Fate) -> Fate:
        fate = names.fate(fate)
        if own_key != one.routing_key:
            return fate
        return msgspec.structs.replace(fate, deliveries=AnyKey(fate.deliveries, own_key).at(other.routing_key))

    before = under(found.fates.before)
    after = before if found.fates.other is None else under(found.fates.other)
    fates = msgspec.structs.replace(found.fates, before=before, other=None if found.fates.other is None else after)
    way = None if found.ends.way is None else WayOfChange(before.ends, after.ends, before.path, after.path)
    return found._replace(fates=fates, ends=found.ends._replace(before=before.ends, after=after.ends, way=way))


Key = TypeVar("Key", bound=Hashable)


def learn(
    unknown: Unknown[Key],
    key_on_way: Callable[[Key], Hashable],
    take_over: Callable[[Key], bool],
    play: Callable[[Unknown[Key]], object],
) -> None:
    """Learn a kind for each key: by taking it over if that is possible, or by a play.

    Args:
        unknown: the keys, with a message for each.
        key_on_way: returns what is equal for keys of messages that are the same but for the names on their way.
        take_over: takes over the next kind that is known on another way; tells whether there is one.
        play: plays messages.
    """
    left = [key for key in unknown if not take_over(key)]
    one_of_each = {key_on_way(key): key for key in reversed(left)}.values()
    play({key: unknown[key] for key in one_of_each})
    played = set(one_of_each)
    play({key: unknown[key] for key in left if key not in played and not take_over(key)})
