"""Finds what publishers would publish: to every exchange, keys and headers that bring a message into a queue."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from itertools import chain, count, islice, product
from typing import Any, NamedTuple, TypeVar

from dlx.binding_index import first, hashes
from dlx.consistent_hash import HASH_HEADER, HASH_PROPERTY
from dlx.delays import X_DELAY, routing_type
from dlx.key_classes import KeyClass, KeyClasses
from dlx.message import Message
from dlx.message_flow import MessageFlow
from dlx.routing import index_of
from dlx.server_plugins import CONSISTENT_HASH, DELAYED
from dlx.settings import alternate_exchange
from dlx.topology import Binding, Exchange, Topology
from simulator.analysis.clients import NOTHING_STATED, Clients
from simulator.analysis.slices import message_of, reached, whole_is_needed
from simulator.scenario.steps import Publish

# Finds the patterns that a message may still meet, with the routing keys that it was published with.
#
# A dead letter keeps its keys unless its queue has a dead-letter routing key. So which keys have to be kept apart
# behind a queue depends on the exchanges that its dead letters can come to before their keys are replaced. Whatever
# lies elsewhere in the topology does not matter.


PATTERNS_MAX = 200
NAMES_MAX = 30
WORDS_MAX = 1_000
"""At most as many words are tried for the destinations of an exchange that chooses by a hash."""
TRIES_MAX = 10_000
"""At most as many keys are tried for such exchanges of a virtual host."""
DELAY_MS = 1_000
T = TypeVar("T")

Node = tuple[str, str]
"""``("queue" | "exchange", name)``."""


class Ahead(NamedTuple):
    """What lies ahead: patterns of bindings, arguments of headers bindings, and whether there is more of either."""

    patterns: tuple[str, ...]
    tables: tuple[Mapping[str, Any], ...]
    more: bool


class Prospect:
    """What lies ahead of the queues and exchanges of one topology; each answer is remembered."""

    def __init__(self, flow: MessageFlow) -> None:
        self._flow = flow
        self._known: dict[Node, Ahead] = {}
        self._next: dict[Node, tuple[Node, ...]] = {}

    def of(self, node: Node) -> Ahead:
        """Return what a message may meet from there on, with its own routing keys."""
        if node not in self._known:
            self._known[node] = self._ahead(node)
        return self._known[node]

    def _ahead(self, first: Node) -> Ahead:
        patterns: dict[str, None] = {}
        tables: list[Mapping[str, Any]] = []
        seen, pending, more = {first}, [first], False
        while pending:
            kind, name = pending.pop()
            if kind == "exchange":
                tables += self._headers_looked_at(name)
            for binding in self._bindings(name) if kind == "exchange" else ():
                patterns[binding.routing_key] = None
                if self._is_headers(name):
                    tables.append(binding.arguments)
            onward = self._onward((kind, name))
            if ("exchange", "") in onward:  # it routes by the names of queues: first by those on the way
                names = dict.fromkeys([*(each for at, each in seen if at == "queue"), *self._flow.topology.queues])
                more = more or len(names) > NAMES_MAX
                patterns.update(dict.fromkeys(list(names)[:NAMES_MAX]))
            pending += [each for each in onward if each not in seen]
            seen.update(onward)
            if len(patterns) > PATTERNS_MAX:
                return Ahead(tuple(patterns)[:PATTERNS_MAX], tuple(tables), True)
        return Ahead(tuple(patterns), tuple(tables), more)

    def _headers_looked_at(self, name: str) -> Iterator[Mapping[str, Any]]:
        """Yield headers by which an exchange of a plugin tells messages apart: a delay, or one for each destination."""
        exchange = self._flow.topology.exchanges.get(name)
        if exchange is None:
            return
        if exchange.type == DELAYED:
            yield {"x-match": "all-with-x", X_DELAY: DELAY_MS}
        header = exchange.arguments.get(HASH_HEADER)
        if exchange.type == CONSISTENT_HASH and header is not None:
            tables = ({str(header): word} for word in _words())
            messages = ((Message(exchange=name, routing_keys=("",), headers=each), each) for each in tables)
            yield from ({"x-match": "all-with-x", **each} for each in _spread(messages, [exchange], self._flow))

    def _onward(self, node: Node) -> tuple[Node, ...]:
        """Return where a message can go next with its own keys."""
        if node not in self._next:
            self._next[node] = tuple(dict.fromkeys(self._led_to(*node)))
        return self._next[node]

    def _led_to(self, kind: str, name: str) -> Iterator[Node]:
        if kind == "queue":
            settings = self._flow.settings(name)
            dlx, replaced = settings.dead_letter_exchange, settings.dead_letter_routing_key is not None
            if dlx is not None and dlx in self._flow.topology.exchanges and not replaced:
                yield "exchange", dlx
            return
        for binding in self._bindings(name):
            yield binding.destination_type, binding.destination
        exchange = self._flow.topology.exchanges.get(name)
        other = exchange and alternate_exchange(exchange, self._flow.topology, self._flow.release)
        if other:
            yield "exchange", other

    def _bindings(self, exchange: str) -> Iterator[Binding]:
        """Yield the bindings of an exchange to what the topology has."""
        topology = self._flow.topology
        for binding in topology.bindings.get(exchange, ()) if exchange else ():
            there = topology.queues if binding.destination_type == "queue" else topology.exchanges
            if binding.destination in there:
                yield binding

    def _is_headers(self, exchange: str) -> bool:
        found: Exchange | None = self._flow.topology.exchanges.get(exchange)
        return found is not None and routing_type(found) == "headers"


# Routing keys that go different ways through a topology.
#
# Two keys go the same way where the same bindings take them. So of each pattern there is a key that no other binding
# knows, keys that patterns ahead take, too, and keys of every number of words that some pattern can tell apart.


LENGTH_MAX = 12
MEETINGS_MAX = 6
Pattern = tuple[str, ...]


class Keys:
    """Makes routing keys for one topology."""

    def __init__(self, topology: Topology) -> None:
        bound = (each for bindings in topology.bindings.values() for each in bindings if each.source)
        patterns = {_split(each.routing_key) for each in bound}
        words = {word for pattern in patterns for word in pattern}
        self.other = next(word for word in chain(["other"], map("other{}".format, count(2))) if word not in words)

    def plain(self, pattern: str) -> str:
        """Return a key that the pattern takes, and no other one that need not."""
        return self._filled(_split(pattern))

    def met_by(self, pattern: str, ahead: Iterable[str]) -> Iterator[str]:
        """Yield keys that the pattern takes, and that the patterns ahead tell apart."""
        own, others = _split(pattern), [_split(each) for each in ahead]
        longest = min(max(map(len, (own, *others))), LENGTH_MAX)
        yield from self._lengths(own, longest)
        for other in others:
            for both in meeting(own, other):
                yield from self._lengths(both, longest)

    def of_any(self, ahead: Iterable[str]) -> Iterator[str]:
        """Yield a key that no pattern of the topology names, and keys that the patterns ahead tell apart."""
        yield self.other
        yield from self.met_by("#", ahead)

    def _lengths(self, pattern: Pattern, longest: int) -> Iterator[str]:
        """Yield the pattern filled with a word that the topology does not have: one for ``*``, any number for ``#``."""
        for number in range(longest + 2 if "#" in pattern else 1):
            yield self._filled(pattern, hashes=number)

    def _filled(self, pattern: Pattern, hashes: int = 1) -> str:
        words: list[str] = []
        for part in pattern:
            words += [self.other] * hashes if part == "#" else [self.other if part == "*" else part]
        return ".".join(words)


