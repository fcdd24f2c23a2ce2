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
from itertools import count
from typing import Any

from dlx.releases import DEFAULT
from dlx.releases import release as rules
from dlx.topology import STREAM
from simulator.broker.copies import Copy
from simulator.broker.errors import OperatorError
from simulator.broker.state import QueueState
from simulator.definitions import read_definitions
from simulator.events import Happened
from simulator.testing import steps
from simulator.testing.entries import entries
from simulator.testing.properties import RETURNS_MAX, Property, PropertyBroken, Settles, named
from simulator.testing.report import events_of
from simulator.testing.scaling import scaled, unscaled
from simulator.testing.shorten import shorten
from simulator.testing.slices import sliced
from simulator.testing.steps import AnyStep, History, Publish
from simulator.testing.trial import Definitions, Trial
from simulator.testing.ways import failures, pauses, sends_on, situation, too_many, with_body

ACTIONS_MAX = 400_000
CHEAP = 300
SHORTEN_S = 6.0
TRUE_ACTIONS_MAX = 250_000


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
        at_once = not any(isinstance(step, steps.Wait) for step in history)  # only then it can be done again and again
        found = situation(queue, copy, self._release), consumed, waited, at_once
        if found not in self._known and queue.definition.type != STREAM:
            self._known.add(found)
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
        for times, body_bytes in too_many(queue):
            actions = min(times * steps.length(tuple(_once(path))), ACTIONS_MAX)
            self._later(actions, path, queue, (times, body_bytes, queue.settings.dead_letters))
        for action in (*failures(queue), *pauses(trial)):
            self._try((*path, *action))
        if isinstance(self.property, Settles):
            self._fail_at_once(path)

    def _fail_at_once(self, path: History) -> None:
        """Reject messages wherever they turn up, for as long as no time passes.

        Rather where they do not pause, since to cut a pause short starts the count anew; and
        rather where they do, for a full queue may send them right back.
        """
        for pausing_first in (False, True):
            trial, history = self._trial(path), list(path)
            trial.play(path)
            for _ in range(3 * RETURNS_MAX * sum(1 for _ in trial.queues())):
                sending = [queue for queue, _ in trial.copies() if sends_on(queue)]
                sending = sending[::-1] if pausing_first else sending
                if not sending:
                    break
                queue = min(sending, key=lambda queue: bool(queue.settings.message_ttl_ms) != pausing_first)
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
        more = steps.again(tuple(with_body(step, body_bytes) for step in once), times)
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
