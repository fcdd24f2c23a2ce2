"""Looks for a history that breaks a property, in the order in which a person would try.

First every way that one message can go: published to each entry of the topology,
then rejected, crashed, returned or left to time in each queue it comes to, until
nothing new happens to it. What a message meets next depends on its queue, its
routing keys and its deaths, but for their counts, and on whether somebody consumes, so
there are few such situations.
Queues with a length limit are filled by each way that leads there. Queues that nobody
uses get the time to expire. Then ``simulator.testing.machine`` draws histories at
random, for what takes more than one kind of message.

A history found is made shorter by leaving out what is not needed.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import count, takewhile
from typing import Any

from dlx.deaths import REJECTED, deaths_in_header
from dlx.message import Message
from dlx.releases import DEFAULT, Release
from dlx.releases import release as rules
from dlx.topology import STREAM
from simulator.broker.copies import Copy
from simulator.broker.errors import OperatorError
from simulator.broker.state import QueueState
from simulator.definitions import read_definitions
from simulator.events import Event, Happened
from simulator.testing import steps
from simulator.testing.entries import entries
from simulator.testing.properties import RETURNS_MAX, Property, PropertyBroken, Settles, named
from simulator.testing.report import events_of
from simulator.testing.scaling import scaled, unscaled
from simulator.testing.shorten import shorten
from simulator.testing.slices import sliced
from simulator.testing.steps import AnyStep, History, Publish
from simulator.testing.trial import Definitions, Trial

ACTIONS_MAX = 400_000
CHEAP = 300
SHORTEN_S = 6.0
TRUE_ACTIONS_MAX = 250_000
DEADLINES_MAX = 40
CRASHES = 3
YEAR_MS = 366 * 86_400_000


class Finding:
    """A history that breaks a property.

    Attributes:
        history: the steps, as few as could be found.
        broken: what is broken, and how.
        definitions: the definitions it was found with.
        note: what else there is to say; empty where there is nothing.
    """

    def __init__(self, history: History, broken: PropertyBroken, definitions: Definitions, note: str = "") -> None:
        self.history, self.broken, self.definitions, self.note = history, broken, definitions, note

    def events(self, release: str) -> list[Happened]:
        """What happened to the message that it is about."""
        return events_of(self.definitions, self.broken.history, release, self.broken)


_Filling = tuple[int, int, bool]  # how many messages of how many bytes are too many; whether the queue dead-letters
# How many actions, the order among equals, the way there, the virtual host and the queue, and whether to fill it.
_Ahead = tuple[int, int, History, str, str, "_Filling | None"]
Tick = Callable[[int], bool]
"""Told how many histories were tried; whether there is time for more."""


class Search:
    """A systematic search in one topology.

    Args:
        definitions: an export of definitions, or its file.
        property: the name of the property to break, or what makes a property.
        release: the RabbitMQ release.
        publishes: what publishers publish; by default ``entries``.

    Attributes:
        definitions, release: as given.
        make: makes the property anew, for each trial.
        tried: how many histories were tried.
        untried: what was left out because it takes too many messages, in sentences.
    """

    def __init__(
        self,
        definitions: Definitions,
        property: str | Callable[[], Property],
        *,
        release: str = DEFAULT,
        publishes: Sequence[Publish] = (),
    ) -> None:
        self.definitions, self.release = definitions, release
        self.make = (lambda: named(property)) if isinstance(property, str) else property
        self.property = self.make()
        document = definitions if isinstance(definitions, Mapping) else read_definitions(definitions).document
        self._release = rules(release)
        self._document, self._limits = scaled(document)
        whole = Trial(definitions, release=release)
        self._topologies = {name: vhost.topology for name, vhost in whole.broker.vhosts.items()}
        self._expiries = sorted({ms for ms in (queue.settings.expires_ms for queue in whole.queues()) if ms})
        self.publishes = list(publishes) or entries(whole)
        self.tried = 0
        self.untried: list[str] = []
        self._known: set[Hashable] = set()
        self._whole = False
        self._slices: dict[str, Mapping[str, Any]] = {}
        self._order = count()
        self._ahead: list[_Ahead] = []
        self._tick: Tick = lambda tried: True

    def run(self, tick: Tick = lambda tried: True) -> Finding | None:
        """Search until something is found, all is tried, or ``tick`` says that time is up."""
        self._tick = tick
        self._known.clear()
        self._ahead.clear()
        openings = self._openings()
        try:
            for opening in openings:
                self._try(opening)
                self._go_on(CHEAP)
            self._go_on(ACTIONS_MAX)
        except _Found as found:
            finding = self.finding(found.history)
            if finding is None and not self._whole:  # something mattered that the slice had not
                self._whole = True
                return self.run(tick)
            return finding
        except _TimeIsUp:
            left = len(self._ahead) + 1 + sum(1 for _ in openings)
            self.untried.append(f"{left:,} of the ways that messages can go, since time was up")
        return None

    def finding(self, history: History) -> Finding | None:
        """The finding that a history is, made short, and with the true limits; ``None`` if it is none there."""
        end = time.monotonic() + SHORTEN_S
        found = shorten(history, lambda shorter: self._breaks(shorter, self._definitions(shorter), end), until_s=end)
        if found is None:
            return None
        true = unscaled(found.history, self._limits)
        if steps.length(true) <= TRUE_ACTIONS_MAX:
            return self.play(true)
        found.history = true
        found.note = f"Found with smaller limits: the history takes {steps.length(true):,} actions, and was not played."
        return found

    def play(self, history: History) -> Finding | None:
        """What the history breaks as it stands, ended where it does; ``None`` for nothing."""
        return self._breaks(history, self.definitions)

    def _breaks(self, history: History, definitions: Definitions, until_s: float = math.inf) -> Finding | None:
        """What the history breaks with these definitions, if that shows in time."""

        def pulse() -> None:
            if time.monotonic() > until_s:
                raise _TimeIsUp

        trial = Trial(definitions, release=self.release, properties=[self.make()], pulse=pulse)
        try:
            trial.play(history)
        except PropertyBroken as broken:
            return Finding(broken.history, broken, definitions)
        except (OperatorError, _TimeIsUp):
            pass
        return None

    def _definitions(self, history: History) -> Mapping[str, Any]:
        """The definitions that matter to a history, as small as can be."""
        if self._whole:
            return self._document
        published = [step for step in _once(history) if isinstance(step, Publish)]
        kinds = {repr(steps.changed(step, expiration_ms=None, body_bytes=0)): step for step in published}
        if len(kinds) != 1:
            return self._document
        ((kind, publish),) = kinds.items()
        if kind not in self._slices:
            topology = self._topologies[publish.vhost]
            self._slices[kind] = sliced(self._document, topology, publish, self._release)
        return self._slices[kind]

    # One message after another

    def _openings(self) -> Iterator[History]:
        """How histories begin: a publish; where queues expire, just before they do, for publishes do not keep them."""
        for waited in ((), *((steps.Wait(ms - 1),) for ms in self._expiries if ms > 1)):
            for publish in self.publishes:
                yield (*waited, *self._opening(publish))

    def _opening(self, publish: Publish) -> History:
        """The publish; where publishers set expirations, one of each after the other."""
        expirations = self.property.expirations_ms
        if expirations == (None,):
            return (publish,)
        each = [steps.changed(publish, expiration_ms=ms) for ms in expirations]
        return (*each, steps.Wait(sorted(ms for ms in expirations if ms is not None)[0] + 1_000))

    def _try(self, history: History) -> Trial | None:
        """Play a history, and note where its messages have come to; ``None`` when it is too long."""
        if steps.length(history) > ACTIONS_MAX:
            return None
        self._pulse()
        self.tried += 1
        trial = self._trial(history)
        try:
            trial.play(history)
        except PropertyBroken as broken:
            raise _Found(broken.history) from None
        for queue, copy in trial.copies():
            self._note(history, queue, copy, trial.has_consumer(queue.name, queue.vhost.name))
        return trial

    def _trial(self, history: History) -> Trial:
        """A fresh trial, in the definitions that matter to a history."""
        made = [self.make()]
        return Trial(self._definitions(history), release=self.release, properties=made, pulse=self._pulse)

    def _pulse(self) -> None:
        if not self._tick(self.tried):
            raise _TimeIsUp

    def _note(self, history: History, queue: QueueState, copy: Copy, consumed: bool) -> None:
        waited = history[0] if isinstance(history[0], steps.Wait) else None
        situation = _situation(queue, copy, self._release), consumed, waited
        if situation not in self._known and queue.definition.type != STREAM:
            self._known.add(situation)
            self._later(steps.length(history), history, queue, None)

    def _later(self, actions: int, history: History, queue: QueueState, filling: _Filling | None) -> None:
        heapq.heappush(self._ahead, (actions, next(self._order), history, queue.vhost.name, queue.name, filling))

    def _go_on(self, actions_max: int) -> None:
        """Go on with what was noted, the shortest histories first, up to so many actions."""
        while self._ahead and self._ahead[0][0] <= actions_max:
            _, _, path, vhost, name, filling = heapq.heappop(self._ahead)
            if filling is not None:
                self._fill(path, vhost, name, filling)
            else:
                self._onward(path, vhost, name)

    def _onward(self, path: History, vhost: str, name: str) -> None:
        """All that can happen next to the message that a path brings into a queue."""
        trial = self._try(path)
        queue = None if trial is None else trial.queue(name, vhost)
        if trial is None or queue is None:
            return
        for times, body_bytes in _beyond(queue):
            actions = min(times * steps.length(tuple(_once(path))), ACTIONS_MAX)
            self._later(actions, path, queue, (times, body_bytes, queue.settings.dead_letters))
        for action in (*_failures(queue), *_time(trial)):
            self._try((*path, *action))
        if isinstance(self.property, Settles):
            self._fail_at_once(path)

    def _fail_at_once(self, path: History) -> None:
        """Reject the message wherever it turns up, for as long as no time passes."""
        trial = self._trial(path)
        history = list(path)
        trial.play(path)
        for _ in range(3 * RETURNS_MAX * sum(1 for _ in trial.queues())):
            sending = [queue for queue, _ in trial.copies() if _sends_on(queue)]
            if not sending:
                break
            # A rejection where messages pause starts the count anew: rather elsewhere.
            queue = min(sending, key=lambda queue: bool(queue.settings.message_ttl_ms))
            history.append(steps.Reject(queue.name, vhost=queue.vhost.name))
            try:
                trial.do(history[-1])
            except PropertyBroken as broken:
                raise _Found(broken.history) from None

    def _fill(self, path: History, vhost: str, name: str, filling: _Filling) -> None:
        """Bring one message more into the queue, by this path, than it may hold.

        A path that goes beyond the limit of another queue on its way is not gone so often: each
        message more takes only what one message takes.
        """
        times, body_bytes, dead_letters = filling
        once = tuple(_once(path))
        more = steps.again(tuple(_with_body(step, body_bytes) for step in once), times)
        full = (more,) if once == path else (*path, more)
        if self._try(full) is None:
            self.untried.append(f"filling '{name}': it takes {times:,} messages")
            return
        if isinstance(self.property, Settles) and steps.length(full) <= CHEAP:
            self._fail_at_once(full)
        if dead_letters:  # full again while somebody has a message of it, which is rejected then
            self._try((*path, steps.Get(name, vhost=vhost), more, steps.Reject(name, vhost=vhost)))


def _once(path: History) -> Iterator[AnyStep]:
    """The steps of a path, each as it is done once."""
    for step in path:
        if isinstance(step, steps.Repeat):
            yield from _once(step.steps)
        elif isinstance(step, Publish):
            yield steps.changed(step, times=1)
        else:
            yield step


class _TimeIsUp(Exception):
    """Ends the search."""


class _Found(Exception):
    """Ends the search."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self.history = history


