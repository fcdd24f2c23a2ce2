"""Proves a loss: turns the way of a message into steps, and plays them until the broker loses it, or holds it.

What the rules say of a message says nothing of how to bring it about: who has to consume,
what time has to pass, how many messages fill a queue. Here that is tried in the part of the
topology that the message can come to, with small limits in place of large ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from dlx.deaths import DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED
from dlx.message import Message
from dlx.message_flow import Hop
from dlx.server_plugins import AT_RANDOM
from simulator.analysis.limit_scaling import scaled, unscaled
from simulator.analysis.next_steps import DEADLINES_MAX, pause, too_many, with_body
from simulator.broker import OperatorError
from simulator.events import Happened, silent_loss
from simulator.scenario import steps
from simulator.scenario.properties.property import Property, PropertyBroken
from simulator.scenario.steps import History, Publish
from simulator.scenario.trial import Trial

SMALL = 8
PLAYED_MAX = 3_000
EVENTS_MAX = 5_000
DRAWS = 40
"""Where exchanges choose at random, this number of messages are sent the same way until one of them is lost."""

Death = tuple[str, str]
"""A queue, and the reason of a death in it; an empty reason means the end of the queue itself."""


class Budget:
    """What all proofs together may cost, so that no topology takes for ever: more where there are more queues.

    Attributes:
        left: how many events there may be.
        actions: how many actions may be played again with the true limits, after small ones lost the message.
    """

    def __init__(self, queues: int = 1) -> None:
        self.left = 20_000 + 40 * queues
        self.actions = 20_000
        self._kept_back = 0

    def begin(self) -> None:
        """Begin the next proof: it may take a quarter of what is left, so that others have their turn."""
        self._kept_back = self.left * 3 // 4

    @property
    def spent(self) -> bool:
        """Whether this proof has taken all that it may."""
        return self.left <= self._kept_back


class _Loses(Property):
    """Is broken when a message is lost in that queue for that reason, or the queue holds one that died so."""

    name = "keeps"

    def __init__(self, death: Death, full: str | None) -> None:
        self._queue, self._reason = death
        self._full = full
        self._last: Happened | None = None

    def observe(self, trial: Trial, event: Happened, message: Message) -> None:
        before, self._last = self._last, event
        if not silent_loss(event, before):
            return
        here = event.queue == self._queue and (event.reason or "") == self._reason
        if here or (self._full is not None and event.queue == self._full):
            raise self.broken("lost", event)

    def check(self, trial: Trial) -> None:
        for queue in trial.queues():
            if queue.name == self._queue and any(pending.reason == self._reason for pending in queue.in_hand):
                raise self.broken("held")


class _TooMuch(Exception):
    """Ends a trial that goes on and on."""


class _Bounded(Trial):
    """A trial that ends with ``_TooMuch`` where dead letters multiply beyond measure, even in one step."""

    def __init__(self, definitions: Mapping[str, Any], release: str, looks_for: Property, budget: Budget) -> None:
        self._left, self._budget = EVENTS_MAX, budget
        super().__init__(definitions, release=release, properties=[looks_for])

    def _observe(self, happened: Happened, message: Message) -> None:
        self._left -= 1
        self._budget.left -= 1
        if self._left < 0 or self._budget.spent:
            raise _TooMuch
        super()._observe(happened, message)


def proof(
    definitions: Mapping[str, Any],
    release: str,
    publish: Publish,
    path: Sequence[Hop],
    death: Death,
    full: str | None = None,
    expires_ms: int | None = None,
    budget: Budget | None = None,
) -> History | None:
    """Return a history in which the message, dying along the path, is lost by ``death``; ``None`` if none was found.

    A message that its queue holds, since at-least-once dead-lettering finds no way for it, counts as lost here.

    Args:
        definitions: those that the message can come to, at least.
        release: the RabbitMQ release.
        publish: how the message is published.
        path: the deaths behind it when it comes to the queue where it is lost.
        death: where it is lost, and why.
        full: the queue that has to be full when the dead letter comes to it.
        budget: what the proofs may cost together.
        expires_ms: after how long the queue is deleted that nobody uses, where that is what loses the message.
    """
    budget = budget or Budget()
    if budget.spent:
        return None
    small, limits = scaled(definitions, above=SMALL, apart=1)
    deaths = [*((hop.queue, hop.reason) for hop in path), death]
    for opening in _openings(publish, deaths, expires_ms):
        for way in (_in_order, _rejected_when_full):
            found = _played(small, release, opening, way, deaths, full, budget)
            if found is None:
                continue
            shortest = steps.beginning(*found)
            if not limits:  # it was played with the true limits
                return shortest
            for true in chain(unscaled(shortest, limits), unscaled(found[0], limits)):
                actions = steps.length(true)
                if actions > min(PLAYED_MAX, budget.actions):
                    return true
                budget.actions -= actions
                lost_after = _actions_until_lost(definitions, release, true, death, full)
                if lost_after is not None:
                    return steps.beginning(true, lost_after)
    return None


def _openings(publish: Publish, deaths: Sequence[Death], expires_ms: int | None) -> Iterator[History]:
    """Yield how it begins: with the publish; or a consumer is there before, since the queue keeps nothing back.

    Publishes do not keep a queue from expiring, so one may come just before that.
    """
    yield (publish,)
    if expires_ms is not None and expires_ms > 1:
        yield steps.Wait(expires_ms - 1), publish
    consumed = dict.fromkeys(queue for queue, reason in deaths if reason in (REJECTED, DELIVERY_LIMIT))
    if consumed:
        yield (*(steps.Hold(queue, vhost=publish.vhost) for queue in consumed), publish)


def loses(definitions: Mapping[str, Any], release: str, history: History, death: Death, full: str | None) -> bool:
    """Return whether the history loses a message by that death; yes where dead letters multiply beyond measure."""
    return _actions_until_lost(definitions, release, history, death, full) is not None


def _actions_until_lost(
    definitions: Mapping[str, Any], release: str, history: History, death: Death, full: str | None
) -> int | None:
    """Return after how many actions the history loses a message by that death; ``None`` if it does not."""
    trial = _Bounded(definitions, release, _Loses(death, full), Budget())
    try:
        trial.play(history)
    except PropertyBroken:
        return trial.actions
    except _TooMuch:
        return steps.length(history)
    return None


def _played(
    definitions: Mapping[str, Any],
    release: str,
    opening: History,
    way: Callable[[Trial, Sequence[Death], str | None, str], None],
    deaths: Sequence[Death],
    full: str | None,
    budget: Budget,
) -> tuple[History, int] | None:
    """Return the steps that lost the message, with how many actions of them there were until then."""
    trial = _Bounded(definitions, release, _Loses(deaths[-1], full), budget)
    vhost = next(step.vhost for step in opening if isinstance(step, Publish))
    draws = any(each.get("type") in AT_RANDOM for each in definitions.get("exchanges", ()))
    try:
        for _ in range(DRAWS if draws else 1):
            trial.play(opening)
            way(trial, deaths, full, vhost)
    except PropertyBroken as broken:
        return broken.history, trial.actions
    except (OperatorError, _TooMuch):
        return None
    return None


def _in_order(trial: Trial, deaths: Sequence[Death], full: str | None, vhost: str) -> None:
    """Let the message die in one queue after the other."""
    for queue, reason in deaths:
        _let_through(trial)
        _die(trial, queue, reason, vhost)
    if full is not None:
        _overfill(trial, full, vhost)
    elif deaths[-1][1] == EXPIRED:  # what has expired may have been another copy
        _wait(trial, "", "", vhost)


def _rejected_when_full(trial: Trial, deaths: Sequence[Death], full: str | None, vhost: str) -> None:
    """The same, but whoever rejects the message last keeps it until the queue is full again behind it."""
    rejections = [place for place, (_, reason) in enumerate(deaths) if reason == REJECTED]
    if not rejections:
        return
    last = rejections[-1]
    for queue, reason in deaths[:last]:
        _let_through(trial)
        _die(trial, queue, reason, vhost)
    holder = deaths[last][0]
    _let_through(trial)
    trial.do(steps.Get(holder, vhost=vhost))
    _overfill(trial, holder, vhost)
    trial.do(steps.Reject(holder, vhost=vhost))
    for queue, reason in deaths[last + 1 :]:
        _let_through(trial)
        _die(trial, queue, reason, vhost)


def _let_through(trial: Trial) -> None:
    """Let time pass until exchanges delay no message any more."""
    for _ in range(DEADLINES_MAX):
        if next(trial.broker.delayed(), None) is None or not pause(trial):
            break


def _die(trial: Trial, queue: str, reason: str, vhost: str) -> None:
    """Let the oldest message of the queue die there for that reason."""
    if reason == REJECTED:
        trial.do(steps.Reject(queue, vhost=vhost))
    elif reason == DELIVERY_LIMIT:
        _exceed_limit(trial, queue, vhost)
    elif reason == MAXLEN:
        _overfill(trial, queue, vhost)
    else:
        there = trial.queue(queue, vhost)
        if not reason and there is not None and there.definition.auto_delete:
            trial.do(steps.Crash(queue, vhost=vhost))  # it goes with its last consumer
        _wait(trial, queue, reason, vhost)


def _exceed_limit(trial: Trial, name: str, vhost: str) -> None:
    queue = trial.queue(name, vhost)
    if queue is None or queue.settings.delivery_limit is None:
        return
    retry = queue.settings.delayed_retry
    once: History = (steps.Crash(name, vhost=vhost),)
    if retry is not None:
        once = (*once, steps.Wait(retry.max_ms + 1))
    trial.do(steps.again(once, queue.settings.delivery_limit + 1))


def _overfill(trial: Trial, name: str, vhost: str) -> None:
    """Send more messages the way that the first one went, until the queue has more than it may hold."""
    queue, so_far = trial.queue(name, vhost), tuple(trial.history)
    if queue is None:
        return
    for times, body_bytes in too_many(queue, trial):
        one = tuple(with_body(step, body_bytes) for step in so_far if not isinstance(step, steps.Hold | steps.Get))
        trial.do(steps.again(one, times))


def _wait(trial: Trial, queue: str, reason: str, vhost: str) -> None:
    """Let time pass, without consumers, until a message dies in the queue or the queue itself is deleted."""
    for each in [each.name for each in trial.queues() if trial.has_consumer(each.name, each.vhost.name)]:
        trial.do(steps.Leave(each, vhost))
    for _ in range(DEADLINES_MAX):
        if not pause(trial) or (reason == EXPIRED and _expired(trial, queue)):
            break


def _expired(trial: Trial, queue: str) -> bool:
    return any(event.queue == queue and event.reason == EXPIRED for event, _ in islice(trial.events, 1_000))
