"""What looking into a queue does to it, and how its messages are best given back.

RabbitMQ has no way to read a queue without taking its messages out: whoever looks gets
them as deliveries and gives them back. What that counts depends on the release, the queue's
type, and on how they come back; where a delivery limit counts it, looking can kill.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from shlex import quote
from typing import Literal

import msgspec
import regex

from dlx import deaths
from dlx.consumer import DeathHistory
from dlx.delivery_counts import Counts, Return, limit_exceeded, returned
from dlx.message_flow import MessageFlow
from dlx.releases import Release
from dlx.settings import ARGUMENT, DELIVERY_LIMIT, Settings
from dlx.topology import QUORUM, STREAM
from simulator.server.management.management_releases import api_of

Way = Literal["consume", "management"]
"""``consume``: an AMQP consumer of our own. ``management``: the management API's ``get``."""

TOGETHER = 32
"""This many messages keep their order when they come back to a quorum queue together, or one close behind the other.

Source: live; rabbit_fifo.erl return (it goes through a map, which is in order up to 32 keys); rabbit_fifo_client.erl
(it holds back what it has to tell the queue beyond 32 commands, and forgets it with the channel).
"""
RAISED = 1_000
"""A delivery limit that is out of the way."""


class PeekPlan(msgspec.Struct, frozen=True):
    """How to look into one queue.

    Attributes:
        way: through which interface.
        gives_back: how the messages go back to the queue.
        notes: what that does to the queue, in sentences.
        brought: whether dead letters may bring a greater count along than the delivery limit.
    """

    settings: Settings
    way: Way
    gives_back: Return
    notes: tuple[str, ...]
    brought: bool = True

    @property
    def release(self) -> Release:
        """The release of the server."""
        return self.settings.release

    def kills(self, history: DeathHistory, *later: Return) -> bool:
        """Return whether a message with these counts exceeds the delivery limit once it was given back.

        Args:
            history: as its delivery shows it.
            later: how it comes back after that.
        """
        if self.settings.queue.type != QUORUM:
            return False
        counts = _counts(history, self.settings)
        for how in (self.gives_back, *later):
            counts = returned(counts, how, self.release)
        return limit_exceeded(counts, self.settings.delivery_limit, self.release)

    def count_may_be_of_another(self, history: DeathHistory) -> bool:
        """Return whether a delivery with these counts may show that of the queue where the message died before.

        The limit does not read it, and it is gone once the message was given back (4.0 to 4.2).
        """
        shown = self.release.delivery_count_carried != "never" and not self.release.quorum_acquired_count_header
        return shown and bool(history)

    @property
    def may_kill(self) -> bool:
        """Whether there is a delivery limit that a message may exceed by being given back."""
        return self.settings.queue.type == QUORUM and self.settings.delivery_limit is not None

    def together_behind(self, history: DeathHistory, *, redelivered: bool) -> int | None:
        """Return how many messages behind one with these counts may be taken together; ``None`` if it does not matter.

        Only one where it may die by being given back. Behind the first that never came back no other did, so none has
        a count but what dead letters bring along. Where the limit does not count it, those that came back lived then,
        and live again, unless the limit has been lowered since: so those are few at a time.
        """
        if self.brought:
            return 1
        if not self.came_back(history, redelivered=redelivered):
            return None
        once = returned(Counts(acquired=0, delivery=0), self.gives_back, self.release)
        return 1 if limit_exceeded(once, 0, self.release) else TOGETHER

    @property
    def mixes(self) -> bool:
        """Whether messages come back in another order: each was got by itself, and the end of the channel counts tags.

        Source: rabbit_fifo.erl handle_down, which goes by the consumers' tags as texts.
        """
        return self.settings.queue.type == QUORUM and self.way == "management" and self.gives_back == "lost channel"

    def reads_on(self, history: DeathHistory, *, redelivered: bool) -> bool:
        """Return whether more must be read for the order to stay, once the message with these counts was read.

        Not where one that was returned once more than this would die: better in another order than lost.
        """
        return self.came_back(history, redelivered=redelivered) and not self.kills(history, self.gives_back)

    def came_back(self, history: DeathHistory, *, redelivered: bool) -> bool:
        """Return whether a message stands among those that came back to a quorum queue.

        It hands them out before those that never did, and what comes back now goes behind them. So a reader that
        gives one of them back in the end has to take the others, too, to keep the order.

        Args:
            history: as its delivery shows it.
            redelivered: whether its delivery was flagged. Those of 3.8 that are not have a count.

        Source: live, all releases; rabbit_fifo.erl, which keeps them in a queue of their own ("returns").
        """
        if self.settings.queue.type != QUORUM:
            return False
        return redelivered or bool(history.delivery_count or history.acquired_count)

    @property
    def kills_at_once(self) -> bool:
        """Whether the first look kills a message that has never failed."""
        return self.kills(DeathHistory())


