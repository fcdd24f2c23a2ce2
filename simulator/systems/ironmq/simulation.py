"""Runs a scenario in virtual time and returns what happened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from simulator.events import Happened
from simulator.scenario.scenario_errors import ScenarioError
from simulator.systems.ironmq import ironmq_scenario as form
from simulator.systems.ironmq import operations
from simulator.systems.ironmq.http_errors import Refusal
from simulator.systems.ironmq.operations import Answer, Call, Operation
from simulator.systems.ironmq.project import Project
from simulator.systems.ironmq.queues import Queue, QueuedMessage

_MS = 1_000
_OPERATIONS: dict[type[form.Step], Operation] = {
    form.Create: operations.create,
    form.Update: operations.update,
    form.Remove: operations.remove,
    form.Post: operations.post,
    form.Reserve: operations.reserve,
    form.Peek: operations.peek,
    form.Clear: operations.clear,
    form.Get: operations.get,
    form.PushStatuses: operations.push_statuses,
    form.Touch: operations.touch,
    form.Release: operations.release,
    form.Delete: operations.delete,
}
# The fields of a step that are fields of the API's request.
_REQUEST = ("n", "timeout", "delete", "delay")


def simulate(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Run a scenario (``docs/reference/ironmq.md``) and return its trace, both as plain JSON values.

    Returns:
        ``system``, ``events`` (what happened to messages), ``answers`` (what the application was told) and
        ``queues`` (what is left at the end). Times are milliseconds from the start.

    Raises:
        ScenarioError: the scenario cannot be run.
    """
    return _Run(form.read(scenario)).trace()


