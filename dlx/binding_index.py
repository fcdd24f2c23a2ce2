"""Find the bindings of one exchange that a message meets, without trying each of them.

One index for each exchange, by its type; a topology makes it when the first message comes, and code that
adds or removes a binding of a living topology updates the index. Bindings are found in the order in which
they were added. The second half of this file says what a match is.

Source: rabbit_exchange_type_*.erl.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from dlx.consistent_hash import HASH_HEADER, Ring, hashed_value
from dlx.death_headers import annotated_headers, stored_headers
from dlx.deaths import X_DEATH, seconds
from dlx.delays import routing_type
from dlx.erlang_hash import phash2
from dlx.field_values import Timestamp, same_on_wire
from dlx.jms_selectors import SelectorError, selects
from dlx.message import Message, PublishRefusedError
from dlx.releases import Release
from dlx.server_plugins import (
    CONSISTENT_HASH,
    FEDERATION_UPSTREAM,
    JMS_TOPIC,
    LOCAL_RANDOM,
    MODULUS_HASH,
    RANDOM,
    RECENT_HISTORY,
)
from dlx.topology import Arguments, Binding, Exchange

Choose = Callable[[int], int]
Numbered = dict[int, Binding]
"""Bindings by their number: a later one has a higher number."""


def first(_count: int) -> int:
    """Choose the first, where no caller chooses."""
    return 0


class BindingIndex:
    """All bindings, each of which every message meets: a fanout exchange's. Others look closer.

    Attributes:
        shared: whether several topologies route by it, so that none of them may change it.
        arguments: the exchange's.
    """

    shared = False

    def __init__(self, bindings: Iterable[Binding] = ()) -> None:
        self.arguments: Arguments = {}
        self._numbers: dict[Binding, int] = {}
        self._all: Numbered = {}
        self._next = 0
        for binding in bindings:
            self.add(binding)

    def add(self, binding: Binding) -> None:
        """Add a binding behind the others."""
        number = self._numbers[binding] = self._next
        self._next += 1
        self._all[number] = binding
        self._enter(number, binding)

    def remove(self, binding: Binding) -> None:
        """Remove a binding that was added, and only once."""
        number = self._numbers.pop(binding)
        del self._all[number]
        self._leave(number, binding)

    def __iter__(self) -> Iterator[Binding]:
        return iter(self._all.values())

    def met(self, message: Message, release: Release, choose: Choose) -> tuple[Binding, ...]:
        """Return the bindings that the message meets; where one of n is picked at random, ``choose(n)`` does."""
        return tuple(self)

    def _enter(self, number: int, binding: Binding) -> None:
        """Make a new binding easy to find."""

    def _leave(self, number: int, binding: Binding) -> None:
        """Undo ``_enter``."""


class _ByKey(BindingIndex):
    """A direct exchange's bindings, by their key."""

    def __init__(self, bindings: Iterable[Binding] = ()) -> None:
        self._by_key: dict[str, Numbered] = {}
        super().__init__(bindings)

    def met(self, message: Message, release: Release, choose: Choose) -> tuple[Binding, ...]:
        return _in_order([self._by_key[key] for key in message.routing_keys if key in self._by_key])

    def _enter(self, number: int, binding: Binding) -> None:
        self._by_key.setdefault(binding.routing_key, {})[number] = binding

    def _leave(self, number: int, binding: Binding) -> None:
        bound = self._by_key[binding.routing_key]
        del bound[number]
        if not bound:
            del self._by_key[binding.routing_key]


class _WordNode:
    """A place in the patterns of a topic exchange: the words up to here, those that may follow, what ends here."""

    __slots__ = ("ends", "is_hash", "next")

    def __init__(self, is_hash: bool = False) -> None:
        self.is_hash = is_hash
        self.next: dict[str, _WordNode] = {}
        self.ends: Numbered = {}


class _ByPattern(BindingIndex):
    """A topic exchange's bindings, by the words of their patterns."""

    def __init__(self, bindings: Iterable[Binding] = ()) -> None:
        self._root = _WordNode()
        super().__init__(bindings)

    def met(self, message: Message, release: Release, choose: Choose) -> tuple[Binding, ...]:
        return _in_order([node.ends for key in message.routing_keys for node in self._reached(words(key)) if node.ends])

    def _reached(self, key: list[str]) -> dict[_WordNode, None]:
        """Return where patterns can stand that have taken all words of the key."""
        nodes: dict[_WordNode, None] = {}
        _reach(nodes, self._root)
        for word in key:
            before, nodes = nodes, {}
            for node in before:
                if node.is_hash:
                    _reach(nodes, node)
                if "*" in node.next:
                    _reach(nodes, node.next["*"])
                if word in node.next and word != "#":  # in a key it is a word that only wildcards take
                    _reach(nodes, node.next[word])
        return nodes

    def _enter(self, number: int, binding: Binding) -> None:
        node = self._root
        for word in words(binding.routing_key):
            following = node.next.get(word)
            if following is None:
                following = node.next[word] = _WordNode(word == "#")
            node = following
        node.ends[number] = binding

    def _leave(self, number: int, binding: Binding) -> None:
        node, path = self._root, []
        for word in words(binding.routing_key):
            path.append((node, word))
            node = node.next[word]
        del node.ends[number]
        for before, word in reversed(path):
            if before.next[word].next or before.next[word].ends:
                return
            del before.next[word]


