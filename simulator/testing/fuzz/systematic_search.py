"""Looks for a history that breaks a property, in the order in which a person would try.

First the plainest: each publish, where all consumers fail, or none consumes. Then every way
that one message can go: published to each entry of the topology, then rejected, crashed,
returned or left to time in each queue it comes to, until nothing new happens to it. What
a message meets next depends on its queue, its routing keys and its deaths, apart from their
counts, and on whether there is a consumer, so there are few such situations.
Queues with a length limit are filled by each way that leads there. Unused queues get
the time to expire. Then ``simulator.testing.topology_machine`` draws histories at
random, for what takes more than one kind of message.

A history found is made shorter by leaving out what is not needed.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from itertools import count
from typing import Any, NamedTuple

from dlx.deaths import REJECTED
from dlx.topology import STREAM
from simulator.analysis.losses import HELD, Loss
from simulator.analysis.next_steps import (
    DEADLINES_MAX,
    fail_all,
    failures,
    pause,
    pauses,
    too_many,
    with_body,
)
from simulator.analysis.walk import Place, Walk
from simulator.broker import Copy, QueueState
from simulator.scenario import steps
from simulator.scenario.properties.property import Property, PropertyBroken
from simulator.scenario.properties.property_registry import RETURNS_MAX, Arrives, Lossless, Settles
from simulator.scenario.steps import History, Publish
from simulator.scenario.trial import Trial
from simulator.testing.fuzz.counterexample import Counterexample, Finder, is_cause, once

ACTIONS_MAX = 400_000
CHEAP = 300
PROBED_MAX = 40


class _Filling(NamedTuple):
    """How many messages of how many bytes are too many for a queue, and whether it has a dead-letter exchange."""

    times: int
    body_bytes: int
    dead_letters: bool


class _NextStep(NamedTuple):
    """A way to go on, in the order in which to go: a path into a queue, and whether to fill that."""

    actions: int
    order: int
    path: History
    vhost: str
    queue: str
    filling: _Filling | None


Tick = Callable[[int], bool]
"""Called with the number of histories tried; returns whether there is time for more."""


class Search(Finder):
    """A systematic search in one topology. Its arguments are those of ``Finder``.

    Attributes:
        tried: how many histories were tried.
        untried: what was left out because it takes too many messages, in sentences.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.tried = 0
        self.untried: list[str] = []
        self._known: set[Hashable] = set()
        self._order = count()
        self._ahead: list[_NextStep] = []
        self._to_probe: deque[History] = deque()
        self._to_open: deque[History] = deque()
        self._ended = False
        self._tick: Tick = lambda tried: True

    def run(self, tick: Tick = lambda tried: True) -> Counterexample | None:
        """Search until something is found, all is tried, or ``tick`` says that time is up."""
        self._known.clear()
        self._ahead.clear()
        self.untried[:] = self.left_out
        openings = list(self._openings())
        self._to_probe, self._to_open = deque(openings), deque(openings)
        return self._resume(tick)

    def run_all(self, tick: Tick = lambda tried: True) -> Iterator[Counterexample]:
        """Go on after a finding, and yield each with a cause of its own, until nothing else is found."""
        found = self.run(tick)
        while found is not None:
            yield found
            self.known.add(found.broken.cause)
            found = self._resume(tick)

    def _resume(self, tick: Tick) -> Counterexample | None:
        """Go on with what led to the last finding: now its cause is known, and hides nothing that comes after it."""
        self._tick, self._ended = tick, False
        try:
            self._try_all()
        except _FindingReached as found:
            counterexample = self.counterexample(found.history)
            return self.run(tick) if counterexample is None and self.widened() else counterexample
        except _TimeIsUp:
            left = len(self._ahead) + len(self._to_open)
            self.untried.append(f"{left or 1:,} of the ways that messages can go, since time was up")
        else:
            self._ended = True
        return None

    @property
    def complete(self) -> bool:
        """Whether all was tried, and nothing else can break the property: not in any history, of whatever messages."""
        return self._ended and not self.untried and not self.doubts

    @property
    def doubts(self) -> list[str]:
        """Why something may be found although all was tried, in sentences; empty before that."""
        return list(doubts(self)) if self._ended else []

    # One message after another

    def _try_all(self) -> None:
        """Try what is left. What is being tried leaves the queues only when it is done, so that it can be resumed."""
        while self._to_probe:
            self._probe(self._to_probe[0])
            self._to_probe.popleft()
        while self._to_open:
            self._try(self._to_open[0])
            self._go_on(CHEAP)
            self._to_open.popleft()
        self._go_on(ACTIONS_MAX)

    def _openings(self) -> Iterator[History]:
        """Yield how histories begin: with a publish; where queues expire, also with a wait until just before they do.

        Publishes do not keep a queue from expiring.
        """
        for waited in ((), *((steps.Wait(ms - 1),) for ms in self.expiries_ms if ms > 1)):
            for publish in self.publishes:
                yield (*waited, *self._opening(publish))

    def _opening(self, publish: Publish) -> History:
        """Return the publish; if publishers set expirations, one publish with each, then a wait past the shortest."""
        expirations = self.property.expirations_ms
        if expirations == (None,):
            return (publish,)
        each = [steps.changed(publish, expiration_ms=ms) for ms in expirations]
        return (*each, steps.Wait(sorted(ms for ms in expirations if ms is not None)[0] + 1_000))

    def _probe(self, opening: History) -> None:
        """Try the plainest losses, before what takes long: all consumers fail, or none consumes."""
        for going_on in (lambda trial: fail_all(trial, self.clients), pause):
            trial = self._trial(opening)
            self.tried += 1
            try:
                trial.play(opening)
                for _ in range(PROBED_MAX):
                    if not going_on(trial):
                        break
            except PropertyBroken as broken:
                raise _FindingReached(broken.history) from None

    def _try(self, history: History) -> Trial | None:
        """Play a history, and note where its messages have come to; return ``None`` if it is too long."""
        if steps.length(history) > ACTIONS_MAX:
            self._leave_out(f"histories of more than {ACTIONS_MAX:,} actions")
            return None
        self._pulse()
        self.tried += 1
        trial = self._trial(history)
        try:
            trial.play(history)
        except PropertyBroken as broken:
            raise _FindingReached(broken.history) from None
        self._note_all(trial)
        if next(trial.broker.delayed(), None) is not None:
            self._let_through(history)
        return trial

    def _let_through(self, history: History) -> None:
        """Note where messages come to when the time is over for which exchanges delay them."""
        trial = self._trial(history)
        trial.play(history)
        for _ in range(DEADLINES_MAX):
            try:
                if next(trial.broker.delayed(), None) is None or not pause(trial):
                    return
            except PropertyBroken as broken:
                raise _FindingReached(broken.history) from None
            self._note_all(trial)
        self._leave_out(f"messages that exchanges delay for longer than {DEADLINES_MAX} other things take")

    def _note_all(self, trial: Trial) -> None:
        for queue, copy in trial.copies():
            self._note(tuple(trial.history), queue, copy, trial.has_consumer(queue.name, queue.vhost.name))

    def _trial(self, history: History) -> Trial:
        """Return a fresh trial with the definitions that matter to a history."""
        definitions = self.definitions_for(history)
        return Trial(definitions, release=self.release, properties=self.made(), pulse=self._pulse)

    def _pulse(self) -> None:
        if not self._tick(self.tried):
            raise _TimeIsUp

    def _note(self, history: History, queue: QueueState, copy: Copy, consumed: bool) -> None:
        waited = history[0] if isinstance(history[0], steps.Wait) else None
        at_once = not any(isinstance(step, steps.Wait) for step in history)  # only then it can be done again and again
        situation = self.flows[queue.vhost.name].situation(queue.name, copy.message)
        found = queue.vhost.name, situation, consumed, waited, at_once
        if found not in self._known and queue.definition.type != STREAM:
            self._known.add(found)
            self._later(steps.length(history), history, queue, None)

    def _later(self, actions: int, history: History, queue: QueueState, filling: _Filling | None) -> None:
        ahead = _NextStep(actions, next(self._order), history, queue.vhost.name, queue.name, filling)
        heapq.heappush(self._ahead, ahead)

    def _go_on(self, actions_max: int) -> None:
        """Go on with what was noted, the shortest histories first, up to that many actions."""
        while self._ahead and self._ahead[0].actions <= actions_max:
            ahead = heapq.heappop(self._ahead)
            try:
                if ahead.filling is not None:
                    self._fill(ahead.path, ahead.vhost, ahead.queue, ahead.filling)
                else:
                    self._onward(ahead.path, ahead.vhost, ahead.queue)
            except (_FindingReached, _TimeIsUp):
                heapq.heappush(self._ahead, ahead)
                raise

    def _onward(self, path: History, vhost: str, name: str) -> None:
        """Try all that can happen next to the message that a path brings into a queue."""
        trial = self._try(path)
        queue = None if trial is None else trial.queue(name, vhost)
        if trial is None or queue is None:
            return
        fillings = [_Filling(*each, queue.settings.dead_letters) for each in too_many(queue, trial)]
        does = self.failures(vhost, name)
        for action in (*failures(queue, does), *pauses(trial)):
            self._try((*path, *action))
        if isinstance(self.property, Settles):
            self._fail_atonce(path)
        for filling in fillings:
            actions = min(filling.times * steps.length(tuple(once(path))), ACTIONS_MAX)
            self._later(actions, path, queue, filling)

    def _fail_atonce(self, path: History) -> None:
        """Reject messages wherever they turn up, for as long as no time passes.

        Once with the queues first in which they do not pause, since cutting a pause short starts the
        count again; and once with the others first, since a full queue may send them right back.
        """
        for pausing_first in (False, True):
            trial, history = self._trial(path), list(path)
            trial.play(path)
            for _ in range(3 * RETURNS_MAX * sum(1 for _ in trial.queues())):
                there = [queue for queue, _ in trial.copies() if queue.settings.dead_letters]
                sending = [each for each in there if "reject" in self.failures(each.vhost.name, each.name)]
                sending = sending[::-1] if pausing_first else sending
                if not sending:
                    break
                queue = min(sending, key=lambda queue: bool(queue.settings.message_ttl_ms) != pausing_first)
                history.append(steps.Reject(queue.name, vhost=queue.vhost.name))
                try:
                    trial.do(history[-1])
                except PropertyBroken as broken:
                    raise _FindingReached(broken.history) from None

    def _fill(self, path: History, vhost: str, name: str, filling: _Filling) -> None:
        """Bring more messages into the queue, by this path, than it may hold.

        A path that overfills another queue on its way is taken in full only once: each further
        message takes only the steps that one message takes.
        """
        times, body_bytes, dead_letters = filling
        one = tuple(once(path))
        more = steps.again(tuple(with_body(step, body_bytes) for step in one), times)
        full = (more,) if one == path else (*path, more)
        if self._try(full) is None:
            self._leave_out(f"filling '{name}': it takes {times:,} messages")
            return
        if isinstance(self.property, Settles) and steps.length(full) <= CHEAP:
            self._fail_atonce(full)
        if dead_letters and "reject" in self.failures(
            vhost, name
        ):  # full again while a consumer has a message of it, which it rejects then
            self._try((*path, steps.Get(name, vhost=vhost), more, steps.Reject(name, vhost=vhost)))

    def _leave_out(self, what: str) -> None:
        if what not in self.untried:
            self.untried.append(what)


