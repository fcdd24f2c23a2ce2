"""Holds the simulator to what a real ActiveMQ was recorded to do.

What the application did is played to the simulator (``recording.py``). What it saw has
to come out: each message with its counts, its delay to ``LATE_MS``, the dead letters
with all their properties, and every number that the document has.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import msgspec

from simulator.systems.activemq import simulate
from simulator.systems.activemq.redelivery_policy import RedeliveryPolicy, next_delay_ms
from tests.systems.activemq.recording import DEFAULT_DLQ, LATE_MS, SCHEDULER_LATE_MS, Recording

_EPOCH = re.compile(r"\d{13}")
_FIELDS = ("body", "JMSRedelivered", "JMSXDeliveryCount")
_NOT_COMPARED = {"scenario", "what", "broker", "client_policy", "broker_policy", "trace"}


def recognises(document: Any) -> bool:
    """Whether the document is a trace of ActiveMQ."""
    return (
        isinstance(document, Mapping)
        and "ActiveMQ" in str(document.get("broker"))
        and isinstance(document.get("trace"), list)
        and isinstance(document.get("broker_policy"), str)
    )


def check(document: Mapping[str, Any], name: str) -> None:
    """Raise ``AssertionError`` where the simulator does something else than was recorded."""
    if "winner" in document:
        _check_winners(document, name)
    else:
        Comparison(document, name).check()


class Comparison:
    """One document, and what the simulator makes of it."""

    def __init__(self, document: Mapping[str, Any], name: str) -> None:
        self.document, self.name = document, name
        self.recording = Recording(document, name)
        self.trace = self.recording.trace
        self.compared: set[str] = set()

    def check(self) -> None:
        """Run the scenario and compare."""
        scenario = self.recording.scenario()
        self.result = simulate(scenario, RecordedJitter(self.document))
        self.outcomes = {outcome["step"]: outcome for outcome in self.result["outcomes"]}
        self.offset = self._offset()
        for step, event in self.recording.expected.items():
            self._check_step(step, event)
        self._check_listener()
        self._check_delays()
        for step, (field, value) in self.recording.counts.items():
            self._number(field, value, self.outcomes[step]["count"])
        self._check_totals()
        exceptions = [each["exception"] for each in self.result["exceptions"]]
        self._number("async_exceptions", *map(_plain_ids, (self.document.get("async_exceptions", []), exceptions)))
        left = set(self.document) - self.compared - _NOT_COMPARED
        assert not left, f"{self.name}: the reader does not know what to compare with {', '.join(sorted(left))}"

    def _check_step(self, step: int, event: dict[str, Any]) -> None:
        outcome = self.outcomes[step]
        if event["event"] == "drained":
            self._same(f"messages on {event['queue']}", len(event["letters"]), outcome["count"])
            for number, (letter, found) in enumerate(zip(event["letters"], outcome["messages"], strict=True)):
                self._check_letter(f"{event['queue']}[{number}]", letter, found)
        elif event["event"] == "receive_null":
            self._same(f"step {step}", None, outcome["received"])
        else:
            self._check_delivery(event, outcome["received"])

    def _check_delivery(self, event: dict[str, Any], found: dict[str, Any] | None) -> None:
        where, expected = f"delivery at {event['t_ms']} ms", event["message"]
        assert found is not None, f"{self.name}: {where}: expected {expected}, nothing came"
        for field in _FIELDS:
            self._same(f"{where}, {field}", expected[field], found[field])
        self._same(f"{where}, redeliveryCounter", expected["redeliveryCounter"], found["JMSXDeliveryCount"] - 1)

    def _check_listener(self) -> None:
        calls = [event for event in self.trace if event["event"] == "onMessage"]
        if not calls:
            return
        made = [event for event in self._deliveries() if event["consumer"] != "drain"]
        self._same(
            "calls of the listener",
            [tuple(event["message"][field] for field in _FIELDS) for event in calls],
            [(event["body"], event["redelivered"], event["delivery_count"]) for event in made],
        )
        for (before, after), (earlier, later) in zip(_pairs(calls), _pairs(made), strict=True):
            self._close_to("listener", after["t_ms"] - before["t_ms"], later["time_ms"] - earlier["time_ms"], LATE_MS)

    def _check_delays(self) -> None:
        """What was rolled back came again when it should; the server may be a little late."""
        late_ms = SCHEDULER_LATE_MS if "redeliveryPlugin" in self.document["broker_policy"] else LATE_MS
        times = {event["step"]: event["time_ms"] for event in self._deliveries()}
        rolled_back: dict[str, int] = {}
        unsettled: list[str] = []
        session = None
        for event in self.trace:
            if event.get("session", session) != session:
                rolled_back, unsettled, session = {}, [], event["session"]
            if event["event"] in ("session_close", "socket_dropped", "sent", "queue", "subscriber", "commit"):
                rolled_back, unsettled = {}, []
            elif event["event"] in ("rollback", "recover"):
                rolled_back |= dict.fromkeys(unsettled, event["t_ms"])
                unsettled = []
            elif event["event"] == "delivered":
                body = event["message"]["body"]
                unsettled.append(body)
                step = next(step for step, each in self.recording.expected.items() if each is event)
                if body in rolled_back:
                    self._delay(event, rolled_back[body], times[step], late_ms)

    def _delay(self, event: dict[str, Any], since_ms: int, time_ms: int, late_ms: int) -> None:
        """Compare with the gap that was measured where there is one, else with the times of the trace."""
        message = event["message"]
        gaps = [value for field, value in message.items() if field.startswith("gap_since")]
        recorded = gaps[0] if gaps else event["t_ms"] - since_ms
        if message["JMSRedelivered"]:
            self._close_to(f"delay before {event['t_ms']} ms", recorded, time_ms - since_ms, late_ms)

    def _close_to(self, where: str, recorded: int, simulated: int, late_ms: int) -> None:
        # The clock of a trace and that of a gap are read one after the other, hence the other few milliseconds.
        assert -5 <= recorded - simulated <= late_ms, (
            f"{self.name}: {where}: the server took {recorded} ms, the simulator {simulated} ms"
        )

    def _check_letter(self, where: str, expected: dict[str, Any], found: dict[str, Any]) -> None:
        renamed = {
            **{field: found[field] for field in (*_FIELDS, "JMSDestination", "JMSDeliveryMode", "JMSPriority")},
            "redeliveryCounter": found["JMSXDeliveryCount"] - 1,
            "id": found["message"],
            "originalDestination": str(found["originalDestination"]),
            "JMSExpiration": found["JMSExpiration"],
            "JMSExpiration_minus_now": found["lives_for_ms"] or 0,
            "properties": found["properties"],
        }
        assert set(expected) == set(renamed), f"{self.name}: {where}: fields {sorted(expected)}"
        for field, value in expected.items():
            self._alike(f"{where}.{field}", value, renamed[field])

    def _alike(self, where: str, expected: Any, found: Any) -> None:
        """The same, but for the milliseconds of a time and the host's part of an identifier."""
        if isinstance(expected, dict):
            self._same(f"{where}, names", sorted(expected), sorted(found))
            for name, value in expected.items():
                self._alike(f"{where}.{name}", value, found[name])
        elif where.endswith("JMSExpiration_minus_now"):
            self._close_to(where, found, expected, LATE_MS)
        elif where.endswith("scheduledJobId"):
            self._same(where, *(bool(re.fullmatch(r"ID:\S+(:\d+)+", str(each))) for each in (expected, found)))
        else:
            expected, found = _plain_ids(expected), _plain_ids(found)
            times = list(zip(_epochs(expected), _epochs(found), strict=False))
            for recorded, simulated in times:
                self._close_to(where, recorded, simulated + self.offset, LATE_MS)
            if isinstance(expected, str):
                self._same(where, _EPOCH.sub("TIME", expected), _EPOCH.sub("TIME", str(found)))
            elif not times:
                self._same(where, expected, found)

    def _offset(self) -> int:
        """From the simulation's time to the server's, by the first time that the trace has in a dead letter."""
        recorded = [event["message"] for event in self.trace if event["event"] == "dlq_message"]
        simulated = [letter for outcome in self.result["outcomes"] for letter in outcome.get("messages", ())]
        for letter, found in zip(recorded, simulated, strict=False):
            times = list(_epochs([letter["JMSExpiration"], letter["properties"]]))
            ours = list(_epochs([found["JMSExpiration"], found["properties"]]))
            if times and ours:
                return times[0] - ours[0]
        return 0

    def _check_totals(self) -> None:
        """Counts of deliveries, by consumer; counts of dead letters, by queue."""
        made = [event for event in self._deliveries() if event["consumer"] != "drain"]
        drained = {
            each["drained"].partition("://")[2]: each["count"] for each in self.outcomes.values() if "drained" in each
        }
        ends = [*(step for _, step in self.recording.sections[1:]), len(self.recording.steps)]
        by_section = [
            (label, sum(begin <= event["step"] < end for event in made))
            for (label, begin), end in zip(self.recording.sections, ends, strict=True)
        ]
        for field, value in self.document.items():
            if field == "deliveries":
                self._number(field, value, len(made))
            elif isinstance(value, dict) and field.startswith("deliveries_by_"):
                counts = [count for _, count in by_section]
                first = field == "deliveries_by_put_without_destination"
                found = counts[: len(value)] if first else counts[-len(value) :]
                self._number(field, value, dict(zip(value, found, strict=True)))
            elif field.startswith("deliveries_"):
                self._number(field, value, dict(by_section).get(field.removeprefix("deliveries_")))
            elif field in ("on_dlq", "on_dlq_finally"):
                self._number(field, value, drained.get(self.recording.dead_letter_queue))
            elif field.removeprefix("on_") in drained:
                self._number(field, value, drained[field.removeprefix("on_")])

    def _number(self, field: str, expected: Any, found: Any) -> None:
        """Compare one field of the document."""
        self.compared.add(field)
        self._same(field, expected, found)

    def _deliveries(self) -> list[dict[str, Any]]:
        return [event for event in self.result["events"] if event["event"] == "delivered"]

    def _same(self, where: str, expected: Any, found: Any) -> None:
        assert expected == found, f"{self.name}: {where}: the server had\n  {expected!r}\nthe simulator\n  {found!r}"