def _words() -> Iterator[str]:
    return map("other{}".format, range(2, WORDS_MAX))


def _spread(messages: Iterable[tuple[Message, T]], hashing: Sequence[Exchange], flow: MessageFlow) -> Iterator[T]:
    """Yield what stands beside the messages by which, together, exchanges choose each destination that they can."""
    topology, chosen = flow.topology, set[tuple[str, Binding]]()
    most = sum(len(topology.bindings.get(each.name, ())) for each in hashing)
    for message, beside in messages:
        if len(chosen) >= most:
            return
        met = {(each.name, to) for each in hashing for to in index_of(each, topology).met(message, flow.release, first)}
        if not met <= chosen:
            chosen |= met
            yield beside


def _split(pattern: str) -> Pattern:
    return tuple(pattern.split("."))


@lru_cache(maxsize=10_000)
def meeting(one: Pattern, two: Pattern) -> tuple[Pattern, ...]:
    """Return patterns of the keys that both patterns take; only some of them if there are many."""
    if not one or not two:
        return ((),) if set(one + two) <= {"#"} else ()
    found: list[Pattern] = []
    if one[0] == two[0]:
        found += [(one[0], *tail) for tail in meeting(one[1:], two[1:])]
    elif "#" in (one[0], two[0]):
        hashed, words = (one, two) if one[0] == "#" else (two, one)
        found += [(words[0], *tail) for tail in meeting(hashed, words[1:])]
        found += meeting(hashed[1:], words)
    elif "*" in (one[0], two[0]):
        word = two[0] if one[0] == "*" else one[0]
        found += [(word, *tail) for tail in meeting(one[1:], two[1:])]
    return tuple(dict.fromkeys(found))[:MEETINGS_MAX]


