"""Dead-letter topologies: as ``dlx.Topology``, and as the definitions document that declares one.

The first draw decides where the dead letters of each queue go, the next how they get there
(``dead_letter_paths``), and the last which other settings the queues have, and whether
those are in their arguments or in a policy.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypedDict, Unpack

import msgspec
from hypothesis import strategies as st
from hypothesis.errors import InvalidArgument

from dlx.declarations import queue_arguments
from dlx.policies import unsupported_keys
from dlx.releases import DEFAULT, Release
from dlx.settings import (
    AT_LEAST_ONCE,
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_ROUTING_KEY,
    DEAD_LETTER_STRATEGY,
    DELIVERY_LIMIT,
    MAX_LENGTH,
    MAX_LENGTH_BYTES,
    MESSAGE_TTL,
    OVERFLOW,
    QUEUE_TYPE,
    REJECT_PUBLISH,
)
from dlx.topology import CLASSIC, STOCK_EXCHANGES, STREAM, Binding, Exchange, Policy, Queue, Topology
from simulator.testing.strategies.argument import USUAL
from simulator.testing.strategies.building_blocks import (
    NOWHERE,
    built,
    check_flags,
    check_queue_counts,
    check_topology,
    checked_choice,
    checked_release,
    first_names,
)
from simulator.testing.strategies.parts import EXCHANGE_TYPES, QUEUE_TYPES, checked_types, conditions
from simulator.testing.strategies.policy import exact_pattern

LIMITS = (MESSAGE_TTL, MAX_LENGTH, MAX_LENGTH_BYTES, OVERFLOW, DELIVERY_LIMIT, DEAD_LETTER_STRATEGY)
"""The settings, other than where dead letters go, that a queue of a topology may have."""

_LIMITS_MAX = 2


def topologies(
    *,
    queues_min: int = 1,
    queues_max: int = 4,
    cyclic: bool | None = None,
    limits: Collection[str] = LIMITS,
    types: Collection[str] = QUEUE_TYPES,
    exchanges: bool = True,
    policies: bool = True,
    release: Release | str = DEFAULT,
) -> st.SearchStrategy[Topology]:
    """Draw topologies that the release declares without refusal. They shrink to one classic queue without arguments.

    Dead letters go to another queue, to the same, to an exchange or key that leads nowhere, or are not kept.

    Args:
        queues_min: queues, at least.
        queues_max: queues, at most.
        cyclic: ``True``: from one queue at least, dead letters lead back to it. ``False``: from none, whatever the
            routing key. ``None``: either.
        limits: the other settings that queues may have, some of ``message-ttl``, ``max-length``,
            ``max-length-bytes``, ``overflow``, ``delivery-limit``, ``dead-letter-strategy``.
        types: queue types to draw from, of ``classic``, ``quorum``, ``stream``; those the release lacks are left out.
        exchanges: whether to draw exchanges and bindings, or leave all to the default exchange.
        policies: whether settings may come from policies and operator policies.
        release: a release or its name.
    """
    rules = checked_release(release)
    check_queue_counts(queues_min, queues_max)
    check_flags(exchanges=exchanges, policies=policies)
    if cyclic not in (None, True, False):
        raise InvalidArgument(f"cyclic={cyclic!r}: expected True, False or None")
    kinds = checked_types(types, rules)
    if cyclic and kinds == (STREAM,):
        raise InvalidArgument("cyclic=True: streams have no dead letters; types needs 'classic' or 'quorum', too")
    allowed = _Allowed(rules, kinds, checked_choice("limits", limits, LIMITS), exchanges, policies)
    return _topologies(allowed, queues_min, queues_max, cyclic)


class TopologyOptions(TypedDict, total=False):
    """The options of ``topologies`` besides the release."""

    queues_min: int
    queues_max: int
    cyclic: bool | None
    limits: Collection[str]
    types: Collection[str]
    exchanges: bool
    policies: bool


def definitions(
    *, release: Release | str = DEFAULT, **topology: Unpack[TopologyOptions]
) -> st.SearchStrategy[dict[str, Any]]:
    """Draw definitions documents, as a server of the release exports them, of one virtual host ``/``.

    ``topology``: the options of ``topologies``.
    """
    rules = checked_release(release)
    return built(definitions_document, topologies(release=rules, **topology), st.just(rules))


class _Allowed(msgspec.Struct, frozen=True):
    """The choices that may be drawn."""

    release: Release
    types: tuple[str, ...]
    limits: tuple[str, ...]
    exchanges: bool
    policies: bool

    @property
    def mortal_types(self) -> tuple[str, ...]:
        """The types whose messages die."""
        return tuple(kind for kind in self.types if kind != STREAM)

    def limits_of(self, type: str, *, dead_letters: bool) -> list[str]:
        """Return the limits that a queue of the type takes as arguments."""
        own = queue_arguments(type, self.release)
        found = [key for key in self.limits if f"x-{key}" in own]
        return found if dead_letters else [key for key in found if key != DEAD_LETTER_STRATEGY]


@st.composite
def _topologies(draw: st.DrawFn, allowed: _Allowed, queues_min: int, queues_max: int, cyclic: bool | None) -> Topology:
    names = first_names(draw(st.integers(queues_min, queues_max)))
    ring = names[: draw(_ring_lengths(allowed, len(names), cyclic))]
    kinds = {name: draw(st.sampled_from(allowed.mortal_types if name in ring else allowed.types)) for name in names}
    targets: dict[str, str | None] = dict(zip(ring, (*ring[1:], *ring[:1]), strict=True))
    for at, name in enumerate(names):
        if name not in ring:
            target = draw(_targets(names[at + 1 :] if cyclic is False else names, cyclic))
            targets[name] = None if kinds[name] == STREAM else target
    led = draw(dead_letter_paths(names, targets, exchanges=allowed.exchanges, acyclic=cyclic is False))
    queues, policies = draw(_queues(allowed, kinds, led))
    return Topology.of(
        exchanges=led.exchanges,
        queues=queues,
        bindings=led.bindings,
        policies=policies,
        operator_policies=draw(_operator_policies(allowed, names)),
    )


def _ring_lengths(allowed: _Allowed, queues: int, cyclic: bool | None) -> st.SearchStrategy[int]:
    """Draw how many of the queues send their dead letters round: each to the next, the last to the first."""
    if cyclic:
        return st.integers(1, queues)
    return st.integers(0, 0 if cyclic is False or not allowed.mortal_types else queues)


def _targets(queues: tuple[str, ...], cyclic: bool | None) -> st.SearchStrategy[str | None]:
    """Draw where a queue's dead letters go: nowhere, for lack of a dead-letter exchange, to a queue, or astray."""
    astray = (NO_EXCHANGE, NO_QUEUE) if cyclic is False else (NO_EXCHANGE, NO_QUEUE, SAME_KEY)
    return st.sampled_from((None, *queues, *astray))


