"""A Hypothesis state machine that tries to break your topology.

    from simulator.testing import TopologyMachine

    class Orders(TopologyMachine):
        definitions = "definitions.json"
        properties = ["lossless"]

    TestOrders = Orders.TestCase

It publishes where publishers would, consumes, acknowledges, rejects, requeues, crashes
consumers, lets time pass and, where the properties allow it, changes policies. After
every action the properties and the invariants of ``simulator.testing.properties`` are
looked at. Add rules and invariants of your own as with any
``hypothesis.stateful.RuleBasedStateMachine``; ``self.trial`` is the trial.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.control import current_build_context
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from dlx.releases import DEFAULT
from dlx.topology import STREAM, Policy
from simulator.broker.errors import OperatorError
from simulator.broker.state import QueueState
from simulator.testing import steps
from simulator.testing.entries import entries
from simulator.testing.properties import INVARIANTS, Property, PropertyBroken, named
from simulator.testing.report import explained
from simulator.testing.search import Search
from simulator.testing.steps import AnyStep, History
from simulator.testing.trial import Definitions, Trial

FLOOD_MAX = 1_000
OFTEN = 25
SEARCH_S = 10.0
COMMAND_LENGTH_MAX = 4_000
_WAITS_MS = (1, 1_000, 60_000)
_LONG_WAITS_MS = (3_600_000, 86_400_000)
_NOTHING = st.nothing()


class TopologyMachine(RuleBasedStateMachine):
    """Publishers, consumers, operators and time, at random.

    Attributes:
        definitions: an export of RabbitMQ's definitions, its file, or ``None`` to draw topologies.
        release: the RabbitMQ release.
        properties: what must hold besides the invariants: names, or what makes a ``Property``, such as its class.
        publishes: what publishers publish; by default what ``simulator.testing.entries`` finds.
        discards: whether consumers reject for good where there is no dead-letter exchange.
        systematic: whether every way that one message can go is tried first, once for all examples
            (``simulator.testing.search``); only where the definitions are given.
        trial: the run so far.
    """

    definitions: Definitions | None = None
    release: str = DEFAULT
    properties: Sequence[str | Callable[[], Property]] = ()
    publishes: Sequence[steps.Publish] = ()
    discards: bool = False
    systematic: bool = True

    trial: Trial
    _found: list[PropertyBroken | None]

    @initialize(document=st.deferred(lambda: st.runner().flatmap(lambda machine: machine.drawn_definitions())))
    def begin(self, document: Definitions) -> None:
        """Import the definitions."""
        wanted = [named(each) if isinstance(each, str) else each() for each in self.properties]
        self._document = document
        if self.systematic and self.definitions is not None:
            self._search_first(wanted)
        self._fixed = not all(each.policies_change for each in wanted)
        self._expirations = [each.expirations_ms for each in wanted if each.expirations_ms != (None,)]
        always = [make() for make in INVARIANTS.values()]
        self.trial = Trial(document, release=self.release, properties=[*wanted, *always])
        self._entries = list(self.publishes) or entries(self.trial)

    def _search_first(self, wanted: Iterable[Property]) -> None:
        """Raise what a systematic search finds. It always finds the same: the first example is searched, all know."""
        found = type(self).__dict__.get("_found")
        if found is None:
            found = [self._searched(type(each)) for each in wanted]
            type(self)._found = found
        for broken in found:
            if broken is not None:
                self._raise(broken.copy())

    def _searched(self, make: Callable[[], Property]) -> PropertyBroken | None:
        end = time.monotonic() + SEARCH_S
        assert self.definitions is not None
        search = Search(self.definitions, make, release=self.release, publishes=self.publishes)
        finding = search.run(lambda tried: time.monotonic() < end)
        return None if finding is None else finding.broken

    def _raise(self, broken: PropertyBroken) -> None:
        if current_build_context().is_final:  # of all that failed, the one that is shown
            broken.add_note(self._report(broken))
        raise broken

    def drawn_definitions(self) -> st.SearchStrategy[Definitions]:
        """The definitions to start with."""
        if self.definitions is not None:
            return st.just(self.definitions)
        from simulator.testing.strategies import definitions

        return definitions(release=self.release)

    def do(self, step: AnyStep) -> None:
        """Do a step. A broken property is reported with the history that led to it, in words, as code, as a picture."""
        try:
            self.trial.do(step)
        except PropertyBroken as broken:
            self._raise(broken)
        except OperatorError:
            self.trial.history.pop()  # a policy that RabbitMQ refuses

    def _report(self, broken: PropertyBroken) -> str:
        again = command(self._document, broken.history, broken.property, self.release)
        return explained(self._document, broken.history, broken, release=self.release, command=again)

    # What may happen next

    def publications(self) -> st.SearchStrategy[AnyStep]:
        """Publishes: one message, or as many as fill a queue of limited length."""
        expirations = st.sampled_from(self._expirations[0]) if self._expirations else st.none()
        fills = [1, *sorted({each for queue in self.trial.queues() for each in _fills(queue)})]
        return st.builds(
            lambda step, times, ms: steps.changed(step, times=times, expiration_ms=ms),
            st.sampled_from(self._entries),
            st.just(1) | st.sampled_from(fills),
            expirations,
        )

    def settlements(self) -> st.SearchStrategy[AnyStep]:
        """What consumers do: take and keep, acknowledge, fail once or until the message settles."""
        found = [step for queue in self._consumable() for step in self._at(queue)]
        return st.sampled_from(found) if found else _NOTHING

    def pauses(self) -> st.SearchStrategy[AnyStep]:
        """Spans of time: some, and until the next thing that is due."""
        due_us = self.trial.broker.next_due()
        ahead_ms = None if due_us is None else max(0, -(-(due_us - self.trial.now_us) // 1_000))
        spans = [*([] if ahead_ms is None else [ahead_ms]), *_WAITS_MS]
        # Where dead letters may spin for ever by themselves, a long wait takes as long as they spin.
        spins = self.trial.broker.release.death_order != "recency"
        return st.sampled_from([steps.Wait(ms) for ms in (*spans, *(() if spins else _LONG_WAITS_MS))])

    def operations(self) -> st.SearchStrategy[AnyStep]:
        """What operators do: set a policy, or remove it again."""
        from simulator.testing.strategies import policies

        vhosts = st.sampled_from(sorted(self.trial.broker.vhosts))
        names = sorted({queue.name for queue in self.trial.queues()}) or ["orders"]
        drawn: st.SearchStrategy[Policy] = policies(queue_names=names, release=self.release)
        found: st.SearchStrategy[AnyStep] = st.builds(
            lambda policy, vhost: steps.SetPolicy(steps.changed(policy, name="drawn"), vhost=vhost), drawn, vhosts
        )
        placed = [name for name, vhost in self.trial.broker.vhosts.items() if "drawn" in vhost.policies]
        return found | st.sampled_from([steps.ClearPolicy("drawn", vhost=name) for name in placed]) if placed else found

    def _consumable(self) -> Iterable[QueueState]:
        """Queues with something to consume."""
        return [queue for queue in self.trial.queues() if queue.messages and queue.definition.type != STREAM]

    def _at(self, queue: QueueState) -> Iterable[AnyStep]:
        name, vhost, limit = queue.name, queue.vhost.name, queue.settings.delivery_limit
        until_settled = 3 if limit is None else min(limit + 1, FLOOD_MAX)
        yield steps.Ack(name, vhost=vhost)
        if queue.settings.dead_letters or self.discards:
            yield steps.Reject(name, vhost=vhost)
            for times in {OFTEN, min(queue.messages, FLOOD_MAX)}:
                yield steps.Reject(name, times, vhost=vhost)
        for times in {1, until_settled}:
            yield steps.Crash(name, times, vhost=vhost)
            yield steps.Requeue(name, times, vhost=vhost)
            yield steps.Requeue(name, times, vhost=vhost, method="nack")
        yield steps.Hold(name, 3, vhost=vhost)
        yield steps.Get(name, vhost=vhost)
        if self.trial.has_consumer(name, vhost):
            yield steps.Leave(name, vhost)

    # Rules

    @precondition(lambda self: self._entries)
    @rule(step=st.runner().flatmap(lambda machine: machine.publications()))
    def publish(self, step: AnyStep) -> None:
        """A publisher publishes."""
        self.do(step)

    @precondition(lambda self: any(True for _ in self._consumable()))
    @rule(step=st.runner().flatmap(lambda machine: machine.settlements()))
    def consume(self, step: AnyStep) -> None:
        """A consumer does something."""
        self.do(step)

    @rule(step=st.runner().flatmap(lambda machine: machine.pauses()))
    def wait(self, step: AnyStep) -> None:
        """Time passes."""
        self.do(step)

    @precondition(lambda self: not self._fixed)
    @rule(step=st.runner().flatmap(lambda machine: machine.operations()))
    def operate(self, step: AnyStep) -> None:
        """An operator changes policies."""
        self.do(step)


def _fills(queue: QueueState) -> Iterable[int]:
    """How many messages are one too many for the queue, where that is a number to try at random."""
    limit = queue.settings.max_length
    return (limit + 1,) if limit is not None and limit <= FLOOD_MAX else ()


def command(definitions: Definitions, history: History, name: str, release: str) -> str:
    """The command that plays a history again to break a property; empty where no file holds the definitions."""
    if not isinstance(definitions, (str, os.PathLike)):
        return ""
    text = msgspec.json.encode(steps.to_builtins(history)).decode()
    if len(text) > COMMAND_LENGTH_MAX:
        return ""
    where = os.fspath(definitions)
    return shell("dlx", "fuzz", where, "--property", name, "--release", release, "--history", text)


def shell(*words: Any) -> str:
    """A command line."""
    return shlex.join(map(str, words))