class _TimeIsUp(Exception):
    """Ends the search."""


class _FindingReached(Exception):
    """Ends the search."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self.history = history


# Finds what a search of one kind of message at a time may have missed, by a bound that the rules give.
#
# Messages meet each other in full queues only. The walk (``simulator.analysis.walk``) lets every message die for
# every reason that its queue's settings allow, and lets every queue that can refuse be full. So a loss that is not
# among those of the walk is in no history of any messages. What the walk allows and no history showed stays a doubt.


def doubts(search: Finder) -> Iterator[str]:
    """Yield why a history of several kinds of messages may break the property, in sentences that follow 'Not tried'."""
    for walk in search.walks.values():
        if not walk.complete:
            yield f"more than {len(walk.places):,} situations of messages in virtual host '{walk.vhost}'"
    yield from dict.fromkeys(doubt for each in search.properties for doubt in _doubts_about(search, each))


def _doubts_about(search: Finder, property: Property) -> Iterator[str]:
    if isinstance(property, Lossless | Arrives):
        held = isinstance(property, Arrives)
        possible = (loss for loss in search.possible_losses if (loss.fate == HELD) == held)
        yield from (_as_doubt(loss) for loss in possible if _is_open(search, loss))
    if isinstance(property, Settles | Arrives):
        for walk in search.walks.values():
            for queue in _limited_in_circles(walk):
                yield f"kinds of messages together that meet in '{queue}', which has a length limit and is in a circle"
    elif not isinstance(property, Lossless):
        yield "kinds of messages together, and other times to live than those above"


def _is_open(search: Finder, loss: Loss) -> bool:
    """Return whether a property counts the loss, and no finding shows it."""
    discarded = loss.reason == REJECTED and loss.fate == "no dead-letter exchange"
    promised = discarded and (loss.vhost, loss.queue) in search.spared
    return loss.whole and not promised and not any(is_cause(cause, loss) for cause in search.known)


def _as_doubt(loss: Loss) -> str:
    if loss.fate == HELD:
        return f"kinds of messages together of which '{loss.queue}' may hold one ({loss.reason}), as the rules allow"
    how = f"{loss.reason}, {loss.fate}" if loss.reason else loss.fate
    return f"kinds of messages together that may lose one in '{loss.queue}' ({how}), as the rules allow"


def _limited_in_circles(walk: Walk) -> list[str]:
    """Return the queues with a length limit to which messages can come back."""
    limited = [place for place in walk.places if walk.flow.settings(place.queue).has_length_limit]
    return sorted({place.queue for place in limited if _comes_back(place)})


def _comes_back(place: Place) -> bool:
    """Return whether a message that dies there can come to the same queue again."""
    seen: set[int] = set()
    pending = [there for _, there in place.onward]
    while pending:
        there = pending.pop()
        if there.queue == place.queue:
            return True
        if id(there) not in seen:
            seen.add(id(there))
            pending += [each for _, each in there.onward]
    return False
