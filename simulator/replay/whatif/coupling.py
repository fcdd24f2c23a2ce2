"""Which messages have to be played together: those that meet in a queue where one decides over another.

Messages do not depend on each other, except in queues with a length limit, with priorities, with a
single active consumer, or where a message with an expiration of its own waits behind another.
Such a queue couples everything that can come to it, and whatever meets that elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from dlx.message import Message, PublishRefusedError, published
from dlx.message_flow import MessageFlow
from dlx.settings import AT_LEAST_ONCE
from dlx.topology import STREAM
from simulator.questions.reachability import reached_by
from simulator.replay.whatif.stage import Queue
from simulator.replay.whatif.stories import Publication, Story


class Unit(msgspec.Struct, frozen=True):
    """Messages that are played in the same way.

    Attributes:
        stories: which ones, by number.
        queues: the queues that couple them; none if each is played by itself.
        why: what couples them, in sentences.
    """

    stories: tuple[int, ...]
    queues: tuple[Queue, ...] = ()
    why: tuple[str, ...] = ()

    def groups(self) -> Iterator[tuple[int, ...]]:
        """Yield the stories that are played together."""
        if self.queues:
            yield self.stories
        else:
            yield from ((number,) for number in self.stories)


def units(stories: Sequence[Story], sides: Iterable[Mapping[str, MessageFlow]]) -> list[Unit]:
    """Return the units, those of coupled messages first; ``sides`` are the virtual hosts of each side."""
    flows = list(sides)
    ways = [_Ways(each) for each in flows]
    entered = [{queue for way in ways for queue in way.entered(story)} for story in stories]
    reached = [{queue for way in ways for queue in way.reached(story)} for story in stories]
    expiring = {queue for story, queues in zip(stories, entered, strict=True) if _expires(story) for queue in queues}
    why: dict[Queue, dict[str, None]] = {}
    for each in flows:
        for vhost, flow in each.items():
            for name in flow.topology.queues:
                for reason in _couples(flow, name, (vhost, name) in expiring):
                    why.setdefault((vhost, name), {})[reason] = None
    groups = _Groups()
    meeting = [[queue for queue in why if queue in queues] for queues in reached]
    for queues in meeting:
        groups.join(*queues)
    coupled: dict[Queue, list[int]] = {}
    alone: list[int] = []
    for number, queues in enumerate(meeting):
        (coupled.setdefault(groups.of(queues[0]), []) if queues else alone).append(number)
    found = []
    for group, own in coupled.items():
        together = tuple(queue for queue in why if groups.of(queue) == group)
        found.append(Unit(tuple(own), together, tuple(reason for queue in together for reason in why[queue])))
    return [*found, Unit(tuple(alone))] if alone else found


def _expires(story: Story) -> bool:
    return any("expiration" in publication.properties for publication in story.publications)


def _couples(flow: MessageFlow, name: str, expiring: bool) -> Iterable[str]:
    """Yield why one message decides over another in the queue."""
    settings, queue = flow.settings(name), flow.topology.queues[name]
    if queue.type == STREAM:
        return
    if settings.has_length_limit:
        yield f"'{name}' has a length limit"
    if queue.arguments.get("x-single-active-consumer"):
        yield f"'{name}' has a single active consumer"
    if queue.arguments.get("x-max-priority"):
        yield f"'{name}' has priorities"
    if settings.dead_letter_strategy == AT_LEAST_ONCE:
        yield f"'{name}' holds dead letters until they arrive (at-least-once)"
    if expiring:
        yield f"messages with an expiration of their own come into '{name}', where one waits behind another"


class _Ways:
    """Knows the queues that publishes are routed to, and those that dead letters may come to from there."""

    def __init__(self, flows: Mapping[str, MessageFlow]) -> None:
        self._flows = flows
        self._entries: dict[Any, tuple[str, ...]] = {}
        self._ahead: dict[Any, set[str]] = {}

    def entered(self, story: Story) -> Iterator[Queue]:
        """Yield the queues into which the publishes of a message are routed."""
        for publication in story.publications if story.vhost in self._flows else ():
            for queue in self._first(story.vhost, publication):
                yield story.vhost, queue

    def reached(self, story: Story) -> Iterator[Queue]:
        """Yield all queues that copies of a message may come to."""
        for publication in story.publications if story.vhost in self._flows else ():
            for queue in self._all(story.vhost, publication):
                yield story.vhost, queue

    def _first(self, vhost: str, publication: Publication) -> tuple[str, ...]:
        key = _way(vhost, publication)
        if key not in self._entries:
            message = _message(self._flows[vhost], publication)
            self._entries[key] = () if message is None else self._flows[vhost].entries(message)
        return self._entries[key]

    def _all(self, vhost: str, publication: Publication) -> set[str]:
        key = _way(vhost, publication)
        if key not in self._ahead:
            message = _message(self._flows[vhost], publication)
            self._ahead[key] = set() if message is None else reached_by(self._flows[vhost], [message])[0]
        return self._ahead[key]


def _way(vhost: str, publication: Publication) -> Any:
    return vhost, publication.exchange, publication.routing_key, repr(publication.properties.get("headers"))


def _message(flow: MessageFlow, publication: Publication) -> Message | None:
    headers = publication.properties.get("headers")
    try:
        return published(publication.exchange, publication.routing_key, headers=headers, release=flow.release)
    except PublishRefusedError:
        return None


class _Groups:
    """Sets of queues that are joined more and more."""

    def __init__(self) -> None:
        self._above: dict[Queue, Queue] = {}

    def of(self, queue: Queue) -> Queue:
        """Return the queue that stands for the whole group."""
        above = self._above.setdefault(queue, queue)
        while above != self._above[above]:
            above = self._above[above]
        self._above[queue] = above
        return above

    def join(self, *queues: Queue) -> None:
        """Make one group of the groups of these queues."""
        first = None
        for queue in queues:
            root = self.of(queue)
            first = root if first is None else first
            self._above[root] = first