def _reach(nodes: dict[_WordNode, None], node: _WordNode | None) -> None:
    """Add a node, and those behind a '#', which need not take a word."""
    while node is not None and node not in nodes:
        nodes[node] = None
        node = node.next.get("#")


class _ByHeaders(BindingIndex):
    """A headers exchange's bindings, with what each of them compares."""

    def __init__(self, bindings: Iterable[Binding] = ()) -> None:
        self._wanted: dict[int, HeaderMatch] = {}
        super().__init__(bindings)

    def met(self, message: Message, release: Release, choose: Choose) -> tuple[Binding, ...]:
        headers = _routing_headers(message, release)
        return tuple(self._all[number] for number, wanted in self._wanted.items() if wanted.met_by(headers, release))

    def _enter(self, number: int, binding: Binding) -> None:
        self._wanted[number] = HeaderMatch.by(binding.arguments)

    def _leave(self, number: int, binding: Binding) -> None:
        del self._wanted[number]


class _AtRandom(BindingIndex):
    """An x-local-random or x-random exchange: one binding at random.

    Source: rabbit_exchange_type_local_random.erl, rabbit_exchange_type_random.erl.
    """

    def met(self, message: Message, release: Release, choose: Choose) -> tuple[Binding, ...]:
        bound = tuple(self)
        return (bound[choose(len(bound))],) if bound else ()


class _ByModulus(BindingIndex):
    """An x-modulus-hash exchange: one binding by a hash of the message's keys.

    Source: rabbit_exchange_type_modulus_hash.erl; rabbit_sharding_exchange_type_modulus_hash.erl.
    """

    def met(self, message: Message, release: Release, choose: Choose) -> tuple[Binding, ...]:
        if not self._all:
            return ()
        ordered = sorted(self, key=lambda b: (b.destination_type, _octets(b.destination)))
        if release.modulus_hash_order == "by binding key":
            ordered.sort(key=lambda b: _octets(b.routing_key))
        keys = [key.encode(errors="surrogateescape") for key in message.routing_keys]
        return (ordered[phash2(keys) % 2**27 % len(ordered)],)


class _ByConsistentHash(BindingIndex):
    """An x-consistent-hash exchange: one binding, by a hash of the message. What has been unbound counts, too."""

    def __init__(self, bindings: Iterable[Binding] = ()) -> None:
        self._once, self._twice = Ring(is_taken_twice=False), Ring(is_taken_twice=True)
        super().__init__(bindings)

    def met(self, message: Message, release: Release, choose: Choose) -> tuple[Binding, ...]:
        ring = self._once if release.consistent_hash_bound_twice == "counts once" else self._twice
        headers = _routing_headers(message, release) if HASH_HEADER in self.arguments else {}
        found = ring.binding_of(hashed_value(message, self.arguments, headers, release))
        return () if found is None else (found,)

    def _enter(self, number: int, binding: Binding) -> None:
        self._once.add(binding)
        self._twice.add(binding)

    def _leave(self, number: int, binding: Binding) -> None:
        self._once.remove(binding)
        self._twice.remove(binding)


class _BySelector(BindingIndex):
    """An x-jms-topic exchange: the bindings whose selector is true of the headers. Keys do not count."""

    def met(self, message: Message, release: Release, choose: Choose) -> tuple[Binding, ...]:
        headers = _routing_headers(message, release)
        try:
            return tuple(binding for binding in self if selects(binding.arguments, headers))
        except SelectorError as error:
            raise PublishRefusedError(code=541) from error


class NotEnabled(BindingIndex):
    """The bindings of an exchange whose type's plugin is no longer enabled.

    Args:
        explanation: what a server tells publishers then.
        bindings: the bindings.
    """

    def __init__(self, explanation: str, bindings: Iterable[Binding] = ()) -> None:
        self._explanation = explanation
        super().__init__(bindings)

    def met(self, message: Message, release: Release, choose: Choose) -> tuple[Binding, ...]:
        raise PublishRefusedError(self._explanation)


def index_kind(exchange: Exchange) -> type[BindingIndex] | None:
    """Return the kind of index that an exchange's bindings have; ``None`` for a type that only a plugin knows.

    An exchange that delays routes as the type that it names.
    """
    kind = routing_type(exchange)
    return INDEXES.get(kind) if isinstance(kind, str) else None


def hashes(exchange: Exchange) -> bool:
    """Return whether an exchange chooses by a hash, so that each key or header may lead elsewhere."""
    return index_kind(exchange) in (_ByModulus, _ByConsistentHash)


def _octets(name: str) -> bytes:
    return name.encode(errors="surrogatepass")