def _sends_on(queue: QueueState) -> bool:
    return queue.settings.dead_letters and queue.definition.type != STREAM


def _situation(queue: QueueState, copy: Copy, release: Release) -> Hashable:
    """All that decides what becomes of a message next, but for counts and times."""
    message = copy.message
    headers = repr(sorted((k, repr(v)) for k, v in (message.headers or {}).items() if not k.startswith("x-")))
    keeps_keys = queue.settings.dead_letters and queue.settings.dead_letter_routing_key is None
    keys = message.routing_keys if keeps_keys else None
    return queue.vhost.name, queue.name, keys, _deaths(message, release), headers


def _deaths(message: Message, release: Release) -> Hashable:
    """The deaths that matter. Where the newest stands first, the cycle rule asks for those since the last rejection."""
    entries = message.deaths
    if entries is None:
        entries = deaths_in_header(message.headers) or ()
    if release.death_order == "recency":
        since = takewhile(lambda death: death.reason != REJECTED, entries)
        # That there are any matters, too: a full queue tells a dead letter from a publish.
        return bool(entries), frozenset(death.queue for death in since)
    return tuple((death.queue, death.reason) for death in entries)


def _failures(queue: QueueState) -> Iterator[History]:
    """What a consumer of the queue can do to a message: fail it once for good, or again and again until it settles."""
    name, vhost = queue.name, queue.vhost.name
    limit = queue.settings.delivery_limit
    times = CRASHES if limit is None else limit + 1
    if queue.settings.dead_letters:
        yield (steps.Reject(name, vhost=vhost),)
        if queue.settings.delayed_retry is None:
            yield steps.Crash(name, vhost=vhost), steps.Reject(name, vhost=vhost)
    pause = _pause_ms(queue)
    for step in (
        steps.Crash(name, vhost=vhost),
        steps.Requeue(name, vhost=vhost),
        steps.Requeue(name, vhost=vhost, method="nack"),
    ):
        once = (step, steps.Wait(pause)) if pause else (step,)
        yield (steps.again(once, times),)


