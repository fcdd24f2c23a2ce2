"""Runs a scenario in virtual time: messages arrive, the handler works, the trace records it.

Source: IBM MQ's documentation of runmqdlq and of control data.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from simulator.deadlines import Deadlines
from simulator.scenario.scenario_errors import ScenarioError
from simulator.systems.ibm_mq.consumer import ENDLESS, Consumer
from simulator.systems.ibm_mq.handler import OK, Handler, HandlerVisit, Put
from simulator.systems.ibm_mq.ibm_mq_scenario import (
    ConsumedQueue,
    Outage,
    Scenario,
    read_arrivals,
    read_result,
    read_scenario,
    read_sent,
    read_table,
)
from simulator.systems.ibm_mq.mqdlh import DeadMessage, with_header
from simulator.systems.ibm_mq.queue import DeadLetterQueue, Queued
from simulator.systems.ibm_mq.rules_table import Control
from simulator.systems.ibm_mq.trace import ENDED, STARTED, Trace, put_message

# More steps than these are a message that goes in a circle, or a RETRY without end in sight.
STEPS_MAX = 100_000
STEPS_PER_MESSAGE_MAX = 1_000
UNKNOWN_OBJECT_NAME = 2085
_US = 1_000_000


def simulate(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Run a scenario (``docs/reference/ibm_mq.md``) until nothing can happen any more, or until its ``until_s``.

    Returns the trace as JSON values. Raises ``ScenarioError`` for a scenario that cannot be run, with the
    place in it; for its rules table, with line and column.
    """
    return _Simulation(read_scenario(scenario)).run()


