"""Finds what may be behind the deliveries of a virtual host that are not as predicted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, islice

from dlx.bounded_cache import BoundedCache
from dlx.deaths import EXPIRED, REJECTED
from dlx.delivery_counts import X_ACQUIRED_COUNT, X_DELIVERY_COUNT
from dlx.message import Message
from dlx.message_flow import Hop, MessageFlow, State
from dlx.releases import Release
from dlx.routing import headers_looked_at
from dlx.settings import Settings
from dlx.topology import Topology
from simulator.events import Event
from simulator.replay.checks.explain import Explainer
from simulator.replay.repair import hypotheses as costs
from simulator.replay.repair.choice import ChangeTime, Died, HypothesisGroup, Item, moment
from simulator.replay.repair.hypotheses import (
    AT_LEAST,
    Change,
    Hypothesis,
    OtherBinding,
    OtherSetting,
    Part,
    changed_flow,
    touched_queues,
)
from simulator.replay.repair.other_definitions import other_limits, pairs_for, singles_for, stops
from simulator.replay.repair.sequences import RowSequence, Seen
from simulator.replay.repair.trials import WrongDelivery, bad_rows, replay_rows
from simulator.replay.repair.unseen_rows import Addresses, Suggestion, UnseenRows
from simulator.replay.rows.row_codec import read_signature
from simulator.replay.search.graph import Effort, with_stand_ins

# What can become of a message while definitions change: what the old ones allow, or the new ones.


_Led = tuple[tuple[Hop, State], ...]


class EitherFlow(MessageFlow):
    """Answers for a time in which one of two definitions was in force, and it is unknown which.

    A message may go one step under the one, and the next step under the other. The states are
    those of ``one``, so that what it remembers serves many changes; ``other`` has states of its own.

    Args:
        one: answers under the definitions.
        other: answers under the changed ones; its topology has the queues of both.
        touched: the queues whose messages may go another way under those.
    """

    __slots__ = ("_led", "_one", "_other", "_touched")

    def __init__(self, one: MessageFlow, other: MessageFlow, touched: Collection[str]) -> None:
        super().__init__(other.topology, one.release)
        self._one = one
        self._other = other
        self._touched = touched
        self._led: dict[tuple[int, str, bool], _Led] = {}

    def settings(self, queue: str) -> Settings:
        """Return the settings under which more can happen: those with the larger delivery limit, or with none."""
        found = [flow.settings(queue) for flow in (self._one, self._other) if queue in flow.topology.queues]
        return max(found, key=lambda settings: float("inf") if (limit := settings.delivery_limit) is None else limit)

    def state(self, queue: str, message: Message) -> State:
        """Return the state of ``message`` in ``queue``."""
        return self._one.state(queue, message)

    def entering(self, message: Message) -> tuple[tuple[State, int], ...]:
        """Return the states that a publish enters under either, and how long an exchange delays each, in ms."""
        first, other = (
            [(self._own(state), ms) for state, ms in flow.entering(message)] for flow in (self._one, self._other)
        )
        return (*first, *(each for each in other if each not in first))

    def why_not(self, state: State, reason: str) -> str | None:
        """Return why neither lets the message die there for that reason; ``None`` when one does."""
        if state.queue not in self._one.topology.queues:
            return self._other.why_not(state, reason)
        why = self._one.why_not(state, reason)
        return None if why is None or self._other.why_not(state, reason) is None else why

    def hops(self, state: State, reason: str) -> _Led:
        """Return where a death leads under those that allow it; if neither does, under both."""
        if state.queue not in self._touched:
            return self._one.hops(state, reason)
        key = (state.number, reason, False)
        if key not in self._led:
            self._led[key] = self._either(state, reason, MessageFlow.hops)
        return self._led[key]

    def cycles(self, state: State, reason: str) -> _Led:
        """Return where the death would lead without the cycle rule."""
        key = (state.number, reason, True)
        if key not in self._led:
            self._led[key] = self._either(state, reason, MessageFlow.cycles)
        return self._led[key]

    def _either(self, state: State, reason: str, ask: Callable[[MessageFlow, State, str], _Led]) -> _Led:
        allowing = [flow for flow in self._flows(state) if flow.why_not(state, reason) is None]
        found: dict[tuple[Hop, State], None] = {}
        for flow in allowing or self._flows(state):
            own = state if flow is self._one else flow.state(state.queue, state.message)
            found.update(dict.fromkeys((hop, self._own(reached)) for hop, reached in ask(flow, own, reason)))
        return tuple(found)

    def _own(self, reached: State) -> State:
        return self.state(reached.queue, reached.message)

    def _flows(self, state: State) -> list[MessageFlow]:
        """Return those that have the state's queue."""
        return [flow for flow in (self._one, self._other) if state.queue in flow.topology.queues]


# Finds what may be behind the deliveries of one sequence that are not as predicted.
#
# Every idea is tried by replaying the sequence under it, by the same automaton that replays the log: with other
# definitions beside the given ones, or with rows that the log does not have. An idea counts if it explains a delivery
# and makes no other one wrong.