INDEXES: Mapping[str, type[BindingIndex]] = {
    "direct": _ByKey,
    "fanout": BindingIndex,
    "topic": _ByPattern,
    "headers": _ByHeaders,
    LOCAL_RANDOM: _AtRandom,
    RANDOM: _AtRandom,
    CONSISTENT_HASH: _ByConsistentHash,
    MODULUS_HASH: _ByModulus,
    RECENT_HISTORY: BindingIndex,
    JMS_TOPIC: _BySelector,
    FEDERATION_UPSTREAM: BindingIndex,
}
"""The kind of index of an exchange, by the exchange's type."""


def _in_order(found: list[Numbered]) -> tuple[Binding, ...]:
    """Return the bindings, each once, in the order in which they were added."""
    if len(found) == 1:
        return tuple(found[0].values())
    merged: Numbered = {}
    for bound in found:
        merged.update(bound)
    return tuple(merged[number] for number in sorted(merged))


def _routing_headers(message: Message, release: Release) -> Mapping[str, object]:
    if release.headers_match_sees_x_death:
        return stored_headers(message)
    # A client's own x-death is a header like any other; the broker's stands beside the message.
    added = {name: value for name, value in annotated_headers(message).items() if name != X_DEATH}
    own = message.headers or {} if message.amqp10 is None else message.amqp10.routing_headers
    return {**own, **added}


# Return whether a message meets a binding: topic patterns and headers, one binding at a time.
#
# This is the definition; the indexes above find the same bindings without trying all of them.
#
# Source: rabbit_exchange_type_topic.erl, rabbit_exchange_type_headers.erl.


# Topic


def words(key: str) -> list[str]:
    """Return a topic key's words; the empty key has none."""
    return key.split(".") if key else []


def topic_matches(pattern: list[str], key: list[str]) -> bool:
    """Return whether the binding key's words match: ``*`` is one word, ``#`` any number, none included."""
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


# Headers


class HeaderMatch(NamedTuple):
    """What a headers binding asks of a message's headers; a value of ``None`` asks for presence.

    Attributes:
        any_suffices: whether one of them is enough.
        compared: the arguments that are compared on all releases: those without ``x-``.
        compared_with_x: those that are compared where x-match knows all-with-x and any-with-x.
    """

    any_suffices: bool
    compared: Mapping[str, Any]
    compared_with_x: Mapping[str, Any]

    @classmethod
    def by(cls, arguments: Mapping[str, Any]) -> HeaderMatch:
        """Return what a binding with these arguments asks."""
        kind = arguments.get("x-match", "all")
        every = {name: value for name, value in arguments.items() if name != "x-match"}
        own = {name: value for name, value in every.items() if not name.startswith("x-")}
        return cls(kind in ("any", "any-with-x"), own, every if kind in ("all-with-x", "any-with-x") else own)

    def fields(self, release: Release) -> Mapping[str, Any]:
        """Return the arguments that the release compares."""
        return self.compared_with_x if release.headers_match_with_x else self.compared

    def met_by(self, headers: Mapping[str, Any], release: Release) -> bool:
        """Return whether headers meet it. ``all`` of nothing is met, ``any`` of nothing is not."""
        compared = self.fields(release)
        results = (name in headers and _value_matches(compared[name], headers[name], release) for name in compared)
        return any(results) if self.any_suffices else all(results)


def headers_match(arguments: Mapping[str, Any], headers: Mapping[str, Any], release: Release) -> bool:
    """Return whether a headers binding with these arguments matches."""
    return HeaderMatch.by(arguments).met_by(headers, release)


def not_compared(arguments: Mapping[str, Any], release: Release) -> str:
    """Say which arguments of a headers binding its x-match passes over; empty where it compares all.

    Source: rabbit_exchange_type_headers.erl; live.
    """
    match = HeaderMatch.by(arguments)
    compared, kind = match.fields(release), "any" if match.any_suffices else "all"
    names = [name for name in arguments if name != "x-match" and name not in compared]
    if not names:
        return ""
    other = f" ({kind}-with-x does not)" if release.headers_match_with_x else ""
    what = f"does not compare {', '.join(names)}" if compared else "compares nothing"
    return f"{what}: x-match={kind} passes over x- arguments{other}"


def _value_matches(wanted: Any, value: Any, release: Release) -> bool:
    """Return whether a binding argument matches a header; at the outermost level, types hardly count."""
    if wanted is None:  # a void argument asks for presence
        return True
    one, other = _untyped(wanted, "seconds"), _untyped(value, release.headers_match_message_timestamps)
    numbers = isinstance(one, int | float) and isinstance(other, int | float)
    if numbers and not isinstance(one, bool) and not isinstance(other, bool):
        by_value = release.headers_match_numbers == "by value"
        return one == other and (by_value or isinstance(one, float) == isinstance(other, float))
    return same_on_wire(one, other)


def _untyped(value: Any, timestamps_in: str) -> Any:
    """Return a timestamp as the integer it is compared as, a byte array as the string of the same bytes."""
    if isinstance(value, datetime | Timestamp):
        return (seconds(value) or 0) * (1000 if timestamps_in == "milliseconds" else 1)
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return value