class _Simulation:
    """One scenario on its way: what is planned, the handler, and the puts that it heard of."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._parsed = read_table(scenario)
        self._arrivals = read_arrivals(scenario)
        self._place = input_queue(
            Control() if self._parsed is None else self._parsed.table.control,
            scenario.arguments,
            dead_letter_queue=scenario.dead_letter_queue,
            queue_manager=scenario.queue_manager,
        )
        self._queue = DeadLetterQueue(by_priority=scenario.delivery_sequence == "PRIORITY")
        self._trace = Trace(self._place[0], () if self._parsed is None else self._parsed.rule_lines)
        self._results = deque(
            read_result(value, f"put_results[{index}]") for index, value in enumerate(scenario.put_results)
        )
        self._outages = [_outage(outage, f"outages[{index}]") for index, outage in enumerate(scenario.outages)]
        self._delivered: dict[str, list[dict[str, Any]]] = {}
        self._until_us = None if scenario.until_s is None else _us(scenario.until_s)
        self._now_us = self._steps = 0
        self._steps_max = max(STEPS_MAX, STEPS_PER_MESSAGE_MAX * self._messages())
        self._deadlines = Deadlines[Callable[[], None]]()
        self._names: dict[tuple[str, str], str] = {}
        self._consumers = {queue.name: self._consumer(queue) for queue in scenario.queues}
        self._plan()
        self._handler: Handler | None = None

    def run(self) -> dict[str, Any]:
        """Go from one time at which something happens to the next, and return the trace."""
        self._happen()
        self._start()
        while (next_us := self._next_us()) is not None:
            if self._until_us is not None and next_us > self._until_us:
                self._now_us = self._until_us
                break
            self._count_step()
            self._now_us = next_us
            self._happen()
            self._wake()
        return self._told()

    def _plan(self) -> None:
        for arrival in self._arrivals:
            self._names.setdefault(arrival.message.identity, arrival.name)
            self._deadlines.set(_us(arrival.time_s), partial(self._arrive, arrival.name, arrival.message))
            if arrival.expiry_s is not None:
                self._deadlines.set(_us(arrival.time_s + arrival.expiry_s), partial(self._expire, arrival.name))
        names = {arrival.name for arrival in self._arrivals}
        self._plan_queues({*names})
        for index, removal in enumerate(self._scenario.removals):
            if removal.message not in names:
                problem = f"expected the name of a message, got {removal.message!r}"
                raise ScenarioError(f"removals[{index}].message", problem)
            self._deadlines.set(_us(removal.time_s), partial(self._remove, removal.message))
        for time_s in self._scenario.restarts_s:
            self._deadlines.set(_us(time_s), self._start)

    def _messages(self) -> int:
        return len(self._arrivals) + sum(len(queue.messages) for queue in self._scenario.queues)

    def _consumer(self, queue: ConsumedQueue) -> Consumer:
        return Consumer(
            queue,
            by_priority=self._scenario.delivery_sequence == "PRIORITY",
            survives=queue.hardenbo or self._scenario.platform != "z/OS",
            trace=self._trace,
            plan=self._deadlines.set,
            put=self._requeue,
            bury=partial(self._bury, queue.name),
        )

    def _plan_queues(self, names: set[str]) -> None:
        """Plan what happens to queues with consumers; ``names`` are those of messages that there are already."""
        for at, queue in enumerate(self._scenario.queues):
            if queue.name in [other.name for other in self._scenario.queues[:at]]:
                raise ScenarioError(f"queues[{at}].name", f"expected a name of its own, got {queue.name!r} again")
            consumer = self._consumers[queue.name]
            for index, sent in enumerate(queue.messages):
                where = f"queues[{at}].messages[{index}]"
                name = sent.name or f"{queue.name} {index + 1}"
                if name in names:
                    raise ScenarioError(f"{where}.name", f"expected a name of its own, got {name!r} again")
                names.add(name)
                message = read_sent(sent, name, where)
                self._names.setdefault(message.identity, name)
                time_us = _us(sent.time_s)
                self._deadlines.set(time_us, partial(consumer.send, name, sent, message, time_us))
                if sent.expiry_s is not None:
                    end_us = _us(sent.time_s + sent.expiry_s)
                    self._deadlines.set(end_us, partial(consumer.expire, name, end_us))
                    self._deadlines.set(end_us, partial(self._expire, name))
            for time_s in self._scenario.queue_manager_restarts_s:
                self._deadlines.set(_us(time_s), partial(consumer.restart, _us(time_s)))

    def _requeue(self, queue: str, queued: Queued, time_us: int) -> int:
        """Put a message to a backout queue."""
        reason = self._failure(queue, "", time_us)
        if reason == OK and queue in self._consumers:
            self._deadlines.set(time_us, partial(self._consumers[queue].arrive, queued.name, queued.message, time_us))
        elif reason == OK:
            put = Put(queue=queue, queue_manager="", message=queued.message, with_header=False, user=None)
            self._delivered.setdefault(queue, []).append(put_message(queued.name, put))
        return reason

    def _bury(self, queue: str, queued: Queued, reason: int) -> None:
        """Put a message of a queue to the queue manager's dead-letter queue, behind a header that says why."""
        manager, target = self._scenario.queue_manager, self._scenario.dead_letter_queue
        message = with_header(queued.message, reason=reason, queue=queue, queue_manager=manager)
        if target == self._place[0]:
            self._arrive(queued.name, message)
            return
        put = Put(queue=target, queue_manager="", message=message, with_header=True, user=None)
        self._trace.dead_lettered(queued.name, reason, self._now_us, target)
        self._delivered.setdefault(target, []).append(put_message(queued.name, put))

    def _next_us(self) -> int | None:
        """Return when something happens next; ``None`` if nothing will."""
        planned = self._deadlines.next_due()
        handler = self._handler
        if handler is None or handler.ended_us is not None or (planned is None and handler.is_settled):
            return planned
        own = handler.next_us()
        return own if planned is None or (own is not None and own < planned) else planned

    def _happen(self) -> None:
        while (deadline := self._deadlines.pop(self._now_us)) is not None:
            _, _, act, _ = deadline
            act()

    def _start(self) -> None:
        if self._parsed is None:
            return
        self._trace.operator(STARTED, f"the handler starts to process {self._place[0]}", self._now_us)
        self._handler = Handler(
            self._parsed,
            self._queue,
            put=self._put,
            tell=self._visited,
            whole_seconds=self._scenario.clock == "whole-seconds",
            now_us=self._now_us,
        )
        self._handler.start()
        self._note_end()

    def _wake(self) -> None:
        if self._handler is not None and self._handler.ended_us is None:
            self._handler.wake(self._now_us)
            self._note_end()

    def _note_end(self) -> None:
        if self._handler is not None and self._handler.ended_us is not None:
            self._trace.operator(ENDED, "the handler ends", self._now_us)

    def _arrive(self, name: str, message: DeadMessage) -> None:
        self._trace.arrived(self._queue.put(name, message), self._now_us)
        if self._handler is not None:
            self._handler.arrived()

    def _remove(self, name: str) -> None:
        queued = self._queue.find(name)
        if queued is not None:
            self._queue.remove(queued.position)
            self._trace.taken(queued, self._now_us)

    def _expire(self, name: str) -> None:
        """Let the queue manager discard a message; one that was put to another queue is that queue's."""
        queued = self._queue.find(name)
        if queued is not None:
            self._queue.remove(queued.position)
            self._trace.expired(queued, self._now_us, self._place[0])

    def _visited(self, visit: HandlerVisit) -> None:
        self._count_step()
        self._trace.visited(visit)
        if visit.put is not None and visit.result == OK and not self._is_input(visit.put):
            remote = visit.put.queue_manager not in ("", self._place[1])
            if not remote and visit.put.queue in self._consumers:
                self._consumers[visit.put.queue].arrive(visit.queued.name, visit.put.message, visit.time_us)
                return
            where = f"{visit.put.queue}@{visit.put.queue_manager}" if remote else visit.put.queue
            self._delivered.setdefault(where, []).append(put_message(visit.queued.name, visit.put))

    def _put(self, queued: Queued, put: Put, time_us: int) -> int:
        result = self._result(put, time_us)
        if result == OK and self._is_input(put):
            self._arrive(queued.name, put.message)
        return result

    def _result(self, put: Put, time_us: int) -> int:
        """Decide how a put ends: as listed, then by the outages; a blank queue is unknown."""
        if self._results:
            return self._results.popleft()
        return self._failure(put.queue, put.queue_manager, time_us)

    def _failure(self, queue: str, queue_manager: str, time_us: int) -> int:
        if not queue:
            return UNKNOWN_OBJECT_NAME
        return next((result for outage, result in self._outages if _is_out(outage, queue, queue_manager, time_us)), OK)

    def _idle_outages(self) -> Iterator[str]:
        """Yield a warning for each outage of a queue without puts, which may be misspelt."""
        put_to = {visit["put_to"][0] for visit in self._trace.visits if visit.get("put_to")}
        put_to |= {queue.boqname for queue in self._scenario.queues}
        for index, (outage, _) in enumerate(self._outages):
            if outage.queue not in put_to:
                yield f"outages[{index}].queue: nothing was put to {outage.queue}"

    def _is_input(self, put: Put) -> bool:
        return put.queue == self._place[0] and put.queue_manager in ("", self._place[1])

    def _count_step(self) -> None:
        self._steps += 1
        if self._steps > self._steps_max:
            problem = f"expected an end within {self._steps_max:,} steps of the handler; give an earlier one"
            raise ScenarioError("until_s", problem)

    def _told(self) -> dict[str, Any]:
        handler = self._handler
        ended = handler is not None and handler.ended_us is not None
        visits = {} if handler is None else handler.visits
        return {
            "system": "ibm_mq",
            "events": self._trace.told(),
            "visits": self._trace.visits,
            "operator_messages": self._trace.operator_messages,
            "warnings": [*self._warnings()],
            "handler": {
                "input_queue": self._place[0],
                "queue_manager": self._place[1],
                "state": "ended" if ended else "waiting",
                "time_ms": self._now_us // 1000,
                "remembers": {self._names[identity]: count for identity, count in visits.items()},
            }
            if handler is not None
            else None,
            "queues": {
                **{name: consumer.left() for name, consumer in self._consumers.items()},
                self._place[0]: [{"message": queued.name} for queued in self._queue],
                **self._delivered,
            },
        }

    def _warnings(self) -> Iterator[str]:
        yield from map(str, () if self._parsed is None else self._parsed.warnings)
        yield from self._idle_outages()
        if isinstance(self._scenario.messages, str):
            number = len(self._arrivals)
            yield f"messages: {number} of a file of dmpmqmsg, read by its documentation; no queue manager was asked"
        for index, queue in enumerate(self._scenario.queues):
            consumer = self._consumers[queue.name]
            if consumer.endless is not None:
                why = "BOTHRESH is 0" if queue.bothresh == 0 else "nobody moves it"
                told = f"the consumer was stopped after it got {consumer.endless} {ENDLESS} times"
                yield f"queues[{index}]: {told}: {why}, and the queue manager itself moves nothing"


