"""Strategies for topologies: queues of every type and all their limits, exchanges, bindings, policies."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import strategies as st

from dlx.releases import Release
from tests.differential.fuzz import names as named
from tests.differential.fuzz.messages import sometimes
from tests.differential.fuzz.values import COMMON, retyped, scalars
from tests.differential.operations import Bind, BindExchange, DeclareExchange, DeclareQueue, SetPolicy

MISSING = "missing"
TTLS = [0, 150, 150, 400, 900, 60_000]
KINDS = ["direct", "fanout", "topic", "headers"]
PATTERNS = ["#", "*", "k", "k.#", "*.k", "q1", "#.q2"]
LENGTH_LIMITS = {"max-length", "max-length-bytes"}


class Topology(NamedTuple):
    """What is declared first."""

    exchanges: list[DeclareExchange]
    queues: list[DeclareQueue]
    bindings: list[Bind | BindExchange]

    @property
    def names(self) -> list[str]:
        """The names of its queues."""
        return [queue.queue for queue in self.queues]

    @property
    def endless(self) -> bool:
        """Whether a limit of length by policy would let a queue loop for ever."""
        return any(endless(queue.arguments) for queue in self.queues)

    @property
    def at_least_once(self) -> bool:
        """Whether a queue dead-letters at least once."""
        return any("x-dead-letter-strategy" in queue.arguments for queue in self.queues)

    @property
    def streams(self) -> list[str]:
        """The names of its streams."""
        return [queue.queue for queue in self.queues if queue.arguments.get("x-queue-type") == "stream"]


def keys(queues: list[str]) -> st.SearchStrategy[str]:
    """Routing keys: mostly names of queues."""
    usual = st.sampled_from([*queues * 3, "k", "k.k", ""])
    return st.one_of(*[usual] * 15, st.sampled_from(named.ODD_KEYS))


@st.composite
def dead_lettering(draw: st.DrawFn, queues: list[str], percent: int = 80) -> dict[str, Any]:
    """Where dead letters go, as keys of a policy."""
    if draw(st.integers(1, 100)) > percent:
        return {}
    found = {"dead-letter-exchange": draw(st.sampled_from([""] * 6 + [*named.EXCHANGES, MISSING]))}
    routing_key = draw(sometimes(keys(queues), 80))
    return found if routing_key is None else found | {"dead-letter-routing-key": routing_key}


@st.composite
def limits(draw: st.DrawFn, deadly: bool) -> dict[str, Any]:
    """TTL and lengths, as keys of a policy; only if ``deadly`` anything that kills by itself."""
    found = {
        "message-ttl": draw(sometimes(st.sampled_from(TTLS), 30)),
        "max-length": draw(sometimes(st.sampled_from([0, 1, 1, 2, 2, 3]), 30)),
        "max-length-bytes": draw(sometimes(st.sampled_from([10, 60, 200]), 8)),
    }
    return {name: value for name, value in found.items() if value is not None and deadly}


@st.composite
def overflows(draw: st.DrawFn, rejections: bool) -> dict[str, Any]:
    """What happens when a queue is full, or nothing."""
    modes = ["drop-head", "reject-publish", *["reject-publish-dlx"] * rejections]
    mode = draw(sometimes(st.sampled_from(modes), 40))
    return {} if mode is None else {"overflow": mode}


@st.composite
def classic_arguments(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments that only classic queues have."""
    found = {
        "x-max-priority": draw(sometimes(st.sampled_from([1, 3, 10]), 20)),
        "x-single-active-consumer": draw(sometimes(st.just(True), 10)),
        "x-expires": draw(sometimes(st.sampled_from([700, 60_000]), 6)),
        "x-queue-type": draw(sometimes(st.just("classic"), 20)),
    }
    return {name: value for name, value in found.items() if value is not None}


