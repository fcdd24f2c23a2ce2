"""Writes what happened to the messages of a test as OpenTelemetry traces: here every hop was seen, and when it was."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from dlx.message import Message
from dlx.possible_deaths import possible_death
from simulator.broker import Broker
from simulator.events import DEATH_OUTCOMES, DEATHS, LOSSES, Event, Happened
from simulator.message_history import MessageHistory, RecordingBroker, what_happened
from simulator.otlp import TRACEPARENT, Facts, MessageTrace, Moment, add_error, death_facts

_DID = {Event.ACKED: "ack", Event.REJECTED: "reject", Event.REQUEUED: "requeue"}


def traces_of(broker: RecordingBroker, vhost: str | None, test: str) -> Iterator[bytes]:
    """Yield a trace for each message of a test, the oldest first; its ids are those of that test."""
    for history in broker.histories.find(vhost=vhost):
        message = broker.histories.last_message(history.uid)
        assert message is not None, "it has a history"
        yield _Life(broker, history, message, test).trace.line()


class _Life:
    """Adds the spans of one message, event by event."""

    def __init__(self, broker: Broker, history: MessageHistory, message: Message, test: str) -> None:
        given = (message.headers or {}).get(TRACEPARENT)
        facts = {
            "messaging.message.id": history.message_id,
            "dlx.message": history.message_id or f"message {history.uid}",
            "dlx.vhost": history.vhost,
            "dlx.test": test,
        }
        self.trace = MessageTrace(f"{test}\0{history.uid}", facts, given, broker.release.name)
        self._broker = broker
        self._given = given
        self._before: Span | None = None  # the publish or the death that sends copies into queues
        self._by = "unknown"
        self._waiting: defaultdict[str, list[tuple[int, str, Span | None]]] = defaultdict(list)
        self._delivered: defaultdict[str, list[Span]] = defaultdict(list)
        self._died: dict[str, Span] = {}
        for event in history.events:
            self._add(event)
        for queue, arrivals in self._waiting.items():
            for _ in range(len(arrivals)):
                self._stay(queue, broker.now_us, "waiting")

    def _add(self, event: Happened) -> None:
        kind, queue = event.event, event.queue
        if kind == Event.PUBLISHED:
            self._before = self.trace.published(
                event.time_us, event.exchange or "", event.routing_keys, {}, traceparent=self._given
            )
            self._by = "publish"
        elif queue is None:
            if kind in (Event.UNROUTABLE, Event.RETURNED) and self._before is not None:
                add_error(self._before, "unroutable", {"dlx.why": what_happened(event)})
        elif kind == Event.ROUTED:
            self._waiting[queue].append((event.time_us, self._by, self._before))
        elif kind == Event.DELIVERED:
            self._delivered[queue].append(self._stay(queue, event.time_us, "delivered"))
        elif kind in _DID:
            self._settle(queue, event)
        elif kind in DEATHS:
            self._died[queue] = self._stay(queue, event.time_us, "died")
        elif kind == Event.PURGED:
            add_error(self._stay(queue, event.time_us, "purged"), "purged", {"dlx.why": what_happened(event)})
        elif kind in DEATH_OUTCOMES or kind == Event.HELD:
            self._die(queue, event)

    def _stay(self, queue: str, end_us: int, outcome: str) -> Span:
        """End the stay of the copy that came into the queue first; of a stream, which keeps it, the stay goes on."""
        arrivals = self._waiting[queue]
        since_us, by, previous = arrivals.pop(0) if arrivals else (end_us, "unknown", self._before)
        facts: Facts = {"dlx.arrived.by": by, "dlx.outcome": outcome}
        return self.trace.stayed(queue, Moment.exactly(since_us), Moment.exactly(end_us), facts, previous=previous)

    def _settle(self, queue: str, event: Happened) -> None:
        delivered = self._delivered[queue]
        if not delivered:
            return
        stay = delivered.pop(0)
        span = self.trace.settled(queue, _DID[event.event], event.time_us, {"dlx.detail": event.detail}, stay=stay)
        if event.event == Event.REQUEUED:
            self._waiting[queue].append((event.time_us, "return", span))
        elif event.event == Event.REJECTED:
            self._died[queue] = span

    def _die(self, queue: str, event: Happened) -> None:
        is_lost = event.event in LOSSES
        outcome = "lost" if is_lost else event.event.value
        facts: Facts = {"dlx.outcome": outcome, "dlx.why": what_happened(event), **self._behind(queue, event)}
        span = self.trace.died(
            queue, event.reason or "", Moment.exactly(event.time_us), facts,
            stay=self._died.get(queue), error="lost" if is_lost else "",
        )  # fmt: skip
        if event.event == Event.DEAD_LETTERED:
            self._before, self._by = span, "dead-letter"
        else:
            self._died[queue] = span  # a held one may yet be sent

    def _behind(self, queue: str, event: Happened) -> Facts:
        """Return what decided a death, by the settings that the queue has now; nothing if it is gone."""
        host = self._broker.vhosts.get(event.vhost)
        found = None if host is None else host.queues.get(queue)
        if found is None or event.reason is None:
            return {}
        return death_facts(possible_death(event.reason, found.settings, self._broker.release).rule, found.settings)
