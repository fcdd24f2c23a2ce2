"""Follows the copies of one message, and finds where one is lost or held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Hashable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from dlx.deaths import EXPIRED, MAXLEN, REJECTED
from dlx.message_flow import MessageFlow, State
from dlx.settings import AT_LEAST_ONCE, expires_messages
from simulator.broker import WORKER_PREFETCH
from simulator.replay.search.graph import StatePath

# Finds where a message is lost: in a queue that dead-letters, but whose dead letter reaches no queue. If that queue
# dead-letters at least once, the message is held there instead.
#
# A log cannot show either. It shows where a message was last seen; the rules say what must have become of it there.
# One that waits in such a queue expires and is gone, or held. So is one that was delivered if it was rejected, and only
# a recorded consumer shows whether it was.


class Fate(StrEnum):
    """What becomes of a message at a dead end.

    ``HELD_UP``: a queue takes its dead letter, but only if fewer others are held than hold up all that die later.
    """

    LOST = "lost"
    HELD = "held"
    HELD_UP = "held up"


FATES: dict[str, Fate] = {
    "unroutable": Fate.LOST,
    "dead-letter exchange missing": Fate.LOST,
    "cycle": Fate.LOST,
    "held": Fate.HELD,
}
"""What becomes of a message by the outcome of its dead letter, where no copy of that arrives."""
HELD_UP = f"{WORKER_PREFETCH} messages are held there, and hold up those that die later"
UNCONFIRMED = "its own dead letters come back to it, which RabbitMQ never confirms in this release"
HOPS_MAX = 10
"""Deaths by expiry in a row that are followed."""


class LastDeath(NamedTuple):
    """A death on the way to a loss: in which queue, for which reason, how long after the message was seen at least."""

    queue: str
    reason: str
    after_ms: int


class DeadEnd(NamedTuple):
    """A way in which a message is lost or held.

    Attributes:
        queue: where it dies for the last time.
        why: the rule by which its dead letter reaches no queue.
        after_ms: how long after it was seen, at the earliest, it is gone or held.
        certain: whether it is then; otherwise only if it was rejected, or once it has expired.
        way: the deaths from where it was seen to the last one, which no row shows.
        fate: whether it is lost or held.
    """

    queue: str
    why: str
    after_ms: int
    certain: bool
    way: tuple[LastDeath, ...]
    fate: Fate = Fate.LOST


class DeadEnds:
    """Finds the dead ends of one virtual host under one release.

    ``unknown_routing``: exchanges that may use any of their bindings; behind them, no dead end is certain.
    """

    def __init__(self, flow: MessageFlow, unknown_routing: Container[str] = ()) -> None:
        self._flow = flow
        self._unknown_routing = unknown_routing
        self._known: dict[Hashable, tuple[DeadEnd, ...]] = {}
        self._of_states: dict[tuple[int, str], tuple[DeadEnd, ...]] = {}

    def waiting(self, state: State) -> tuple[DeadEnd, ...]:
        """Return the dead ends of a message that no consumer takes from its queue."""
        return self._remembered(state, EXPIRED)

    def rejected(self, state: State) -> tuple[DeadEnd, ...]:
        """Return the dead ends of a message that a consumer rejects."""
        return self._remembered(state, REJECTED)

    def delivered(self, state: State) -> tuple[DeadEnd, ...]:
        """Return the dead ends of a message that was delivered, if it is unknown what the consumer did."""
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

    def _following(
        self, state: State, reason: str, way: tuple[LastDeath, ...], certain: bool, after_ms: int = 0
    ) -> list[DeadEnd]:
        if not self._dead_letters(state, reason):
            return []
        flow, settings = self._flow, self._flow.settings(state.queue)
        if reason == EXPIRED:
            own = state.message.expiration is not None and expires_messages(settings.queue.type, flow.release)
            certain &= not own and settings.message_ttl_ms is not None
            after_ms += settings.message_ttl_ms or 0
        certain &= settings.dead_letter_exchange not in self._unknown_routing
        way += (LastDeath(state.queue, reason, after_ms),)
        led = flow.hops(state, reason)
        gone_ms = after_ms if led else after_ms + flow.delay_ms(state, reason, None)
        ends = [DeadEnd(state.queue, why, gone_ms, certain, way, fate) for why, fate in self._stays(state, reason)]
        if led:
            onward = (
                self._following(each, EXPIRED, way, certain, after_ms + flow.delay_ms(state, reason, each))
                for _, each in led
                if len(way) <= HOPS_MAX
            )
            ends += [end for each in onward for end in each]
        return ends

    def _stays(self, state: State, reason: str) -> Iterator[tuple[str, Fate]]:
        """Yield why a message that dies in the queue gets no further, and what becomes of it."""
        flow, led = self._flow, self._flow.hops(state, reason)
        copies = [copy for copy in flow.copies(state, reason) if copy.outcome in FATES]
        if not led or any(copy.outcome == "held" for copy in copies):  # a delay counts as no queue
            yield from ((str(copy.rule), FATES[copy.outcome]) for copy in copies[:1])
        elif flow.settings(state.queue).dead_letter_strategy == AT_LEAST_ONCE:
            comes_back = any(each.queue == state.queue for _, each in led)
            if comes_back and not flow.release.quorum_confirms_own_dead_letters:
                yield UNCONFIRMED, Fate.HELD
            else:
                yield HELD_UP, Fate.HELD_UP

    def _dead_letters(self, state: State, reason: str) -> bool:
        """Return whether a message can die there for that reason, and its queue sends dead letters."""
        return self._flow.why_not(state, reason) is None and self._flow.settings(state.queue).dead_letters


# Follows the copies of one message, so that the loss of one does not hide behind the rows of the others.
#
# A publish and each death put copies into queues, one for each queue that is reached. Every delivery is of one of
# them, and where it came from is what the replay found. What is left waits, was delivered last, or was rejected:
# these copies are open, and each may be at a dead end.
#
# Of a delivery that may have come by several ways it is not certain which copy it is. The open copies are then *in
# doubt*: one of them is that delivery, and each of the others may still be lost, though none of them for certain.


class How(StrEnum):
    """How a copy was seen last."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    REJECTED = "rejected"


