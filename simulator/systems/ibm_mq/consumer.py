"""A queue with an application that reads it in units of work, and what becomes of a message that it backs out.

The queue manager counts backouts in ``BackoutCount`` and does nothing else: a message that is backed out is the next
one again. Whoever reads it compares the count with BOTHRESH, and moves the message to BOQNAME: the IBM MQ classes for
JMS by themselves, another application if it was written to.

Source: IBM MQ's documentation of BackoutCount, BackoutThreshold, HardenGetBackout, of messages that are backed out, and
of poison messages in the IBM MQ classes for JMS.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

from simulator.events import Event
from simulator.systems.ibm_mq.ibm_mq_scenario import ConsumedQueue, SentMessage
from simulator.systems.ibm_mq.mqdlh import DeadMessage
from simulator.systems.ibm_mq.queue import DeadLetterQueue, Queued
from simulator.systems.ibm_mq.trace import Trace

BACKOUT_THRESHOLD_REACHED = 2362
ENDLESS = 100
"""A message that was delivered so often has no limit: the consumer is stopped."""
_PERSISTENT = 1
_REASON = "backout_threshold"
_MOVERS = {"jms": "the IBM MQ classes for JMS move it", "application": "the application moves it"}


class Consumer:
    """An application that reads a queue, one message in each unit of work.

    Args:
        spec: the queue, and what happens to its messages.
        by_priority: whether a higher priority goes ahead.
        survives: whether backout counts survive a restart of the queue manager.
        trace: where it is recorded.
        plan: lets something happen at a time, in microseconds.
        put: puts a message to a queue at a time, and gives the reason code, 0 for success.
        bury: puts a message to the queue manager's dead-letter queue, for a reason.
    """

    def __init__(
        self,
        spec: ConsumedQueue,
        *,
        by_priority: bool,
        survives: bool,
        trace: Trace,
        plan: Callable[[int, Callable[[], None]], None],
        put: Callable[[str, Queued, int], int],
        bury: Callable[[Queued, int], None],
    ) -> None:
        self._spec, self._survives, self._trace = spec, survives, trace
        self._plan, self._put, self._bury = plan, put, bury
        self._queue = DeadLetterQueue(by_priority=by_priority)
        self._sent: dict[str, SentMessage] = {}
        self._counts: Counter[str] = Counter()
        self._deliveries: Counter[str] = Counter()
        self._expired: set[str] = set()
        self._taken: Queued | None = None
        self.endless: str | None = None
        """The message whose deliveries did not end."""

    def send(self, name: str, sent: SentMessage, message: DeadMessage, now_us: int) -> None:
        """Put a message of the scenario to the queue."""
        self._sent[name] = sent
        self._trace.record(Event.PUBLISHED, name, now_us, self._spec.name)
        self.arrive(name, message, now_us)

    def arrive(self, name: str, message: DeadMessage, now_us: int) -> None:
        """Put a message to the queue; its BackoutCount is 0."""
        self._queue.put(name, message)
        self._counts[name] = 0
        self._trace.record(Event.ROUTED, name, now_us, self._spec.name)
        self._get(now_us)

    def expire(self, name: str, now_us: int) -> None:
        """Let the queue manager discard a message: at once, or when the unit of work that has it is backed out."""
        queued = self._queue.find(name)
        if queued is None:
            return
        if queued is self._taken:
            self._expired.add(name)
        else:
            self._queue.remove(queued.position)
            self._trace.expired(queued, now_us, self._spec.name)

    def restart(self, now_us: int) -> None:
        """Let the queue manager end and start again, with the application behind it."""
        taken, self._taken = self._taken, None
        if taken is not None:
            self._count(taken, now_us, "the queue manager ended")
        for queued in list(self._queue):
            if queued.message.persistence != _PERSISTENT:
                self._queue.remove(queued.position)
                why = "the message is not persistent"
                self._trace.record(Event.DROPPED, queued.name, now_us, self._spec.name, reason="restart", detail=why)
            elif not self._survives:
                self._counts[queued.name] = 0
        self._get(now_us)

    def left(self) -> list[dict[str, object]]:
        """Return what is on the queue, a message in a unit of work too."""
        return [{"message": queued.name, "backout_count": self._counts[queued.name]} for queued in self._queue]

    # One message after the other

    def _get(self, now_us: int) -> None:
        while self._taken is None and self.endless is None and (queued := self._queue.after(None)) is not None:
            if self._is_poison(queued) and self._move(queued, now_us):
                continue
            if self._deliveries[queued.name] == ENDLESS:
                self.endless = queued.name
                return
            self._deliver(queued, now_us)

    def _is_poison(self, queued: Queued) -> bool:
        return self._spec.mover != "nobody" and 0 < self._spec.bothresh <= self._counts[queued.name]

    def _deliver(self, queued: Queued, now_us: int) -> None:
        self._taken = queued
        self._deliveries[queued.name] += 1
        more = {"backout_count": self._counts[queued.name]}
        self._trace.record(Event.DELIVERED, queued.name, now_us, self._spec.name, more=more)
        sent = self._sent.get(queued.name)
        fails = sent is not None and (sent.fails == "always" or self._deliveries[queued.name] <= sent.fails)
        if sent is None or not fails:
            self._after(now_us, partial(self._commit, queued))
        elif sent.how != "hold":
            why = "backed out" if sent.how == "backout" else "the application ended"
            self._after(now_us, partial(self._back_out, queued, why))

    def _after(self, now_us: int, act: Callable[[int], None]) -> None:
        """Plan the end of the unit of work."""
        end_us = now_us + round(self._spec.takes_s * 1_000_000)
        self._plan(end_us, partial(act, end_us))

    def _commit(self, queued: Queued, now_us: int) -> None:
        if self._taken is queued:
            self._taken = None
            self._queue.remove(queued.position)
            self._trace.record(Event.ACKED, queued.name, now_us, self._spec.name)
            self._get(now_us)

    def _back_out(self, queued: Queued, why: str, now_us: int) -> None:
        if self._taken is queued:
            self._taken = None
            self._count(queued, now_us, why)
            self._get(now_us)

    def _count(self, queued: Queued, now_us: int, why: str) -> None:
        self._counts[queued.name] += 1
        detail = f"{why}; BackoutCount is {self._counts[queued.name]}"
        self._trace.record(Event.REQUEUED, queued.name, now_us, self._spec.name, detail=detail)
        if queued.name in self._expired:
            self.expire(queued.name, now_us)

    # A message whose count has reached the threshold

    def _move(self, queued: Queued, now_us: int) -> bool:
        """Move a message away, and return whether that was possible: only JMS goes on to the dead-letter queue."""
        spec, name = self._spec, queued.name
        reason = self._put(spec.boqname, queued, now_us) if spec.boqname else BACKOUT_THRESHOLD_REACHED
        if reason and spec.mover != "jms":
            return False
        self._queue.remove(queued.position)
        detail = f"BOTHRESH is {spec.bothresh}; {_MOVERS[spec.mover]}"
        self._trace.record(Event.LIMIT_DROPPED, name, now_us, spec.name, reason=_REASON, detail=detail)
        sent = self._sent.get(name)
        if not reason:
            self._trace.record(Event.DEAD_LETTERED, name, now_us, spec.name, reason=_REASON)
            self._trace.record(Event.ROUTED, name, now_us, spec.boqname)
        elif sent is not None and sent.discard:
            why = "its Report has MQRO_DISCARD_MSG"
            self._trace.record(Event.DROPPED, name, now_us, spec.name, reason=_REASON, detail=why)
        else:
            self._bury(queued, reason)
        return True
