"""Whether the simulator and a real broker did the same: the same deliveries, delays and messages on the queues."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

LATE_MS = 250
"""How late a delivery may be on a machine that does other things; delays here are 300 ms apart or more."""
SCHEDULER_LATE_MS = 1500

_OF_ONE_SIDE = ("message", "lives_for_ms", "consumer", "JMSXGroupID", "JMSXGroupSeq")

Line = Mapping[str, Any]


def assert_agreement(lines: Sequence[Line], simulated: Mapping[str, Any], late_ms: int = LATE_MS) -> None:
    """Raise ``AssertionError`` where a broker, which told these lines, did something else than the simulator.

    ``late_ms``: by how much a delivery of the broker may be late; negative for any time.
    """
    refused = [line for line in lines if "refused" in line]
    assert not refused, f"the broker or its client refused: {refused}"
    made, ours = _deliveries(lines), [_event(event) for event in simulated["events"] if _is_delivery(event)]
    assert [_seen(each) for each in made] == [_seen(each) for each in ours]
    for real, event in zip(_gaps(made), _gaps(ours), strict=True):
        assert late_ms < 0 or -10 <= real - event <= late_ms, f"delay: the broker {real} ms, the simulator {event} ms"
    drains = _drains_in_any_order(simulated)
    looked = [_outcome(line, drains) for line in lines if "delivered" not in line and "started" not in line]
    assert looked == [_outcome(each, drains) for each in simulated["outcomes"]]


def _drains_in_any_order(simulated: Mapping[str, Any]) -> set[int]:
    """Which steps drain a queue of dead letters that several destinations made of expired messages at one time.

    A broker looks for what has expired at each destination in a thread of its own, and since a restart at all of them
    at once: the order of their dead letters varies from run to run, and which of two copies has the one dead letter.
    """
    events = simulated["events"]
    expired = {(event["time_ms"], event["queue"]) for event in events if event["event"] == "expired"}
    at_once = {time_ms for time_ms, count in Counter(time_ms for time_ms, _ in expired).items() if count > 1}
    queues = {event["to"] for event in events if event["event"] == "dead-lettered" and event["time_ms"] in at_once}
    return {each["step"] for each in simulated["outcomes"] if each.get("drained") in queues}


def _deliveries(lines: Sequence[Line]) -> list[dict[str, Any]]:
    return [
        {**line["delivered"], "step": line["step"], "time_ms": line["time_ms"]} for line in lines if "delivered" in line
    ]


def _is_delivery(event: Line) -> bool:
    return event["event"] == "delivered" and event["consumer"] != "drain"


def _event(event: Line) -> dict[str, Any]:
    names = {"redelivered": "JMSRedelivered", "delivery_count": "JMSXDeliveryCount"}
    return {names.get(name, name): value for name, value in event.items()}


def _seen(message: Line) -> tuple[Any, ...]:
    """A delivery, as a listener or a receive sees it."""
    fields = ("step", "consumer", "body", "JMSRedelivered", "JMSXDeliveryCount")
    return tuple(message[field] for field in fields)


def _gaps(deliveries: list[dict[str, Any]]) -> list[int]:
    """Milliseconds from each delivery to the next, where both are of one step, and the listener's."""
    pairs = itertools.pairwise(deliveries)
    return [after["time_ms"] - before["time_ms"] for before, after in pairs if before["step"] == after["step"]]


def _outcome(line: Line, drains_in_any_order: Collection[int] = ()) -> dict[str, Any]:
    """What a step showed, without what differs from run to run."""
    kept = {name: value for name, value in line.items() if name in ("step", "received", "processed", "messages")}
    if line["step"] in drains_in_any_order and "messages" in kept:
        messages = sorted(kept["messages"], key=lambda message: str(message["body"]))
        kept["messages"] = [{**message, "originalDestination": "any"} for message in messages]
    if "messages" not in line and "count" in line:
        kept["count"] = line["count"]
    if "retried" in line:
        kept["count"] = line["count"] if "count" in line else line["retried"]
    plain: dict[str, Any] = _plain(kept)
    return plain


def _plain(value: Any) -> Any:
    """A value without identifiers, without times and without what only one side tells."""
    if isinstance(value, Mapping):
        told = {name: each for name, each in value.items() if name not in _OF_ONE_SIDE}
        return {name: _plain(each) for name, each in told.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, int) and value > 1_000_000_000:
        return "time"
    return re.sub(r"ID:\S+", "ID", re.sub(r"\d{13}", "time", value)) if isinstance(value, str) else value
