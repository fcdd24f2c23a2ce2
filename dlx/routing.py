"""Find the queues to which an exchange sends a message.

Every routing key counts (publish key, CC, BCC); a queue that is reached twice
gets one copy. Exchange-to-exchange bindings are followed, each exchange is
visited once, and an alternate exchange is tried for an exchange whose own
bindings led nowhere. ``internal`` only bars clients, not dead letters.

``dlx.binding_index`` finds the bindings that a message meets in one exchange.

Source: rabbit_exchange.erl route, process_alternate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import NamedTuple, TypeVar

from dlx.binding_index import BindingIndex, Choose, NotEnabled, first, index_kind
from dlx.consistent_hash import HASH_HEADER, HASH_PROPERTY
from dlx.deaths import X_DEATH
from dlx.delays import Delay, delay_ms, delayed, routing_type
from dlx.message import Message
from dlx.policies import choose_policy
from dlx.releases import Release
from dlx.server_plugins import DELAYED
from dlx.settings import alternate_exchange, alternate_under
from dlx.topology import Binding, Exchange, Topology

DEFAULT_EXCHANGE = ""
REPLY_TO = "amq.rabbitmq.reply-to"
"""The pseudo-queue of direct reply-to; a dot and more behind it is the key of an answer, which needs no queue."""
EXCHANGE_TYPES = ("direct", "fanout", "topic", "headers")
BY_KEY = frozenset({"direct", "fanout", "topic"})
"""Types of exchanges that route a message by its keys alone."""
ENDS_MAX = 100
"""A route with more keys and queues is not remembered."""
CHOICES_MAX = 1_000
Found = TypeVar("Found")


class UnknownExchangeTypeError(ValueError):
    """An exchange of a type whose routing is not known here (a plugin's)."""


class Routed(NamedTuple):
    """Where a message goes: the existing queues that it reaches at once, and the exchanges that delay it."""

    queues: tuple[str, ...]
    delays: tuple[Delay, ...] = ()


Routing = Callable[[Message, Topology, Release], Routed]
"""Finds where a message goes: ``routed``, or the same with more to it."""


def route(message: Message, topology: Topology, release: Release, choose: Choose = first) -> tuple[str, ...]:
    """Return the names of the existing queues that the message reaches, in the order they were found.

    The exchange is ``message.exchange``; a missing one routes nowhere. Where an exchange
    picks one of n destinations at random, ``choose(n)`` does. Queues that it reaches when a delay is over
    stand behind the others. Raises ``PublishRefusedError`` where an exchange fails over the message.
    """
    found = routed(message, topology, release, choose)
    if not found.delays:
        return found.queues
    later = [after_delay(delay, topology, release, choose) for delay in found.delays]
    return tuple(dict.fromkeys(chain(found.queues, *later)))


def routed(message: Message, topology: Topology, release: Release, choose: Choose = first) -> Routed:
    """Return where the message goes at once, and what delays it. Arguments and errors as for ``route``."""
    key, routes = (message.exchange, message.routing_keys), topology.routes
    known = routes.get(key)
    if known is not None and known[0] is release:
        return known[1]
    passed = tuple(visits(message, topology, release, choose))
    found = reached(passed, message, topology, release)
    by_key = all(visit.exchange.type in BY_KEY for visit in passed)
    if by_key and len(message.routing_keys) + len(found.queues) <= ENDS_MAX:
        routes[key] = release, found
    return found


def reached(passed: Iterable[Visit], message: Message, topology: Topology, release: Release) -> Routed:
    """Return where a message goes by these visits: each queue once."""
    delays = [_delay(visit, message, topology, release) for visit in passed if visit.delay_ms]
    return Routed(_queues_of(passed, topology), tuple(delays))


def after_delay(delay: Delay, topology: Topology, release: Release, choose: Choose = first) -> tuple[str, ...]:
    """Return the queues that a message reaches when its delay is over, by the bindings that there are then."""
    return _queues_of(visits(delay.message, topology, release, choose, after=delay), topology)


def _queues_of(passed: Iterable[Visit], topology: Topology) -> tuple[str, ...]:
    queues = dict.fromkeys([name for visit in passed for name in visit.queues])
    return tuple([name for name in queues if name in topology.queues])


def _delay(visit: Visit, message: Message, topology: Topology, release: Release) -> Delay:
    exchange = visit.exchange
    policy = choose_policy(exchange, topology.policies, release).policy
    return Delay(exchange, policy, visit.delay_ms, delayed(message, visit.delay_ms, release))


def each_choice(find: Callable[[Choose], Found]) -> Iterator[Found]:
    """Yield what ``find`` returns, once for each way in which exchanges can choose at random, of many only some."""
    chosen: list[int] = []
    for _ in range(CHOICES_MAX):
        counts: list[int] = []

        def choose(count: int, counts: list[int] = counts) -> int:
            counts.append(count)
            chosen.extend([0] * (len(counts) - len(chosen)))
            return chosen[len(counts) - 1]

        yield find(choose)
        while chosen and chosen[-1] + 1 == counts[len(chosen) - 1]:
            chosen.pop()
        if not chosen:
            return
        chosen[-1] += 1


class Visit(NamedTuple):
    """An exchange that a message comes to.

    Attributes:
        exchange: which one.
        before: the visit from which it was handed on; ``None`` for the exchange that it was published to.
        is_alternate: whether it was handed on to the alternate exchange, and not by a binding.
        bindings: those that the message meets here. The default exchange has none, and routes by name.
        queues: the names of the queues that it is put into from here; the default exchange names also missing ones.
        delay_ms: for how long the exchange keeps it back, in ms; until then it leads nowhere.
    """

    exchange: Exchange
    before: Visit | None
    is_alternate: bool
    bindings: tuple[Binding, ...]
    queues: tuple[str, ...]
    delay_ms: int = 0


def visits(
    message: Message, topology: Topology, release: Release, choose: Choose = first, *, after: Delay | None = None
) -> Iterator[Visit]:
    """Yield the exchanges that the message comes to, in their order: ``route`` returns the queues behind them.

    ``after``: the delay that is over; the exchange that kept the message comes first.
    """
    first = topology.exchanges.get(message.exchange) if after is None else after.exchange
    waiting: deque[tuple[Exchange, Visit | None, bool]] = deque([] if first is None else [(first, None, False)])
    seen = {message.exchange if after is None else after.exchange.name}
    while waiting:
        exchange, before, is_alternate = waiting.popleft()
        wait_ms = _wait_ms(exchange, message, topology, release) if exchange.type == DELAYED else 0
        bindings = () if wait_ms else _met(exchange, message, topology, release, choose)
        queues = tuple([b.destination for b in bindings if b.destination_type == "queue"])
        if exchange.name == DEFAULT_EXCHANGE:
            queues = tuple(dict.fromkeys(message.routing_keys))
        visit = Visit(exchange, before, is_alternate, bindings, queues, wait_ms)
        yield visit
        onward = [b.destination for b in bindings if b.destination_type == "exchange"]
        leads_nowhere = not queues and not onward
        if leads_nowhere:
            if after is not None and before is None:
                alternate = alternate_under(exchange, after.policy)
            else:
                alternate = alternate_exchange(exchange, topology, release)
            onward = [alternate] if alternate else []
        for name in onward:
            target = topology.exchanges.get(name)
            if name not in seen and target is not None:
                seen.add(name)
                waiting.append((target, visit, leads_nowhere))


def _wait_ms(exchange: Exchange, message: Message, topology: Topology, release: Release) -> int:
    """Return for how long a delayed exchange keeps the message; one whose plugin is not enabled keeps none."""
    return 0 if isinstance(topology.indexes.get(exchange.name), NotEnabled) else delay_ms(message, release)


def _met(
    exchange: Exchange, message: Message, topology: Topology, release: Release, choose: Choose
) -> tuple[Binding, ...]:
    """Return the bindings of the exchange that the message meets."""
    if exchange.name == DEFAULT_EXCHANGE:
        return ()
    if exchange.type != DELAYED:
        return index_of(exchange, topology).met(message, release, choose)
    if routing_type(exchange) == "topic" and not release.delayed_topic_routes:
        return ()
    return _index_as_kept(exchange, topology).met(message, release, choose)


def _index_as_kept(exchange: Exchange, topology: Topology) -> BindingIndex:
    """Return the bindings of a delayed exchange, which may be another or none by now."""
    now = topology.exchanges.get(exchange.name)
    kind = index_kind(exchange)
    if kind is None or (now is not None and index_kind(now) is kind):
        return index_of(exchange, topology)
    index = kind(topology.bindings.get(exchange.name, ()))
    index.arguments = exchange.arguments
    return index


def index_of(exchange: Exchange, topology: Topology) -> BindingIndex:
    """Return the index of the exchange's bindings, which the topology keeps. Raises ``UnknownExchangeTypeError``."""
    index = topology.indexes.get(exchange.name)
    if index is None:
        kind = index_kind(exchange)
        if kind is None:
            known = ", ".join(EXCHANGE_TYPES)
            raise UnknownExchangeTypeError(
                f"exchange {exchange.name!r} is of type {exchange.type!r}: known are {known}"
            )
        index = topology.indexes[exchange.name] = kind(topology.bindings.get(exchange.name, ()))
        index.arguments = exchange.arguments
    return index


def share_indexes(topology: Topology, other: Topology) -> None:
    """Let a topology route by the indexes that another one has, where bindings are the same."""
    for name, index in other.indexes.items():
        mine, bound = topology.exchanges.get(name), topology.bindings.get(name, ())
        theirs = other.exchanges[name]
        same = mine is not None and (mine.type, mine.arguments) == (theirs.type, theirs.arguments)
        if same and name not in topology.indexes and [*bound] == [*other.bindings.get(name, ())]:
            index.shared = True
            topology.indexes[name] = index


def headers_looked_at(topology: Topology) -> frozenset[str]:
    """Return the headers that exchanges of the topology compare or hash; only delays depend on another, x-delay.

    ``x-death`` is not among them: it says how often and when a message died.
    """
    names = {str(exchange.arguments.get(HASH_HEADER, "")) for exchange in topology.exchanges.values()}
    for source, bindings in topology.bindings.items():
        exchange = topology.exchanges.get(source)
        if exchange is not None and routing_type(exchange) == "headers":
            for binding in bindings:
                names.update(binding.arguments)
    return frozenset(names - {"", "x-match", X_DEATH})


def hashed_properties(topology: Topology) -> list[str]:
    """Return the properties that exchanges of the topology hash; routing depends on no others."""
    names = {str(exchange.arguments.get(HASH_PROPERTY, "")) for exchange in topology.exchanges.values()}
    return sorted(names - {""})