# Finds what publishers would publish: to every exchange, keys and headers that bring a message into a queue.
#
# A queue that is bound is reached through its bindings, as its publishers reach it; the default exchange reaches
# those that nothing else does, not even dead letters. Exchanges that are internal are for dead letters and other
# exchanges alone. Routing keys are made of the topology's bindings (``simulator.analysis.entries``): a dead
# letter keeps its key, so one that another exchange knows may go another way than one that none does.


PUBLISHES_MAX = 600
"""So many publishes to one exchange; to one with more bindings, as many as those."""
CANDIDATES_MAX = 3_000
TABLES_MAX = 30
NAMED_MAX = 3


class Entries(NamedTuple):
    """The publishes to try, the plainest first, and what was left out, in sentences."""

    publishes: list[Publish]
    left_out: list[str]


def entries(flows: Mapping[str, MessageFlow], clients: Clients = NOTHING_STATED) -> Entries:
    """Return the publishes to try in these virtual hosts, each once; all of them reach a queue.

    ``clients``: what they publish, if that is stated; nothing else is tried then.
    """
    found: dict[str, Publish] = {}
    short: list[str] = []
    for name, flow in flows.items():
        for step in _OneVhost(flow, name, short, clients).publishes():
            found.setdefault(repr(step), step)
    return Entries(list(found.values()), [*_left_out(short), *_routed_nowhere(found.values(), clients)])


def by_name(flow: MessageFlow, vhost: str, known: Collection[Hashable]) -> list[Publish]:
    """Return publishes to bound queues by their names, where dead letters keep that key and so go another way.

    Frameworks that republish, shovels, "Move messages" of the management page and ``dlx redrive`` publish so. All keep
    the headers of messages: a headers exchange takes the dead letters as before.

    ``known``: the situations (``MessageFlow.situation``) that other publishes lead to.
    """
    found = []
    for name in flow.topology.queues:
        settings, step = flow.settings(name), Publish("", name, vhost=vhost)
        dlx = flow.topology.exchanges.get(settings.dead_letter_exchange or "")
        by_key = dlx is None or routing_type(dlx) != "headers"
        keeps_key = settings.dead_letters and settings.dead_letter_routing_key is None and by_key
        if keeps_key and flow.situation(name, message_of(step, flow.release)) not in known:
            found.append(step)
    return found


def _routed_nowhere(publishes: Iterable[Publish], clients: Clients) -> Iterator[str]:
    """Yield what is stated of publishers, and brings no message into any queue."""
    routed = {each.exchange for each in publishes}
    for place, each in enumerate(clients.publish):
        if each.exchange not in routed:
            yield f"what is published to exchange '{each.exchange}' (clients.publish[{place}]): no queue takes the keys"


def _left_out(exchanges: list[str]) -> list[str]:
    if not exchanges:
        return []
    names = ", ".join(f"'{name}'" for name in exchanges[:NAMED_MAX])
    more = f" and {len(exchanges) - NAMED_MAX} more" if len(exchanges) > NAMED_MAX else ""
    exchange = "exchange" if len(exchanges) == 1 else "exchanges"
    take = "takes" if len(exchanges) == 1 else "take"
    return [f"some of the routing keys and headers that {exchange} {names}{more} {take}"]


class _Key(NamedTuple):
    """A routing key, and those that CC carries beside it."""

    key: str
    cc: tuple[str, ...] = ()