@st.composite
def _queues(
    draw: st.DrawFn, allowed: _Allowed, kinds: Mapping[str, str], led: DeadLetterPaths
) -> tuple[list[Queue], list[Policy]]:
    queues, policies = [], []
    for name, kind in kinds.items():
        settings: dict[str, Any] = {**led.settings(name)}
        settings |= draw(_limits(allowed, kind, dead_letters=bool(settings)))
        arguments = {} if kind == CLASSIC else {f"x-{QUEUE_TYPE}": kind}
        queue = Queue(name=name, type=kind, arguments=arguments)
        by_policy = draw(_by_policy(allowed, queue, settings))
        if by_policy:
            policies.append(Policy(name=name, pattern=exact_pattern(name), definition=settings, apply_to="queues"))
        else:
            arguments |= {f"x-{key}": value for key, value in settings.items()}
        queues.append(queue)
    return queues, policies


@st.composite
def _limits(draw: st.DrawFn, allowed: _Allowed, type: str, dead_letters: bool) -> dict[str, Any]:
    keys = allowed.limits_of(type, dead_letters=dead_letters)
    if not keys:
        return {}
    chosen = draw(st.lists(st.sampled_from(keys), max_size=_LIMITS_MAX, unique=True))
    expires = draw(st.booleans())  # what makes retries is drawn more often than the rest
    if expires and MESSAGE_TTL in keys:
        chosen.append(MESSAGE_TTL)
    found = {key: draw(st.sampled_from(USUAL[key])) for key in chosen}
    if found.get(DEAD_LETTER_STRATEGY) == AT_LEAST_ONCE:
        found[OVERFLOW] = REJECT_PUBLISH  # it has no effect without
    return found


