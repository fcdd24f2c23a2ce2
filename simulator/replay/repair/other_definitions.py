"""Which other definitions may explain a delivery: read off the path in its ``x-death``.

Each entry of ``x-death`` names a queue, a reason and the address that the message had there; the
next entry, or the delivery itself, shows the address that the dead letter got. Where the
definitions do not say so, each list of parts here would make them say it. Nothing is judged here:
a replay under the change does that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, islice, product
from typing import Any, NamedTuple

import msgspec

from dlx.deaths import DELIVERY_LIMIT, EXPIRED, LAST_DEATH_HEADERS, MAXLEN, REASONS
from dlx.delivery_counts import X_DELIVERY_COUNT
from dlx.message import Message
from dlx.message_flow import MessageFlow
from dlx.settings import (
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_ROUTING_KEY,
    DROP_HEAD,
    MAX_LENGTH,
    MAX_LENGTH_BYTES,
    MESSAGE_TTL,
    OVERFLOW,
    QUEUE_TYPE,
    REJECT_PUBLISH_DLX,
)
from dlx.settings import DELIVERY_LIMIT as DELIVERY_LIMIT_KEY
from dlx.topology import CLASSIC, QUORUM, STREAM
from simulator.replay.repair.hypotheses import (
    AT_LEAST,
    AT_MOST,
    Change,
    OtherBinding,
    OtherExchange,
    OtherQueue,
    OtherSetting,
    Part,
)
from simulator.replay.search.visible_state import CaptureRow

CHANGES_MAX = 120
"""Changes that are tried for one delivery."""
SINGLES_PAIRED = 12
"""Of these, two at a time are tried if none explains the delivery alone."""
ALTERNATIVES_MAX = 24
"""Ways to mend one whole chain of deaths that are tried."""
_SOME = 1

Parts = tuple[Part, ...]


class PublishAddress(NamedTuple):
    """Where a message was sent."""

    exchange: str
    keys: tuple[str, ...]


class Stop(NamedTuple):
    """A queue in which the message was, and the address that led it there; of a death also its reason."""

    queue: str
    address: PublishAddress
    reason: str = ""
    has_expiration: bool = False


def singles_for(row: CaptureRow, published: Sequence[CaptureRow], flow: MessageFlow) -> Iterator[Change]:
    """Yield changes, the likeliest first, that may explain the delivery in ``row``; none of them twice.

    ``published`` are the publishes of the message before it.
    """
    return _distinct(_singles(row, published, flow))


def pairs_for(row: CaptureRow, published: Sequence[CaptureRow], flow: MessageFlow) -> Iterator[Change]:
    """Yield changes that are two of ``singles_for`` at once."""
    singles = list(islice(singles_for(row, published, flow), SINGLES_PAIRED))
    return _distinct((*one, *other) for one, other in combinations(singles, 2))


def _distinct(candidates: Iterable[Iterable[Part]]) -> Iterator[Change]:
    return islice(dict.fromkeys(change for parts in candidates if (change := frozenset(parts))), CHANGES_MAX)


def _singles(row: CaptureRow, published: Sequence[CaptureRow], flow: MessageFlow) -> Iterator[Parts]:
    end = Stop(row.queue or "", _address(row))
    deaths = stops(row.visible.x_death)
    maker = _Maker(flow)
    yield from maker.counts(row)
    first = deaths[-1] if deaths else end
    entries = [maker.entry(_address(publish), stop) for publish in published for stop in {first, *deaths}]
    steps = zip(deaths, (end, *deaths), strict=False)
    chain = [each for each in (maker.death(stop, after) for stop, after in steps) if () not in each]
    if len(entries) == 1 and () not in entries[0]:
        yield from _together([*chain, entries[0]])
    yield from _together(chain)
    others = [maker.death(stop, after) for stop in deaths for after in (end, *deaths, *_merged(row, deaths))]
    yield from (parts for each in (*chain, *entries, *others) for parts in each)


def _together(alternatives: list[list[Parts]]) -> Iterator[Parts]:
    """Yield every way to take one of the alternatives for each step."""
    for way in islice(product(*alternatives), ALTERNATIVES_MAX):
        yield tuple(part for parts in way for part in parts)


def stops(x_death: str | None) -> list[Stop]:
    """Return the entries of an ``x-death`` that a broker can have written, in their order."""
    entries = [] if x_death is None else msgspec.json.decode(x_death)
    found = [_stop(entry) for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    return [stop for stop in found if stop is not None]


def _merged(row: CaptureRow, deaths: list[Stop]) -> list[Stop]:
    """Return the latest death where its entry does not have its exchange: an entry keeps that of the first death."""
    _, queue, exchange = (row.headers.get(name) for name in LAST_DEATH_HEADERS)
    return [
        stop._replace(address=PublishAddress(exchange, stop.address.keys))
        for stop in deaths
        if stop.queue == queue and isinstance(exchange, str) and stop.address.exchange != exchange
    ]


def _stop(entry: dict[str, Any]) -> Stop | None:
    queue, reason, exchange = (entry.get(name) for name in ("queue", "reason", "exchange"))
    keys = entry.get("routing-keys")
    if not (isinstance(queue, str) and isinstance(exchange, str) and reason in REASONS and isinstance(keys, list)):
        return None
    return Stop(queue, PublishAddress(exchange, tuple(map(str, keys))), reason, "original-expiration" in entry)


def _address(row: CaptureRow) -> PublishAddress:
    return PublishAddress(row.visible.exchange, row.visible.routing_keys)


class _Maker:
    """Makes the parts that one step needs: a list of alternatives, ``()`` where the definitions have it all."""

    def __init__(self, flow: MessageFlow) -> None:
        self._flow = flow
        self._topology = flow.topology

    def counts(self, row: CaptureRow) -> Iterator[Parts]:
        """Yield the delivery limit under which the count that the row shows is possible."""
        count, queue = row.of_delivery.get(X_DELIVERY_COUNT), row.queue or ""
        if isinstance(count, int) and queue in self._topology.queues:
            yield (OtherSetting(queue, DELIVERY_LIMIT_KEY, count, exact=False, bound=AT_LEAST),)

    def entry(self, address: PublishAddress, stop: Stop) -> list[Parts]:
        """Return what lets a publish to the address reach the queue."""
        return self._routed(address, stop.queue)

    def death(self, stop: Stop, after: Stop) -> list[Parts]:
        """Return what lets the message die at the stop, and sends its dead letter on to the next one."""
        return [
            died + sent + routed
            for died in self._died(stop)
            for sent in self._sent(stop, after.address)
            for routed in self._routed(after.address, after.queue)
        ]

    def _died(self, stop: Stop) -> list[Parts]:
        topology, queue = self._topology, stop.queue
        if queue not in topology.queues:
            return [(OtherQueue(queue), *each) for each in _reasons(queue, stop.reason)]
        why_not = self._flow.why_impossible(queue, stop.reason, has_expiration=stop.has_expiration)
        kind = topology.queues[queue].type
        if why_not is None:
            return [()]
        if kind == STREAM:
            return [(OtherSetting(queue, QUEUE_TYPE, CLASSIC),)]
        if stop.reason == DELIVERY_LIMIT and kind != QUORUM:
            return [(OtherSetting(queue, QUEUE_TYPE, QUORUM), OtherSetting(queue, DELIVERY_LIMIT_KEY, _SOME, False))]
        if stop.reason == MAXLEN and self._flow.settings(queue).has_length_limit:
            overflows = (DROP_HEAD, REJECT_PUBLISH_DLX) if kind == CLASSIC else (DROP_HEAD,)
            return [(OtherSetting(queue, OVERFLOW, overflow),) for overflow in overflows]
        return _reasons(queue, stop.reason)

    def _sent(self, stop: Stop, address: PublishAddress) -> list[Parts]:
        """Return what gives the dead letters of the stop that address."""
        queue, there = stop.queue, stop.queue in self._topology.queues
        settings = self._flow.settings(queue) if there else None
        found: Parts = ()
        if settings is None or settings.dead_letter_exchange != address.exchange:
            found = (OtherSetting(queue, DEAD_LETTER_EXCHANGE, address.exchange),)
        current = None if settings is None else settings.dead_letter_routing_key
        given = stop.address.keys if current is None else (current,)
        if given == address.keys:
            return [found]
        ways: list[Parts] = []
        if len(address.keys) == 1:
            ways.append((*found, OtherSetting(queue, DEAD_LETTER_ROUTING_KEY, address.keys[0])))
        if address.keys == stop.address.keys:
            ways.append((*found, OtherSetting(queue, DEAD_LETTER_ROUTING_KEY, None)))
        return ways

    def _routed(self, address: PublishAddress, queue: str) -> list[Parts]:
        """Return what leads a message with that address to the queue."""
        exchange, keys = address
        missing: Parts = () if queue in self._topology.queues else (OtherQueue(queue),)
        if exchange == "":
            return [missing] if queue in keys else []
        known = self._topology.exchanges.get(exchange)
        if known is None:
            return [(*missing, OtherExchange(exchange, "fanout"), OtherBinding(exchange, queue, ""))]
        if queue in self._flow.entries(Message(exchange=exchange, routing_keys=keys or ("",), headers={})):
            return [missing]
        key = "" if known.type in ("fanout", "headers") or not keys else keys[0]
        ways: list[Parts] = [(*missing, OtherBinding(exchange, queue, key))]
        bound = any(binding.destination == queue for binding in self._topology.bindings.get(exchange, ()))
        return [*ways, (OtherExchange(exchange, "fanout"),)] if bound and known.type != "fanout" else ways


def _reasons(queue: str, reason: str) -> list[Parts]:
    """Return the settings that let a message die for that reason, one at a time."""
    keys = {
        EXPIRED: (MESSAGE_TTL,),
        MAXLEN: (MAX_LENGTH, MAX_LENGTH_BYTES),
        DELIVERY_LIMIT: (DELIVERY_LIMIT_KEY,),
    }.get(reason)
    return [()] if keys is None else [(OtherSetting(queue, key, _SOME, exact=False),) for key in keys]


# Reads off a delivery that the clock or the lengths refute which other limit its queue may have had.


# The words are those of ``simulator.replay.checks.check_texts``.
_FIELD = re.compile(r"(time|messages|bytes) in '(.*)'")
_TIME = re.compile(rf"({AT_MOST}|{AT_LEAST}) ([0-9,]+) ms")
_LENGTH = re.compile(rf"{AT_MOST} ([0-9,]+)")
_KEYS = {"messages": MAX_LENGTH, "bytes": MAX_LENGTH_BYTES}


def other_limits(field: str, expected: str, seen: str) -> Iterator[OtherSetting]:
    """Yield the other limit under which a difference would be none; nothing where the queue's own does not decide."""
    about = _FIELD.fullmatch(field)
    if about is None:
        return
    what, queue = about.groups()
    time, length = _TIME.fullmatch(seen), _LENGTH.fullmatch(seen)
    if what == "time" and time and f"({MESSAGE_TTL} " in expected:
        yield OtherSetting(queue, MESSAGE_TTL, _number(time[2]), exact=False, bound=time[1])
    elif what != "time" and length:  # a message only dies of the limit when there is one more
        yield OtherSetting(queue, _KEYS[what], max(0, _number(length[1]) - 1), exact=False, bound=AT_MOST)


def _number(text: str) -> int:
    return int(text.replace(",", ""))
