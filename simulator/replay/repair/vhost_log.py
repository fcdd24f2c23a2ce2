"""The sequences of one virtual host: what a log tells beyond one message."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from itertools import chain, islice

from dlx.deaths import EXPIRED, REJECTED
from dlx.message_flow import MessageFlow
from dlx.releases import Release
from dlx.routing import headers_looked_at
from dlx.settings import Settings
from dlx.topology import Topology
from simulator.events import Event
from simulator.replay.explain import Explainer
from simulator.replay.graph import Effort, with_stand_ins
from simulator.replay.repair import costs
from simulator.replay.repair.changes import Change, OtherBinding, OtherSetting, Part
from simulator.replay.repair.hypotheses import Hypothesis
from simulator.replay.repair.moments import Died, Moment, moment
from simulator.replay.repair.one_sequence import Repairer
from simulator.replay.repair.other_definitions import stops
from simulator.replay.repair.sequences import RowSequence, Seen
from simulator.replay.repair.together import Group, Item
from simulator.replay.repair.trials import bad_rows, replay_rows
from simulator.replay.row_codec import read_signature

COMPARED_MAX = 500
"""Sequences with which the time of a change is narrowed down, the most frequent ones."""
COMPARED_STATES_MAX = 2_000
"""States that one search may look at then."""
REPAIRED_MAX = 500
"""Sequences for which hypotheses are looked for, the most frequent ones."""


class VhostLog:
    """The sequences of a virtual host.

    Args:
        vhost: its name.
        topology: its definitions.
        rules: the rules to go by.
        sequences: its sequences.

    Attributes:
        vhost: as given.
        sequences: the sequences, the most frequent first.
        flow: what can become of messages under the definitions.
    """

    def __init__(self, vhost: str, topology: Topology, rules: Release, sequences: Iterable[RowSequence]) -> None:
        self.vhost = vhost
        self.sequences = sorted(sequences, key=lambda sequence: (-sequence.count, sequence.places, sequence.key))
        self.flow = MessageFlow(with_stand_ins(topology), rules)
        self._names = headers_looked_at(self.flow.topology)
        self._repairer = Repairer(vhost, self.flow, self._addresses())

    def _addresses(self) -> frozenset[tuple[str, tuple[str, ...]]]:
        """Return where the publishes of the log go."""
        texts = {text for sequence in self.sequences for text in sequence.signatures}
        rows = [row for row in map(read_signature, texts) if row.event == Event.PUBLISHED]
        return frozenset((row.exchange, row.routing_keys) for row in rows)

    @property
    def counts(self) -> list[int]:
        """How many messages each sequence stands for."""
        return [sequence.count for sequence in self.sequences]

    @cached_property
    def settings(self) -> dict[str, Settings]:
        """The settings of each queue."""
        return {name: self.flow.settings(name) for name in self.flow.topology.queues}

    def seen(self, number: int) -> tuple[Seen, ...]:
        """Return the rows of the sequence of that number."""
        return self.sequences[number].seen(self._names)

    def count(self, explained: Collection[Item]) -> int:
        """Count the deliveries that are not as predicted, and not among those explained."""
        return sum(
            sequence.count
            for number, sequence in enumerate(self.sequences)
            for at in sequence.bad
            if (number, at) not in explained
        )

    def suggestions(self) -> Iterator[tuple[Item, Hypothesis]]:
        """Yield each delivery that is not as predicted with each hypothesis that explains it."""
        bad = [number for number, sequence in enumerate(self.sequences) if sequence.bad]
        for number in bad[:REPAIRED_MAX]:
            for suggestion in self._repairer.suggestions(self.sequences[number], self.seen(number)):
                for at in suggestion.rows:
                    yield (number, at), suggestion.hypothesis
                    if self._may_begin_before(number, at, suggestion.hypothesis):
                        yield (number, at), Hypothesis(costs.LOG_CUT, self.vhost)

    def _may_begin_before(self, number: int, at: int, hypothesis: Hypothesis) -> bool:
        """Tell whether the message may have been published before the log began.

        It begins with a delivery, and no message with a publish was delivered from that queue before.
        """
        if at != 0 or hypothesis.kind != costs.ROWS_MISSING:
            return False
        sequence = self.sequences[number]
        first = self._first_complete.get(read_signature(sequence.signatures[0]).queue or "")
        return first is None or sequence.latest_us[0] <= first

    @cached_property
    def _first_complete(self) -> dict[str, int]:
        """When each queue first delivered a message whose publish is in the log."""
        found: dict[str, int] = {}
        for sequence in self.sequences:
            rows = [read_signature(text) for text in sequence.signatures]
            if rows[0].event == Event.PUBLISHED:
                for row, time_us in zip(rows, sequence.earliest_us, strict=True):
                    if row.queue is not None:
                        found[row.queue] = min(found.get(row.queue, time_us), time_us)
        return found

    # -- when definitions changed ------------------------------------------------

    def moment(self, group: Group) -> Moment | None:
        """Return when the definitions changed that a group of deliveries needs; ``None`` if no moment fits."""
        change = group.change
        queues = {part.queue for part in change if isinstance(part, OtherSetting)}
        needing = (Died(self.sequences[n], _dead_after(self.sequences[n], at, queues), at) for n, at in group.items)
        fitting = chain(self._excluding(change), self._expired(change))
        return moment(needing, (Died(each, _dead_after(each, at, queues), at) for each, at in fitting))

    def _excluding(self, change: Change) -> Iterator[tuple[RowSequence, int]]:
        """Yield the deliveries that are as predicted, but would not be under the change alone."""
        changed = self._repairer.changed(change)
        other = Explainer(changed.topology, changed.release, changed, Effort(COMPARED_STATES_MAX, every_way=False))
        names = {name for part in change for name in _names(part)}
        touched = (each for each in self.sequences if any(_mentions(each, name) for name in names))
        for sequence in islice(touched, COMPARED_MAX):
            for at in bad_rows(replay_rows(other, sequence.seen(self._names))) - {*sequence.bad}:
                yield sequence, at

    def _expired(self, change: Change) -> Iterator[tuple[RowSequence, int]]:
        """Yield the deliveries of messages that had just expired where the time to live was another, and still fit.

        Where a delivery of a message does not fit, the clock does not judge the later ones.
        """
        queues = {part.queue for part in change if isinstance(part, OtherSetting) and part.bound}
        for sequence in self.sequences if queues else ():
            for at, text in enumerate(() if sequence.bad else sequence.signatures):
                again = text in sequence.signatures[:at]
                latest = () if again else stops(read_signature(text).x_death)[:1]
                untold = at in sequence.ttl_untold
                if not untold and any(death.queue in queues and death.reason == EXPIRED for death in latest):
                    yield sequence, at


def _names(part: Part) -> tuple[str, ...]:
    """Return the queue or exchange that a part is about."""
    if isinstance(part, OtherSetting):
        return (part.queue,)
    return (part.exchange,) if isinstance(part, OtherBinding) else (part.name,)


def _mentions(sequence: RowSequence, name: str) -> bool:
    return any(name in signature for signature in sequence.signatures)


def _dead_after(sequence: RowSequence, at: int, queues: Collection[str]) -> int:
    """Return the index of the row after which the message died in the queues at the earliest.

    It can only be rejected after it was delivered; it may die for another reason as soon as it is published.
    """
    deaths = [stop for stop in stops(read_signature(sequence.signatures[at]).x_death) if stop.queue in queues]
    if not deaths or any(stop.reason != REJECTED for stop in deaths):
        return 0
    before = map(read_signature, sequence.signatures[:at])
    return next((index for index, row in enumerate(before) if row.queue in queues), 0)
