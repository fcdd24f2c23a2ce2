"""Asks what would have happened to the messages of a log under other settings, or under another release.

The messages are played twice: under the settings of the log, which must give what the log
shows, and under the others. What the first run does not reproduce is left out of the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from dlx.message_flow import MessageFlow
from dlx.releases import release
from simulator.definitions import Definitions
from simulator.questions.snapshot import Snapshot
from simulator.replay.whatif.coupling import Unit, units
from simulator.replay.whatif.differences import Side
from simulator.replay.whatif.fates import Fate
from simulator.replay.whatif.rerun import Habits, Rerun, Unseen
from simulator.replay.whatif.stories import Story

Done = Callable[[int], object]
TOGETHER_MAX = 20_000
"""Messages that share a broker, unless more of them are coupled."""


class Case(msgspec.Struct, frozen=True):
    """One message under both settings.

    Attributes:
        story: what the log shows of it.
        before, after: what becomes of it under the log's own settings, and under the others.
        reproduced: whether ``before`` has the deliveries of the log.
    """

    story: Story
    before: Fate
    after: Fate
    reproduced: bool

    @property
    def changed(self) -> bool:
        """Whether it ends differently."""
        return self.before.ends != self.after.ends

    @property
    def assumed(self) -> tuple[str, ...]:
        """What the comparison rests on that the log does not have."""
        return tuple(dict.fromkeys((*self.before.assumed, *self.after.assumed)))


@dataclass(frozen=True)
class Prepared:
    """A side as brokers take it.

    Attributes:
        side: the definitions and the release.
        snapshot: the definitions as a broker of that release takes them.
        document: what the reruns import.
        notes: what is taken to be so, in sentences.
    """

    side: Side
    snapshot: Snapshot
    document: Mapping[str, Any]
    notes: tuple[str, ...]

    @property
    def only_vhost(self) -> str | None:
        """The virtual host for every row of a log, where the definitions do not name theirs."""
        definitions = self.side.definitions
        return None if definitions.vhost_named else definitions.vhosts[0]

    @property
    def flows(self) -> Mapping[str, MessageFlow]:
        """What the rules say of each virtual host."""
        return self.snapshot.flows


def prepared(side: Side) -> Prepared:
    """Return a side as brokers take it.

    Raises:
        DefinitionsError: the broker refuses the whole document.
    """
    snapshot = Snapshot(side.definitions, side.release)
    document = dict(snapshot.document)
    document["queues"] = [_driven(queue) for queue in document.get("queues", ())]
    refused = [f"{each.about}, which RabbitMQ {side.release.name} refuses: {each.why}" for each in snapshot.refused]
    return Prepared(side, snapshot, document, (*refused, *snapshot.guesses))


def _driven(queue: Mapping[str, Any]) -> dict[str, Any]:
    """Return a queue whose messages a run may take one by one: one consumer is enough, and it does not leave."""
    arguments = queue.get("arguments") or {}
    kept = {key: value for key, value in arguments.items() if key not in ("x-single-active-consumer", "x-expires")}
    return {**queue, "arguments": kept, "auto_delete": False}


def side_of(definitions: Definitions, rules: str) -> Side:
    """Return definitions under a release. Raises ``UnknownReleaseError``."""
    return Side(definitions, release(rules))


def plan(stories: Sequence[Story], before: Prepared, after: Prepared) -> list[Unit]:
    """Return which messages are played together, and why."""
    return units(stories, (before.flows, after.flows))


def compared(
    stories: Sequence[Story],
    before: Prepared,
    after: Prepared,
    *,
    unseen: Unseen = "ack",
    done: Done = int,
    parts: Iterable[Unit] | None = None,
) -> Iterator[Case]:
    """Yield each message under both settings; ``done`` is told how many there are so far.

    Raises ``TooMuchError`` where messages go round without end.
    """
    count, until_us = 0, end_of(stories)
    for batch in batches(plan(stories, before, after) if parts is None else parts):
        own = [stories[number] for unit in batch for number in unit.stories]
        first = Rerun(before.document, own, release=before.side.release, unseen=unseen, until_us=until_us)
        fates, habits = first.play(), first.habits()
        others = rerun(own, after, habits, unseen)
        for story, one, other in zip(own, fates, others, strict=True):
            yield Case(story, one, other, reproduces(story, one))
        count += len(own)
        done(count)


def batches(parts: Iterable[Unit]) -> Iterator[list[Unit]]:
    """Yield units that share a broker: they do not meet there, and a broker is not made for each."""
    batch: list[Unit] = []
    for unit in parts:
        if batch and sum(len(each.stories) for each in (*batch, unit)) > TOGETHER_MAX:
            yield batch
            batch = []
        batch.append(unit)
    if batch:
        yield batch


def rerun(stories: Sequence[Story], side: Prepared, habits: Habits, unseen: Unseen) -> list[Fate]:
    """Return what becomes of messages under other settings."""
    return Rerun(side.document, stories, release=side.side.release, habits=habits, unseen=unseen).play()


def end_of(stories: Iterable[Story]) -> int:
    """Return when the log ends, as far as messages tell; microseconds since 1970."""
    return max((moment for story in stories for moment in story.moments_us()), default=0)


def reproduces(story: Story, fate: Fate) -> bool:
    """Tell whether a run under the log's own settings has the deliveries of the log."""
    return sorted(each.shown for each in story.deliveries if each.traced) == sorted(fate.deliveries)
