"""Reads from a topology of RabbitMQ what another system has to do in its place: its queues by what they are for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from dlx.deaths import EXPIRED, REJECTED
from dlx.message_flow import MessageFlow, State
from dlx.settings import Settings
from dlx.topology import QUORUM, STREAM
from simulator.analysis.findings import ObjectName
from simulator.analysis.names import is_made_up, is_named_for_dead_letters, is_named_for_waiting, words
from simulator.analysis.slices import Slices, behind_queues, message_of
from simulator.analysis.snapshot import Snapshot
from simulator.analysis.walk import Walk, parked_in
from simulator.scenario.steps import Publish
from simulator.systems.compare.nearest import WorkQueue

_FAILED = frozenset({"parking", "parked", "error", "errors", "failed", "poison", "skipped"})
RETRIES_READ = 5
"""So many pauses of a delayed retry are read; the last of them is the longest that the policies of others can have."""


class QueueToPlay(NamedTuple):
    """A queue, and what is needed to play it.

    ``consumed``: the queues that consumers read on the way of a rejected message; ``behind``: what becomes of messages
    in its dead-letter queue.
    """

    queue: WorkQueue
    publish: Publish
    consumed: tuple[str, ...]
    definitions: Mapping[str, Any]
    behind: tuple[Any, ...]


class TopologyToMove(msgspec.Struct, frozen=True, kw_only=True):
    """All of a topology, by what it is for.

    Attributes:
        queues: those with consumers.
        others: those in which dead letters stay.
        waiting: those in which messages wait for their time, without consumers.
        parts: what is not played, by the part (``simulator.systems.move.moving.PARTS``).
        copied: the queues behind each fanout exchange that publishers use.
        guesses: what is not known of the topology, in phrases.
    """

    queues: list[QueueToPlay]
    others: list[ObjectName]
    waiting: list[ObjectName]
    parts: dict[str, list[ObjectName]]
    copied: dict[tuple[str, str], list[tuple[str, str]]]
    guesses: list[str]


def read(snapshot: Snapshot) -> TopologyToMove:
    """Return what a topology asks of another system."""
    found = TopologyToMove(queues=[], others=[], waiting=[], parts={}, copied={}, guesses=list(snapshot.guesses))
    slices = Slices(snapshot.document, snapshot.flows, snapshot.only_vhost)
    for vhost, flow in snapshot.flows.items():
        _OneVhost(found, Walk(flow, vhost, snapshot.entries.publishes), slices).read()
    return found


class _OneVhost:
    def __init__(self, found: TopologyToMove, walk: Walk, slices: Slices) -> None:
        self._found, self._flow, self._vhost, self._slices = found, walk.flow, walk.vhost, slices
        self._parked = parked_in(walk)
        self._entered: dict[str, Publish] = {}
        for place in walk.places:
            if place.before is None:
                self._entered.setdefault(place.queue, place.publish)

    def read(self) -> None:
        for name in self._flow.topology.queues:
            settings, about = self._flow.settings(name), ObjectName("queue", self._vhost, name)
            if settings.queue.type == STREAM:
                self._part("stream", about)
            elif _waits(self._flow, name):
                self._found.waiting.append(about)
                self._part("wait queue", about)
            elif name in self._parked or (not settings.dead_letters and _is_named_for_failed(name)):
                self._found.others.append(about)
            else:
                self._found.queues.append(self._queue(settings))
            self._parts_of(settings, about)
        self._read_exchanges()

    def _part(self, part: str, about: ObjectName) -> None:
        self._found.parts.setdefault(part, []).append(about)

    def _parts_of(self, settings: Settings, about: ObjectName) -> None:
        if settings.max_length is not None:
            self._part("length limit", about)
        if settings.max_length_bytes is not None:
            self._part("length in bytes", about)
        if settings.queue.arguments.get("x-single-active-consumer"):
            self._part("single active consumer", about)
        if settings.queue.arguments.get("x-max-priority"):
            self._part("priorities", about)
        if settings.expires_ms is not None:
            self._part("queue expires", about)
        if settings.queue.type != STREAM and settings.message_ttl_ms is None:
            self._part("time in queue", about)

    def _read_exchanges(self) -> None:
        topology = self._flow.topology
        letters = {self._flow.settings(name).dead_letter_exchange for name in topology.queues}
        for name, exchange in topology.exchanges.items():
            bound = topology.bindings.get(name, ())
            if not name or is_made_up(name) or name in letters or not bound:
                continue
            about = ObjectName("exchange", self._vhost, name)
            queues = [(self._vhost, each.destination) for each in bound if each.destination_type == "queue"]
            if exchange.type == "fanout" and len(queues) == len(bound):
                self._part("fanout", about)
                self._found.copied[self._vhost, name] = queues
            else:
                self._part("exchange", about)
                self._part("unroutable", about)

    def _queue(self, settings: Settings) -> QueueToPlay:
        name, flow = settings.queue.name, self._flow
        publish = self._entered.get(name) or Publish("", name, vhost=self._vhost)
        states = flow.publish(message_of(publish, flow.release))
        state = next(each for each in states if each.queue == name)
        tries = _tries(flow, state)
        expired = next(iter(flow.hops(state, EXPIRED)), None)
        queue = WorkQueue(
            vhost=self._vhost,
            name=name,
            type=settings.queue.type,
            dead_letter_queue=tries.dead,
            time_to_live_ms=settings.message_ttl_ms,
            expired_to=None if expired is None else expired[0].to_queue,
            max_length=settings.max_length,
            overflow=settings.overflow,
            single_active=bool(settings.queue.arguments.get("x-single-active-consumer")),
            consumer_timeout_ms=settings.consumer_timeout_ms or flow.release.consumer_timeout_ms,
            **_limit(settings, tries),
        )
        behind = {name} | behind_queues(flow, [name])
        definitions = self._slices.along(publish, behind)
        return QueueToPlay(queue, publish, tuple(tries.queues), definitions, self._behind(tries.dead))

    def _behind(self, dead: str | None) -> tuple[Any, ...]:
        if dead is None:
            return ()
        settings = self._flow.settings(dead)
        return (
            settings.queue.type,
            settings.message_ttl_ms,
            settings.max_length,
            settings.overflow,
            settings.dead_letters,
        )


class _Tries(NamedTuple):
    """The queues in which consumers reject a message, the pauses between them, and where it is in the end.

    ``loops``: it comes back to a queue in which it was rejected.
    """

    queues: list[str]
    delays_ms: list[int]
    dead: str | None
    loops: bool


def _tries(flow: MessageFlow, state: State) -> _Tries:
    queues, delays_ms = [state.queue], list[int]()
    while True:
        there = _after(flow, state, REJECTED)
        if there is not None and there.queue in queues:
            return _Tries(queues, delays_ms, None, loops=True)
        if there is None or not _waits(flow, there.queue):
            return _Tries(queues, delays_ms, there.queue if there else None, loops=False)
        pause_ms = 0
        for _ in flow.topology.queues:  # several pauses may follow each other
            if there is None or not _waits(flow, there.queue):
                break
            pause_ms += flow.settings(there.queue).message_ttl_ms or 0
            there = _after(flow, there, EXPIRED)
        delays_ms.append(pause_ms)
        if there is None or there.queue in queues:
            return _Tries(queues, delays_ms, None, loops=there is not None)
        if not flow.settings(there.queue).dead_letters:  # nothing is tried there
            return _Tries(queues, delays_ms[:-1], there.queue, loops=False)
        queues.append(there.queue)
        state = there


def _after(flow: MessageFlow, state: State, reason: str) -> State | None:
    """Return the message where its first dead letter goes."""
    return next((there for _, there in flow.hops(state, reason)), None)


def _waits(flow: MessageFlow, name: str) -> bool:
    """Tell whether messages wait in a queue for their time, and no consumer reads it."""
    settings = flow.settings(name)
    if not settings.dead_letters:
        return False
    belongs = any(name.startswith(f"{each}.") for each in flow.possible_targets(name))
    return is_named_for_waiting(name) or (belongs and settings.message_ttl_ms is not None)


def _is_named_for_failed(name: str) -> bool:
    return is_named_for_dead_letters(name) or not _FAILED.isdisjoint(words(name))


def _limit(settings: Settings, tries: _Tries) -> dict[str, Any]:
    """Return how often a message is delivered, what says so, and the pauses between."""
    delays_ms = tuple(tries.delays_ms)
    if tries.loops:
        return {"attempts_max": None, "limited_by": "loop", "delays_ms": delays_ms}
    if delays_ms:
        return {"attempts_max": len(tries.queues), "limited_by": "ladder", "delays_ms": delays_ms}
    limit = settings.delivery_limit
    if settings.queue.type == QUORUM and limit is not None:
        delays_ms = tuple(_delayed_retries(settings))
        return {"attempts_max": limit + 1, "limited_by": "delivery-limit", "delays_ms": delays_ms}
    if settings.dead_letters:
        return {"attempts_max": 1, "limited_by": "consumer"}
    return {"attempts_max": None, "limited_by": "nothing"}


def _delayed_retries(settings: Settings) -> Iterator[int]:
    retry = settings.delayed_retry
    if retry is not None:
        for count in range(1, RETRIES_READ + 1):
            yield min(retry.min_ms * count, max(retry.max_ms, retry.min_ms))