class RecordedJitter(Random):
    """Draws what the server must have drawn for its delays: never more than collision avoidance can."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(0)
        self._draws = [draw for share in _shares(document) for draw in (0.0 if share >= 0 else 0.9, abs(share))]

    def random(self) -> float:
        """The next draw; when the trace has no more, none that moves a delay."""
        return self._draws.pop(0) if self._draws else 0.0


def _shares(document: Mapping[str, Any]) -> Iterator[float]:
    fields = document.get("client_policy", {})
    if not fields.get("useCollisionAvoidance"):
        return
    policy = msgspec.convert(fields, RedeliveryPolicy)
    plain = msgspec.structs.replace(policy, use_collision_avoidance=False)
    delay_ms = policy.initial_delay_ms
    for event in document["trace"]:
        gap = event.get("message", {}).get("gap_since_rollback_ms")
        if gap is None or event["message"]["redeliveryCounter"] < 2:
            continue
        unmoved = next_delay_ms(plain, delay_ms)
        most = unmoved * policy.collision_avoidance_percent / 100
        share = max(-1.0, min(1.0, (gap - unmoved) / most)) if most else 0.0
        delay_ms = next_delay_ms(policy, delay_ms, share)
        yield share


def _check_winners(document: Mapping[str, Any], name: str) -> None:
    """Which of the broker's entries applied to each queue, by where the dead letter went."""
    entries = re.findall(r"(\S+) \((D\d+)\)", document["what"])
    prefixes = {each.partition(".")[0]: each for each in document["winner"].values()}
    policies = [
        {"queue": key, "deadLetterStrategy": {"strategy": "individual", "queuePrefix": prefixes.get(tag, f"{tag}.")}}
        for key, tag in entries
    ]
    assert policies, f"{name}: the document names no entries"
    steps: list[dict[str, Any]] = []
    for event in document["trace"]:
        queue = event["dest"]
        steps += [
            {"do": "send", "to": queue, "body": event["body"], "message": event["id"]},
            {"do": "connect", "connection": queue, "redelivery_policy": document["client_policy"]},
            {"do": "session", "session": queue, "connection": queue, "acknowledge": "transacted"},
            {"do": "consumer", "consumer": queue, "session": queue, "destination": queue},
            {"do": "receive", "consumer": queue, "timeout_ms": 1500},
            {"do": "rollback", "session": queue},
            {"do": "close", "connection": queue},
        ]
    left = simulate({"broker": {"policies": policies}, "steps": steps})["queues"]
    found = {}
    for event in document["trace"]:
        queue = event["dest"]
        places = [
            place.partition("://")[2]
            for place, letters in left.items()
            if any(letter["body"] == event["body"] for letter in letters)
        ]
        found[queue] = "(shared)" if places == [DEFAULT_DLQ] else "".join(places).removesuffix(queue) or "none"
    assert document["winner"] == found, f"{name}: the server chose\n  {document['winner']}\nthe simulator\n  {found}"


def _pairs(items: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return list(itertools.pairwise(items))


def _epochs(value: Any) -> Iterator[int]:
    """The times since 1970 in a value, in order."""
    if isinstance(value, dict):
        value = [value[name] for name in sorted(value)]
    if isinstance(value, list):
        for each in value:
            yield from _epochs(each)
    elif isinstance(value, int | str) and not isinstance(value, bool):
        yield from (int(found) for found in _EPOCH.findall(str(value)))


def _plain_ids(value: Any) -> Any:
    """Texts without what identifies the host, the process and the consumer."""
    if isinstance(value, list):
        return [_plain_ids(each) for each in value]
    if not isinstance(value, str):
        return value
    value = re.sub(r"MessageAck \{commandId = \d+, ", "MessageAck {", value)
    value = re.sub(r"(consumerId = |\] to )ID:[^\s,]+", r"\1ID", value)
    return re.sub(r"ID:[^\s,]*?-(\d+(?::\d+){4})(?!\S*-)", r"ID:..-\1", value)
