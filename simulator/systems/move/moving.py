"""Answers what a move to another system keeps, changes and loses, queue by queue."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import msgspec

from dlx.releases import release_and_remark
from simulator.analysis.findings import ObjectName
from simulator.analysis.lint.grouping import together
from simulator.analysis.snapshot import Snapshot
from simulator.definitions import Definitions
from simulator.systems.compare.comparing import load, named
from simulator.systems.compare.nearest import EFFECTS, Answer, Effect, Moved, NearestSystem, names_for
from simulator.systems.move.playing import EXPIRATION_MS, FULL, HISTORIES, Fate, History, Plays, is_told_by, shapes
from simulator.systems.move.reading import QueueToPlay, TopologyToMove, read
from simulator.time_spans import span

NEAREST = {
    "activemq": "simulator.systems.activemq.nearest",
    "zaqar": "simulator.systems.zaqar.nearest",
    "ironmq": "simulator.systems.ironmq.nearest",
    "ibm_mq": "simulator.systems.ibm_mq.nearest",
}
"""The systems that a topology can move to, each with what builds its own."""
SHAPES_MAX = 40
"""So many different queues are played; of the others nothing is said but what their settings say."""

PARTS = {
    "wait queue": "messages wait here for their time",
    "exchange": "publishers publish to an exchange with a routing key",
    "fanout": "an exchange copies messages to several queues",
    "unroutable": "a message that no binding takes",
    "length limit": "a limit on the number of messages",
    "length in bytes": "a limit on the bytes of messages",
    "single active consumer": "one consumer at a time",
    "priorities": "messages have priorities",
    "queue expires": "a queue that is deleted when nobody uses it",
    "stream": "a stream keeps its messages",
    "time in queue": "a message that nobody reads for long",
    "carries": "what a dead letter carries",
}
"""The parts of a topology that are not played, in words."""


class MoveFinding(msgspec.Struct, frozen=True, kw_only=True):
    """What the move does to something that RabbitMQ does, for one object or several.

    Attributes:
        effect: what the move does.
        about: the queues or exchanges.
        what: the history, or the part of the topology, in words.
        before: what RabbitMQ does; empty where ``what`` says it.
        after: what the other system does.
        why: the rule there; empty for what is kept.
        played: whether both simulators played it.
    """

    effect: Effect
    about: tuple[ObjectName, ...]
    what: str
    before: str
    after: str
    why: str
    played: bool

    @property
    def objects(self) -> str:
        """The objects as a finding calls them."""
        return _called(self.about)


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """The answer.

    Attributes:
        before, after: the two systems with their versions, such as ``rabbitmq 4.3``.
        findings: the losses first.
        limits: where the limit of deliveries lives, by system.
        files: what is built for the other system, by name.
        names: what queues and fanout exchanges are called there, if they have another name.
        assumed, not_played: sentences.
    """

    before: str
    after: str
    findings: list[MoveFinding]
    limits: dict[str, str]
    files: dict[str, str]
    names: dict[ObjectName, str]
    assumed: list[str]
    not_played: list[str]

    @property
    def differs(self) -> bool:
        """Whether anything is not as it was."""
        return any(each.effect != "kept" for each in self.findings)

    @property
    def counts(self) -> dict[str, int]:
        """How many findings there are of each effect."""
        found = Counter(each.effect for each in self.findings)
        return {effect: found[effect] for effect in EFFECTS if found[effect]}


def move(definitions: Definitions, release: str, to: str, *, played: Callable[[], None] = lambda: None) -> Move:
    """Return what a move of a topology to another system does.

    Args:
        definitions: the topology.
        release: the RabbitMQ release that it is on.
        to: a system of ``NEAREST``, with a version or profile after a colon if it is not to be the default.
        played: called after each queue that was played.

    Raises:
        ValueError: there is no such system or version.
        DefinitionsError: the definitions cannot be used.
    """
    system = to.partition(":")[0]
    if system not in NEAREST:
        raise ValueError(f"no system {system!r} to move to; expected one of {', '.join(NEAREST)}")
    system, version = named(to)
    nearest = cast(NearestSystem, importlib.import_module(NEAREST[system]))
    if version not in (versions := getattr(nearest, "VERSIONS", (version,))):
        raise ValueError(f"{version} has no consumers to move to; expected {' or '.join(versions)}")
    rules, remark = release_and_remark(release)
    snapshot = Snapshot(definitions, rules)
    topology = read(snapshot)
    moving = Moving(topology, nearest, system, version, rules.name)
    findings = _merged([*moving.played(played), *moving.parts()])
    names = {ObjectName("queue", *at): name for at, name in moving.moved.names.items() if name != at[1]}
    return Move(
        before=f"rabbitmq {rules.name}",
        after=f"{system} {version}",
        findings=findings,
        limits={each: getattr(load(each), "LIMIT", "") for each in ("rabbitmq", system)},
        files=nearest.files(moving.moved),
        names=names,
        assumed=[*([remark] if remark else []), *moving.assumed()],
        not_played=moving.not_played(topology.guesses),
    )


class Moving:
    """One move: the topology, the system that it moves to, and what is built there."""

    def __init__(
        self, topology: TopologyToMove, nearest: NearestSystem, system: str, version: str, release: str
    ) -> None:
        self._topology, self._nearest = topology, nearest
        self._system, self._version, self._release = system, version, release
        queues = [each.queue for each in topology.queues]
        others = [(each.vhost, each.name) for each in topology.others]
        known = {*others, *(each.at for each in queues)}
        others += [dead for each in queues if (dead := each.dead_at) and dead not in known]
        others = list(dict.fromkeys(others))
        wanted = [*(each.at for each in queues), *others, *topology.copied]
        behind = [each for bound in topology.copied.values() for each in bound]
        names = names_for([*wanted, *behind], nearest.allowed, nearest.NAME_MAX)
        self.moved = Moved(queues=queues, others=others, copied=topology.copied, names=names)
        self.shapes = shapes(topology.queues)

    def played(self, done: Callable[[], None]) -> Iterator[MoveFinding]:
        """Play the histories of one queue of each shape, and yield what both systems make of them."""
        for alike in self.shapes[:SHAPES_MAX]:
            for history in HISTORIES:
                if is_told_by(history, alike[0].queue):
                    yield self._compared(alike, history)
            done()

    def plays(self, to_play: QueueToPlay, history: History) -> Plays:
        """Return the plays of a history on one queue."""
        return Plays(to_play, history, self._nearest, self.moved, self._release)

    def _compared(self, alike: Sequence[QueueToPlay], history: History) -> MoveFinding:
        plays = self.plays(alike[0], history)
        before = plays.under_rabbitmq()
        about = tuple(ObjectName("queue", *each.queue.at) for each in alike)
        if history.name not in self._nearest.PLAYS:
            answer = self._unplayed(history, before)
            return _finding(answer, about, history.words, before.words(), played=False)
        after = plays.under(self._system, self._version)
        answer = Answer(
            _effect(before, after, plays.step_ms),
            "the same" if before.is_like(after, plays.step_ms) else after.words(),
            self._nearest.WHY["delays" if before.differs_in_delays(after) else history.name],
        )
        return _finding(answer, about, history.words, before.words(), played=True)

    def _unplayed(self, history: History, before: Fate) -> Answer:
        part = "length limit" if history.name == "full" else history.name
        answer = self._nearest.ANSWERS[part]
        return Answer("kept", answer.text, answer.why) if answer.effect == "lost" and before.lost else answer

    def parts(self) -> Iterator[MoveFinding]:
        """Yield what becomes of the parts that are not played."""
        parts = dict(self._topology.parts)
        dead = [each.queue for each in self._topology.queues if each.queue.dead_letter_queue is not None]
        parts["carries"] = [ObjectName("queue", *each.at) for each in dead]
        for part, about in parts.items():
            answer = self._nearest.ANSWERS.get(part)
            if answer is not None and about and not (part == "length limit" and "full" in self._nearest.PLAYS):
                before = "x-death, and what is beside it" if part == "carries" else ""
                yield _finding(answer, tuple(about), PARTS[part], before, played=False)

    def assumed(self) -> list[str]:
        """Return what was taken to be so."""
        queues = [each.queue for each in self._topology.queues]
        found = [*self._nearest.ASSUMED]
        said = {
            "consumer": "reject what they fail on: nothing limits how often they may return it",
            "loop": "count attempts themselves: a message that they reject comes back without end",
        }
        for limited_by, what in said.items():
            concerned = [ObjectName("queue", *each.at) for each in queues if each.limited_by == limited_by]
            if concerned:
                found.append(f"consumers of {_called(concerned)} {what}")
        if self._topology.waiting:
            found.append(f"nobody reads {_called(self._topology.waiting)}")
        if any(each.consumer_timeout_ms is None for each in queues):
            found.append("claims and reservations last 30 min")
        life = span(EXPIRATION_MS * 1_000)
        found.append(f"a message that expires in a queue without a time to live is published with one of {life}")
        if any((each.max_length or 0) > FULL for each in queues):
            found.append(f"queues with room for more than {FULL} messages are played with a smaller limit")
        found.append("each queue gets its messages by the first way that leads there, and has one consumer")
        return found

    def not_played(self, guesses: Sequence[str]) -> list[str]:
        """Return what nobody looked at."""
        left = [each for alike in self.shapes[SHAPES_MAX:] for each in alike]
        found = list(guesses)
        if left:
            about = _called([ObjectName("queue", *each.queue.at) for each in left])
            found.append(f"{about}: {SHAPES_MAX} different queues are played, and these differ from all of them")
        found.append("several consumers of a queue, transactions, restarts and clusters of either system")
        found.append("users, permissions and how clients connect")
        return found


def _called(objects: Sequence[ObjectName]) -> str:
    return str(objects[0]) if len(objects) == 1 else together(objects)


def _effect(before: Fate, after: Fate, within_ms: float) -> Effect:
    if before.is_like(after, within_ms):
        return "kept"
    return "lost" if after.lost > before.lost and not before.endless else "changes"


def _finding(answer: Answer, about: tuple[ObjectName, ...], what: str, before: str, *, played: bool) -> MoveFinding:
    why = "" if answer.effect == "kept" else answer.why
    return MoveFinding(
        effect=answer.effect, about=about, what=what, before=before, after=answer.text, why=why, played=played
    )


def _merged(findings: Sequence[MoveFinding]) -> list[MoveFinding]:
    """Return equal findings as one about all of their objects, the losses first."""
    found: dict[Any, list[MoveFinding]] = {}
    for each in findings:
        found.setdefault(msgspec.structs.replace(each, about=()), []).append(each)
    merged = [
        msgspec.structs.replace(each, about=tuple(dict.fromkeys(about for one in alike for about in one.about)))
        for each, alike in found.items()
    ]
    first = {about: place for place, about in reversed(list(enumerate(each.about for each in merged)))}
    return sorted(merged, key=lambda each: (EFFECTS.index(each.effect), first[each.about]))
