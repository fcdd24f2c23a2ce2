"""Records what the handler did as plain JSON values: events, visits, operator messages, and the final queues."""

from __future__ import annotations

from typing import Any

from simulator.events import Event, Happened
from simulator.systems.ibm_mq.constants import name_of
from simulator.systems.ibm_mq.handler import HandlerVisit, Put, VisitOutcome
from simulator.systems.ibm_mq.mqdlh import MqdlhError, header_of
from simulator.systems.ibm_mq.queue import Queued
from simulator.systems.ibm_mq.rules_table import Action

NO_HEADER = "AMQ8721"
PUT_FAILED = "AMQ8722"
STARTED, ENDED = "AMQ8708", "AMQ8709"
_HANDLER = "handler"
_DISCARDED = "the queue manager discards what has expired"


def reason_name(code: int) -> str:
    """Return the name of a reason code: ``OK`` for 0, the number if it has no name."""
    return "OK" if code == 0 else name_of(code, ("MQRC_", "MQFB_")) or str(code)


class Trace:
    """What happened so far.

    Args:
        queue: the dead-letter queue that the handler reads.
        rule_lines: the line of each rule in the table.
    """

    def __init__(self, queue: str, rule_lines: tuple[int, ...]) -> None:
        self._queue, self._rule_lines = queue, rule_lines
        self.events: list[Happened] = []
        self.visits: list[dict[str, Any]] = []
        self.operator_messages: list[dict[str, Any]] = []

    def arrived(self, queued: Queued, time_us: int) -> None:
        """Record that a message was put on the dead-letter queue."""
        try:
            reason = reason_name(header_of(queued.message).reason)
        except MqdlhError:
            reason = None
        self.record(Event.DEAD_LETTERED, queued.name, time_us, self._queue, reason=reason)

    def dead_lettered(self, name: str, reason: int, time_us: int, queue: str) -> None:
        """Record that a message was put on a dead-letter queue that no handler reads."""
        self.record(Event.DEAD_LETTERED, name, time_us, queue, reason=reason_name(reason))

    def taken(self, queued: Queued, time_us: int) -> None:
        """Record that another application took a message from the dead-letter queue."""
        self.record(Event.ACKED, queued.name, time_us, self._queue, detail="taken by another application")

    def expired(self, queued: Queued, time_us: int, queue: str) -> None:
        """Record that the queue manager discarded a message, because its time was over."""
        self.record(Event.EXPIRED, queued.name, time_us, queue, reason="expired")
        self.record(Event.DROPPED, queued.name, time_us, queue, reason="expired", detail=_DISCARDED)

    def operator(self, code: str, text: str, time_us: int) -> None:
        """Record a message to the operator."""
        self.operator_messages.append({"time_ms": _ms(time_us), "code": code, "text": text})

    def visited(self, visit: HandlerVisit) -> None:
        """Record that the handler visited a message."""
        self._tell_operator(visit)
        if visit.outcome == VisitOutcome.NOT_HANDLED:
            self.record(Event.HELD, visit.queued.name, visit.time_us, self._queue, detail=visit.problem)
            return
        self.visits.append(self._visit(visit))
        self._visit_events(visit)

    def _tell_operator(self, visit: HandlerVisit) -> None:
        if visit.outcome == VisitOutcome.NOT_HANDLED:
            text = f"{visit.queued.name} has no valid MQDLH: {visit.problem}"
            self.operator(NO_HEADER, text, visit.time_us)
        elif visit.is_reported and visit.put is not None and visit.chosen is not None:
            what = f"{visit.queued.name}: the put to {_place(visit.put)} failed with {reason_name(visit.result)}"
            text = f"{what}; the rule is in line {self._rule_lines[visit.chosen.index]}"
            self.operator(PUT_FAILED, text, visit.time_us)

    def _visit_events(self, visit: HandlerVisit) -> None:
        name, time_us = visit.queued.name, visit.time_us
        if visit.outcome == VisitOutcome.IGNORED:
            self.record(Event.HELD, name, time_us, self._queue, detail=self._rule(visit))
            return
        self.record(Event.DELIVERED, name, time_us, self._queue, detail=self._rule(visit))
        if visit.outcome == VisitOutcome.BACKED_OUT:
            self.record(Event.REQUEUED, name, time_us, self._queue, reason=reason_name(visit.result))
        elif visit.put is None:
            self.record(Event.DROPPED, name, time_us, self._queue, detail=str(Action.DISCARD))
        else:
            detail = "with MQDLH" if visit.put.with_header else "without MQDLH"
            more = {"queue_manager": visit.put.queue_manager}
            self.record(Event.ROUTED, name, time_us, visit.put.queue, detail=detail, more=more)
            self.record(Event.ACKED, name, time_us, self._queue)

    def _rule(self, visit: HandlerVisit) -> str:
        if visit.chosen is None:
            return "no rule is left: IGNORE is assumed"
        rule = visit.chosen.rule
        tries = f", try {visit.chosen.attempt} of {rule.retry}" if visit.put else ""
        return f"rule {visit.chosen.index + 1} in line {self._rule_lines[visit.chosen.index]}: {rule.action}{tries}"

    def _visit(self, visit: HandlerVisit) -> dict[str, Any]:
        told: dict[str, Any] = {"time_ms": _ms(visit.time_us), "message": visit.queued.name, "rule": None}
        if visit.chosen is not None:
            told["rule"] = visit.chosen.index + 1
            told["line"] = self._rule_lines[visit.chosen.index]
            told["action"] = str(visit.chosen.rule.action)
        if visit.put is not None and visit.chosen is not None:
            told["try"] = visit.chosen.attempt
            told |= _put(visit.put)
            told["result"] = reason_name(visit.result)
            told["operator_message"] = visit.is_reported
        told["outcome"] = str(visit.outcome)
        return told

    def record(self, event: Event, message: str, time_us: int, queue: str, **more: Any) -> None:
        """Record that something happened to a message."""
        self.events.append(Happened(event=event, time_us=time_us, message=message, queue=queue, **more))

    def told(self) -> list[dict[str, Any]]:
        """Return the events as JSON values."""
        return [_told(happened) for happened in self.events]


def _told(happened: Happened) -> dict[str, Any]:
    told: dict[str, Any] = {
        "event": str(happened.event),
        "time_ms": _ms(happened.time_us),
        "message": happened.message,
        "queue": happened.queue,
    }
    if happened.reason is not None:
        told["reason"] = happened.reason
    if happened.detail:
        told["detail"] = happened.detail
    return told | dict(happened.more or {})


def _put(put: Put) -> dict[str, Any]:
    return {
        "put_to": [put.queue, put.queue_manager],
        "with_mqdlh": put.with_header,
        "put_authority": _HANDLER if put.user is None else f"context user {put.user}",
    }


def put_message(name: str, put: Put) -> dict[str, Any]:
    """Describe a message on the queue that it was put to."""
    return {
        "message": name,
        "with_mqdlh": put.with_header,
        "format": put.message.format,
        "encoding": put.message.encoding,
        "coded_char_set_id": put.message.coded_char_set_id,
        "user": put.message.user_identifier,
        "data_hex": put.message.data.hex(),
    }


def _place(put: Put) -> str:
    return f"{put.queue or 'a blank queue'} on {put.queue_manager or 'the local queue manager'}"


def _ms(time_us: int) -> int | float:
    return time_us // 1000 if time_us % 1000 == 0 else time_us / 1000