class OpenCopies:
    """The copies of one message of which no row shows what became of them."""

    def __init__(self, flow: MessageFlow, dead_ends: DeadEnds) -> None:
        self._flow = flow
        self._ends_of = {
            How.WAITING: dead_ends.waiting,
            How.DELIVERED: dead_ends.delivered,
            How.REJECTED: dead_ends.rejected,
        }
        self._open: dict[How, dict[State, int]] = {how: {} for how in How}  # the latest last
        self._in_doubt: Counter[tuple[State, How]] = Counter()
        self._left = 0  # how many of those in doubt are still open
        self._delays_ms: dict[State, int] = {}  # before they enter these states
        self._ends: Counter[DeadEnd] = Counter()

    def published(self, entries: Iterable[State], delays_ms: Mapping[State, int]) -> None:
        """Take a publish, with the delay before it enters a state.

        If the message was delivered before, its last consumer sent it on and was done with it.
        """
        latest = next(reversed(self._open[How.DELIVERED]), None)
        if latest is not None:
            self._close(latest, How.DELIVERED)
        for state in entries:
            self._delays_ms.setdefault(state, delays_ms.get(state, 0))
            self._add(state, How.WAITING)

    def delivered(self, path: StatePath, *, again: bool, unknown_routing: Collection[str]) -> None:
        """Take a delivery that came by ``path``: of the copy on it that is closest to the delivery.

        ``again``: it is a redelivery. ``unknown_routing``: exchanges that may route elsewhere, too.
        """
        states = (*path.died, path.state)
        if again and path.state in self._open[How.DELIVERED]:
            return
        start = next((place for place in reversed(range(len(states))) if self._taken(path, states, place)), None)
        self._add(path.state, How.DELIVERED)
        if start is None:
            return
        for place in range(start, len(path.hops)):
            if path.hops[place].exchange not in unknown_routing:
                self._add_others(states[place], path.hops[place].reason, states[place + 1])

    def lost_track(self, state: State | None) -> None:
        """Take a delivery of which it is not certain where it came from: it may be of any copy."""
        for how, copies in self._open.items():
            for open_state, number in copies.items():
                self._in_doubt[open_state, how] += number
                self._left += number
            copies.clear()
        self._ends = Counter(end for doubtful in self._in_doubt.elements() for end in self._doubtful_ends(*doubtful))
        self._leave_doubt()
        if state is not None:
            self._add(state, How.DELIVERED)

    def ended(self, state: State, how: How | None) -> None:
        """Take what a consumer did with a delivered copy; ``None``: it was acknowledged."""
        if not self._close(state, How.DELIVERED):
            self._close_in_doubt(state, (How.DELIVERED,))
        if how is not None:
            self._add(state, how)

    def dead_ends(self) -> tuple[DeadEnd, ...]:
        """Return the ways in which open copies are lost or held: by queue and rule the most certain, then the first."""
        if not self._ends:
            return ()
        found: dict[tuple[str, str], DeadEnd] = {}
        for end in sorted(self._ends, key=lambda each: (not each.certain, each.after_ms)):
            found.setdefault((end.queue, end.why), end)
        return tuple(found.values())

    def _add_others(self, died: State, reason: str, followed: State) -> None:
        """Open the other copies of a death."""
        for _, state in self._flow.hops(died, reason):
            if state is not followed:
                self._delays_ms.setdefault(state, self._flow.delay_ms(died, reason, state))
                self._add(state, How.WAITING)

    def _taken(self, path: StatePath, states: tuple[State, ...], place: int) -> bool:
        """Close the copy at that place of the path, if one is open there."""
        if place == len(path.hops):
            order: tuple[How, ...] = (How.WAITING,)
        elif path.hops[place].reason in (EXPIRED, MAXLEN):
            order = (How.WAITING, How.DELIVERED, How.REJECTED)
        else:
            order = (How.REJECTED, How.DELIVERED, How.WAITING)
        return any(self._close(states[place], how) for how in order) or self._close_in_doubt(states[place], order)

    def _add(self, state: State, how: How) -> None:
        copies = self._open[how]
        copies[state] = copies.pop(state, 0) + 1
        self._ends.update(self._ends_at(state, how))

    def _close(self, state: State, how: How) -> bool:
        copies = self._open[how]
        left = copies.pop(state, 0) - 1
        if left < 0:
            return False
        if left:
            copies[state] = left
        self._forget(self._ends_at(state, how))
        return True

    def _close_in_doubt(self, state: State, order: Iterable[How]) -> bool:
        """Close a copy that is in doubt; return whether there is one like it."""
        found = next(((state, how) for how in order if self._in_doubt[state, how]), None)
        if found is None:
            return False
        self._in_doubt = +(self._in_doubt - Counter([found]))
        self._forget(self._doubtful_ends(*found))
        self._leave_doubt()
        return True

    def _leave_doubt(self) -> None:
        """Record that one copy of those in doubt was seen again; where none is left, nothing is in doubt."""
        self._left = max(self._left - 1, 0)
        if not self._left:
            for doubtful in self._in_doubt.elements():
                self._forget(self._doubtful_ends(*doubtful))
            self._in_doubt.clear()

    def _forget(self, ends: Iterable[DeadEnd]) -> None:
        """Take away the dead ends of a copy that is no longer open."""
        for end in ends:
            self._ends[end] -= 1
            if self._ends[end] <= 0:
                del self._ends[end]

    def _doubtful_ends(self, state: State, how: How) -> list[DeadEnd]:
        return [end._replace(certain=False) for end in self._ends_at(state, how)]

    def _ends_at(self, state: State, how: How) -> tuple[DeadEnd, ...]:
        """Return the dead ends of a copy, counted from where it was seen: before the delay, if it waits for its end."""
        ends, delay_ms = self._ends_of[how](state), self._delays_ms.get(state, 0)
        if how != How.WAITING or not delay_ms:
            return ends
        return tuple(end._replace(after_ms=end.after_ms + delay_ms) for end in ends)
