"""Find the queues to which an exchange sends a message.

Every routing key counts (publish key, CC, BCC); a queue that is reached twice
gets one copy. Exchange-to-exchange bindings are followed, each exchange is
visited once, and an alternate exchange is tried for an exchange whose own
bindings led nowhere. ``internal`` only bars clients, not dead letters.

Source: rabbit_exchange.erl route, process_alternate; rabbit_exchange_type_*.erl.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from dlx.death_annotations import annotated_headers
from dlx.deaths import X_DEATH, seconds
from dlx.delivery_headers import stored_headers
from dlx.erlang_hash import phash2
from dlx.message import Message
from dlx.releases import Release
from dlx.settings import alternate_exchange
from dlx.topology import Binding, Exchange, Topology

DEFAULT_EXCHANGE = ""
EXCHANGE_TYPES = ("direct", "fanout", "topic", "headers")
LOCAL_RANDOM = "x-local-random"
MODULUS_HASH = "x-modulus-hash"
Choose = Callable[[int], int]


class UnknownExchangeTypeError(ValueError):
    """An exchange of a type whose routing is not known here (a plugin's)."""


def _first(_count: int) -> int:
    return 0


def route(message: Message, topology: Topology, release: Release, choose: Choose = _first) -> tuple[str, ...]:
    """Return the names of the existing queues that the message reaches, in the order they were found.

    The exchange is ``message.exchange``; a missing one routes nowhere. Where an exchange
    picks one of n destinations at random, ``choose(n)`` does.
    """
    queues: dict[str, None] = {}
    for visit in visits(message, topology, release, choose):
        queues.update(dict.fromkeys(visit.queues))
    return tuple(name for name in queues if name in topology.queues)


class Visit(NamedTuple):
    """An exchange that a message comes to.

    Attributes:
        exchange: which one.
        before: the visit from which it was handed on; ``None`` for the exchange that it was published to.
        is_alternate: whether it was handed on to the alternate exchange, and not by a binding.
        bindings: those that the message meets here. The default exchange has none, and routes by name.
        queues: the names of the queues that it is put into from here; the default exchange names also missing ones.
    """

    exchange: Exchange
    before: Visit | None
    is_alternate: bool
    bindings: tuple[Binding, ...]
    queues: tuple[str, ...]


def visits(message: Message, topology: Topology, release: Release, choose: Choose = _first) -> Iterator[Visit]:
    """Yield the exchanges that the message comes to, in their order: ``route`` tells the queues behind them."""
    first = topology.exchanges.get(message.exchange)
    waiting: deque[tuple[Exchange, Visit | None, bool]] = deque([] if first is None else [(first, None, False)])
    seen = {message.exchange}
    while waiting:
        exchange, before, is_alternate = waiting.popleft()
        bindings = _bindings(exchange, message, topology, release, choose)
        queues = tuple(b.destination for b in bindings if b.destination_type == "queue")
        if exchange.name == DEFAULT_EXCHANGE:
            queues = tuple(dict.fromkeys(message.routing_keys))
        visit = Visit(exchange, before, is_alternate, bindings, queues)
        yield visit
        onward = [b.destination for b in bindings if b.destination_type == "exchange"]
        leads_nowhere = not queues and not onward
        if leads_nowhere:
            onward = [name for name in [alternate_exchange(exchange, topology, release)] if name]
        for name in onward:
            target = topology.exchanges.get(name)
            if name not in seen and target is not None:
                seen.add(name)
                waiting.append((target, visit, leads_nowhere))


def _bindings(
    exchange: Exchange, message: Message, topology: Topology, release: Release, choose: Choose
) -> tuple[Binding, ...]:
    """Return the bindings of the exchange that the message meets."""
    if exchange.name == DEFAULT_EXCHANGE:
        return ()
    bound: Collection[Binding] = topology.bindings.get(exchange.name, ())
    if exchange.type in (LOCAL_RANDOM, MODULUS_HASH):
        return tuple(_one_of(tuple(bound), exchange.type, message, choose))
    matches = _matcher(exchange, message, release)
    return tuple(binding for binding in bound if matches(binding))


def _one_of(bound: Sequence[Binding], kind: str, message: Message, choose: Choose) -> Sequence[Binding]:
    """Return one binding, at random or by a hash of the routing keys; the bindings' own keys do not count.

    Source: rabbit_exchange_type_local_random.erl, rabbit_exchange_type_modulus_hash.erl (4.3.5).
    """
    if not bound:
        return ()
    if kind == LOCAL_RANDOM:
        return (bound[choose(len(bound))],)
    ordered = sorted(bound, key=lambda b: (b.destination_type, b.destination.encode(errors="surrogatepass")))
    keys = [key.encode(errors="surrogateescape") for key in message.routing_keys]
    return (ordered[phash2(keys) % 2**27 % len(ordered)],)


def _matcher(exchange: Exchange, message: Message, release: Release) -> Callable[[Binding], bool]:
    keys = message.routing_keys
    if exchange.type == "fanout":
        return lambda binding: True
    if exchange.type == "direct":
        return lambda binding: binding.routing_key in keys
    if exchange.type == "topic":
        split = [words(key) for key in keys]
        return lambda binding: _matches_topic(binding.routing_key, keys, split)
    if exchange.type == "headers":
        headers = _routing_headers(message, release)
        return lambda binding: headers_match(binding.arguments, headers, release)
    raise UnknownExchangeTypeError(
        f"exchange {exchange.name!r} is of type {exchange.type!r}: known are {', '.join(EXCHANGE_TYPES)}"
    )


def _matches_topic(pattern: str, keys: Sequence[str], split: Sequence[list[str]]) -> bool:
    if "*" in pattern or "#" in pattern:
        return any(topic_matches(words(pattern), key) for key in split)
    return pattern in keys


def words(key: str) -> list[str]:
    """Return a topic key's words; the empty key has none. Source: rabbit_exchange_type_topic.erl."""
    return key.split(".") if key else []


def topic_matches(pattern: list[str], key: list[str]) -> bool:
    """Tell whether the binding key's words match: ``*`` is one word, ``#`` any number, none included."""
    # Positions in the pattern that the words read so far can have led to.
    positions = _past_hashes(pattern, {0})
    for word in key:
        stay = {p for p in positions if p < len(pattern) and pattern[p] == "#"}
        step = {p + 1 for p in positions if p < len(pattern) and pattern[p] in ("*", word)}
        # '#' as a word of the key is literal text and matches a '#' by staying on it.
        positions = _past_hashes(pattern, stay | {p for p in step if pattern[p - 1] != "#"})
        if not positions:
            return False
    return len(pattern) in positions


def _past_hashes(pattern: list[str], positions: Iterable[int]) -> set[int]:
    reached = set(positions)
    for position in sorted(reached):
        while position < len(pattern) and pattern[position] == "#":
            position += 1
            reached.add(position)
    return reached


def headers_match(arguments: Mapping[str, Any], headers: Mapping[str, Any], release: Release) -> bool:
    """Tell whether a headers binding matches. ``all`` of nothing matches, ``any`` of nothing does not."""
    kind = arguments.get("x-match", "all")
    with_x = release.headers_match_with_x and kind in ("all-with-x", "any-with-x")
    compared = {
        name: value for name, value in arguments.items() if name != "x-match" and (with_x or not name.startswith("x-"))
    }
    results = (name in headers and _value_matches(compared[name], headers[name], release) for name in compared)
    return any(results) if kind in ("any", "any-with-x") else all(results)


def _routing_headers(message: Message, release: Release) -> Mapping[str, Any]:
    if release.headers_match_sees_x_death:
        return stored_headers(message)
    # A client's own x-death is a header like any other; the broker's stands beside the message.
    added = {name: value for name, value in annotated_headers(message).items() if name != X_DEATH}
    return {**(message.headers or {}), **added}


def _value_matches(wanted: Any, value: Any, release: Release) -> bool:
    """Tell whether a binding argument matches a header; at the outermost level, types hardly count."""
    if wanted is None:  # a void argument asks for presence
        return True
    one, other = _untyped(wanted, "seconds"), _untyped(value, release.headers_match_message_timestamps)
    numbers = isinstance(one, int | float) and isinstance(other, int | float)
    if numbers and not isinstance(one, bool) and not isinstance(other, bool):
        by_value = release.headers_match_numbers == "by value"
        return one == other and (by_value or isinstance(one, float) == isinstance(other, float))
    return _same(one, other)


def _untyped(value: Any, timestamps_in: str) -> Any:
    """Return a timestamp as the integer it is compared as, a byte array as the string of the same bytes."""
    if isinstance(value, datetime):
        return (seconds(value) or 0) * (1000 if timestamps_in == "milliseconds" else 1)
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return value


def _same(one: Any, other: Any) -> bool:
    """Tell whether two values are the same, types included; tables also in the order of their fields."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        fields = zip(one.items(), other.items(), strict=False)
        return len(one) == len(other) and all(a[0] == b[0] and _same(a[1], b[1]) for a, b in fields)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and bool(one == other)