def how_to_peek(settings: Settings, way: Way, *, consumers: int = 0, brought: bool = True) -> PeekPlan:
    """Return how to look into a queue with these settings, on a server of their release.

    Args:
        settings: of the queue, as ``MessageFlow.settings`` returns them.
        way: through which interface.
        consumers: how many consumers the queue has.
        brought: whether ``over_limit_from`` names queues; without that it is faster.
    """
    gives_back = _returned_by(settings, way)
    return PeekPlan(settings, way, gives_back, tuple(_notes(settings, way, gives_back, consumers)), brought)


def doomed(peek: PeekPlan, histories: Iterable[DeathHistory]) -> int:
    """Return how many of the messages die when they are read once more."""
    return sum(peek.kills(history, peek.gives_back) for history in histories)


def how_to_raise(settings: Settings, vhost: str, policy: str | None) -> str:
    """Return what to do about the delivery limit of a queue, as an order.

    Args:
        settings: of the queue.
        vhost: its virtual host.
        policy: the name of the policy that applies to it now.
    """
    limit, queue = settings.values[DELIVERY_LIMIT], settings.queue.name
    if limit.origin == ARGUMENT:
        return "the queue was declared with that limit, which a policy can lower and not raise: consume these messages"
    if limit.origin.name:
        return f"raise it in the {limit.origin.kind} '{limit.origin.name}'"
    if policy is not None:
        return f"set a higher delivery-limit in the policy '{policy}', which applies to the queue"
    pattern, wanted = f"^{regex.escape(queue, special_only=True)}$", f'{{"delivery-limit": {RAISED}}}'
    named = (vhost, "--apply-to", "queues", "redrive", pattern, wanted)
    return f"set a higher one: rabbitmqctl set_policy -p {' '.join(map(quote, named))}"


def _returned_by(settings: Settings, way: Way) -> Return:
    """Return what keeps the order: where a nack puts messages behind the others, the end of the channel does not."""
    release = settings.release
    if way == "management":
        return "nack" if api_of(release).get_requeues_by == "basic.nack" else "lost channel"
    return "lost channel" if settings.requeues_at_back else "nack"


def _counts(history: DeathHistory, settings: Settings) -> Counts:
    """Return the counts that a delivery shows.

    Until 4.2 ``x-delivery-count`` holds all returns or, as long as there are none, the count that a dead letter has
    brought along, which the limit does not read. One that died of a limit, and shows more than this one, has.
    """
    release, limit = settings.release, settings.delivery_limit
    of_limit = history.last is not None and history.last.reason == deaths.DELIVERY_LIMIT
    brought = release.delivery_count_carried != "never" and of_limit and (history.delivery_count or 0) > (limit or 0)
    if brought and not release.quorum_acquired_count_header:
        return Counts(delivery=history.delivery_count)
    if release.quorum_acquired_count_header:
        return Counts(acquired=history.acquired_count, delivery=history.delivery_count)
    return Counts(acquired=history.delivery_count, delivery=history.delivery_count)


