"""Finds what can happen to a message after it has come back: each path on which a later death loses it, or it is held.

A message that is published to its queue by the default exchange has another routing key than it had before. Where
its queue keeps the key of dead letters, its next death may lose it that its first one did not. So each loss is
compared with what would have happened to the message as it was first published: what is lost then, too, is lost by the
topology, and not by the redrive.

Which deaths are possible, and where they lead, ``simulator.analysis.walk`` knows, and ``losses`` which of them lose.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from dlx.deaths import DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED
from dlx.message import PublishRefusedError, published
from dlx.message_flow import Hop, MessageFlow, State
from simulator.analysis.losses import HELD, REFUSED, REMOVED, Loss, losses_at
from simulator.analysis.slices import message_of, reached_by, unclear_exchanges
from simulator.analysis.walk import Place, Walk
from simulator.redrive.waiting import Address, WaitingMessage
from simulator.scenario.steps import Publish

_DIES = {
    REJECTED: "rejected",
    EXPIRED: "expired",
    MAXLEN: "pushed out by the length limit",
    DELIVERY_LIMIT: "returned more often than the delivery limit allows",
}

_Way = tuple[tuple[str, str], ...]


class LossAhead(msgspec.Struct, frozen=True):
    """One way in which a message is lost after it has come back, or at-least-once dead-lettering holds it.

    Attributes:
        after: the deaths before that, each with its queue and its reason; empty where the next death loses it.
        queue: where it is lost.
        reasons: the deaths that lose it there; none where the queue itself is deleted.
        why: by which rule.
        as_before: whether the message would also be lost on that way as it was first published, or however it is.
        held: whether it is not lost: its queue holds it, since no other takes its dead letter.
    """

    after: _Way
    queue: str
    reasons: tuple[str, ...]
    why: str
    as_before: bool
    held: bool = False

    def __str__(self) -> str:
        visited = [*(queue for queue, _ in self.after), self.queue]
        text = ""
        for (_, reason), onward in zip(self.after, visited[1:], strict=True):
            there = " there, to" if text else " again, it comes to"
            text += f"if {_DIES[reason]}{there} '{onward}'; "
        where = " there" if self.after else " again"
        dies = f"if {' or '.join(map(_DIES.__getitem__, self.reasons))}{where}, " if self.reasons else ""
        end = f"held in '{self.queue}'" if self.held else "lost"
        return f"{text}{dies}{end}{', as before' if self.as_before else ''}: {self.why}"


class Future(msgspec.Struct, frozen=True):
    """What can become of a message after it has come back.

    Attributes:
        losses: each way to lose it, those with fewer deaths first; then those on which it is held.
        complete: whether these are all; not where there are more ways than ``simulator.analysis.walk`` looks at, or
            an exchange on the way chooses at random, or is of a plugin's type.
    """

    losses: tuple[LossAhead, ...] = ()
    complete: bool = True

    @property
    def worse(self) -> tuple[LossAhead, ...]:
        """What the redrive itself would bring about."""
        return tuple(loss for loss in self.losses if not loss.as_before)


class _WayAhead(NamedTuple):
    """What lies ahead of messages, the losses on the way, and their future where it is the same for all of them."""

    walk: Walk
    losses: tuple[Loss, ...]
    future: Future | None = None


class Futures:
    """Foresees what happens to messages in one virtual host. It walks once for messages that the rules treat alike.

    Args:
        flow: what can become of messages there.
        of_plugins: the exchanges of which only a plugin knows how they route.
    """

    def __init__(self, flow: MessageFlow, of_plugins: frozenset[str] = frozenset()) -> None:
        self._flow, self._of_plugins = flow, of_plugins
        self._unclear = unclear_exchanges(flow.topology) | of_plugins
        self._walked: dict[Hashable, _WayAhead] = {}

    def of(
        self, message: WaitingMessage, address: Address, headers: Mapping[str, Any], own: Mapping[str, Any]
    ) -> Future:
        """Return the future of a message that is published there.

        Args:
            message: as it waits.
            address, headers: where it is published to, and what it carries.
            own: the headers of its publisher.
        """
        ahead = self._ahead(Publish(address.exchange, address.routing_key, headers=headers))
        if ahead.future is not None:
            return ahead.future
        return self._future(ahead, self._as_first_published(message, own))

    def _ahead(self, publish: Publish) -> _WayAhead:
        """Walk through all that can happen to a message that is published so."""
        message = message_of(publish, self._flow.release)
        states = self._flow.publish(message)
        alike = tuple(self._flow.situation(state.queue, state.message) for state in states)
        if alike not in self._walked:
            walk = Walk(self._flow, publish.vhost, [publish])
            losses = [loss for place in walk.places for loss in _lost_at(place, walk)]
            sure = tuple(loss for loss in losses if not self._is_by_plugin(loss))
            at_random = self._unclear and self._unclear & reached_by(self._flow, [message])[1]
            if at_random or len(sure) < len(losses):
                walk.complete = False
            ahead = _WayAhead(walk, sure)
            if all(map(self._is_lost_anyway, ahead.losses)):
                ahead = ahead._replace(future=self._future(ahead, {}))
            self._walked[alike] = ahead
        return self._walked[alike]

    def _future(self, ahead: _WayAhead, before: Mapping[str, State]) -> Future:
        reasons: dict[tuple[_Way, str, str, bool, bool], dict[str, None]] = {}
        for loss in ahead.losses:
            after = tuple((hop.queue, hop.reason) for hop in loss.path)
            as_before = self._is_lost_anyway(loss) or _was_lost(loss, before, ahead.walk)
            alike = reasons.setdefault((after, loss.queue, _why(loss), as_before, loss.fate == HELD), {})
            if loss.reason:
                alike[loss.reason] = None
        shortest: dict[Hashable, LossAhead] = {}
        for (after, queue, why, as_before, held), died in reasons.items():
            found = LossAhead(after, queue, tuple(died), why, as_before, held)
            shortest.setdefault((queue, found.reasons, why, as_before), found)
        return Future(tuple(sorted(shortest.values(), key=lambda loss: loss.held)), ahead.walk.complete)

    def _as_first_published(self, message: WaitingMessage, own: Mapping[str, Any]) -> dict[str, State]:
        """Return the states of a message as it was first published, by queue; none if no header says it."""
        first, entry = message.deaths.first, message.first_entry
        if first is None or entry is None or not entry.routing_keys:
            return {}
        key, *copied = entry.routing_keys
        headers = {**own, "CC": copied} if copied else own
        try:
            then = published(entry.exchange, key, headers=headers or None, release=self._flow.release)
        except PublishRefusedError:
            return {}
        return {queue: self._flow.state(queue, then) for queue in (first.queue, *self._flow.entries(then))}

    def _is_by_plugin(self, loss: Loss) -> bool:
        """Return whether the dead letter goes through an exchange of a plugin, which may do with it something else."""
        exchange = self._flow.settings(loss.queue).dead_letter_exchange or ""
        return bool(self._of_plugins and self._of_plugins & self._flow.passed({exchange}))

    def _is_lost_anyway(self, loss: Loss) -> bool:
        """Return whether any message is lost there, however it was published."""
        return loss.fate == REMOVED or not self._flow.possible_targets(loss.queue)


def _was_lost(loss: Loss, before: Mapping[str, State], walk: Walk) -> bool:
    """Return whether a message that is in these states first, by queue, is lost on that way, too."""
    state = before.get(loss.path[0].queue if loss.path else loss.queue)
    hop: Hop | None = None
    for hop in loss.path:
        onward = () if state is None else walk.flow.hops(state, hop.reason)
        if state is None or not onward:
            return state is not None and _is_lost(Place(state, loss.publish, hop=hop), hop.reason, loss, walk)
        state = next((there for way, there in onward if way.to_queue == hop.to_queue), None)
    return state is not None and _is_lost(Place(state, loss.publish, hop=hop), loss.reason, loss, walk)


def _lost_at(place: Place, walk: Walk) -> Iterator[Loss]:
    """Yield the losses there that leave no copy of the dead letter, and what is held there."""
    for loss in losses_at(place, walk, parked=False):
        if loss.fate == REFUSED:
            copies = walk.flow.copies(place.state, loss.reason)
            if all(copy.outcome != "dead-lettered" for copy in copies):
                yield loss
        elif loss.whole:
            yield loss


def _is_lost(place: Place, reason: str, now: Loss, walk: Walk) -> bool:
    """Return whether that death lost it there; what was only held does not excuse what is lost ``now``."""
    then = [loss for loss in _lost_at(place, walk) if loss.reason == reason]
    return any(now.fate == HELD or loss.fate != HELD for loss in then)


def _why(loss: Loss) -> str:
    if loss.fate == "no dead-letter exchange":
        return f"queue '{loss.queue}' has no dead-letter exchange"
    return loss.rule.text
