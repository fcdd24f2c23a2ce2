"""Runs a neutral scenario under OpenStack Zaqar: a queue with ``_max_claim_count``, and a consumer that claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from simulator.systems.compare.consumer import PollingSide, consume
from simulator.systems.compare.neutral_scenario import Message, NeutralScenario, note_rounded, whole_seconds
from simulator.systems.compare.outcome import Left, Ran, deliveries
from simulator.systems.zaqar import simulate

VERSIONS = ("redis", "mongodb", "swift", "spec")
LIMIT = "the queue: _max_claim_count in its metadata"
# Claims and messages, seconds.
_CLAIM_LEAST_S, _CLAIM_MOST_S = 60, 43_200
_MESSAGE_LEAST_S, _MESSAGE_MOST_S = 60, 1_209_600
_TELLING = ("claim_count", "ttl")


Queues = Mapping[str, Mapping[str, Any]]
"""Metadata by name, those of dead-letter queues first."""


def run(neutral: NeutralScenario, version: str, own: Queues | None = None) -> Ran:
    """Run the scenario under a profile, with the queues ``own`` if they are given."""
    side = _Side(neutral, version, own)
    acknowledged, notes = consume(neutral, side)
    trace = side.simulated(side.steps)
    return Ran(
        scenario=side.scenario(side.steps),
        events=trace["events"],
        attempts=deliveries(trace["events"]),
        acknowledged=acknowledged,
        left={
            message["message"]: Left(queue, {name: message[name] for name in _TELLING if name in message})
            for queue, messages in trace["queues"].items()
            for message in messages
        },
        notes=[*_notes(neutral, side), *notes],
    )


def _notes(neutral: NeutralScenario, side: _Side) -> list[str]:
    notes = []
    if neutral.retry_delay_ms:
        notes.append("retry_delay_ms: Zaqar has none; a released message can be claimed at once")
    if any(message.how != "reject" for message in neutral.messages):
        notes += note_rounded("ack_timeout_ms", neutral.ack_timeout_ms, side.holds_s)
    if any(message.how == "crash" for message in neutral.messages):
        notes.append("crash: not seen; the message comes back when its claim ends")
    for message in neutral.messages:
        if message.time_to_live_ms is not None:
            notes += note_rounded(
                f"time_to_live_ms of {message.name}", message.time_to_live_ms, _life_s(message.time_to_live_ms)
            )
    if neutral.dead_letter_queue is None:
        notes.append("attempts_max: no limit without a dead-letter queue")
    return notes


def _life_s(time_to_live_ms: int | None) -> int:
    if time_to_live_ms is None:
        return _MESSAGE_MOST_S
    return whole_seconds(time_to_live_ms, _MESSAGE_LEAST_S, _MESSAGE_MOST_S)


def _nearest(neutral: NeutralScenario) -> Queues:
    if neutral.dead_letter_queue is None:
        return {neutral.queue: {}}
    dead_letters = {"_max_claim_count": neutral.attempts_max, "_dead_letter_queue": neutral.dead_letter_queue}
    return {neutral.dead_letter_queue: {}, neutral.queue: dead_letters}


def _posted(message: Message, *, lives_as_the_queue_says: bool) -> dict[str, Any]:
    posted = {"id": message.name, "body": message.body}
    if message.time_to_live_ms is None and lives_as_the_queue_says:
        return posted
    return {**posted, "ttl": _life_s(message.time_to_live_ms)}


class _Side(PollingSide):
    def __init__(self, neutral: NeutralScenario, profile: str, own: Queues | None) -> None:
        super().__init__(neutral, whole_seconds(neutral.ack_timeout_ms, _CLAIM_LEAST_S, _CLAIM_MOST_S))
        self._profile, self._queues = profile, own or _nearest(neutral)
        self._posts = [
            self.step("post", message.at_ms, messages=[_posted(message, lives_as_the_queue_says=own is not None)])
            for message in neutral.published()
        ]

    def scenario(self, steps: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the scenario with these steps, and the posts in between."""
        return {
            "profile": self._profile,
            "queues": self._queues,
            "steps": sorted([*self._posts, *steps], key=lambda step: step["at_s"]),
            "until_s": self.neutral.until_ms / 1_000,
        }

    def simulated(self, steps: list[dict[str, Any]]) -> dict[str, Any]:
        return simulate(self.scenario(steps))

    def polls(self, times_ms: range) -> Iterable[dict[str, Any]]:
        for at_ms in times_ms:
            yield self.step("claim", at_ms, ttl=self.holds_s, grace=_CLAIM_LEAST_S, limit=1)

    def acknowledge(self, name: str) -> None:
        self._settle("delete", message=name)

    def reject(self, name: str) -> None:
        self._settle("release")

    def _settle(self, do: str, **fields: Any) -> None:
        """Delete or release by the claim of the last question, which gets a name for it."""
        claim = self.steps[-1]["claim"] = f"claim-{len(self.steps)}"
        self.steps.append(self.step(do, self.now_ms, claim=claim, **fields))