SEARCH_STATES_MAX = 300
"""States that one search for an explanation may look at."""
STATES_MAX = 800
"""States that all searches for one sequence may look at."""
OBSERVED_STATES_MAX = 2_000
"""States that the search for a delivery may look at which is known to have an explanation."""
EXPLAINERS_MAX = 2_000
"""Changes whose answers are kept."""


class Repairer:
    """Finds hypotheses for the sequences of one virtual host.

    Args:
        vhost: its name.
        flow: what can become of messages under its definitions.
        addresses: the exchanges and keys that the log has publishes to.
    """

    def __init__(self, vhost: str, flow: MessageFlow, addresses: Addresses = frozenset()) -> None:
        self._vhost = vhost
        self._flow = flow
        self._addresses = addresses
        self._effort = Effort(SEARCH_STATES_MAX, every_way=False, left=0)
        self._observer = Explainer(flow.topology, flow.release, flow, Effort(OBSERVED_STATES_MAX, every_way=False))

    def _forget(self) -> None:
        """Forget what searches found that ended too early."""
        self._explainer = Explainer(self._flow.topology, self._flow.release, self._flow, self._effort)
        self._unseen = UnseenRows(self._vhost, self._explainer, self._addresses)
        self._either: BoundedCache[Change, Explainer] = BoundedCache(EXPLAINERS_MAX)

    def suggestions(self, sequence: RowSequence, seen: Sequence[Seen]) -> list[Suggestion]:
        """Return what explains some of the bad deliveries of a sequence; ``seen`` are its rows."""
        if self._effort.left <= 0:
            self._forget()
        self._effort.left = STATES_MAX
        found: dict[Suggestion, None] = {}
        other: set[int] = set()  # outlived the TTL, or counts no more returns than before
        for at, (field, expected, shown) in zip(sequence.bad, sequence.differing, strict=True):
            for part in other_limits(field, expected, shown):
                found[Suggestion(self._hypothesis(frozenset([part])), frozenset([at]))] = None
                other |= {at} if part.bound == AT_LEAST else set()
            other |= {at} if field in (X_DELIVERY_COUNT, X_ACQUIRED_COUNT) else set()
        bad = frozenset(sequence.bad)
        rows = replay_rows(self._observer, seen, bad)
        changed: set[int] = set()  # what the change behind an earlier delivery explains needs no other change
        for at in sorted(bad):
            case = WrongDelivery(seen, rows, bad, at)
            if case.explained(self._explainer):  # that needs no hypothesis, and so every one would fit
                if at in other:  # but it is another message, if it was published again meanwhile
                    found.update(dict.fromkeys(self._unseen.publishes(case)))
                continue
            own = [*self._unseen.suggestions(case)]
            if at not in changed:
                changes = [*self._other_definitions(case, singles_for)]
                changes = changes if own or changes else [*self._other_definitions(case, pairs_for)]
                changed.update(*(suggestion.rows for suggestion in changes))
                own += changes
            found.update(dict.fromkeys(own))
        return list(found)

    def either(self, change: Change) -> Explainer:
        """Return what explains deliveries by the definitions or by the changed ones."""
        if change not in self._either:
            changed = self.changed(change)
            flow = EitherFlow(self._flow, changed, touched_queues(change, changed.topology))
            self._either[change] = Explainer(changed.topology, flow.release, flow, self._effort)
        return self._either[change]

    def changed(self, change: Change) -> MessageFlow:
        """Return what can become of messages under the changed definitions alone."""
        return changed_flow(change, self._flow.topology, self._flow.release)

    def _other_definitions(self, case: WrongDelivery, ways: Callable[..., Iterator[Change]]) -> Iterator[Suggestion]:
        published = [each.row for each in case.before if each.row.event == Event.PUBLISHED]
        found: list[Change] = []
        for change in ways(case.delivered.row, published, self._flow):
            if not any(smaller <= change for smaller in found):
                explained = case.explained(self.either(change))
                if explained:
                    found.append(change)
                    yield Suggestion(self._hypothesis(change), frozenset(explained))

    def _hypothesis(self, change: Change) -> Hypothesis:
        settings = [part for part in change if isinstance(part, OtherSetting)]
        different = {(part.key, part.value) for part in settings}  # a policy sets one value in several queues
        remarks = ["another part"] * (len(different) + len(change) - len(settings) - 1)
        if any(self._is_argument(part) for part in settings):
            remarks.append("argument")
        return Hypothesis(costs.OTHER_DEFINITIONS, self._vhost, change, remarks=tuple(remarks))

    def _is_argument(self, part: OtherSetting) -> bool:
        queue = self._flow.topology.queues.get(part.queue)
        return queue is not None and f"x-{part.key}" in queue.arguments


# The sequences of one virtual host: what a log shows beyond one message.


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
        """How many messages have each sequence."""
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
        """Return whether the message may have been published before the log began.

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

    def moment(self, group: HypothesisGroup) -> ChangeTime | None:
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