def _by_policy(allowed: _Allowed, queue: Queue, settings: Mapping[str, Any]) -> st.SearchStrategy[bool]:
    """Draw whether the settings stand in a policy, where the release and the type of the queue allow that."""
    fit = settings.keys() <= allowed.release.policy_keys - unsupported_keys(queue, allowed.release)
    return st.booleans() if settings and fit and allowed.policies else st.just(False)


@st.composite
def _operator_policies(draw: st.DrawFn, allowed: _Allowed, names: tuple[str, ...]) -> list[Policy]:
    """Draw one operator policy, or none."""
    keys = [key for key in (MESSAGE_TTL, MAX_LENGTH) if key in allowed.limits]
    if not (keys and allowed.policies and draw(st.booleans())):
        return []
    key = draw(st.sampled_from(keys))
    definition = {key: draw(st.sampled_from(USUAL[key]))}
    pattern = draw(st.sampled_from((".*", *map(exact_pattern, names))))
    return [Policy(name="safety", pattern=pattern, definition=definition, apply_to="queues")]


# The ways that dead letters take from queue to queue, and the exchanges and bindings that those need.
#
# Dead letters come to a queue by its name through the default exchange, or through an exchange
# of its own, such as ``to.orders``, which may lead to other queues, too.


NO_EXCHANGE = "no such exchange"
NO_QUEUE = "no such queue"
SAME_KEY = "the same key"
"""Where dead letters go that are not led to a queue: what a target may be besides a queue's name."""

_ENTRY = "events"
_ENTRY_BINDINGS_MAX = 3
_ASTRAY = {
    NO_EXCHANGE: {DEAD_LETTER_EXCHANGE: NOWHERE},
    NO_QUEUE: {DEAD_LETTER_EXCHANGE: "", DEAD_LETTER_ROUTING_KEY: NOWHERE},
    SAME_KEY: {DEAD_LETTER_EXCHANGE: ""},
}


class DeadLetterPaths(msgspec.Struct, frozen=True):
    """Where each queue's dead letters go, and through which of the exchanges."""

    targets: Mapping[str, str | None]
    exchanges: list[Exchange]
    bindings: list[Binding]

    def settings(self, queue: str) -> dict[str, str]:
        """Return the settings for the queue's dead-letter exchange and routing key."""
        target = self.targets.get(queue)
        if target is None:
            return {}
        if target in _ASTRAY:
            return dict(_ASTRAY[target])
        through = next((each for each in self.exchanges if each.name == _leading_to(target)), None)
        name = "" if through is None else through.name
        if through is None or through.type == "direct":
            return {DEAD_LETTER_EXCHANGE: name, DEAD_LETTER_ROUTING_KEY: target}
        return {DEAD_LETTER_EXCHANGE: name}