class _Run:
    """One run. Messages are known by the names that the scenario gives them."""

    def __init__(self, scenario: form.Scenario) -> None:
        self._scenario = scenario
        self._events: list[Happened] = []
        self._project = Project(scenario.project, seed=scenario.seed, tell=self._events.append)
        self._ids: dict[str, str] = {}
        self._reservations: dict[str, list[str]] = {}
        self._answers: list[dict[str, Any]] = []
        self._now_us = 0

    def trace(self) -> dict[str, Any]:
        """Run the scenario to its end."""
        for url, answers in self._scenario.endpoints.items():
            try:
                self._project.endpoints.tell(url, answers)
            except ValueError as error:
                raise ScenarioError(f"endpoints.{url}", str(error)) from error
        for name, settings in self._scenario.queues.items():
            try:
                self._project.configure(name, settings, 0)
            except Refusal as refusal:
                raise ScenarioError(f"queues.{name}", refusal.msg) from refusal
        for now_us, index, step in self._timed():
            self._now_us = now_us
            self._do(index, step)
        self._project.settle(max(self._now_us, _us(self._scenario.end_s)))
        names = {message_id: name for name, message_id in self._ids.items()}
        for message_id, source_id in self._project.sources.items():
            names[message_id] = f"error of {names[source_id]}"
        return {
            "system": "ironmq",
            "events": [_event(event, names[event.message]) for event in self._events],
            "answers": self._answers,
            "queues": {name: _left(queue, names) for name, queue in sorted(self._project.queues.items())},
        }

    def _timed(self) -> Iterator[tuple[int, int, form.AnyStep]]:
        """Return the steps in order of time, each with its time and its place in the scenario."""
        times = (
            (_us(step.at_s) + turn * _us(step.every_s), index, step)
            for index, step in enumerate(self._scenario.steps)
            for turn in range(step.times)
        )
        yield from sorted(times, key=lambda timed: timed[0])

    def _do(self, index: int, step: form.AnyStep) -> None:
        try:
            status, body = self._answer(index, step)
        except Refusal as refusal:
            status, body = refusal.status, refusal.body
        else:
            self._remember(step, body)
        if status:
            answer = {"step": index, "do": _doing(step), "time_ms": self._now_us // _MS, "status": status}
            self._answers.append({**answer, "body": body})

    def _answer(self, index: int, step: form.AnyStep) -> Answer:
        if isinstance(step, form.OutOfReach | form.InReach):
            self._reach(index, step)
            return 0, {}
        call = Call(
            now_us=self._now_us,
            queue=step.queue,
            message=self._id(index, step.message) if isinstance(step, _OF_A_MESSAGE) else "",
            request=self._request(index, step),
        )
        return _OPERATIONS[type(step)](self._project, call)

    def _reach(self, index: int, step: form.AnyStep) -> None:
        try:
            self._project.set_reachable(step.queue, isinstance(step, form.InReach), self._now_us)
        except Refusal as refusal:
            raise ScenarioError(f"steps[{index}].queue", f"there is no queue '{step.queue}' at that time") from refusal

    def _request(self, index: int, step: form.AnyStep) -> dict[str, Any]:
        if isinstance(step, form.Create | form.Update):
            return {"queue": step.settings}
        if isinstance(step, form.Post):
            return {"messages": [{"body": each.body, "delay": each.delay} for each in self._new(index, step)]}
        request = {name: getattr(step, name) for name in _REQUEST if getattr(step, name, None) is not None}
        if isinstance(step, _WITH_RESERVATION):
            reservation_id = self._reservation(index, step.message, step.reservation)
            if reservation_id is not None:
                request["reservation_id"] = reservation_id
        return request

    def _new(self, index: int, step: form.Post) -> list[form.NewMessage]:
        new: set[str] = set()
        for place, message in enumerate(step.messages):
            if message.name in self._ids or message.name in new:
                where = f"steps[{index}].messages[{place}].name"
                raise ScenarioError(where, f"a second message '{message.name}'; every message needs a name of its own")
            new.add(message.name)
        return step.messages

    def _id(self, index: int, name: str) -> str:
        if name not in self._ids:
            raise ScenarioError(f"steps[{index}].message", f"no message '{name}' has been posted at that time")
        return self._ids[name]

    def _reservation(self, index: int, name: str, which: str | int) -> str | None:
        made = self._reservations[self._id(index, name)]
        if isinstance(which, int):
            if which > len(made):
                where = f"steps[{index}].reservation"
                raise ScenarioError(where, f"'{name}' has {len(made)} reservations at that time; expected one of them")
            return made[which - 1]
        return made[-1] if made and which == "last" else None

    def _remember(self, step: form.AnyStep, body: dict[str, Any]) -> None:
        """Keep the ids in an answer, which later steps need."""
        if isinstance(step, form.Post):
            for message, message_id in zip(step.messages, body["ids"], strict=True):
                self._ids[message.name] = message_id
                self._reservations[message_id] = []
        elif isinstance(step, form.Reserve):
            for message in body["messages"]:
                self._reservations[message["id"]].append(message["reservation_id"])
        elif isinstance(step, form.Touch):
            self._reservations[self._ids[step.message]].append(body["reservation_id"])


_WITH_RESERVATION = (form.Touch, form.Release, form.Delete)
_OF_A_MESSAGE = (form.Get, form.PushStatuses, *_WITH_RESERVATION)


def _us(seconds: float) -> int:
    return round(seconds * 1_000) * _MS


def _doing(step: form.AnyStep) -> str:
    return str(type(step).__struct_config__.tag)


def _event(event: Happened, name: str) -> dict[str, Any]:
    told = {
        "event": str(event.event),
        "time_ms": event.time_us // _MS,
        "message": name,
        "queue": event.queue,
        **(event.more or {}),
    }
    said = {"reason": event.reason, "detail": event.detail}
    return told | {field: text for field, text in said.items() if text}


def _left(queue: Queue, names: Mapping[str, str]) -> dict[str, Any]:
    return {
        "settings": msgspec.to_builtins(queue.settings.shown()),
        "messages": [_stored(queue, stored, names) for stored in _in_order(queue)],
    }


def _in_order(queue: Queue) -> Iterator[QueuedMessage]:
    """Return the messages that can be reserved, in their order, then those that cannot."""
    yield from queue.available.values()
    yield from (stored for stored in queue.messages.values() if stored.message.id not in queue.available)


def _stored(queue: Queue, stored: QueuedMessage, names: Mapping[str, str]) -> dict[str, Any]:
    message = stored.message
    if message.id in queue.available:
        state = "available"
    else:
        state = "delayed" if stored.reservation_id is None else "reserved"
    return {
        "message": names[message.id],
        "id": message.id,
        "body": message.body,
        "reserved_count": message.reserved_count,
        "state": state,
        "expires_ms": message.expires_us // _MS,
    }
