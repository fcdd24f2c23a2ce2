"""Predicts what becomes of a message that is brought back, by the definitions and the release of its server."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from enum import StrEnum
from itertools import takewhile
from typing import NamedTuple

import msgspec

from dlx.deaths import EXPIRED, MAXLEN
from dlx.message import Message
from dlx.message_flow import MessageFlow, State
from dlx.routing import Visit
from dlx.settings import Settings, expires_messages
from dlx.topology import CLASSIC, QUORUM, STREAM
from simulator.redrive.future import Future


class Kind(StrEnum):
    """What becomes of a message, the worst first."""

    NOT_SELECTED = "not selected by --only"
    UNKNOWN_ORIGIN = "no header names its origin"
    EXCEEDS_LIMIT = "exceeds the delivery limit if it is given back"
    REFUSED_PUBLISH = "the broker refuses the publish"
    UNROUTABLE = "routed nowhere"
    REFUSED_WHEN_FULL = "refused by a full queue"
    ENDLESS = "dies again and again without end"
    LOST_AT_ONCE = "dies again at once, and is lost"
    HELD_AT_ONCE = "dies again at once, and is held there"
    CYCLE = "dropped as a cycle when it dies by itself again"
    LOST_LATER = "arrives, and is lost if it dies again"
    HELD_LATER = "arrives, and is held if it dies again"
    DIES_AT_ONCE = "dies again at once"
    PUSHES_OUT = "arrives, and pushes another message out"
    ARRIVES = "arrives"
    DISCARDED = "leaves the queue, and is kept in the archive"


ARRIVING = frozenset({Kind.CYCLE, Kind.DIES_AT_ONCE, Kind.PUSHES_OUT, Kind.ARRIVES})
"""What leaves the message in some queue, where it may die again."""

ALLOWABLE = {
    kind.name.lower().replace("_", "-"): kind
    for kind in reversed(Kind)
    if kind not in (Kind.NOT_SELECTED, Kind.UNKNOWN_ORIGIN, Kind.ARRIVES, Kind.DISCARDED)
}
"""The fates that a person may allow, by their names on the command line, the mildest first."""

AT_ONCE_MS = 1_000
"""So short a time to live ends before anybody looks again."""
ROUNDS_MAX = 3
"""Whoever has died in one queue so often, and by itself, goes on dying there."""
APART_US = 50.0
"""So much later than the one before a broker takes a message of a redrive, which sends many in one write."""
STOP_US = 5_000.0
"""So long at least a publish waits that is to be refused: the publisher has to hear before that it should stop."""

_LOST = frozenset(
    {"unroutable", "no dead-letter exchange", "dead-letter exchange missing", "lost in a stream", "cycle"}
)
_WORST_FIRST = list(Kind)


class Prediction(msgspec.Struct, frozen=True):
    """What happens to one message.

    Attributes:
        kind: the worst that happens to any of its copies.
        queues: the queues in which its copies wait in the end.
        why: by which rule, in words; what time brings where it arrives, or empty.
        stops_publishers: whether it is refused since the queue has told its publishers to stop.
        future: what may follow where it arrives.
    """

    kind: Kind
    queues: tuple[str, ...] = ()
    why: str = ""
    stops_publishers: bool = False
    future: Future = Future()

    @property
    def is_safe(self) -> bool:
        """Whether it arrives, and no death of it, and of its dead letters, that the settings allow loses it."""
        return self.kind == Kind.ARRIVES and self.future.complete and not self.future.losses


class _Sized(NamedTuple):
    """A message in a queue, how many bytes its body and its properties have, and the queues in which it died before."""

    state: State
    body_bytes: int
    property_bytes: int
    died_in: tuple[str, ...] = ()


class Predictor:
    """Predicts fates one after the other: what was brought back before fills the queues.

    Args:
        flow: what can become of messages in the virtual host.
        held: what each queue holds now.
        apart_us: the time between two publishes.
    """

    def __init__(self, flow: MessageFlow, held: Mapping[str, Held], apart_us: float = APART_US) -> None:
        self._flow = flow
        self._held = HeldMeanwhile(held, apart_us)

    def of(self, message: Message, body_bytes: int = 0, property_bytes: int = 0) -> Prediction:
        """Return the fate of a message that is published now, and count it in the queues that keep it."""
        states = self._flow.entering(message)
        if all(delay_ms for _, delay_ms in states):
            delays = [visit for visit in self._flow.visits(message) if visit.delay_ms]
            where = f"the exchange '{message.exchange}'" if message.exchange else "the default exchange"
            why = _returned(delays[0]) if delays else f"{where} has no queue for {message.routing_key!r}"
            return Prediction(Kind.UNROUTABLE, why=why)
        fate = _worst(self._in(_Sized(state, body_bytes, property_bytes)) for state, _ in states)
        self._held.next_publish(waits_us=STOP_US if fate.stops_publishers else 0)
        return fate

    def _in(self, sized: _Sized, *, letter: bool = False) -> Prediction:
        """Return what becomes of the copy in one queue, which it enters as a publish, or as a dead ``letter``."""
        state, settings = sized.state, self._flow.settings(sized.state.queue)
        full = self._full(sized, settings)
        if full and settings.refuses_when_full and (settings.refuses_dead_letters or not letter):
            return self._refused(sized, settings, full, letter=letter)
        if full and settings.max_length == 0:
            return self._dies(sized, MAXLEN, full)
        ttl_ms = _time_to_live_ms(state, settings)
        if ttl_ms is not None and ttl_ms <= AT_ONCE_MS:
            if ttl_ms and not full:
                self._held.add(state.queue, _size(sized, settings), ttl_ms)
            return self._dies(sized, EXPIRED, f"its time to live is {ttl_ms:,} ms, unless a consumer takes it before")
        pushes = bool(full) and not settings.refuses_when_full
        if not pushes:
            self._held.add(state.queue, _size(sized, settings), ttl_ms)
        if (cycle := self._cycle(state)) is not None:
            return cycle
        if pushes:
            return Prediction(Kind.PUSHES_OUT, (state.queue,), full)
        return Prediction(Kind.ARRIVES, (state.queue,), "" if ttl_ms is None else self._later(state, ttl_ms))

    def _full(self, sized: _Sized, settings: Settings) -> str:
        """Return which limit leaves the queue no room for it; empty if it has room."""
        count, size = settings.max_length, settings.max_length_bytes
        if settings.queue.type == STREAM or (count is None and size is None):
            return ""
        # A quorum queue stops its publishers once it is over its limit; otherwise it counts what is about to come.
        stops = settings.queue.type == QUORUM and settings.refuses_when_full
        held = self._held.of(sized.state.queue, in_us=STOP_US if stops else 0)
        more, more_bytes = (0, 0) if stops else (1, _size(sized, settings))
        if count is not None and held.messages + more > count:
            return f"'{sized.state.queue}' has {held.messages:,} messages, and its max-length is {count:,}"
        if size is not None and held.bytes + more_bytes > size:
            return f"'{sized.state.queue}' has {held.bytes:,} bytes, and its max-length-bytes is {size:,}"
        return ""

    def _refused(self, sized: _Sized, settings: Settings, why: str, *, letter: bool) -> Prediction:
        """Return the fate of what a full queue turns away; some queues dead-letter that."""
        after = self._dies(sized, MAXLEN, why) if settings.dead_letters_refused else None
        if letter or (after is not None and after.kind == Kind.ENDLESS):
            return after or Prediction(Kind.LOST_AT_ONCE, why=f"{why}: it refuses dead letters, too")
        if after is None:
            return Prediction(Kind.REFUSED_WHEN_FULL, why=why, stops_publishers=settings.queue.type == QUORUM)
        return Prediction(Kind.REFUSED_WHEN_FULL, after.queues, f"{why}; a copy dies there: {after.why}")

    def _dies(self, sized: _Sized, reason: str, why: str) -> Prediction:
        """Return the fate of a message that dies at once, and of its dead letters after that."""
        state = sized.state
        if sized.died_in.count(state.queue) == ROUNDS_MAX:  # older releases do not see some cycles: dlx/cycles.py
            return Prediction(Kind.ENDLESS, why=f"{why}; it comes to '{state.queue}' again and again")
        copies = self._flow.copies(state, reason)
        where = f"in '{state.queue}' {why}" if reason == EXPIRED else why
        died_in = (*sized.died_in, state.queue)
        hops = self._flow.hops(state, reason)
        ahead = [self._in(sized._replace(state=after, died_in=died_in), letter=True) for _, after in hops]
        queues = tuple(dict.fromkeys(queue for fate in ahead for queue in fate.queues))
        if endless := [fate for fate in ahead if fate.kind == Kind.ENDLESS]:
            return endless[0]
        lost = [copy.rule.text for copy in copies if copy.outcome in _LOST]
        lost += [fate.why for fate in ahead if fate.kind == Kind.LOST_AT_ONCE]
        if lost:
            return Prediction(Kind.LOST_AT_ONCE, queues, f"{where}; then {lost[0]}")
        if not ahead:  # at-least-once dead-lettering keeps what it cannot deliver
            why = f"{where}; then '{state.queue}' holds it: {copies[0].rule.text}"
            return Prediction(Kind.HELD_AT_ONCE, (), why)
        if held := [fate.why for fate in ahead if fate.kind == Kind.HELD_AT_ONCE]:
            return Prediction(Kind.HELD_AT_ONCE, queues, f"{where}; then {held[0]}")
        again = [fate.why for fate in ahead if fate.kind == Kind.DIES_AT_ONCE]
        to = ", ".join(f"'{queue}'" for queue in queues)
        return Prediction(Kind.DIES_AT_ONCE, queues, f"{where}; then {again[0] if again else f'it comes to {to}'}")

    def _cycle(self, state: State) -> Prediction | None:
        for reason in (EXPIRED, MAXLEN):
            if self._flow.why_not(state, reason) is None:
                for copy in self._flow.copies(state, reason):
                    if copy.outcome == "cycle":
                        why = f"if it dies in '{state.queue}' ({reason}): {copy.rule}"
                        return Prediction(Kind.CYCLE, (state.queue,), why)
        return None

    def _later(self, state: State, ttl_ms: int) -> str:
        """Say what comes when its time to live there has run out."""
        copies = self._flow.copies(state, EXPIRED)
        to = ", ".join(f"'{copy.queue}'" for copy in copies if copy.queue)
        return f"after {ttl_ms:,} ms in '{state.queue}' {f'it comes to {to}' if to else copies[0].rule.text}"


def _returned(delay: Visit) -> str:
    """Say what becomes of a message that an exchange delays, of which no queue takes a copy at once."""
    return (
        f"the exchange '{delay.exchange.name}' delays it for {delay.delay_ms:,} ms (x-delay): the server returns it as"
        " one that is routed nowhere, so it stays, and delivers it later all the same: it would be there twice"
    )


def _worst(fates: Iterable[Prediction]) -> Prediction:
    """Return the fate of a message whose copies have these."""
    known = list(fates)
    worst = min(known, key=lambda fate: _WORST_FIRST.index(fate.kind))
    queues = tuple(dict.fromkeys(queue for fate in known for queue in fate.queues))
    return Prediction(worst.kind, queues, worst.why, any(fate.stops_publishers for fate in known))


def _size(sized: _Sized, settings: Settings) -> int:
    """Return the bytes that count towards a limit; a quorum queue may count properties, too."""
    own = settings.queue.type == QUORUM and settings.release.quorum_message_size == "body and properties"
    return sized.body_bytes + (sized.property_bytes if own else 0)


def _time_to_live_ms(state: State, settings: Settings) -> int | None:
    if settings.queue.type not in (CLASSIC, QUORUM) or not expires_messages(settings.queue.type, settings.release):
        return None
    own = state.message.expiration
    times = [settings.message_ttl_ms, int(own) if own is not None and own.isdecimal() else None]
    return min((each for each in times if each is not None), default=None)


# What queues hold while messages come back: those that came before, until their time to live ends.


class Held(msgspec.Struct):
    """What a queue holds: how many messages are ready, and of how many bytes."""

    messages: int = 0
    bytes: int = 0


class _Leaving(NamedTuple):
    at_us: float
    bytes: int


class HeldMeanwhile:
    """What queues hold while one message after the other is published.

    Args:
        now: what each queue holds at the start. How long that stays is not known, so it stays.
        apart_us: the time between two publishes.
    """

    def __init__(self, now: Mapping[str, Held], apart_us: float) -> None:
        self._held = {queue: Held(each.messages, each.bytes) for queue, each in now.items()}
        self._leaving: dict[str, deque[_Leaving]] = {}
        self._apart_us, self._now_us = apart_us, 0.0

    def next_publish(self, *, waits_us: float = 0.0) -> None:
        """Let the time pass until the next publish, which waits so long."""
        self._now_us += max(waits_us, self._apart_us)

    def of(self, queue: str, *, in_us: float = 0.0) -> Held:
        """Return what a queue holds now, or will hold of that in some microseconds."""
        held = self._held.setdefault(queue, Held())
        leaving = self._leaving.get(queue, deque())
        while leaving and leaving[0].at_us <= self._now_us:
            held.messages -= 1
            held.bytes -= leaving.popleft().bytes
        gone = list(takewhile(lambda each: each.at_us <= self._now_us + in_us, leaving))
        return Held(held.messages - len(gone), held.bytes - sum(each.bytes for each in gone))

    def add(self, queue: str, size_bytes: int, ttl_ms: int | None) -> None:
        """Count a message that comes into a queue now, and has that time to live there."""
        self.of(queue)
        held = self._held[queue]
        held.messages += 1
        held.bytes += size_bytes
        if ttl_ms is not None:
            leaving = _Leaving(self._now_us + ttl_ms * 1_000, size_bytes)
            self._leaving.setdefault(queue, deque()).append(leaving)
