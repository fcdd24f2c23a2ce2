"""Finds which of the differences between two sides make messages end differently, by experiment.

Messages of each kind of change are played again with one difference taken back. Where that
brings the old end back, the difference is a cause; where none does so alone, those count that
bring the new end about alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from dlx.binding_index import INDEXES, first
from dlx.message import Message
from dlx.message_flow import MessageFlow
from dlx.releases.global_counters import GlobalCounterRows
from dlx.releases.permissions import PermissionRows
from dlx.releases.rows import rows_of
from dlx.routing import BY_KEY, DEFAULT_EXCHANGE
from dlx.topology import Binding
from simulator.analysis.findings import ObjectName
from simulator.analysis.slices import sent_on_from
from simulator.definitions import DefinitionsError
from simulator.whatif.answer import ChangeCause
from simulator.whatif.both_sides import ComparedMessage, Playbacks, began
from simulator.whatif.coupling import Unit, message_of
from simulator.whatif.differences import SideDifference, taken_back
from simulator.whatif.outcomes import Ends
from simulator.whatif.playback import in_order
from simulator.whatif.playback_broker import PlaybackBroker
from simulator.whatif.sides import PreparedSide, prepared
from simulator.whatif.stories import Story
from simulator.whatif.tally import Tally, Transition

WAYS_MAX = 40
TOGETHER_MAX = 3_000
"""Messages of coupled queues that are played for each difference."""


class PlayedGroup(NamedTuple):
    """Messages that were played together, or those that were played by themselves.

    Attributes:
        unit: which ones, and why together.
        tally: all of them, added up.
        cases: all of them that queues couple, in the order in which they begin, unless they are too many; of the
            others one for each way of change.
    """

    unit: Unit
    tally: Tally
    cases: Sequence[ComparedMessage]

    @classmethod
    def of(cls, unit: Unit, cases: Sequence[ComparedMessage]) -> PlayedGroup:
        """Return messages that were played, all of which are given."""
        tally = Tally(cases)
        if unit.queues:
            return cls(unit, tally, cases)
        wanted = tally.examples()
        return cls(unit, tally, sorted((case for case in cases if case.named in wanted), key=began))

    def frequent_ways(self) -> list[tuple[int, ComparedMessage]]:
        """Return how many messages change in each of the most frequent ways, and one of them."""
        ranked = sorted(self.tally.ways.items(), key=lambda item: (-item[1][0], item[1][1]))[:WAYS_MAX]
        # Where definitions name no virtual host, messages of several may have one name.
        known = {(case.named, Transition.of(case)): case for case in self.cases}
        named = ((messages, (examples[0], way)) for way, (messages, examples) in ranked)
        return [(messages, known[name]) for messages, name in named if name in known]


def find_causes(
    playbacks: Playbacks, found: Sequence[SideDifference], groups: Iterable[PlayedGroup]
) -> tuple[list[ChangeCause], list[str]]:
    """Return which of the differences make messages end differently, and in sentences what was not looked at."""
    counted: Counter[str] = Counter()
    unchecked = []
    for group in groups:
        queues, messages = group.unit.queues, group.tally.messages
        if len(found) == 1:
            counted[found[0].what] += group.tally.changed
        elif queues and messages > TOGETHER_MAX:
            names = ", ".join(f"'{queue}'" for _, queue in queues)
            unchecked.append(f"what makes messages end differently around {names}: {messages:,} messages meet there")
        else:
            counted += _of_group(group, playbacks, found)
    causes = sorted(counted.items(), key=lambda cause: (-cause[1], cause[0]))
    return [ChangeCause(what, messages) for what, messages in causes], unchecked


def _of_group(group: PlayedGroup, playbacks: Playbacks, found: Sequence[SideDifference]) -> Counter[str]:
    ways = group.frequent_ways()
    played = group.cases if group.unit.queues else [example for _, example in ways]
    laboratory = Laboratory(playbacks, found, [case.story for case in played])
    together = _Experiments(played, laboratory) if group.unit.queues else None
    counted: Counter[str] = Counter()
    for messages, example in ways:
        for what in (together or _Experiments([example], laboratory)).causes(example):
            counted[what] += messages
    return counted


class _Experiments:
    """Plays messages that belong together under one side after the other, each once."""

    def __init__(self, played: Sequence[ComparedMessage], laboratory: Laboratory) -> None:
        self._place = {id(case): place for place, case in enumerate(played)}
        self._laboratory = laboratory
        self._differences = laboratory.differences([case.story for case in played])
        self._firsts = [each.first for each in in_order(laboratory.playbacks.first(case.story for case in played))]
        self._known: dict[int, list[Ends]] = {}

    def causes(self, case: ComparedMessage) -> list[str]:
        """Return the differences that make the message end differently."""
        found = self._bringing(case.before.ends, self._laboratory.without, case)
        if found or self._ends(self._laboratory.playbacks.before.broker, case) == case.after.ends:
            return found  # none are needed where the log's own side, played again, may end in the new way
        return self._bringing(case.after.ends, self._laboratory.only_with, case)

    def _bringing(
        self, end: Ends, broker_of: Callable[[SideDifference], PlaybackBroker | None], case: ComparedMessage
    ) -> list[str]:
        """Return the differences whose brokers bring the message to that end."""
        return [each.what for each in self._differences if self._ends(broker_of(each), case) == end]

    def _ends(self, broker: PlaybackBroker | None, case: ComparedMessage) -> Ends | None:
        if broker is None:
            return None
        if id(broker) not in self._known:  # the laboratory keeps it
            run = self._laboratory.playbacks.other(self._firsts, broker)
            self._known[id(broker)] = [each.fate.ends for each in in_order(run)]
        return self._known[id(broker)][self._place[id(case)]]


_NO_MATTER = frozenset(row.name for row in rows_of(PermissionRows, GlobalCounterRows))
"""Behaviours that decide over no message: here clients may do everything."""


class Laboratory:
    """The brokers for experiments with some messages.

    Args:
        playbacks: plays messages under both sides.
        found: in what the sides differ.
        stories: the messages.
    """

    def __init__(self, playbacks: Playbacks, found: Sequence[SideDifference], stories: Sequence[Story]) -> None:
        self.playbacks, self._found, self._stories = playbacks, found, stories
        self._sent: dict[int, Mapping[str, Sequence[Message]]] = {}
        self._meeting: dict[SideDifference, list[Story]] = {}
        self._brokers: dict[tuple[bool, SideDifference], PlaybackBroker | None] = {}

    def differences(self, stories: Sequence[Story]) -> list[SideDifference]:
        """Return the differences that any of these messages may meet."""
        own = set(map(id, stories))
        return [what for what in self._found if any(id(story) in own for story in self._meets(what))]

    def without(self, what: SideDifference) -> PlaybackBroker | None:
        """Return the other side without this difference; nothing if the broker refuses its definitions."""
        return self._broker(self.playbacks.after, self.playbacks.before, what)

    def only_with(self, what: SideDifference) -> PlaybackBroker | None:
        """Return the log's own side with this difference alone; nothing if the broker refuses its definitions."""
        return self._broker(self.playbacks.before, self.playbacks.after, what)

    def _broker(self, side: PreparedSide, to: PreparedSide, what: SideDifference) -> PlaybackBroker | None:
        key = side is self.playbacks.after, what
        if key not in self._brokers:
            try:
                self._brokers[key] = prepared(taken_back(side.side, to.side, what)).broker
            except DefinitionsError:
                self._brokers[key] = None
        return self._brokers[key]

    @property
    def _sides(self) -> tuple[PreparedSide, PreparedSide]:
        return self.playbacks.before, self.playbacks.after

    # Which messages meet a difference

    def _meets(self, what: SideDifference) -> list[Story]:
        """Return the messages that may meet a difference, on one of the sides or the other."""
        if what not in self._meeting:
            self._meeting[what] = [story for story in self._stories if self._may_meet(story, what)]
        return self._meeting[what]

    def _may_meet(self, story: Story, what: SideDifference) -> bool:
        if what.behaviour:
            return what.behaviour not in _NO_MATTER
        if not self.playbacks.reaches.of(story).is_clear:
            return True
        if what.section == "queues":
            vhost, name = msgspec.json.decode(what.key)
            return self._is_of(vhost, story) and self._meets_queue(story, name, is_there=bool(what.field))
        if what.section == "bindings":
            vhost, source, kind, destination, key, arguments = msgspec.json.decode(what.key)
            binding = Binding(source=source, destination=destination, destination_type=kind, routing_key=key,
                              arguments=arguments)  # fmt: skip
            return self._is_of(vhost, story) and self._meets_binding(story, binding)
        return True

    def _is_of(self, vhost: str | None, story: Story) -> bool:
        """Tell whether a virtual host is that of the message; the definitions of a single one may not name it."""
        return vhost in (None, story.vhost) or self.playbacks.before.only_vhost is not None

    def _meets_queue(self, story: Story, name: str, *, is_there: bool) -> bool:
        """Tell whether the message may come to a queue, or might, if the queue is not there on both sides."""
        reached = (story.vhost, name) in self.playbacks.reaches.of(story).queues
        if reached or is_there:
            return reached
        about = ObjectName("queue", story.vhost, name)
        bound = any(about in side.snapshot.left_out for side in self._sides)
        return bound or any(name in message.routing_keys for message in self._sent_to(story, DEFAULT_EXCHANGE))

    def _meets_binding(self, story: Story, binding: Binding) -> bool:
        for side in self._sides:
            flow = side.flows.get(story.vhost)
            exchange = None if flow is None else flow.topology.exchanges.get(binding.source)
            if flow is None or exchange is None:
                continue
            if exchange.type not in BY_KEY:
                return True
            alone = INDEXES[exchange.type]([binding])
            if any(alone.met(message, flow.release, first) for message in self._sent_to(story, binding.source)):
                return True
        return False

    def _sent_to(self, story: Story, exchange: str) -> Sequence[Message]:
        """Return under which addresses the message may come to an exchange, on one of the sides or the other."""
        if id(story) not in self._sent:
            sent: defaultdict[str, list[Message]] = defaultdict(list)
            for flow in (side.flows[story.vhost] for side in self._sides if story.vhost in side.flows):
                for message, _ in sent_on_from(flow, _messages(flow, story)):
                    for visit in flow.visits(message):
                        sent[visit.exchange.name].append(message)
            self._sent[id(story)] = sent
        return self._sent[id(story)].get(exchange, ())


def _messages(flow: MessageFlow, story: Story) -> list[Message]:
    """Return what publishers publish, as far as the release takes it."""
    return [each for each in (message_of(flow, publication) for publication in story.publications) if each is not None]
