"""Inspects the simulator, which records the history of every message."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, TypeVar

from dlx.consumer import death_history
from dlx.death_headers import stored_headers
from dlx.value_kinds import value_kind
from simulator.broker import Broker, QueueState
from simulator.broker.commands import PassTime
from simulator.events import DEATHS, REFUSALS, Event, Happened
from simulator.message_history import MessageHistory, RecordingBroker, sentence
from simulator.server.in_process import Server
from simulator.server.node import YEAR_10000_US
from simulator.testing.brokers.inspection import QueueContents
from simulator.testing.brokers.simulated import SimulatedBroker
from simulator.testing.brokers.virtual_time import VirtualClock, hear_clients
from simulator.testing.brokers.what_became import (
    after,
    alike,
    called,
    history_lines,
    how_lost,
    life,
    more_messages,
    queues_of,
    some,
    title,
    what_became,
)

Result = TypeVar("Result")

__tracebackhide__ = True  # pytest shows the line of the test instead

SHOWN = 3
"""How many histories a failure shows."""
_STEPS_SHOWN = 5
# The worker of at-least-once dead-lettering wakes up every three minutes for ever.
_IDLE_WAKES_MAX = 10_000


class InspectedBroker:
    """A recording broker, with ways to read it and to let its time pass.

    Args:
        read: calls a function with the broker, in the thread of the broker.
        advance: lets microseconds pass.
        vhost: the virtual host to look at; ``None`` for all.
        remarks: says which consumers the time went on without.
    """

    def __init__(
        self,
        read: Callable[[Callable[[Broker], Any]], Any],
        advance: Callable[[int], object],
        vhost: str | None = None,
        remarks: Callable[[], list[str]] = list,
    ) -> None:
        self._read = read
        self.remarks = remarks
        self.advance = advance
        self.vhost = vhost

    def read(self, act: Callable[[RecordingBroker], Result]) -> Result:
        """Return what ``act`` finds in the broker. Raises ``TypeError`` if nothing is recorded."""

        def acting(broker: Broker) -> Result:
            if not isinstance(broker, RecordingBroker):
                raise TypeError(
                    "nothing is recorded: expected a broker of simulator.serve(..., management_port=0), "
                    f"or a simulator.message_history.RecordingBroker, got {value_kind(broker)}"
                )
            return act(broker)

        result: Result = self._read(acting)
        return result

    def later(self) -> RecordingBroker:
        """Return a copy of the broker, to try what will happen."""
        restored = RecordingBroker.restore(self.read(lambda broker: broker.snapshot()))
        restored.watch(Event)
        return restored


def subject(broker: Any) -> InspectedBroker:
    """Return how to read a simulator: the fixture, a server, a recording broker, or an object that has one."""
    if isinstance(broker, SimulatedBroker):
        return _served(broker.server, broker.clock, broker.vhost)
    if isinstance(broker, Server):
        return _served(broker, VirtualClock(broker))
    inner = broker if isinstance(broker, Broker) else getattr(broker, "broker", None)
    if not isinstance(inner, Broker):
        raise TypeError(
            "expected the fixture dlx_broker, a server of simulator.serve(), a RecordingBroker or something that has "
            f"one as .broker, got {broker!r}"
        )
    clock = getattr(broker, "clock", None)
    if clock is not None:
        return InspectedBroker(lambda act: act(inner), lambda us: clock.advance(milliseconds=us / 1000))
    return InspectedBroker(lambda act: act(inner), lambda us: inner.handle(PassTime(), inner.now_us + us))


def _served(server: Server, clock: VirtualClock, vhost: str | None = None) -> InspectedBroker:
    def read(act: Callable[[Broker], Any]) -> Any:
        hear_clients(server)
        return server.run(lambda node: act(node.broker))

    return InspectedBroker(read, clock.pass_time, vhost, clock.remarks)


class SimulatorInspection:
    """Answers the questions of the assertions (``Inspection``) from the histories that the broker records."""

    def __init__(self, subject: InspectedBroker) -> None:
        self._subject = subject

    def wait_until_right(self, wrong: Callable[[], list[str]], times: int | None) -> list[str]:
        """Return what is wrong; the server has read everything that clients sent."""
        return wrong()

    def queues(self) -> list[str]:
        """Return the names of the queues."""
        return self._subject.read(lambda broker: [queue.name for queue in self._queues(broker)])

    def contents(self, queue: str) -> QueueContents | None:
        """Return the contents of the queue of that name; ``None`` if the queue does not exist."""

        def look(broker: RecordingBroker) -> QueueContents | None:
            found = next((each for each in self._queues(broker) if each.name == queue), None)
            if found is None:
                return None
            ready = [death_history(stored_headers(copy.message)) for copy in found.store.waiting()]
            return QueueContents(ready, found.messages - len(ready))

        return self._subject.read(look)

    def _queues(self, broker: RecordingBroker) -> Iterator[QueueState]:
        return queues_of(broker, self._subject.vhost)

    def evidence(self) -> list[str]:
        """Return the histories of the last messages, first of those that died."""

        def look(broker: RecordingBroker) -> list[str]:
            histories = list(broker.histories.find(vhost=self._subject.vhost, newest_first=True))
            if not histories:
                return ["No message was published."]
            dead = [history for history in histories if any(event.event in DEATHS for event in history.events)]
            shown = alike(dead or histories)[:SHOWN]
            told = title(sum(map(len, shown)), len(histories))
            return [told, *(line for group in shown for line in life(broker, group))]

        return self._subject.read(look)

    def losses(self) -> list[str]:
        """List each lost message, why it was lost, and its history."""

        def look(broker: RecordingBroker) -> list[str]:
            _check_complete(broker)
            found = broker.histories.find(vhost=self._subject.vhost, lost=True)
            lost: dict[tuple[str, ...], list[MessageHistory]] = {}
            for history in found:
                if told := tuple(how_lost(history)):
                    lost.setdefault(told, []).append(history)
            lines = []
            for told, group in islice(lost.items(), SHOWN):
                how = some([*told], " {} more copies of it were lost.")
                lines += [f"{called(group)}: {' '.join(how)}", *history_lines(broker, group[0])]
            return lines + more_messages(islice(lost.values(), SHOWN, None))

        return self._subject.read(look)

    def what_became(self, told: str) -> list[str]:
        """Say what was lost, what waits in the queues, and the lives that were not shown yet."""
        remarks = [remark for remark in self._subject.remarks() if remark not in told]
        return remarks + self._subject.read(lambda broker: what_became(broker, self._subject.vhost, told))

    def traces(self, test: str) -> list[bytes]:
        """Return the trace of each message as a line of OTLP's JSON, with ids for the test of that name."""
        from simulator.testing.brokers.traces import traces_of  # which needs an extra of its own

        return self._subject.read(lambda broker: list(traces_of(broker, self._subject.vhost, test)))

    def unrest(self, within_us: int) -> list[str]:
        """Let that much time pass, and say what would happen after it, and to which messages."""
        if self._subject.read(lambda broker: broker.now_us) + within_us >= YEAR_10000_US:
            raise ValueError("expected within to end before the year 10000")
        self._subject.advance(within_us)
        broker = self._subject.later()
        since_us = broker.now_us
        happened = list(_next_events(broker))
        uids = dict.fromkeys(event.uid for event in happened)
        told = [f"{after(event.time_us - since_us)}, message {event.uid}: {sentence(event)}" for event in happened]
        return some(told, "and {} more events") + self._subject.read(
            lambda real: [
                line
                for group in alike(filter(None, map(real.histories.get, uids)))[:SHOWN]
                for line in life(real, group)
            ]
        )


def _check_complete(broker: RecordingBroker) -> None:
    first_uid = broker.histories.first_uid
    if broker.last_uid >= first_uid and broker.histories.get(first_uid) is None:
        raise ValueError(
            "the histories of the first messages are not kept, so it is unknown whether one was lost: "
            "record from the start, with RecordingBroker(histories=MessageHistories(limit=...)) for more messages"
        )


def _next_events(broker: RecordingBroker) -> Iterator[Happened]:
    """Yield the next events that happen by themselves; this moves the broker's time."""
    found = idle = 0
    while found < _STEPS_SHOWN and idle < _IDLE_WAKES_MAX:
        due_us = broker.next_due()
        if due_us is None:
            return
        replies = broker.handle(PassTime(), due_us)
        # A refusal alone moves nothing: the message is held, and tried again.
        events = [event for event in replies if isinstance(event, Happened) and event.event not in REFUSALS]
        yield from events
        found, idle = found + len(events), 0 if events else idle + 1
