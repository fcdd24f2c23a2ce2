"""Which messages have to be played together: those that meet in a queue where one decides over another.

Messages do not depend on each other, except in queues with a length limit, with priorities, with a
single active consumer, or where a message with an expiration of its own waits behind another.
Such a queue couples everything that can come to it, and whatever meets that elsewhere.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from dlx.bounded_cache import BoundedCache
from dlx.message import Message, PublishRefusedError, published
from dlx.message_flow import MessageFlow
from dlx.routing import share_indexes
from dlx.settings import AT_LEAST_ONCE
from dlx.topology import STREAM
from simulator.analysis.slices import possibly_behind, reached_by, unclear_exchanges
from simulator.replay.rows.columns import AlikeKeys
from simulator.whatif.playback_broker import QueueRef
from simulator.whatif.stories import Publication, Story

KNOWN_MAX = 100_000
"""Kinds of publishes whose reach is remembered."""


class Unit(msgspec.Struct, frozen=True):
    """Messages that are played in the same way.

    Attributes:
        stories: which ones, by number.
        queues: the queues that couple them; none if each is played by itself.
        why: what couples them, in sentences.
    """

    stories: Sequence[int]
    queues: tuple[QueueRef, ...] = ()
    why: tuple[str, ...] = ()


class Reach(NamedTuple):
    """How far a message may come.

    Attributes:
        queues: those that copies of it may come to.
        expiring: those into which it is published with an expiration.
        is_clear: whether its keys and headers alone decide that.
    """

    queues: frozenset[QueueRef]
    expiring: frozenset[QueueRef]
    is_clear: bool = True


class Reaches:
    """Tells how far messages may come.

    Attributes:
        sides: the virtual hosts of each side.
    """

    def __init__(self, sides: Iterable[Mapping[str, MessageFlow]]) -> None:
        self.sides = list(sides)
        self._hosts: dict[str, list[tuple[MessageFlow, AlikeKeys]]] = {}
        self._unclear: dict[MessageFlow, frozenset[str]] = {}
        for vhosts in self.sides:
            for vhost, flow in vhosts.items():
                others = self._hosts.setdefault(vhost, [])
                for other, _ in others:
                    share_indexes(flow.topology, other.topology)
                others.append((flow, AlikeKeys(flow, [alike for _, alike in others])))
        self._known: BoundedCache[Hashable, Reach] = BoundedCache(KNOWN_MAX)

    def _read_headers(self, vhost: str, properties: Mapping[str, Any]) -> str:
        """Return the headers that a virtual host of any side may look at."""
        headers = properties.get("headers")
        if not headers:
            return ""
        hosts = self._hosts.get(vhost, ())
        read = [(name, value) for name, value in headers.items() if any(alike.reads(name) for _, alike in hosts)]
        return repr(read) if read else ""

    def of(self, story: Story) -> Reach:
        """Return how far a message may come on any of the sides."""
        found = [self.of_publish(story.vhost, publication) for publication in story.publications]
        if len(found) == 1:
            return found[0]
        queues = frozenset[QueueRef]().union(*(each.queues for each in found))
        expiring = frozenset[QueueRef]().union(*(each.expiring for each in found))
        return Reach(queues, expiring, all(each.is_clear for each in found))

    def of_publish(self, vhost: str, publication: Publication) -> Reach:
        """Return how far a message may come by one publish."""
        kind = self._kind(vhost, publication)
        if kind not in self._known:
            self._known[kind] = self._looked_up(vhost, publication)
        return self._known[kind]

    def _kind(self, vhost: str, publication: Publication) -> Hashable:
        """Return what is equal for publishes that come equally far: keys that no exchange tells apart are alike."""
        numbers = tuple([alike.number(publication.routing_key) for _, alike in self._hosts.get(vhost, ())])
        key = publication.routing_key if None in numbers else numbers
        headers = self._read_headers(vhost, publication.properties)
        return vhost, publication.exchange, key, headers, "expiration" in publication.properties

    def _looked_up(self, vhost: str, publication: Publication) -> Reach:
        ahead: set[QueueRef] = set()
        entered: set[QueueRef] = set()
        is_clear = True
        for flow, _ in self._hosts.get(vhost, ()):
            message = message_of(flow, publication)
            if message is None:
                continue
            queues, exchanges = reached_by(flow, [message])
            unclear = exchanges & self._unclear_of(flow)
            more = possibly_behind(flow, unclear) if unclear else set()
            is_clear = is_clear and not unclear
            ahead |= {(vhost, queue) for queue in queues | more}
            entered |= {(vhost, queue) for queue in {*flow.entries(message), *more}}
        expires = "expiration" in publication.properties
        return Reach(frozenset(ahead), frozenset(entered if expires else ()), is_clear)

    def _unclear_of(self, flow: MessageFlow) -> frozenset[str]:
        if flow not in self._unclear:
            self._unclear[flow] = unclear_exchanges(flow.topology)
        return self._unclear[flow]


class Coupling:
    """Which queues couple messages, as far as messages come.

    Args:
        reaches: how far all messages of the log may come.
        sides: the virtual hosts of each side.
    """

    def __init__(self, reaches: Iterable[Reach], sides: Iterable[Mapping[str, MessageFlow]]) -> None:
        distinct = set(reaches)
        expiring = frozenset[QueueRef]().union(*(reach.expiring for reach in distinct))
        self._why = _coupling_queues(sides, expiring)
        self._group_of = {queue: queue for queue in self._why}  # the first by name stands for the whole group
        for reach in distinct:
            joined = {self._group_of[queue] for queue in self._why if queue in reach.queues}
            if len(joined) > 1:
                self._group_of |= {queue: min(joined) for queue, group in self._group_of.items() if group in joined}

    def group(self, reach: Reach) -> QueueRef | None:
        """Return what stands for the messages that this one is coupled with, or nothing."""
        return next((group for queue, group in self._group_of.items() if queue in reach.queues), None)

    def unit(self, group: QueueRef, stories: Sequence[int]) -> Unit:
        """Return coupled messages, with the queues that couple them."""
        together = tuple(queue for queue in self._why if self._group_of[queue] == group)
        return Unit(stories, together, tuple(reason for queue in together for reason in self._why[queue]))


def _coupling_queues(
    sides: Iterable[Mapping[str, MessageFlow]], expiring: frozenset[QueueRef]
) -> dict[QueueRef, dict[str, None]]:
    """Return the queues that couple messages, and why; messages with an expiration come into those of ``expiring``."""
    found: dict[QueueRef, dict[str, None]] = {}
    for flows in sides:
        for vhost, flow in flows.items():
            for name in flow.topology.queues:
                for reason in _couples(flow, name, (vhost, name) in expiring):
                    found.setdefault((vhost, name), {})[reason] = None
    return found


def units(stories: Sequence[Story], known: Reaches) -> list[Unit]:
    """Return the units, those of coupled messages first; ``known`` tells how far messages come."""
    reaches = [known.of(story) for story in stories]
    coupling = Coupling(reaches, known.sides)
    coupled: dict[QueueRef, list[int]] = {}
    alone: list[int] = []
    for number, reach in enumerate(reaches):
        group = coupling.group(reach)
        (alone if group is None else coupled.setdefault(group, [])).append(number)
    found = [coupling.unit(group, own) for group, own in coupled.items()]
    return [*found, Unit(tuple(alone))] if alone else found


def _couples(flow: MessageFlow, name: str, expiring: bool) -> Iterable[str]:
    """Yield why one message decides over another in the queue."""
    settings, queue = flow.settings(name), flow.topology.queues[name]
    if queue.type == STREAM:
        return
    if settings.has_length_limit:
        yield f"'{name}' has a length limit"
    if queue.arguments.get("x-single-active-consumer"):
        yield f"'{name}' has a single active consumer"
    priorities = queue.arguments.get("x-max-priority")
    if isinstance(priorities, int) and not isinstance(priorities, bool):  # 0 too: such a queue has a timer of its own
        yield f"'{name}' has priorities"
    if settings.dead_letter_strategy == AT_LEAST_ONCE:
        yield f"'{name}' holds dead letters until they arrive (at-least-once)"
    if expiring:
        yield f"messages with an expiration of their own come into '{name}', where one waits behind another"


def message_of(flow: MessageFlow, publication: Publication) -> Message | None:
    """Return the message that a publish makes, its expiration and body apart; nothing if the release refuses it."""
    headers = publication.properties.get("headers")
    try:
        return published(publication.exchange, publication.routing_key, headers=headers, release=flow.release)
    except PublishRefusedError:
        return None
