"""Numbers names in rows of messages: rows on ways that are the same but for names (``alike_ways``) are equal then."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from dlx.deaths import FIRST_DEATH_HEADERS, LAST_DEATH_HEADERS, X_DEATH
from simulator.events import Event
from simulator.replay.memory import Numbered
from simulator.replay.sequences_on_ways import RowsOnWay
from simulator.replay.signatures import Signatures
from simulator.replay.states import Row
from simulator.replay.whatif.alike_ways import OnWay, Way, Ways
from simulator.replay.whatif.coupling import Reaches
from simulator.replay.whatif.row_numbers import HOPS, SIGNATURES, NumberedRows, RowNumbers, is_plain
from simulator.replay.whatif.stories import Publication

OWN_KEY = -1
"""The number of the key that a message was published with, where no exchange tells it from others."""
_NAMING = frozenset(name for name in (*FIRST_DEATH_HEADERS, *LAST_DEATH_HEADERS) if not name.endswith("-reason"))
_NAMES_OF_DEATH = ("queue", "exchange", "routing-keys")


class MessageOnWay(NamedTuple):
    """The rows of a message as they are but for the names on its way.

    Attributes:
        rows: equal for messages whose rows are the same but for names.
        on: where the message is.
    """

    rows: bytes
    on: OnWay


class TemplatesOnWays:
    """Numbers templates of signatures by what they are but for the names on a way.

    Args:
        signatures: these signatures.
        ways: tells the ways of messages.
        reaches: tells which keys are alike.
        vhost_of: returns a virtual host of the log as the definitions name it.
    """

    def __init__(self, signatures: Signatures, ways: Ways, reaches: Reaches, vhost_of: Callable[[str], str]) -> None:
        self._signatures, self._ways, self._reaches, self._vhost_of = signatures, ways, reaches, vhost_of
        self._rows: Numbered[Hashable] = Numbered()
        self._known: dict[tuple[int, tuple[str, ...], int | None], int] = {}

    def way(self, published: int) -> OnWay | None:
        """Return where a message is that was published with a signature, without headers that anything looks at."""
        signature = self._signatures.signature(published)
        vhost, key = self._vhost_of(signature.vhost), (*signature.routing_keys, "")[0]
        way = self._ways.of_publish(vhost, Publication(0, 0, signature.exchange, key, {}, b""))
        return None if way is None else OnWay(way, key)

    def of(self, templates: Sequence[int], on: OnWay) -> list[int]:
        """Return the numbers of templates of rows that a message on a way has."""
        vhost = self._vhost_of(self._signatures.example(templates[0]).vhost)
        alike = self._reaches.alike_number(vhost, on.routing_key)
        return [self._number(template, on.way, alike) for template in templates]

    def sequence(self, numbers: Sequence[int], templates: Sequence[int]) -> RowsOnWay | None:
        """Return rows with these signatures and templates; ``None`` if more than their way decides."""
        examples = list(map(self._signatures.example, templates))
        published = [place for place, row in enumerate(examples) if row.event == Event.PUBLISHED]
        if len(published) != 1 or not is_plain(examples[published[0]]):
            return None
        on = self.way(numbers[published[0]])
        if on is None or not {row.queue for row in examples if row.queue is not None}.issubset(on.way.names):
            return None
        return RowsOnWay((on.way.shape, tuple(self.of(templates, on))), on.way.names)

    def _number(self, template: int, way: Way, alike: int | None) -> int:
        known = self._known.get((template, way.names, alike))
        if known is None:
            row = self._row(self._signatures.example(template), way, alike)
            known = self._known[template, way.names, alike] = self._rows.number(row)
        return known

    def _row(self, row: Row, way: Way, alike: int | None) -> Hashable:
        """Return what a row shows, with the names numbered."""
        of, vhost = numbered(way), self._vhost_of(row.vhost)

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


class RowsOnWays:
    """Tells which messages of batches are the same but for names.

    Args:
        rows: numbers rows.
        ways: tells the ways of messages, on both sides.
        reaches: tells which keys are alike.
    """

    def __init__(self, rows: RowNumbers, ways: Ways, reaches: Reaches) -> None:
        self._rows = rows
        self._templates = TemplatesOnWays(rows.signatures, ways, reaches, rows.vhost)
        self._numbers: Numbered[Hashable] = Numbered()
        self._hops: dict[tuple[int, tuple[str, ...]], int] = {}

    def of(self, batch: NumberedRows, own: slice) -> MessageOnWay | None:
        """Return the rows of a message on its way; nothing if more than that decides."""
        templates, published = batch.numbers[SIGNATURES, own], np.flatnonzero(batch.published[own])
        if len(published) != 1 or (templates & 1).any():
            return None
        on = self._templates.way(int(batch.signatures[own][published[0]]))
        if on is None:
            return None
        numbers = batch.numbers[:, own].copy()
        numbers[SIGNATURES] = self._templates.of((templates >> 1).tolist(), on)
        numbers[HOPS] = [self._hops_of(number, on.way) for number in numbers[HOPS].tolist()]
        rows = blake2b(numbers.tobytes() + on.way.shape.to_bytes(8, "big"), digest_size=16).digest()
        return MessageOnWay(rows, on)

    def _hops_of(self, number: int, way: Way) -> int:
        key = number, way.names
        known = self._hops.get(key)
        if known is None:
            of = numbered(way)
            hops = tuple([(of(queue), reason) for queue, reason in self._rows.hops(number)])
            known = self._hops[key] = self._numbers.number(hops)
        return known


def numbered(way: Way) -> Callable[[Any], Hashable]:
    """Return what gives the number of a name on the way; any other value is told by its text."""
    numbers = {name: number for number, name in enumerate(way.names)}
    return lambda value: numbers.get(value, value) if isinstance(value, str) else repr(value)