def _outage(outage: Outage, where: str) -> tuple[Outage, int]:
    """Return an outage and the reason with which puts fail then."""
    if outage.until_s is not None and outage.until_s <= outage.from_s:
        raise ScenarioError(f"{where}.until_s", f"expected a time after from_s, {outage.from_s:g}")
    return outage, read_result(outage.result, f"{where}.result")


def _is_out(outage: Outage, queue: str, queue_manager: str, time_us: int) -> bool:
    return (
        queue == outage.queue
        and outage.queue_manager in (None, queue_manager)
        and _us(outage.from_s) <= time_us
        and (outage.until_s is None or time_us < _us(outage.until_s))
    )


def _us(seconds: float) -> int:
    return round(seconds * _US)


def input_queue(
    control: Control, arguments: Sequence[str], *, dead_letter_queue: str, queue_manager: str
) -> tuple[str, str]:
    """Choose the queue and the queue manager.

    A positional argument wins over the table, the table over the default.

    ``arguments``: queue and queue manager as on the command line, both optional. A queue of blanks means
    ``dead_letter_queue``, whatever the table says. ``queue_manager``: the default one.
    """
    named = list(arguments) + [None] * (2 - len(arguments))
    queue = control.inputq if named[0] is None else _until_blank(named[0])
    manager = control.inputqm if named[1] is None else _until_blank(named[1])
    return queue or dead_letter_queue, manager or queue_manager


def _until_blank(name: str) -> str:
    """Return the name, which ends at its first blank."""
    return name.partition(" ")[0]
