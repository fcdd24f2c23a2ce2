"""Plays the histories that tell systems apart on one queue, under RabbitMQ and under the system that it moves to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

import msgspec

from simulator.analysis.limit_scaling import scaled
from simulator.events import Outcome
from simulator.scenario.steps import changed
from simulator.systems.compare import rabbitmq
from simulator.systems.compare.comparing import load
from simulator.systems.compare.consumer import ENDLESS
from simulator.systems.compare.nearest import Moved, NearestSystem, WorkQueue
from simulator.systems.compare.neutral_scenario import Message, NeutralScenario
from simulator.systems.compare.outcome import MessageOutcome, Ran, fates
from simulator.systems.move.reading import QueueToPlay
from simulator.time_spans import span

EXPIRATION_MS = 60_000
"""The time to live of a message in a queue that has none."""
FULL = 20
"""Longer queues are played as shorter ones."""
_SWEEP_MS = 35_000
_POLLS = 600
_STOPPED = 100
"""A system that plays the consumer itself stops it after this number of deliveries."""
_STEPS_MS = (1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000)
_LEAST_MS = 300_000
_ACK_TIMEOUT_MS = 1_800_000


class History(msgspec.Struct, frozen=True):
    """What happens to a message.

    Attributes:
        name: what the rules of systems call it.
        words: what people call it.
        how: how its consumer fails.
        rejects: whether a consumer of RabbitMQ rejects it without requeue.
        fails: how often.
        consumed: whether its queue has a consumer.
    """

    name: str
    words: str
    how: Literal["reject", "crash", "hold"] = "reject"
    rejects: bool = False
    fails: int | Literal["always"] = "always"
    consumed: bool = True


HISTORIES = (
    History("rejected", "a message that is rejected once", rejects=True, fails=1),
    History("rejected every time", "a message that is rejected every time", rejects=True),
    History("returned every time", "a message that is returned (requeued) every time"),
    History("consumer dies", "a message whose consumer dies every time", how="crash"),
    History("expires", "a message that nobody reads until it expires", consumed=False),
    History("full", "one message more than the queue holds", consumed=False),
    History("held", "a message that its consumer keeps and never settles", how="hold"),
)


def is_told_by(history: History, queue: WorkQueue) -> bool:
    """Tell whether a history can show something of a queue that no other does."""
    if history.name == "rejected every time":
        return queue.limited_by in ("ladder", "loop")
    if history.name == "full":
        return queue.max_length is not None
    return True


class Fate(msgspec.Struct, frozen=True):
    """What became of the messages of a history in words, and what tells it from another fate.

    Attributes:
        deliveries: how often the message was delivered; of several, all of them together.
        gaps_ms: the time between one delivery and the next.
        ends: how many messages ended where, in words.
        endless: whether it went on until the play was stopped.
        at_ms: when it died; ``None`` if it did not.
    """

    deliveries: int
    gaps_ms: tuple[float, ...]
    ends: tuple[tuple[str, int], ...]
    endless: bool
    at_ms: float | None

    @property
    def lost(self) -> int:
        """How many messages are gone."""
        return sum(count for end, count in self.ends if end == GONE)

    def is_like(self, other: Fate, within_ms: float) -> bool:
        """Tell whether both are the same but for times that differ by less than that."""
        if self.endless or other.endless:
            return self.endless == other.endless and _near(self.gaps_ms[:3], other.gaps_ms[:3], within_ms)
        return (
            self.ends == other.ends
            and self.deliveries == other.deliveries
            and _near(self.gaps_ms, other.gaps_ms, within_ms)
            and (self.at_ms is None or other.at_ms is None or abs(self.at_ms - other.at_ms) < within_ms)
        )

    def differs_in_delays(self, other: Fate) -> bool:
        """Tell whether the messages go the same way, but not at the same times."""
        if self.endless or other.endless:
            return self.endless == other.endless
        return bool(self.gaps_ms) and (self.ends, self.deliveries) == (other.ends, other.deliveries)

    def words(self) -> str:
        """Say it."""
        if self.endless:
            return f"delivered again and again{_apart(self.gaps_ms)}"
        total = sum(count for _, count in self.ends)
        ends = " and ".join(
            end if total == 1 else f"{'all' if count == total else f'{count} of'} {total} {end}"
            for end, count in self.ends
        )
        if not self.deliveries:
            return f"{ends}{f' after {_span(self.at_ms)}' if self.at_ms else ''}"
        times = {1: "once", 2: "twice"}.get(self.deliveries, f"{self.deliveries} times")
        return f"delivered {times}{_apart(self.gaps_ms)}, then {ends}"


GONE = "gone"


def _near(one: Sequence[float], other: Sequence[float], within_ms: float) -> bool:
    return len(one) == len(other) and all(abs(a - b) < within_ms for a, b in zip(one, other, strict=True))


def _apart(gaps_ms: Sequence[float]) -> str:
    if not gaps_ms or not max(gaps_ms):
        return ""
    if max(gaps_ms) - min(gaps_ms) < 1:
        return f", {_span(gaps_ms[0])} apart"
    shown = [_span(each) for each in gaps_ms[:3]]
    return f", after {', '.join(shown)}{' …' if len(gaps_ms) > len(shown) else ''}"


def _span(ms: float) -> str:
    return span(round(ms * 1_000))


class Plays:
    """The plays of one queue.

    Attributes:
        step_ms: smaller differences in time are none: how often a consumer of a system without push asks.
    """

    def __init__(
        self, to_play: QueueToPlay, history: History, nearest: NearestSystem, moved: Moved, release: str
    ) -> None:
        self._to_play, self._history, self._nearest, self._moved = to_play, history, nearest, moved
        self._release = release
        self._definitions, self._length = to_play.definitions, to_play.queue.max_length
        if history.name == "full" and self._length is not None:
            self._definitions, limits = scaled(to_play.definitions, above=FULL, apart=5)
            smaller = {large: small for small, large in limits.get("max-length", {}).items()}
            self._length = smaller.get(self._length, self._length)
        self._until_ms = self._lasts_ms()
        self.step_ms = next((each for each in _STEPS_MS if each * _POLLS >= self._until_ms), _STEPS_MS[-1])

    def under_rabbitmq(self) -> Fate:
        """Return what becomes of the messages in the topology as it is."""
        return self._fate(*self.ran_under_rabbitmq(), {})

    def ran_under_rabbitmq(self) -> tuple[NeutralScenario, Ran]:
        """Return what is played in the topology as it is, and how that ran."""
        queue, history = self._to_play.queue, self._history
        own_life = queue.time_to_live_ms is None and history.name == "expires"
        neutral = self._neutral(queue.name, queue.dead_letter_queue, EXPIRATION_MS if own_life else None)
        played = rabbitmq.Played(
            definitions=self._definitions,
            consumed=self._to_play.consumed,
            rejects=history.rejects,
            publish=changed(self._to_play.publish, times=1),
        )
        return neutral, rabbitmq.run(neutral, self._release, played)

    def under(self, system: str, version: str) -> Fate:
        """Return what becomes of them in the nearest topology of the other system."""
        neutral, ran = self.ran(system, version)
        names = {name: at[1] for at, name in self._moved.names.items() if at[0] == self._to_play.queue.vhost}
        return self._fate(neutral, ran, names)

    def ran(self, system: str, version: str) -> tuple[NeutralScenario, Ran]:
        """Return what is played in the other system, and how that ran."""
        queue, moved = self._to_play.queue, self._moved
        publisher = self._nearest.SETS_TIME_TO_LIVE == "publisher"
        life_ms = queue.time_to_live_ms if publisher else None
        if self._history.name == "expires" and queue.time_to_live_ms is None:
            life_ms = EXPIRATION_MS
        neutral = self._neutral(moved.names[queue.at], moved.named(queue.dead_at), life_ms)
        own = self._nearest.own(queue, moved)
        adapter: Any = load(system)
        return neutral, adapter.run(neutral, version) if own is None else adapter.run(neutral, version, own)

    def _neutral(self, queue: str, dead: str | None, life_ms: int | None) -> NeutralScenario:
        own, history = self._to_play.queue, self._history
        count = 1 if history.name != "full" else (self._length or 0) + 1
        return NeutralScenario(
            queue=queue,
            dead_letter_queue=dead,
            attempts_max=own.attempts_max or 1,
            retry_delay_ms=own.delays_ms[0] if own.delays_ms else 0,
            ack_timeout_ms=own.consumer_timeout_ms or _ACK_TIMEOUT_MS,
            poll_ms=self.step_ms,
            until_ms=self._until_ms,
            consumed=history.consumed,
            messages=[
                Message(
                    name=f"m{number}",
                    fails=history.fails if history.consumed else 0,
                    how=history.how,
                    time_to_live_ms=life_ms,
                )
                for number in range(1, count + 1)
            ],
        )

    def _lasts_ms(self) -> int:
        """Return how long the play takes at most."""
        queue, name = self._to_play.queue, self._history.name
        held_ms = queue.consumer_timeout_ms or _ACK_TIMEOUT_MS
        if name == "expires":
            return (queue.time_to_live_ms or EXPIRATION_MS) + _SWEEP_MS
        if name == "full":
            return 1_000
        if name == "held":
            return 4 * held_ms
        attempts = queue.attempts_max or ENDLESS
        longest_ms = max((*queue.delays_ms, held_ms if name == "consumer dies" else 0))
        return max(_LEAST_MS, (attempts + 1) * longest_ms + 60_000)

    def _fate(self, neutral: NeutralScenario, ran: Ran, names: Mapping[str, str]) -> Fate:
        found = fates(neutral, ran)
        times = sorted(ms for each in found for ms in each.attempts_ms)
        died = [each.died_ms for each in found if each.died_ms is not None]
        return Fate(
            deliveries=len(times),
            gaps_ms=tuple(after - before for before, after in pairwise(times)),
            ends=tuple(sorted(Counter(self._end(each, names) for each in found).items())),
            endless=len(times) >= ENDLESS * neutral.attempts_max or len(times) >= _STOPPED > neutral.attempts_max,
            at_ms=max(died) if died and not neutral.consumed and self._history.name == "expires" else None,
        )

    def _end(self, fate: MessageOutcome, names: Mapping[str, str]) -> str:
        queue = self._to_play.queue
        if fate.queue is None:
            refused = fate.outcome is Outcome.LOST and fate.reason is None and self._history.name == "full"
            return "refused" if refused else "processed" if fate.outcome is Outcome.ACKNOWLEDGED else GONE
        if fate.outcome is Outcome.HELD:
            return "held by its queue as a dead letter"
        there = names.get(fate.queue, fate.queue)
        if there == queue.name:
            return "still in the queue"
        if there == queue.dead_letter_queue:
            return "in its dead-letter queue"
        if there == queue.expired_to:
            return "in the queue that its expired messages go to"
        return f"in {fate.queue}" if fate.queue not in names.values() and names else "in another queue"


def shapes(queues: Iterable[QueueToPlay]) -> list[list[QueueToPlay]]:
    """Return the queues with those together that differ in names only, and so have the same fates."""
    found: dict[Any, list[QueueToPlay]] = {}
    for each in queues:
        queue = each.queue
        expired = None if queue.expired_to is None else queue.expired_to == queue.dead_letter_queue
        dead = None if queue.dead_letter_queue is None else ""
        nameless = msgspec.structs.replace(queue, vhost="", name="", dead_letter_queue=dead, expired_to=None)
        found.setdefault((nameless, expired, len(each.consumed), each.behind), []).append(each)
    return list(found.values())