@st.composite
def quorum_arguments(draw: st.DrawFn, release: Release) -> dict[str, Any]:
    """Arguments that only quorum queues have."""
    found = {
        "x-delivery-limit": draw(sometimes(st.sampled_from([-1, 0, 1, 2, 5]), 40)),
        "x-single-active-consumer": draw(sometimes(st.just(True), 10)),
    }
    found = {"x-queue-type": "quorum"} | {name: value for name, value in found.items() if value is not None}
    if release.quorum_at_least_once and draw(st.integers(0, 3)) == 0:
        found |= {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
    if release.quorum_delayed_retry and draw(st.integers(0, 4)) == 0:
        found |= draw(st.sampled_from([{}, {"x-overflow": "reject-publish"}]))
        delay = draw(st.sampled_from([150, 400]))
        kind = draw(st.sampled_from(["all", "failed", "returned"]))
        found |= {"x-delayed-retry-type": kind, "x-delayed-retry-min": delay, "x-delayed-retry-max": 2 * delay}
    return found


@st.composite
def queue_arguments(
    draw: st.DrawFn, kind: str, queues: list[str], release: Release, deadly: bool, rejections: bool
) -> dict[str, Any]:
    """All arguments of a queue of that type."""
    if kind == "stream":
        return {"x-queue-type": "stream"}
    general = draw(dead_lettering(queues)) | draw(limits(deadly)) | draw(overflows(rejections))
    if kind == "quorum" and not release.quorum_message_ttl:
        general = {name: value for name, value in general.items() if name not in ("message-ttl", "overflow")}
    special = draw(classic_arguments() if kind == "classic" else quorum_arguments(release))
    found = {f"x-{name}": value for name, value in general.items()} | special
    return draw(retyped(without_lengths(found) if endless(found) else found))


def endless(arguments: dict[str, Any]) -> bool:
    """Whether a length limit makes a 4.3 server loop for ever: it drops the head of a queue with delayed retry."""
    return "x-delayed-retry-type" in arguments and arguments.get("x-overflow") != "reject-publish"


def without_lengths(values: dict[str, Any]) -> dict[str, Any]:
    """Arguments or a policy without limits of length."""
    return {name: value for name, value in values.items() if name.removeprefix("x-") not in LENGTH_LIMITS}


@st.composite
def exchanges(draw: st.DrawFn, name: str) -> DeclareExchange:
    """An exchange of any type, sometimes with an alternate one."""
    alternate = draw(sometimes(st.sampled_from(named.EXCHANGES), 25))
    arguments = {} if alternate is None else {"alternate-exchange": alternate}
    return DeclareExchange(name, draw(st.sampled_from(KINDS)), arguments=arguments)


@st.composite
def conditions(draw: st.DrawFn, kind: str, queues: list[str]) -> dict[str, Any]:
    """Routing key and arguments of a binding to an exchange of that type."""
    if kind == "topic":
        return {"routing_key": draw(st.sampled_from(PATTERNS))}
    if kind != "headers":
        return {"routing_key": draw(keys(queues))}
    match = draw(st.sampled_from(["all", "any", "any-with-x"]))
    named = st.sampled_from(["a", "n", "x-kind", "x-first-death-reason"])
    wanted = draw(st.dictionaries(named, st.sampled_from(COMMON) | scalars(), max_size=2))
    return {"arguments": draw(retyped({"x-match": match, **wanted}))}


@st.composite
def bindings(draw: st.DrawFn, declared: list[DeclareExchange], queues: list[str]) -> Bind | BindExchange:
    """A binding of a queue, or now and then of an exchange."""
    source = draw(st.sampled_from(declared))
    condition = draw(conditions(source.type, queues))
    if draw(st.integers(0, 5)) == 0:
        return BindExchange(source.exchange, draw(st.sampled_from(declared)).exchange, **condition)
    return Bind(source.exchange, draw(st.sampled_from(queues)), **condition)


@st.composite
def policies(draw: st.DrawFn, topology: Topology, release: Release, deadly: bool, rejections: bool) -> SetPolicy:
    """A policy or operator policy for one queue or for all."""
    operator = draw(st.integers(0, 3)) == 0
    definition = draw(limits(deadly))
    if not operator:
        definition |= draw(dead_lettering(topology.names, 50)) | draw(overflows(rejections))
        if topology.at_least_once and draw(st.integers(0, 3)) == 0:
            definition |= {"dead-letter-strategy": "at-least-once", "overflow": "reject-publish"}
    if topology.endless:
        definition = without_lengths(definition)
    if not definition or draw(st.integers(0, 3)) == 0:
        definition["delivery-limit"] = draw(st.sampled_from([0, 1, 3]))
    pattern = draw(st.sampled_from(["^q", *(f"^{name}$" for name in topology.names)]))
    name = draw(st.sampled_from(["o"] if operator else ["p", "p", "r"]))
    priority = {"o": 0, "p": 1, "r": 2}[name]
    return SetPolicy(name, pattern, definition, priority, "queues", operator)


@st.composite
def topologies(draw: st.DrawFn, release: Release, deadly: bool, rejections: bool) -> Topology:
    """One to five queues and what leads to them."""
    names = draw(named.some(named.QUEUES, named.ODD_QUEUES, draw(st.sampled_from([1, 2, 2, 3, 3, 4, 5]))))
    kinds = ["classic"] * 4 + ["quorum"] * 4 + ["stream"] * ("stream" in release.queue_types)
    exchange_names = draw(named.some(named.EXCHANGES, named.ODD_EXCHANGES, draw(st.integers(1, 3))))
    declared = [draw(exchanges(name)) for name in exchange_names]
    queues = []
    for name in names:
        kind = draw(st.sampled_from(kinds if len(name.encode()) < named.LONGEST else kinds[:8]))  # no file has it
        arguments = draw(queue_arguments(kind, names, release, deadly, rejections))
        goes = draw(st.integers(0, 15)) if arguments.get("x-queue-type", "classic") == "classic" else 15
        queues.append(DeclareQueue(name, arguments=arguments, auto_delete=goes == 0, exclusive=goes == 1))
    bound = draw(st.lists(bindings(declared, names), min_size=2, max_size=7))
    return Topology(declared, queues, bound)