class _OneVhost:
    """Finds the publishes of one virtual host. ``short`` gets the exchanges to which not all was published."""

    def __init__(self, flow: MessageFlow, vhost: str, short: list[str], clients: Clients) -> None:
        self._clients = clients
        self._flow, self._topology, self._vhost, self._short = flow, flow.topology, vhost, short
        self._keys, self._prospect = Keys(flow.topology), Prospect(flow)
        classes = KeyClasses(flow.topology, flow.release)
        self._tries = iter(range(TRIES_MAX))
        self._class_of: Callable[[str], KeyClass] = str if whole_is_needed(flow.topology) else cache(classes.key_class)

    def publishes(self) -> Iterator[Publish]:
        """Yield them, the plainest first."""
        bound = {
            binding.destination
            for bindings in self._topology.bindings.values()
            for binding in bindings
            if binding.source and binding.destination_type == "queue"
        }
        plain = [Publish("", name, vhost=self._vhost) for name in self._topology.queues if name not in bound]
        if self._clients.publish:
            stated = {each.exchange for each in self._clients.publish}
            known = [each for each in self._topology.exchanges.values() if each.name in stated and not each.internal]
            yield from _in_turn([list(self._into(exchange)) for exchange in known])
            return
        exchanges = [each for each in self._topology.exchanges.values() if each.name and not each.internal]
        into = [list(self._into(exchange)) for exchange in exchanges]
        yield from plain
        yield from self._alone([*plain, *chain(*into)])
        yield from _in_turn(into)

    def _alone(self, others: list[Publish]) -> Iterator[Publish]:
        """Yield publishes to queues that no other publish leads to, rather to those where messages do not pause."""
        there, _ = reached(self._flow, others)
        queues = self._topology.queues
        for name in sorted(queues, key=lambda name: "x-message-ttl" in queues[name].arguments):
            if name not in there:
                step = Publish("", name, vhost=self._vhost)
                yield step
                there |= reached(self._flow, [step])[0]

    def _into(self, exchange: Exchange) -> Iterator[Publish]:
        """Yield publishes to one exchange that reach a queue, of those that nothing tells apart only one."""
        ways, more = self._ways(exchange)
        candidates = islice(ways, CANDIDATES_MAX)
        classes: set[Hashable] = set()
        most = max(PUBLISHES_MAX, len(self._topology.bindings.get(exchange.name, ())))
        for (key, cc), table in candidates:
            headers = {**table, "CC": list(cc)} if cc else table
            step = Publish(exchange.name, key, headers=headers, vhost=self._vhost)
            kind = self._class_of(key), repr(sorted(headers.items()))
            if kind in classes or not self._flow.entries(message_of(step, self._flow.release)):
                continue
            if len(classes) == most:
                more = True
                break
            classes.add(kind)
            yield step
        if more or next(ways, None) is not None or next(self._tries, None) is None:
            self._short.append(exchange.name)

    def _ways(self, exchange: Exchange) -> tuple[Iterator[tuple[_Key, dict[str, Any]]], bool]:
        """Return pairs of a key and headers to publish with, and whether there are more to be thought of."""
        bindings = [each for each in self._topology.bindings.get(exchange.name, ()) if each.source]
        there = [(each, self._prospect.of((each.destination_type, each.destination))) for each in bindings]
        whole = self._prospect.of(("exchange", exchange.name)) if bindings or exchange.arguments else None
        stated = self._stated_keys(exchange, whole)
        keys = list(stated if self._clients.publish else (_Key(key) for key in self._keys_for(exchange, there)))
        tables = list(islice(self._tables(exchange, bindings, whole), TABLES_MAX + 1))
        keys += [spread for each in dict.fromkeys(keys) for spread in self._spread(each, exchange.name)]
        first = list(dict.fromkeys(keys[: len(bindings)]))
        rest = dict.fromkeys(keys[len(bindings) :])
        some = tables[:TABLES_MAX] if routing_type(exchange) == "headers" else tables[:1]
        ways = chain(product(first, tables[:TABLES_MAX]), product(rest, some))
        return ways, len(tables) > TABLES_MAX or any(ahead.more for _, ahead in there)

    def _keys_for(self, exchange: Exchange, there: list[tuple[Binding, Ahead]]) -> Iterator[str]:
        """Yield a key for each binding, then keys that part further on, then keys that no binding takes."""
        for binding, _ in there:
            yield self._keys.plain(binding.routing_key) if routing_type(exchange) == "topic" else binding.routing_key
        for binding, ahead in there:
            if routing_type(exchange) == "topic":
                yield from self._keys.met_by(binding.routing_key, ahead.patterns)
            elif routing_type(exchange) != "direct":
                yield from self._keys.of_any(ahead.patterns)
        other = alternate_exchange(exchange, self._topology, self._flow.release)
        if other:
            yield from self._keys.of_any(self._prospect.of(("exchange", other)).patterns)

    def _spread(self, key: _Key, exchange: str) -> Iterator[_Key]:
        """Yield keys like one that fits a pattern, by which exchanges that hash it choose each of their destinations.

        They are hashed as they are published: a dead letter may have another key, and CC others beside.
        """
        others = {HASH_HEADER, HASH_PROPERTY}
        hashing = [e for e in self._topology.exchanges.values() if hashes(e) and others.isdisjoint(e.arguments)]
        words = key.key.split(".")
        if not hashing or self._keys.other not in words:
            return
        alike = (
            ".".join(other if word == self._keys.other else word for word in words)
            for other, _ in zip(_words(), self._tries, strict=False)
        )
        messages = ((Message(exchange=exchange, routing_keys=(each, *key.cc)), each) for each in alike)
        yield from (_Key(each, key.cc) for each in _spread(messages, hashing, self._flow))

    def _stated_keys(self, exchange: Exchange, whole: Ahead | None) -> Iterator[_Key]:
        """Yield the keys that publishers are stated to use, and such as a pattern among them stands for."""
        levels = ladder_levels(exchange, self._topology)
        for each in self._clients.publish:
            if each.exchange != exchange.name or not fnmatchcase(self._vhost, each.vhost):
                continue
            for key in each.keys:
                if routing_type(exchange) != "topic" or {"*", "#"}.isdisjoint(key.split(".")):
                    met: Iterable[str] = (key,)
                elif levels:
                    met = _delayed(key, levels)
                else:
                    met = self._keys.met_by(key, () if whole is None else whole.patterns)
                yield from (_Key(found, each.cc) for found in met)

    def _tables(self, exchange: Exchange, bindings: Iterable[Binding], whole: Ahead | None) -> Iterator[dict[str, Any]]:
        """Yield headers to publish with: none, those that its own bindings take, and those that matter further on."""
        yield {}  # the first
        own = (
            [table for each in bindings for table in _matching(each.arguments)]
            if routing_type(exchange) == "headers"
            else []
        )
        yield from own
        ahead = () if whole is None else whole.tables
        others = [table for arguments in ahead for table in _matching(arguments) if table not in own]
        yield from others
        yield from (other | table for table in own for other in others)


