"""Predicts what becomes of a message that is brought back, by the definitions and the release of its server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec

from dlx.deaths import EXPIRED, MAXLEN
from dlx.message import Message
from dlx.message_flow import MessageFlow, State
from dlx.settings import Settings, expires_messages
from dlx.topology import CLASSIC, QUORUM


class Kind(StrEnum):
    """What becomes of a message, the worst first."""

    NOT_ASKED_FOR = "not asked for"
    UNKNOWN_ORIGIN = "no header tells its origin"
    REFUSED_PUBLISH = "the broker refuses the publish"
    UNROUTABLE = "routed nowhere"
    REFUSED_WHEN_FULL = "refused by a full queue"
    LOST_AT_ONCE = "dies again at once, and is lost"
    CYCLE = "dropped as a cycle when it dies by itself again"
    DIES_AT_ONCE = "dies again at once"
    PUSHES_OUT = "arrives, and pushes another message out"
    ARRIVES = "arrives"


LOSING = frozenset({
    Kind.REFUSED_PUBLISH, Kind.UNROUTABLE, Kind.REFUSED_WHEN_FULL, Kind.LOST_AT_ONCE, Kind.CYCLE, Kind.PUSHES_OUT,
})  # fmt: skip
"""What loses a message, this one or another."""

_LOST = frozenset(
    {"unroutable", "no dead-letter exchange", "dead-letter exchange missing", "lost in a stream", "cycle"}
)
_WORST_FIRST = list(Kind)


class Fate(msgspec.Struct, frozen=True):
    """What becomes of one message.

    Attributes:
        kind: the worst that happens to any of its copies.
        queues: the queues that take it.
        why: by which rule, in words; empty where it arrives.
    """

    kind: Kind
    queues: tuple[str, ...] = ()
    why: str = ""

    @property
    def loses(self) -> bool:
        """Whether a message is lost, this one or another."""
        return self.kind in LOSING


class _Verdict(NamedTuple):
    kind: Kind
    why: str = ""


class Fates:
    """Predicts fates one after the other: what was brought back before fills the queues.

    Args:
        flow: what can become of messages in the virtual host.
        ready: how many messages are ready in each queue now.
    """

    def __init__(self, flow: MessageFlow, ready: Mapping[str, int]) -> None:
        self._flow = flow
        self._ready = Counter(ready)

    def of(self, message: Message) -> Fate:
        """Return the fate of a message that is published now, and count it in the queues that take it."""
        queues = self._flow.entries(message)
        if not queues:
            where = f"the exchange '{message.exchange}'" if message.exchange else "the default exchange"
            return Fate(Kind.UNROUTABLE, why=f"{where} has no queue for {message.routing_key!r}")
        verdicts = [min(self._in(self._flow.state(queue, message)), key=_badness) for queue in queues]
        worst = min(verdicts, key=_badness)
        takers = [
            queue for queue, verdict in zip(queues, verdicts, strict=True) if verdict.kind != Kind.REFUSED_WHEN_FULL
        ]
        self._ready.update(takers)
        return Fate(worst.kind, tuple(takers), worst.why)

    def _in(self, state: State) -> Iterator[_Verdict]:
        """Yield what may become of the copy in one queue."""
        settings = self._flow.settings(state.queue)
        yield _Verdict(Kind.ARRIVES)
        yield from self._beyond_limits(state, settings)
        if _expires_at_once(state, settings):
            yield self._at_once(state, EXPIRED, "its time to live is 0, unless a consumer waits for it")
        for reason in (EXPIRED, MAXLEN):
            if self._flow.why_not(state, reason) is None:
                yield from self._cycles(state, reason)

    def _beyond_limits(self, state: State, settings: Settings) -> Iterator[_Verdict]:
        limit = settings.max_length
        if limit is None:
            return
        held = self._ready[state.queue]
        refuses = settings.refuses_when_full
        # A quorum queue stops its publishers when it is over its limit, a classic one when it is full.
        full = held > limit if settings.queue.type == QUORUM and refuses else held >= limit
        if not full:
            return
        why = f"'{state.queue}' has {held:,} messages, and its max-length is {limit:,}"
        if refuses:
            yield _Verdict(Kind.REFUSED_WHEN_FULL, why)
        elif limit == 0:
            yield self._at_once(state, MAXLEN, why)
        else:
            yield _Verdict(Kind.PUSHES_OUT, why)

    def _at_once(self, state: State, reason: str, why: str) -> _Verdict:
        copies = self._flow.copies(state, reason)
        lost = [copy for copy in copies if copy.outcome in _LOST]
        if lost:
            return _Verdict(Kind.LOST_AT_ONCE, f"in '{state.queue}' {why}; then {lost[0].rule}")
        to = ", ".join(f"'{copy.queue}'" for copy in copies if copy.queue)
        return _Verdict(Kind.DIES_AT_ONCE, f"in '{state.queue}' {why}; then it comes to {to}")

    def _cycles(self, state: State, reason: str) -> Iterator[_Verdict]:
        for copy in self._flow.copies(state, reason):
            if copy.outcome == "cycle":
                yield _Verdict(Kind.CYCLE, f"if it dies in '{state.queue}' ({reason}): {copy.rule}")


def _badness(verdict: _Verdict) -> int:
    return _WORST_FIRST.index(verdict.kind)


def _expires_at_once(state: State, settings: Settings) -> bool:
    if settings.queue.type not in (CLASSIC, QUORUM):
        return False
    own = state.message.expiration == "0" and expires_messages(settings.queue.type, settings.release)
    return settings.message_ttl_ms == 0 or own
