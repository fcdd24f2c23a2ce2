"""Finds what a history breaks, and the shortest history that breaks it as well.

A message is tried in the part of the topology that it can come to, with small limits in
the place of large ones; what is found there counts only if it breaks the whole topology, too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Protocol, TypeVar

from dlx.deaths import MAXLEN, REJECTED
from dlx.message_flow import MessageFlow
from dlx.possible_deaths import DeathRule
from dlx.releases import DEFAULT
from dlx.settings import AT_LEAST_ONCE, Setting
from simulator.analysis.clients import FAILURES, NOTHING_STATED, Clients, Failure
from simulator.analysis.entries import Entries, by_name
from simulator.analysis.limit_scaling import scaled, unscaled
from simulator.analysis.losses import (
    HELD,
    REFUSED,
    REMOVED,
    Loss,
    cause,
    losses_at,
    parking_in,
    published,
)
from simulator.analysis.next_steps import unused_ms
from simulator.analysis.slices import flows_of, message_of, reached, sliced
from simulator.analysis.walk import Walk
from simulator.bootstrap import DefinitionsSource
from simulator.broker import OperatorError
from simulator.events import Event, Happened
from simulator.json_values import plain
from simulator.scenario import steps
from simulator.scenario.properties.property import FindingCause, Property, PropertyBroken
from simulator.scenario.properties.property_registry import Arrives, Lossless, named
from simulator.scenario.steps import AnyStep, History, Publish
from simulator.scenario.trial import Trial
from simulator.sources import definitions_from_file
from simulator.testing.fuzz.failure_report import events_of

INTO_MAX = 20
BY_NAME = (
    "Found only for messages that are published to the queue by its name, as frameworks that republish do, shovels, "
    '"Move messages" of the management page and `dlx redrive`.'
)
NAMED_MAX = 3
SHRINK_S = 6.0
TRUE_ACTIONS_MAX = 250_000


class Counterexample:
    """A history that breaks a property.

    Attributes:
        history: the steps, as few as could be found.
        broken: what is broken, and how.
        definitions: the definitions it was found with.
        note: what else there is to say; empty if there is nothing.
    """

    def __init__(
        self, history: History, broken: PropertyBroken, definitions: DefinitionsSource, note: str = ""
    ) -> None:
        self.history, self.broken, self.definitions, self.note = history, broken, definitions, note

    def events(self, release: str) -> list[Happened]:
        """Return what happened, under ``release``, to the message that broke the property."""
        return events_of(self.definitions, self.broken.history, release, self.broken)


class Finder:
    """Plays histories in one topology.

    Args:
        definitions: an export of definitions, or its file.
        property: the name of the property to break, or what makes a property.
        by_name: whether messages are also published to bound queues by their names, unless ``publishes`` or
            ``clients`` say what is published.
        besides: the name of another one to break; ``arrives`` where some queue dead-letters at least once.
        release: the RabbitMQ release.
        publishes: what publishers publish; by default ``entries``.
        whole: whether to play in the whole topology, rather than in what the messages can come to.
        discards: whether consumers also reject for good where nothing takes the dead letter. ``lossless`` then
            counts what is lost that way, apart from parking queues.
        clients: what clients do.

    Attributes:
        definitions, release, discards, clients: as given.
        known: causes of findings that are passed over.
        topologies, flows: the virtual hosts by name, and what the rules say of messages in each.
        makers: make the new properties of each trial.
        properties: such ones, and ``property`` the first of them.
        publishes: what publishers publish.
        tried_by_name: those of them that publish to bound queues by their names; none unless asked for.
        left_out: what else they would publish, in sentences.
        expiries_ms: after how long queues that nobody uses are deleted.
    """

    def __init__(
        self,
        definitions: DefinitionsSource,
        property: str | Callable[[], Property],
        *,
        release: str = DEFAULT,
        publishes: Sequence[Publish] = (),
        besides: str | None = None,
        by_name: bool = False,
        whole: bool = False,
        discards: bool = False,
        clients: Clients = NOTHING_STATED,
    ) -> None:
        self.definitions, self.release, self.discards, self.clients = definitions, release, discards, clients
        self.known: set[FindingCause] = set()
        self._maker: Callable[[], Property] = (lambda: named(property)) if isinstance(property, str) else property
        self.property = self._maker()
        document = definitions if isinstance(definitions, Mapping) else definitions_from_file(definitions).document
        trial = Trial(definitions, release=release)
        kept = _kept_queues(flows_of(trial), publishes, clients) if clients else frozenset()
        self._played: DefinitionsSource = definitions
        if kept:
            self._played = document = _without_expiry(document, kept)
            trial = Trial(document, release=release)
            self.known |= {FindingCause(self.property.name, *at, None, Event.PURGED.value) for at in kept}
        self._true_document = document
        self._document: Mapping[str, Any]
        self._document, self._limits = scaled(document)
        self.topologies, self.flows = trial.topologies(), flows_of(trial)
        if besides == Arrives.name and not any(map(_may_hold, self.flows.values())):
            besides = None
        self._besides: tuple[Callable[[], Property], ...] = () if besides is None else (lambda: named(besides),)
        self.properties = [self.property, *(make() for make in self._besides)]
        self.expiries_ms = sorted({ms for ms in map(unused_ms, trial.queues()) if ms})
        first = Entries(list(publishes), []) if publishes else None
        self.publishes, self.left_out = published(self.flows, clients, first)
        self.left_out = [*self.left_out, *clients.unknown(self.topologies)]
        self._stated = bool(publishes or clients.publish)
        self.tried_by_name = self._by_name() if by_name else []
        self.publishes = [*self.publishes, *self.tried_by_name]
        if (discards or clients) and isinstance(self.property, Lossless):
            self._maker = lambda: Lossless(spared=self.spared)
        self._whole = whole
        self._routes: dict[str, tuple[str, ...]] = {}
        self._reachable_parts: dict[str, Mapping[str, Any]] = {}

    def _by_name(self) -> list[Publish]:
        """Return publishes to bound queues by their names that lead to another situation than all others."""
        found: list[Publish] = []
        for vhost, flow in () if self._stated else self.flows.items():
            walk = Walk(flow, vhost, self.publishes, self.clients)
            known = {flow.situation(place.queue, place.state.message) for place in walk.places}
            found += by_name(flow, vhost, known)
        return found

    @cached_property
    def walks(self) -> dict[str, Walk]:
        """All situations that the rules say messages can come to, by virtual host."""
        return {vhost: Walk(flow, vhost, self.publishes, self.clients) for vhost, flow in self.flows.items()}

    @cached_property
    def parking(self) -> frozenset[tuple[str, str]]:
        """The parking queues, as pairs of virtual host and name."""
        return parking_in(self.walks)

    def failures(self, vhost: str, queue: str) -> tuple[Failure, ...]:
        """Return what consumers of a queue do; they reject for good where it is dead-lettered, unless stated."""
        stated = self.clients.failures(vhost, queue)
        if stated is not None:
            return stated
        rejects = self.discards or self.flows[vhost].settings(queue).dead_letters
        return FAILURES if rejects else ("requeue", "crash")

    @cached_property
    def spared(self) -> frozenset[tuple[str, str]]:
        """The queues where it is no loss that consumers reject for good, as pairs of virtual host and name."""
        return frozenset(
            (vhost, name)
            for vhost, flow in self.flows.items()
            for name in flow.topology.queues
            if not self._counts(vhost, name)
        )

    def _counts(self, vhost: str, queue: str) -> bool:
        """Return whether it is a loss that consumers of the queue reject for good, and nothing takes it."""
        habit = self.clients.habit(vhost, queue, REJECTED)
        rejects = self.discards if habit is None else habit.does
        return rejects and (vhost, queue) not in self.parking

    @cached_property
    def possible_losses(self) -> list[Loss]:
        """Every loss that the rules make possible, also those that no history shows, one for each cause."""
        return list(_losses_on(self.walks.values()).values())

    @cached_property
    def lossy_by_name(self) -> list[Publish]:
        """The publishes to queues by their names that are not tried, and would add a loss of a new cause."""
        untried = [] if self.tried_by_name else self._by_name()
        walks = [Walk(flow, vhost, untried, self.clients) for vhost, flow in self.flows.items()]
        known = _losses_on(self.walks.values())
        new = [loss for key, loss in _losses_on(walks).items() if key not in known]
        broken = {each.name for each in self.properties}
        held = [loss.publish for loss in new if loss.fate == HELD and Arrives.name in broken]
        lost = [loss.publish for loss in new if loss.fate != HELD and loss.whole and not loss.by_consumers]
        counted = [*held, *(lost if Lossless.name in broken else [])]
        return [each for each in untried if each in counted]

    @property
    def makers(self) -> list[Callable[[], Property]]:
        """What makes the properties, which skip what is known."""
        return [partial(self._made, each) for each in (self._maker, *self._besides)]

    def made(self) -> list[Property]:
        """Return new properties, which skip what is known."""
        return [make() for make in self.makers]

    def _made(self, make: Callable[[], Property]) -> Property:
        made = make()
        made.known = self.known
        return made

    def widened(self) -> bool:
        """Widen the part of the definitions that is searched; return whether there was more of them.

        This is for a finding that breaks nothing in the definitions as they are.
        """
        if not self._whole:
            self._whole = True
            return True
        if self._limits:
            self._document, self._limits = self._true_document, {}
            return True
        return False

    def counterexample(self, history: History) -> Counterexample | None:
        """Return the shortest counterexample made of a history, with the true limits; ``None`` if nothing breaks."""
        found = self._breaks(history, self.definitions_for(history))
        if found is None:
            return None
        end = time.monotonic() + SHRINK_S
        for simpler in (self._shortened, self._entered_later, self._shortened):
            found = simpler(found, end)
        for true in unscaled(found.history, self._limits):
            actions = steps.length(true)
            if actions > TRUE_ACTIONS_MAX:
                note = f"Found with smaller limits: the history takes {actions:,} actions, and was not played."
                return Counterexample(true, found.broken, found.definitions, note)
            played = self._breaks(true, self._played)
            if played is not None:
                played.note = BY_NAME if any(step in self.tried_by_name for step in once(played.history)) else ""
                return played
        return None

    def _shortened(self, found: Counterexample, until_s: float) -> Counterexample:
        return shrink(found, lambda shorter: self._in_time(shorter, until_s), until_s=until_s)

    def _entered_later(self, found: Counterexample, until_s: float) -> Counterexample:
        """Return the finding by its last steps alone, if a publisher can put the message in just before them."""
        for last in range(1, len(found.history) - 1):
            rest = found.history[-last:]
            for publish in self._into(getattr(rest[0], "queue", None)):
                again = self._in_time((publish, *rest), until_s)
                if again is not None:
                    return again
        return found

    def _into(self, queue: str | None) -> list[Publish]:
        """Return some publishes that bring a message into the queue at once; some of all if no queue is named."""
        usual = (each for each in self.publishes if each not in self.tried_by_name)
        return [each for each in usual if queue is None or queue in self.first_queues(each)][:INTO_MAX]

    def first_queues(self, publish: Publish) -> tuple[str, ...]:
        """Return the queues that a publish is routed to."""
        if repr(publish) not in self._routes:
            flow = self.flows[publish.vhost]
            self._routes[repr(publish)] = flow.entries(message_of(publish, flow.release))
        return self._routes[repr(publish)]

    def _in_time(self, history: History, until_s: float) -> Counterexample | None:
        return self._breaks(history, self.definitions_for(history), until_s)

    def play(self, history: History, make: Callable[[], Property] | None = None) -> Counterexample | None:
        """Play the history unchanged and return what it breaks, cut off there; ``None`` if it breaks nothing.

        ``make`` makes another property to look for. Raises ``OperatorError`` for a step that RabbitMQ refuses.
        """
        properties = self.made() if make is None else [make()]
        trial = Trial(self._played, release=self.release, properties=properties)
        return _played(trial, history)

    def _breaks(
        self, history: History, definitions: DefinitionsSource, until_s: float = math.inf
    ) -> Counterexample | None:
        """Return what the history breaks with these definitions, if that shows in time; a step may be refused."""

        def pulse() -> None:
            if time.monotonic() > until_s:
                raise _TooLong

        trial = Trial(definitions, release=self.release, properties=self.made(), pulse=pulse)
        try:
            return _played(trial, history)
        except (OperatorError, _TooLong):
            return None

    def definitions_for(self, history: History) -> Mapping[str, Any]:
        """Return the smallest definitions that contain everything the history uses."""
        if self._whole:
            return self._document
        published = [step for step in once(history) if isinstance(step, Publish)]
        kinds = {repr(steps.changed(step, expiration_ms=None, body_bytes=0)): step for step in published}
        if len(kinds) != 1:
            return self._document
        ((kind, publish),) = kinds.items()
        if kind not in self._reachable_parts:
            self._reachable_parts[kind] = sliced(self._document, self.flows[publish.vhost], publish)
        return self._reachable_parts[kind]


def _losses_on(walks: Iterable[Walk]) -> dict[Hashable, Loss]:
    """Return one loss for each cause."""
    found: dict[Hashable, Loss] = {}
    for walk in walks:
        for place in walk.places:
            for loss in losses_at(place, walk, parked=False):
                found.setdefault(cause(loss), loss)
    return found


def _may_hold(flow: MessageFlow) -> bool:
    """Return whether a queue dead-letters at least once."""
    return any(flow.settings(name).dead_letter_strategy == AT_LEAST_ONCE for name in flow.topology.queues)


def _kept_queues(
    flows: Mapping[str, MessageFlow], publishes: Sequence[Publish], clients: Clients
) -> frozenset[tuple[str, str]]:
    """Return the queues that clients keep from being deleted with a message in them."""
    first = Entries(list(publishes), []) if publishes else None
    there = published(flows, clients, first).publishes
    walks = [Walk(flow, vhost, there, clients) for vhost, flow in flows.items()]
    kept: dict[tuple[str, str], bool] = {}
    for walk in walks:
        for place in walk.places:
            settings, at = walk.flow.settings(place.queue), (walk.vhost, place.queue)
            line = clients.kept_by(walk.vhost, settings, published=place.hop is None)
            kept[at] = kept.get(at, True) and line is not None
    return frozenset(at for at, always in kept.items() if always)


def _without_expiry(document: Mapping[str, Any], kept: frozenset[tuple[str, str]]) -> dict[str, Any]:
    """Return the definitions with these queues as queues that are not deleted; a policy may still do it."""
    in_one = {name for _, name in kept}  # an export of one virtual host does not name it

    def stays(item: Mapping[str, Any]) -> Mapping[str, Any]:
        name = item.get("name")
        if not ((item["vhost"], name) in kept if "vhost" in item else name in in_one):
            return item
        arguments = {key: value for key, value in (item.get("arguments") or {}).items() if key != "x-expires"}
        return {**item, "arguments": arguments, "auto_delete": False}

    return {**document, "queues": [stays(each) for each in document.get("queues", ())]}


def _played(trial: Trial, history: History) -> Counterexample | None:
    try:
        trial.play(history)
    except PropertyBroken as broken:
        return Counterexample(broken.history, broken, trial.definitions)
    return None


def once(path: History) -> Iterator[AnyStep]:
    """Yield the steps of a path, with each repeated step once."""
    for step in path:
        if isinstance(step, steps.Repeat):
            yield from once(step.steps)
        elif isinstance(step, Publish):
            yield steps.changed(step, times=1)
        else:
            yield step


class _TooLong(Exception):
    """Ends a trial."""


# Makes a history shorter that shows something: leaves out steps, and takes smaller numbers, while it still does.


class HistoryFinding(Protocol):
    """A finding that a history shows; ``history`` is the part of it that was needed."""

    history: History


Found = TypeVar("Found", bound=HistoryFinding)


def shrink(best: Found, shows: Callable[[History], Found | None], *, until_s: float) -> Found:
    """Return the same finding with the shortest history that still shows it.

    ``shows`` returns what a history shows, or ``None``. The search stops when ``time.monotonic()``
    reaches ``until_s``, with the best so far.
    """
    better: Found | None = best
    while better is not None:
        best = better
        better = _first(best.history, shows, until_s)
    return best


def _first(history: History, shows: Callable[[History], Found | None], end: float) -> Found | None:
    """Return the first of the simpler histories that still shows it."""
    for simpler in _simpler(history):
        if time.monotonic() > end:
            return None
        found = shows(simpler)
        if found is not None and _weight(found.history) < _weight(history):
            return found
    return None


def _weight(history: History) -> tuple[int, int, int]:
    """Weigh a history: fewer steps are better, then fewer actions, then less time and smaller bodies."""
    return _count(history), steps.length(history), sum(map(_size, history))


def _count(history: History) -> int:
    return sum(1 + (_count(step.steps) if isinstance(step, steps.Repeat) else 0) for step in history)


def _size(step: AnyStep) -> int:
    if isinstance(step, steps.Repeat):
        return sum(map(_size, step.steps))
    return getattr(step, "ms", 0) + getattr(step, "body_bytes", 0)


def _simpler(history: History) -> Iterator[History]:
    yield from _without_parts(history)
    yield from _merged(history)
    yield from _repeated(history)
    for index, step in enumerate(history):
        for smaller in _smaller(step):
            yield (*history[:index], *smaller, *history[index + 1 :])


def _without_parts(history: History) -> Iterator[History]:
    """Leave out a half, a quarter, ..., one step."""
    size = len(history) // 2
    while size:
        for start in range(0, len(history) - size + 1, size):
            yield history[:start] + history[start + size :]
        size //= 2


def _merged(history: History) -> Iterator[History]:
    """Merge neighbouring steps that differ only in how often they happen."""
    for index, (step, following) in enumerate(pairwise(history)):
        times = [getattr(each, "times", 0) for each in (step, following)]
        if all(times) and steps.changed(step, times=1) == steps.changed(following, times=1):
            yield (*history[:index], steps.changed(step, times=sum(times)), *history[index + 2 :])


def _repeated(history: History) -> Iterator[History]:
    """Write repeated steps once."""
    for period in range(1, 5):
        for start in range(len(history) - 2 * period + 1):
            part, times = history[start : start + period], 1
            while history[start + times * period : start + (times + 1) * period] == part:
                times += 1
            if times > 1:
                rest = history[start + times * period :]
                yield (*history[:start], steps.again(part, times), *rest)


def _smaller(step: AnyStep) -> Iterator[History]:
    """Yield simpler steps to put in its place."""
    if isinstance(step, steps.Repeat):
        yield step.steps
        if len(step.steps) == 1:
            yield (steps.again(step.steps, step.times),)
        for inner in _simpler(step.steps):
            if inner:
                yield (steps.Repeat(inner, step.times),)
    for field, least in (("times", 1), ("ms", 0), ("body_bytes", 0)):
        value = getattr(step, field, least)
        for less in _less(value, least):
            yield (steps.changed(step, **{field: less}),)


def _less(value: int, least: int) -> Iterator[int]:
    """Yield smaller numbers, the smallest first."""
    gap = value - least
    while gap > 0:
        yield value - gap
        gap //= 2


# Names what is behind a finding: the deciding rule with its setting, what that hides, and what was assumed.


_FATES = {
    Event.CYCLE_DROPPED.value: ("cycle",),
    Event.UNROUTABLE.value: ("unroutable",),
    Event.HELD.value: (HELD,),
    Event.PURGED.value: (REMOVED,),
    Event.DROPPED.value: ("no dead-letter exchange", "dead-letter exchange missing", "lost in a stream", REFUSED),
}


def deciding_rule(search: Finder, broken: PropertyBroken) -> DeathRule | None:
    """Return the rule that lost the message; ``None`` if it was not lost, or no rule fits."""
    return next((loss.rule for loss in search.possible_losses if is_cause(broken.cause, loss)), None)


def is_cause(cause: FindingCause, loss: Loss) -> bool:
    """Return whether a loss that the rules make possible is what was found."""
    if cause.vhost != loss.vhost or loss.fate not in _FATES.get(cause.what, ()):
        return False
    if loss.fate == REFUSED:  # the copy dies where it is refused, of the length limit
        return (cause.queue, cause.reason) == (loss.target, MAXLEN)
    return cause.queue in (loss.queue, loss.target) and (cause.reason or "") == loss.reason


def told(rule: DeathRule) -> str:
    """Say the rule, its setting, and what that hides."""
    return f"{rule}; {hidden(rule.setting)}" if rule.setting is not None and rule.setting.hidden else str(rule)


def as_json(setting: Setting) -> dict[str, Any]:
    """Return a setting with its origin and what it hides."""
    hides = [{"value": plain(value), "origin": str(origin)} for value, origin in setting.hidden]
    return {"key": setting.key, "value": plain(setting.value), "origin": str(setting.origin), "hidden": hides}


def hidden(setting: Setting) -> str:
    """Say which values a setting hides."""
    return "it hides " + ", ".join(f"{value} by {origin}" for value, origin in setting.hidden)


_BECOMES = {Lossless.name: "lost", Arrives.name: "held"}


def assumptions(search: Finder) -> Iterator[str]:
    """Yield what is stated of clients, in sentences, and what ``lossless`` takes for granted besides.

    That is: consumers discard nothing where it would be gone. Of ``arrives``, what publishes by queue name add.
    """
    yield from map(search.clients.said, search.clients.lines)
    named = [f"'{each.routing_key}'" for each in search.lossy_by_name]
    if named:
        more = f" and {len(named) - NAMED_MAX:,} more queues" if len(named) > NAMED_MAX else ""
        fates = " or ".join(_BECOMES[each.name] for each in search.properties if each.name in _BECOMES)
        yield (
            f"nobody publishes by queue name to {', '.join(named[:NAMED_MAX])}{more}: more dead letters would be "
            f"{fates} (--discards tries it)"
        )
    if any(each.name == Arrives.name for each in search.properties):
        for flow in search.flows.values():
            yield from _room(flow)
    if search.discards or search.property.name != Lossless.name:
        return
    for vhost, flow in search.flows.items():
        queues, _ = reached(flow, [each for each in search.publishes if each.vhost == vhost])
        for name in sorted(queues & flow.topology.queues.keys()):
            habit = search.clients.habit(vhost, name, REJECTED)
            open_ = habit is None or (habit.does and (vhost, name) in search.spared)
            if open_ and not flow.is_stream(name) and not flow.settings(name).dead_letters:
                where = "" if vhost == "/" else f" of virtual host '{vhost}'"
                yield f"no consumer rejects for good in '{name}'{where}, which has no dead-letter exchange"


def _room(flow: MessageFlow) -> Iterator[str]:
    """Yield what has to be so of queues that refuse dead letters while they are full, or at-least-once holds them."""
    for name in flow.topology.queues:
        if flow.settings(name).dead_letter_strategy != AT_LEAST_ONCE:
            continue
        for target in sorted(flow.possible_targets(name)):
            settings = flow.settings(target)
            if settings.has_length_limit and settings.refuses_when_full:
                yield f"'{target}' does not stay full: while it is, dead letters of '{name}' are held in '{name}'"