def _in_turn(lists: Iterable[list[Publish]]) -> Iterator[Publish]:
    """Yield the first of each list, then the second of each, ..."""
    left = [each for each in lists if each]
    for place in range(max(map(len, left), default=0)):
        yield from (each[place] for each in left if place < len(each))


def _matching(arguments: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield headers that the binding of a headers exchange takes: all of its own, and each alone if any will do."""
    kind = str(arguments.get("x-match", "all"))
    with_x = kind.endswith("with-x")
    own = {key: value for key, value in arguments.items() if key != "x-match" and (with_x or not key.startswith("x-"))}
    yield dict(own)
    if kind.startswith("any"):
        for key, value in own.items():
            yield {key: value}


# Ladders of delays: topic exchanges in a row, as Celery and NServiceBus declare them. The first words of a routing key
# are the bits of the delay. Of each exchange, a bit 1 leads to a queue, whose TTL is the delay of that bit and whose
# dead letters go to the next exchange, and a bit 0 leads there at once.


_BIT = re.compile(r"((?:\*\.)*)1\.#")


def ladder_levels(exchange: Exchange, topology: Topology) -> int:
    """Return how many bits there are in the keys of a ladder of delays that the exchange is a step of; 0 if of none."""
    levels, name = 0, exchange.name
    while (step := _ladder_step(name, topology)) is not None:
        levels, name = step
    return levels


def _ladder_step(name: str, topology: Topology) -> tuple[int, str] | None:
    """Return the place of the bit that an exchange reads, counted from 1, and the next exchange."""
    bound = {(each.routing_key, each.destination_type): each.destination for each in topology.bindings.get(name, ())}
    for (key, kind), queue in bound.items():
        bit = _BIT.fullmatch(key)
        following = None if bit is None else bound.get((f"{bit[1]}0.#", "exchange"))
        if (
            bit is not None
            and kind == "queue"
            and following is not None
            and "x-message-ttl" in _arguments(queue, topology)
        ):
            return len(bit[1]) // 2 + 1, following
    return None


def _arguments(queue: str, topology: Topology) -> Mapping[str, Any]:
    return topology.queues[queue].arguments if queue in topology.queues else {}


def _delayed(pattern: str, levels: int) -> Iterator[str]:
    """Yield keys for a ladder of delays: with each bit alone, and with the last two, which make two pauses in a row."""
    words = pattern.split(".")
    rest = words[1:] if words[0] == "#" else words[levels:]
    for ones in (*({level} for level in range(levels)), {levels - 2, levels - 1}):
        yield ".".join([*("1" if level in ones else "0" for level in range(levels)), *rest])
