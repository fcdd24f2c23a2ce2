"""Find the messages that no exchange of a topology can tell apart.

Most routing keys differ only in parts that no binding reads, such as an order's number, or meet bindings that
lead to the same places. Two publishes to one exchange with the same class are led from there to the same queues and
exchanges, by patterns with the same wildcards, and after any deaths in the same queues for the same reasons their
dead letters are, too. So what is known of the way of one holds for the other.

A class says nothing about what deliveries show: they have the keys themselves, in ``x-death`` as well.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

from dlx.binding_index import INDEXES, BindingIndex, HeaderMatch, first, hashes
from dlx.consistent_hash import HASH_HEADER
from dlx.deaths import X_DEATH
from dlx.delays import routing_type
from dlx.message import Message
from dlx.releases import Release
from dlx.routing import DEFAULT_EXCHANGE, REPLY_TO, hashed_properties, index_of
from dlx.topology import Binding, Exchange, Topology

KeyClass = int | str
"""A number for keys that lead to the same places everywhere; the key itself where it is a class of its own."""

FEW = 5
"""Up to this many indexes are searched one by one, as the topology itself does when it routes."""
Led = tuple[str, str, str, bool, bool]
"""From which exchange a binding leads to what, and whether its pattern has a ``*`` or a ``#``."""


class KeyClasses:
    """The classes of keys and messages in one topology under one release. The topology must not change.

    Attributes:
        every_key_matters: whether something looks at whole keys, so that each is its own class: an x-modulus-hash
            or x-consistent-hash exchange, or a headers binding that compares the ``x-death`` header, in which they
            are recorded.
        compared: the names of the headers that exchanges look at.
    """

    def __init__(self, topology: Topology, release: Release) -> None:
        self._topology = topology
        self._release = release
        self._by_key = [index for kind in ("direct", "topic") for index in _indexes(topology, kind)]
        self._numbers: dict[tuple[int, ...], int] = {}
        self._leads: dict[Led, int] = {}
        wanted = [item for fields in _compared(topology, release) for item in fields.items()]
        hashing = [each for each in _bound(topology) if hashes(each)]
        self.compared = frozenset(name for name, _ in wanted) | {
            str(each.arguments[HASH_HEADER]) for each in hashing if HASH_HEADER in each.arguments
        }
        self._properties = hashed_properties(topology)
        self.every_key_matters = bool(hashing) or any(name == X_DEATH and value is not None for name, value in wanted)

    def are_those_of(self, topology: Topology, release: Release) -> bool:
        """Return whether another topology routes the same, so that it has the same classes."""
        mine = self._topology
        if self._release != release or mine.queues.keys() != topology.queues.keys():
            return False
        return (mine.exchanges, mine.bindings) == (topology.exchanges, topology.bindings)

    def key_class(self, key: str) -> KeyClass:
        """Return the class of a routing key. A queue's name is its own: the default exchange routes by it."""
        if self.every_key_matters or key in self._topology.queues or key.startswith(f"{REPLY_TO}."):
            return key
        message = Message(exchange="", routing_keys=(key,))
        met = (binding for index in self._by_key for binding in index.met(message, self._release, first))
        known = self._leads
        # A message goes there in this order.
        leads = tuple(dict.fromkeys([known.setdefault(_led(each), len(known)) for each in met]))
        return self._numbers.setdefault(leads, len(self._numbers))

    def message_class(self, message: Message) -> Hashable:
        """Return the class of a message as it was published: of its keys, CC and BCC among them, and its headers.

        Of its expiration it has only whether there is one, unless ``every_key_matters``. Headers
        that begin with ``x-`` are in it as they are, since they may claim a history; properties where they are hashed.
        """
        keys = tuple(self.key_class(key) for key in message.routing_keys)
        expiration = message.expiration if self.every_key_matters else message.expiration is not None
        hashed = tuple(repr(message.properties.get(name)) for name in self._properties)
        return keys, expiration, self._headers(message), hashed

    def _headers(self, message: Message) -> Hashable:
        kept = ((name, repr(value)) for name, value in (message.headers or {}).items() if self.matters(name))
        return tuple(sorted(kept))

    def matters(self, header: str) -> bool:
        """Return whether messages with other values of that header may fare differently."""
        return header in self.compared or header.startswith("x-")


def _led(binding: Binding) -> Led:
    key = binding.routing_key
    return binding.source, binding.destination_type, binding.destination, "*" in key, "#" in key


def _indexes(topology: Topology, kind: str) -> list[BindingIndex]:
    """Return indexes of the bindings of all exchanges of a type: each binding says which exchange it is of.

    Of many exchanges it is a single one, in which a key is looked up only once.
    """
    exchanges = [each for each in _bound(topology) if routing_type(each) == kind]
    if len(exchanges) <= FEW:
        return [index_of(each, topology) for each in exchanges]
    return [INDEXES[kind](binding for each in exchanges for binding in topology.bindings[each.name])]


def _bound(topology: Topology) -> Iterator[Exchange]:
    """Yield the exchanges that have bindings. The default exchange has none."""
    for name, exchange in topology.exchanges.items():
        if name != DEFAULT_EXCHANGE and topology.bindings.get(name):
            yield exchange


def _compared(topology: Topology, release: Release) -> Iterator[Mapping[str, object]]:
    """Yield what each headers binding compares."""
    for exchange in _bound(topology):
        if routing_type(exchange) == "headers":
            for binding in topology.bindings[exchange.name]:
                yield HeaderMatch.by(binding.arguments).fields(release)