@st.composite
def dead_letter_paths(
    draw: st.DrawFn, queues: tuple[str, ...], targets: Mapping[str, str | None], *, exchanges: bool, acyclic: bool
) -> DeadLetterPaths:
    """Draw ways to the targets, and perhaps an exchange that only publishers use.

    ``exchanges``: whether to draw any. ``acyclic``: apart from its target, an exchange leads only to later queues.
    """
    found = DeadLetterPaths(targets, [], [])
    if not exchanges:
        return found
    for target in [name for name in queues if name in targets.values()]:
        kind = draw(st.sampled_from(("", *EXCHANGE_TYPES)))
        if kind:
            others = queues[queues.index(target) + 1 :] if acyclic else queues
            found.exchanges.append(Exchange(name=_leading_to(target), type=kind))
            found.bindings.append(_always(kind, target, target))
            found.bindings.extend(draw(_besides(kind, target, others)))
    if draw(st.booleans()):
        kind = draw(st.sampled_from(EXCHANGE_TYPES))
        found.exchanges.append(Exchange(name=_ENTRY, type=kind))
        found.bindings.extend(draw(_entries(kind, queues)))
    return found


def _leading_to(queue: str) -> str:
    return f"to.{queue}"


def _always(type: str, target: str, queue: str) -> Binding:
    """Return a binding of the target's exchange that every dead letter on that way takes."""
    routing_key = {"direct": target, "topic": "#"}.get(type, "")
    arguments = {"x-match": "all"} if type == "headers" else {}
    return Binding(source=_leading_to(target), destination=queue, routing_key=routing_key, arguments=arguments)


def _besides(type: str, target: str, queues: tuple[str, ...]) -> st.SearchStrategy[list[Binding]]:
    """Draw no further binding, or one, with which a dead letter becomes two."""
    others = [queue for queue in queues if queue != target]
    if not others:
        return st.just([])
    return st.lists(st.sampled_from(others), max_size=1).map(
        lambda chosen: [_always(type, target, queue) for queue in chosen]
    )


@st.composite
def _entries(draw: st.DrawFn, type: str, queues: tuple[str, ...]) -> list[Binding]:
    bound = draw(st.lists(st.sampled_from(queues), max_size=_ENTRY_BINDINGS_MAX, unique=True))
    found = []
    for queue in bound:
        routing_key, arguments = draw(conditions(type, queue))
        found.append(Binding(source=_ENTRY, destination=queue, routing_key=routing_key, arguments=arguments))
    return found


# A topology as the definitions document that declares it.


_STOCK = frozenset(exchange.name for exchange in STOCK_EXCHANGES)
_VHOST = {"vhost": "/"}


def definitions_document(topology: Topology, release: Release | str = DEFAULT) -> dict[str, Any]:
    """Return the document that a server of the release would export of a virtual host ``/`` with this topology.

    With it, a ``Trial`` plays a topology that was drawn, or ``simulator.serve`` serves it. This is a function, not a
    strategy: ``definitions`` draws such documents.
    """
    check_topology(topology, queues_min=0)
    version = checked_release(release).version
    exchanges = [exchange for exchange in topology.exchanges.values() if exchange.name not in _STOCK]
    bindings = [binding for bound in topology.bindings.values() for binding in bound]
    return {
        "rabbitmq_version": version,
        "vhosts": [{"name": "/"}],
        "exchanges": [_VHOST | msgspec.to_builtins(exchange) for exchange in exchanges],
        "queues": [_VHOST | _queue(queue) for queue in topology.queues.values()],
        "bindings": [_VHOST | msgspec.to_builtins(binding) for binding in bindings],
        "policies": [_VHOST | {"name": policy.name, **_policy(policy)} for policy in topology.policies],
        "parameters": [
            _VHOST | {"component": "operator_policy", "name": policy.name, "value": _policy(policy)}
            for policy in topology.operator_policies
        ],
    }


def _queue(queue: Queue) -> dict[str, Any]:
    """Return the queue as exported: its type stands among the arguments, and documents do not say ``exclusive``."""
    fields: dict[str, Any] = msgspec.to_builtins(queue)
    return {name: value for name, value in fields.items() if name not in ("type", "exclusive")}


def _policy(policy: Policy) -> dict[str, Any]:
    return {
        "pattern": policy.pattern,
        "definition": dict(policy.definition),
        "apply-to": policy.apply_to,
        "priority": policy.priority,
    }