def _notes(settings: Settings, way: Way, gives_back: Return, consumers: int) -> Iterator[str]:
    if settings.queue.type == STREAM:
        yield "reading a stream changes nothing in it"
        return
    yield "each message is marked as redelivered"
    if settings.queue.type == QUORUM:
        yield from _counted(settings, gives_back)
        if way == "management":
            yield (
                f"the first {TOGETHER} messages are read: a quorum queue would mix more, and count them as failed;"
                " where more had come back before, these go behind them"
            )
    if consumers:
        who = "1 consumer" if consumers == 1 else f"{consumers:,} consumers"
        yield f"{who} of the queue cannot get a message while it is being read, and messages they hold are not seen"
    if settings.has_length_limit:
        yield "messages published meanwhile find room, and then the queue is too long and drops its oldest messages"


def _counted(settings: Settings, gives_back: Return) -> Iterator[str]:
    release = settings.release
    before = Counts(acquired=0, delivery=0)
    after, killed = returned(before, gives_back, release), returned(before, "lost channel", release)
    shown = "x-acquired-count" if release.quorum_acquired_count_header else "x-delivery-count"
    failed = " and its x-delivery-count" if release.quorum_acquired_count_header and after.delivery else ""
    yield f"each message's {shown}{failed} rises by 1"
    if gives_back == "nack" and settings.requeues_at_back:
        yield "the messages go back behind those that were not read"
    limit = settings.values.get(DELIVERY_LIMIT)
    if settings.delivery_limit is None or limit is None:
        return
    named = f"the delivery limit {settings.delivery_limit} ({limit.origin})"
    if limit_exceeded(after, 0, release):
        yield f"{named} counts that: a message that was returned that often before dies, and then the reading stops"
    elif limit_exceeded(killed, 0, release):
        yield (
            f"{named} does not count that, unless this is killed; a message that carries a greater count dies,"
            f" and then the reading stops, after the {TOGETHER} that were read together at most"
        )


# Which queues may have sent messages to a queue whose delivery limit they exceed: whoever gives one back kills it.
#
# From 4.3 on a dead letter brings the count of its failed deliveries along, and the limit of the next queue counts
# on from it. A message that died of a delivery limit of 20 has failed 21 times: where it comes to a quorum queue with
# the same limit, which is the default of all, it lies there until a consumer takes it and gives it back.
#
# Source: live, 4.3, by ``basic.nack``, through the management API and by the end of the channel alike.


def over_limit_from(flow: MessageFlow, queue: str) -> tuple[str, ...]:
    """Return the quorum queues whose dead letters may come to this queue with a greater count than its limit.

    This looks at the exchanges they go through, not at their keys.
    """
    settings = flow.settings(queue)
    limit = settings.delivery_limit
    counts_on = (
        flow.release.quorum_delivery_limit_counts == "failures" and flow.release.delivery_count_carried != "never"
    )
    if settings.queue.type != QUORUM or limit is None or not counts_on:
        return ()
    return tuple(name for name in flow.topology.queues if name != queue and _brings(flow, name, queue, limit))


def _brings(flow: MessageFlow, source: str, queue: str, limit: int) -> bool:
    settings = flow.settings(source)
    own = settings.delivery_limit
    exchange, key = settings.dead_letter_exchange, settings.dead_letter_routing_key
    if settings.queue.type != QUORUM or own is None or own < limit or exchange is None:
        return False
    if exchange == "":
        return key == queue
    return queue in _behind(flow, exchange, set())


def _behind(flow: MessageFlow, exchange: str, seen: set[str]) -> Iterator[str]:
    """Yield the queues that are bound to an exchange, or to those behind it."""
    seen.add(exchange)
    for binding in flow.topology.bindings.get(exchange, ()):
        if binding.destination_type == "queue":
            yield binding.destination
        elif binding.destination not in seen:
            yield from _behind(flow, binding.destination, seen)
