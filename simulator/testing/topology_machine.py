"""A Hypothesis state machine that tries to break your topology.

    from simulator.testing import TopologyMachine

    class Orders(TopologyMachine):
        definitions = "definitions.json"
        properties = ["lossless"]

    TestOrders = Orders.TestCase

It publishes where publishers would, consumes, acknowledges, rejects, requeues, crashes
consumers, lets time pass and, where the properties allow it, changes policies. After
every action the properties and the invariants of ``simulator.scenario.properties`` are
checked. Add rules and invariants of your own as with any
``hypothesis.stateful.RuleBasedStateMachine``; ``self.trial`` is the trial. Whatever fails
is reported with the history that led to it.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import time
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.control import current_build_context
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from dlx.field_values import plain
from dlx.releases import DEFAULT
from dlx.topology import STREAM, Policy
from simulator.analysis.clients import NOTHING_STATED, Clients
from simulator.analysis.entries import entries
from simulator.analysis.slices import flows_of
from simulator.bootstrap import DefinitionsSource
from simulator.broker import OperatorError, QueueState
from simulator.scenario import steps
from simulator.scenario.properties.property import PropertyBroken
from simulator.scenario.properties.property_registry import BUILT_IN, INVARIANTS, Maker, listed, made
from simulator.scenario.scenario_errors import unknown_names
from simulator.scenario.steps import AnyStep, History
from simulator.scenario.trial import Trial
from simulator.testing.fuzz.counterexample import Counterexample
from simulator.testing.fuzz.failure_report import built_in, explained, in_code
from simulator.testing.fuzz.systematic_search import Search
from simulator.testing.fuzz.topology_under_test import file_of
from simulator.testing.strategies.building_blocks import built

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
        definitions: an export of RabbitMQ's definitions, its file, or ``None`` to draw topologies. A relative path
            is looked for beside the file of the class, then in the current folder.
        release: the RabbitMQ release.
        properties: what must hold besides the invariants: names, or what makes a ``Property``, such as its class.
        publishes: what publishers publish; by default what ``simulator.analysis.entries`` finds.
        discards: whether consumers reject for good where there is no dead-letter exchange.
        clients: what clients do (``simulator.analysis.clients``), as far as it is stated.
        systematic: whether every way that one message can go is tried first, once for all examples
            (``simulator.testing.fuzz.systematic_search``); only where the definitions are given. It takes
            ``SEARCH_S`` seconds for each property at most; a warning tells what was not tried.
        trial: the run so far. It is there when a rule, an initialize rule or an invariant of your own runs.
    """

    definitions: DefinitionsSource | None = None
    release: str = DEFAULT
    properties: Sequence[Maker] = ()
    publishes: Sequence[steps.Publish] = ()
    discards: bool = False
    clients: Clients = NOTHING_STATED
    systematic: bool = True

    trial: Trial
    _searched: list[Search]
    _found: list[Counterexample | None]
    _counterexample: Counterexample | None = None

    def __init__(self) -> None:
        super().__init__()
        # Hypothesis draws the order of the initialize rules. Those of a subclass wait until ``begin`` made the trial.
        # It has no public way to say so; without this one they come in any order.
        initial = getattr(self, "_initialize_rules_to_run", [])
        self._initialize_rules_to_run = [each for each in initial if each.function.__name__ == "begin"]
        self._initialize_later = [each for each in initial if each.function.__name__ != "begin"]
        # An overridden ``teardown`` need not call this one, so what it begins with does not stand there.
        self._teardown, self.teardown = self.teardown, self._end  # type: ignore[method-assign]

    @initialize(document=st.deferred(lambda: st.runner().flatmap(lambda machine: machine.drawn_definitions())))
    def begin(self, document: DefinitionsSource) -> None:
        """Import the definitions."""
        self._initialize_rules_to_run += self._initialize_later
        self._document = document
        wanted = [made(each) for each in listed(self.properties)]
        always = [make() for make in INVARIANTS.values()]
        trial = Trial(document, release=self.release, properties=[*wanted, *always])
        self._check_publishes(trial)
        if self.systematic and self.definitions is not None:
            self._search_first(document)
        self._fixed = not all(each.policies_change for each in wanted)
        expirations = [each.expirations_ms for each in wanted if each.expirations_ms != (None,)]
        self._expirations = list(dict.fromkeys(ms for each in expirations for ms in each))
        self.trial = trial
        self._entries = list(self.publishes) or entries(flows_of(trial), self.clients).publishes

    def _check_publishes(self, trial: Trial) -> None:
        for each in self.publishes:
            if not isinstance(each, steps.Publish):
                raise TypeError(
                    "publishes takes Publish steps of simulator.scenario.steps, such as "
                    f"Publish('shop', 'order.new'); got {each!r}"
                )
        unknown = unknown_names(self.publishes, trial.topologies())
        if unknown:
            raise LookupError(f"publishes: {'; '.join(unknown)}")

    def _search_first(self, document: DefinitionsSource) -> None:
        """Raise what a systematic search finds. It always finds the same, so only the first example searches."""
        cls = type(self)
        if "_found" not in vars(cls):
            cls._searched = [self._search(document, each) for each in self.properties]
            cls._found = [_run(search) for search in cls._searched]
        self._counterexample = next(filter(None, cls._found), None)
        if self._counterexample is not None:
            raise self._counterexample.broken.copy()
        for search in cls._searched:
            for untried in search.untried:
                warnings.warn(f"{cls.__name__}, {search.property.name}: not tried: {untried}", stacklevel=1)

    def _search(self, document: DefinitionsSource, maker: Maker) -> Search:
        whole = type(made(maker)) not in BUILT_IN.values()  # it may ask for queues that the message cannot come to
        return Search(
            document, maker, release=self.release, publishes=self.publishes, whole=whole, clients=self.clients
        )

    def _end(self) -> None:
        """Add the report to the failure that ends the run, the one that is shown; then clear up."""
        failed = sys.exc_info()[1]
        began = self._counterexample is not None or hasattr(self, "trial")
        if failed is not None and began and current_build_context().is_final:
            failed.add_note(self._report(failed))
        self._teardown()

    def drawn_definitions(self) -> st.SearchStrategy[DefinitionsSource]:
        """Draw the definitions to start with."""
        given = self.definitions
        if isinstance(given, (str, os.PathLike)):
            cls = next((each for each in type(self).__mro__ if "definitions" in vars(each)), type(self))
            return st.just(file_of(given, cls))
        if given is not None:
            return st.just(given)
        from simulator.testing.strategies import definitions

        return definitions(release=self.release)

    def do(self, step: AnyStep) -> None:
        """Do a step. A policy that RabbitMQ refuses changes nothing. Raises ``PropertyBroken``."""
        with contextlib.suppress(OperatorError):
            self.trial.do(step)

    def _report(self, failed: BaseException) -> str:
        """Return the history that led to the failure: in words, as code and as a picture."""
        counterexample, name = self._counterexample, failed.property if isinstance(failed, PropertyBroken) else ""
        history = tuple(self.trial.history) if counterexample is None else counterexample.history
        properties = in_code(type(self), self.properties, name)
        own = properties != built_in(name)
        told = explained(
            self._document,
            history,
            failed,
            release=self.release,
            command="" if own else command(self._document, history, name, self.release),
            events=None if counterexample is None else counterexample.events(self.release),
            properties=properties,
        )
        return told if counterexample is None or not counterexample.note else f"{told}\n\n{counterexample.note}"

    # What may happen next

    def publications(self) -> st.SearchStrategy[AnyStep]:
        """Draw publishes: one message, or as many as fill a queue of limited length."""
        expirations = st.sampled_from(self._expirations) if self._expirations else st.none()
        fills = [1, *sorted({each for queue in self.trial.queues() for each in _fills(queue)})]
        found: st.SearchStrategy[AnyStep] = built(
            _varied, st.sampled_from(self._entries), st.just(1) | st.sampled_from(fills), expirations
        )
        return found

    def settlements(self) -> st.SearchStrategy[AnyStep]:
        """Draw what consumers do: take and keep, acknowledge, fail once or until the message settles."""
        found = [step for queue in self._consumable() for step in self._at(queue)]
        return st.sampled_from(found) if found else _NOTHING

    def pauses(self) -> st.SearchStrategy[AnyStep]:
        """Draw spans of time: fixed ones, and the time until the next thing is due."""
        due_us = self.trial.broker.next_due()
        ahead_ms = None if due_us is None else max(0, -(-(due_us - self.trial.now_us) // 1_000))
        spans = [*([] if ahead_ms is None else [ahead_ms]), *_WAITS_MS]
        # Where dead letters may spin for ever by themselves, a long wait takes as long as they spin.
        spins = self.trial.broker.release.death_order != "recency"
        return st.sampled_from([steps.Wait(ms) for ms in (*spans, *(() if spins else _LONG_WAITS_MS))])

    def operations(self) -> st.SearchStrategy[AnyStep]:
        """Draw what operators do: set a policy, or remove it again."""
        from simulator.testing.strategies import policies

        vhosts = st.sampled_from(sorted(self.trial.broker.vhosts))
        names = sorted({queue.name for queue in self.trial.queues()}) or ["orders"]
        drawn: st.SearchStrategy[Policy] = policies(queue_names=names, release=self.release)
        found: st.SearchStrategy[AnyStep] = built(
            lambda policy, vhost: steps.SetPolicy(steps.changed(policy, name="drawn"), vhost=vhost), drawn, vhosts
        )
        placed = [name for name, vhost in self.trial.broker.vhosts.items() if "drawn" in vhost.policies]
        return found | st.sampled_from([steps.ClearPolicy("drawn", vhost=name) for name in placed]) if placed else found

    def _consumable(self) -> Iterable[QueueState]:
        """Return the queues with something to consume."""
        there = [queue for queue in self.trial.queues() if queue.messages and queue.definition.type != STREAM]
        return [queue for queue in there if self.clients.consumes(queue.vhost.name, queue.name)]

    def _at(self, queue: QueueState) -> Iterable[AnyStep]:
        name, vhost, limit = queue.name, queue.vhost.name, queue.settings.delivery_limit
        until_settled = 3 if limit is None else min(limit + 1, FLOOD_MAX)
        stated = self.clients.failures(vhost, name)
        yield steps.Ack(name, vhost=vhost)
        if (queue.settings.dead_letters or self.discards) if stated is None else "reject" in stated:
            yield steps.Reject(name, vhost=vhost)
            for times in {OFTEN, min(queue.messages, FLOOD_MAX)}:
                yield steps.Reject(name, times, vhost=vhost)
        for times in {1, until_settled}:
            if stated is None or "crash" in stated:
                yield steps.Crash(name, times, vhost=vhost)
            if stated is None or "requeue" in stated:
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
        """Let a publisher publish."""
        self.do(step)

    @precondition(lambda self: any(True for _ in self._consumable()))
    @rule(step=st.runner().flatmap(lambda machine: machine.settlements()))
    def consume(self, step: AnyStep) -> None:
        """Let a consumer do something."""
        self.do(step)

    @rule(step=st.runner().flatmap(lambda machine: machine.pauses()))
    def wait(self, step: AnyStep) -> None:
        """Let time pass."""
        self.do(step)

    @precondition(lambda self: not self._fixed)
    @rule(step=st.runner().flatmap(lambda machine: machine.operations()))
    def operate(self, step: AnyStep) -> None:
        """Let an operator change policies."""
        self.do(step)


def _fills(queue: QueueState) -> Iterable[int]:
    """Return how many messages are one too many for the queue, if that is a number to try at random."""
    limit = queue.settings.max_length
    return (limit + 1,) if limit is not None and limit <= FLOOD_MAX else ()


def _varied(step: steps.Publish, times: int, expiration_ms: int | None) -> AnyStep:
    """Return the publish with these values, except where it has its own."""
    ms = expiration_ms if step.expiration_ms is None else step.expiration_ms
    varied: steps.Publish = steps.changed(step, times=times if step.times == 1 else step.times, expiration_ms=ms)
    return varied


def _run(search: Search) -> Counterexample | None:
    end = time.monotonic() + SEARCH_S
    return search.run(lambda tried: time.monotonic() < end)


def command(definitions: DefinitionsSource, history: History, name: str, release: str) -> str:
    """Return the command that plays a history again to break a built-in property; empty for another, or if too long.

    If no file holds the definitions, a command before it writes one.
    """
    text = msgspec.json.encode(steps.to_builtins(history)).decode()
    if name not in BUILT_IN or len(text) > COMMAND_LENGTH_MAX:
        return ""
    if isinstance(definitions, (str, os.PathLike)):
        before, where = "", os.fspath(definitions)
    else:
        document, where = msgspec.json.encode(definitions, enc_hook=plain).decode(), f"broken-{name}.json"
        if len(document) > COMMAND_LENGTH_MAX:
            return ""
        before = f"{shell('printf', '%s', document)} > {where}\n"
    return before + shell("dlx", "fuzz", where, "--property", name, "--release", release, "--history", text)


def shell(*words: Any) -> str:
    """Return a command line."""
    return shlex.join(map(str, words))