def _pause_ms(queue: QueueState) -> int:
    """How long a delayed retry may keep back what is returned."""
    retry = queue.settings.delayed_retry
    return 0 if retry is None else retry.max_ms + 1


def _with_body(step: AnyStep, body_bytes: int) -> AnyStep:
    if isinstance(step, Publish) and body_bytes:
        return steps.changed(step, body_bytes=body_bytes)
    return step


def _time(trial: Trial) -> Iterator[History]:
    """Consumers leave, and time passes: until something happens, and until nothing more does."""
    leaving = tuple(
        steps.Leave(queue.name, queue.vhost.name)
        for queue in trial.queues()
        if trial.has_consumer(queue.name, queue.vhost.name)
    )
    try:
        trial.play(leaving)
    except PropertyBroken:
        yield leaving
        return
    passed: list[AnyStep] = []
    for _ in range(DEADLINES_MAX):
        due_us = trial.broker.next_due()
        if due_us is None or due_us - trial.now_us > YEAR_MS * 1_000:
            break
        wait = steps.Wait(max(0, -(-(due_us - trial.now_us) // 1_000)))
        passed.append(wait)
        try:
            trial.do(wait)
        except PropertyBroken:
            yield (*leaving, *passed)
            return
        if any(event.event != Event.HELD for event, _ in trial.events):
            yield (*leaving, *passed)
            return
    if leaving:
        yield leaving


def _beyond(queue: QueueState) -> Iterator[tuple[int, int]]:
    """How many messages of which size a queue of limited length cannot hold."""
    settings = queue.settings
    if queue.definition.type == STREAM:
        return
    if settings.max_length is not None:
        yield settings.max_length + 2, 0
    most = settings.max_length_bytes
    if most is not None:
        size = min(max(most // 8, 1), steps.BODY_BYTES_MAX)
        yield most // size + 2, size
