"""Runs a neutral scenario under IronMQ: a queue with ``dead_letter``, and a consumer that reserves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from simulator.systems.compare.consumer import PollingSide, consume
from simulator.systems.compare.neutral_scenario import NeutralScenario, note_rounded, whole_seconds
from simulator.systems.compare.outcome import Left, Ran, deliveries
from simulator.systems.ironmq import simulate

VERSIONS = ("v3",)
LIMIT = "the queue: max_reservations of its dead_letter; of a push queue, its retries"
# Message timeout and delay, seconds.
_TIMEOUT_LEAST_S, _TIMEOUT_MOST_S = 30, 86_400
_DELAY_MOST_S = 604_800


def run(neutral: NeutralScenario, version: str, own: Mapping[str, Mapping[str, Any]] | None = None) -> Ran:
    """Run the scenario. There is one version. ``own``: settings of queues by name."""
    side = _Side(neutral, own)
    acknowledged, notes = consume(neutral, side)
    trace = side.simulated(side.steps)
    return Ran(
        scenario=side.scenario(side.steps),
        events=trace["events"],
        attempts=deliveries(trace["events"]),
        acknowledged=acknowledged,
        left={
            message["message"]: Left(name, {"reserved_count": message["reserved_count"]})
            for name, queue in trace["queues"].items()
            for message in queue["messages"]
        },
        notes=[*_notes(neutral, side), *notes],
        shows={event["message"]: {"reserved_count": event["reserved_count"]} for event in deliveries(trace["events"])},
    )


def _notes(neutral: NeutralScenario, side: _Side) -> list[str]:
    notes = note_rounded("retry_delay_ms", neutral.retry_delay_ms, side.delay_s)
    if any(message.how != "reject" for message in neutral.messages):
        notes += note_rounded("ack_timeout_ms", neutral.ack_timeout_ms, side.holds_s)
    if any(message.how == "crash" for message in neutral.messages):
        notes.append("crash: not seen; the message comes back when its reservation ends")
    if any(message.how != "reject" for message in neutral.messages) and neutral.retry_delay_ms:
        notes.append("retry_delay_ms: only after a release")
    if any(message.time_to_live_ms for message in neutral.messages):
        notes.append("time_to_live_ms: a queue has one for all its messages; not set")
    if neutral.dead_letter_queue is None:
        notes.append("attempts_max: no limit without a dead letter queue")
    return notes


class _Side(PollingSide):
    def __init__(self, neutral: NeutralScenario, own: Mapping[str, Mapping[str, Any]] | None) -> None:
        super().__init__(neutral, whole_seconds(neutral.ack_timeout_ms, _TIMEOUT_LEAST_S, _TIMEOUT_MOST_S))
        self._own = own
        self.delay_s = whole_seconds(neutral.retry_delay_ms, most=_DELAY_MOST_S)
        self.steps += [
            self.step("post", message.at_ms, messages=[{"name": message.name, "body": message.body}])
            for message in neutral.published()
        ]

    def scenario(self, steps: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the scenario with these steps."""
        queues = self._nearest() if self._own is None else self._own
        return {"queues": queues, "steps": steps, "end_s": self.neutral.until_ms / 1_000}

    def _nearest(self) -> Mapping[str, Mapping[str, Any]]:
        neutral = self.neutral
        queues: dict[str, dict[str, Any]] = {neutral.queue: {"message_timeout": self.holds_s}}
        if neutral.dead_letter_queue is not None:
            queues[neutral.dead_letter_queue] = {}
            queues[neutral.queue]["dead_letter"] = {
                "queue_name": neutral.dead_letter_queue,
                "max_reservations": neutral.attempts_max,
            }
        return queues

    def simulated(self, steps: list[dict[str, Any]]) -> dict[str, Any]:
        return simulate(self.scenario(steps))

    def polls(self, times_ms: range) -> Iterable[dict[str, Any]]:
        if times_ms:
            yield self.step("reserve", times_ms[0], n=1, times=len(times_ms), every_s=times_ms.step / 1_000)

    def acknowledge(self, name: str) -> None:
        self.steps.append(self.step("delete", self.now_ms, message=name))

    def reject(self, name: str) -> None:
        self.steps.append(self.step("release", self.now_ms, message=name, delay=self.delay_s))
