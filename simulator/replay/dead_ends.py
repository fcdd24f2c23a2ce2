"""Finds where a message is lost: in a queue that dead-letters, but whose dead letter reaches no queue.

A log cannot show a loss. It shows where a message was last seen; the rules say what must
have become of it there. One that waits in such a queue expires and is gone. One that was
delivered is gone if it was rejected, and only a recorded consumer tells whether it was.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from dlx.deaths import EXPIRED, REJECTED
from dlx.message_flow import MessageFlow, State
from dlx.settings import expires_messages

LOSING = ("unroutable", "dead-letter exchange missing", "cycle")
"""Outcomes of a dead letter that lose it, where no copy of it arrives. (Held ones wait.)"""
HOPS_MAX = 10
"""Deaths by expiry in a row that are followed."""


class LastDeath(NamedTuple):
    """A death on the way to a loss: in which queue, for which reason, how long after the message was seen at least."""

    queue: str
    reason: str
    after_ms: int


class DeadEnd(NamedTuple):
    """A way in which a message is lost.

    Attributes:
        queue: where it dies for the last time.
        why: the rule by which its dead letter reaches no queue.
        after_ms: how long after it was seen, at the earliest, it is gone.
        certain: whether it is gone then; otherwise only if it was rejected, or once it has expired.
        way: the deaths from where it was seen to the last one, which no row shows.
    """

    queue: str
    why: str
    after_ms: int
    certain: bool
    way: tuple[LastDeath, ...]


class DeadEnds:
    """Finds the dead ends of one virtual host under one release."""

    def __init__(self, flow: MessageFlow) -> None:
        self._flow = flow
        self._known: dict[Hashable, tuple[DeadEnd, ...]] = {}
        self._of_states: dict[tuple[int, str], tuple[DeadEnd, ...]] = {}

    def waiting(self, state: State) -> tuple[DeadEnd, ...]:
        """Return the dead ends of a message that nobody takes from its queue."""
        return self._remembered(state, EXPIRED)

    def rejected(self, state: State) -> tuple[DeadEnd, ...]:
        """Return the dead ends of a message that a consumer rejects."""
        return self._remembered(state, REJECTED)

    def delivered(self, state: State) -> tuple[DeadEnd, ...]:
        """Return the dead ends of a message that was delivered, if nobody knows what the consumer did."""
        found = (*self.rejected(state), *self.waiting(state))
        return tuple(dict.fromkeys(each._replace(certain=False) for each in found))

    def _remembered(self, state: State, reason: str) -> tuple[DeadEnd, ...]:
        of_state = state.number, reason
        if of_state not in self._of_states:
            self._of_states[of_state] = self._of_situation(state, reason) if self._dead_letters(state, reason) else ()
        return self._of_states[of_state]

    def _of_situation(self, state: State, reason: str) -> tuple[DeadEnd, ...]:
        message = state.message
        key = self._flow.situation(state.queue, message), message.expiration is not None, reason
        if key not in self._known:
            self._known[key] = tuple(self._following(state, reason, (), True))
        return self._known[key]

    def _following(self, state: State, reason: str, way: tuple[LastDeath, ...], certain: bool) -> list[DeadEnd]:
        if not self._dead_letters(state, reason):
            return []
        flow, settings = self._flow, self._flow.settings(state.queue)
        after_ms = way[-1].after_ms if way else 0
        if reason == EXPIRED:
            own = state.message.expiration is not None and expires_messages(settings.queue.type, flow.release)
            certain &= not own and settings.message_ttl_ms is not None
            after_ms += settings.message_ttl_ms or 0
        way += (LastDeath(state.queue, reason, after_ms),)
        led = flow.hops(state, reason)
        if led:
            onward = (self._following(each, EXPIRED, way, certain) for _, each in led if len(way) <= HOPS_MAX)
            return [end for ends in onward for end in ends]
        copies = [copy for copy in flow.copies(state, reason) if copy.outcome in LOSING]
        return [DeadEnd(state.queue, str(copy.rule), after_ms, certain, way) for copy in copies[:1]]

    def _dead_letters(self, state: State, reason: str) -> bool:
        """Tell whether a message can die there for that reason, and its queue sends dead letters."""
        return self._flow.why_not(state, reason) is None and self._flow.settings(state.queue).dead_letters
