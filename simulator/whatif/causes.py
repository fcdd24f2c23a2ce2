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
from simulator.whatif.both_sides import ComparedMessage, Playbacks
from simulator.whatif.coupling import message_of
from simulator.whatif.differences import SideDifference, differences, question, taken_back
from simulator.whatif.outcomes import Ends
from simulator.whatif.playback import in_order
from simulator.whatif.playback_broker import PlaybackBroker, QueueRef
from simulator.whatif.sides import PreparedSide, prepared
from simulator.whatif.stories import Story

WAYS_MAX = 40
TOGETHER_MAX = 3_000
"""Messages of coupled queues that are played for each difference."""


class ChangeCause(msgspec.Struct, frozen=True, rename={"what": "behaviour or setting"}):
    """A setting, or a row of the release table, and how many messages end differently by it."""

    what: str
    messages: int


class Causes(NamedTuple):
    """The causes, most messages first, what was not looked at, in sentences, and in what the sides differ, in words."""

    found: tuple[ChangeCause, ...]
    unchecked: tuple[str, ...]
    question: str


class Part(NamedTuple):
    """Messages of which some change.

    Attributes:
        changed: how many do.
        ways: for the most frequent ways of change, how many change so, and one of them.
        queues: the queues that couple them; none where each is played by itself.
        together: all that meet in these queues, unless they are too many.
        messages: how many that are.
    """

    changed: int
    ways: Sequence[tuple[int, ComparedMessage]]
    queues: tuple[QueueRef, ...]
    together: Sequence[ComparedMessage]
    messages: int


def find_causes(playbacks: Playbacks, parts: Iterable[Part]) -> Causes:
    """Return what makes messages end differently."""
    sides = playbacks.before.side, playbacks.after.side
    found = differences(*sides)
    counted: Counter[str] = Counter()
    unchecked = []
    for part in parts:
        if len(found) == 1:
            counted[found[0].what] += part.changed
        elif part.queues and part.messages > TOGETHER_MAX:
            names = ", ".join(f"'{queue}'" for _, queue in part.queues)
            unchecked.append(
                f"what makes messages end differently around {names}: {part.messages:,} messages meet there"
            )
        else:
            counted += _of_part(part, playbacks, found)
    causes = sorted(counted.items(), key=lambda cause: (-cause[1], cause[0]))
    shown = tuple(ChangeCause(what, messages) for what, messages in causes)
    return Causes(shown, tuple(unchecked), question(*sides, found))


def _of_part(part: Part, playbacks: Playbacks, found: Sequence[SideDifference]) -> Counter[str]:
    played = part.together if part.queues else [example for _, example in part.ways]
    laboratory = Laboratory(playbacks, found, [case.story for case in played])
    together = _Experiments(played, laboratory) if part.queues else None
    counted: Counter[str] = Counter()
    for messages, example in part.ways:
        experiments = together or _Experiments([example], laboratory)
        for what in experiments.causes(example):
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
