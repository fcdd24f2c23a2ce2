"""A node's state as bytes and back: data, which names no class, and of one version.

A snapshot is refused rather than misread: it carries its version, the release whose
rules it was made under, the fields of its records, and a checksum. It leaves out
everything that follows from the rest, which is made again: the settings of queues, and
results that are remembered only because that saves work.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from random import Random
from typing import Any, TypeVar
from zlib import crc32

import msgspec

from dlx.bounded_cache import BoundedCache
from dlx.deaths import Death, DeathPoint
from dlx.delays import Delay
from dlx.field_values import (
    Binary,
    DeepArray,
    DeepTable,
    Float32,
    Long,
    Short,
    SignedByte,
    Timestamp,
    UnsignedByte,
    UnsignedInt,
    UnsignedShort,
)
from dlx.message import Amqp10, Message
from dlx.releases import Release, all_releases, is_release, release
from dlx.settings import DelayedRetry, effective_settings
from dlx.topology import Binding, Exchange, Policy, Queue, Topology
from dlx.value_kinds import value_kind
from simulator.broker import effects, replies
from simulator.broker.copies import Copy
from simulator.broker.operations import exchanges
from simulator.broker.state import (
    Channel,
    Connection,
    Consumer,
    Counters,
    DelayedMessage,
    GlobalCounters,
    NodeState,
    Pending,
    Permissions,
    QueueState,
    Shovel,
    Unacked,
    User,
    VirtualHost,
)
from simulator.broker.state.clients import Publishing, Route, Settling
from simulator.broker.stores.classic import ClassicStore
from simulator.broker.stores.priority_queues import Lanes, Levels
from simulator.broker.stores.quorum import QuorumStore
from simulator.broker.stores.stream import Segment, StreamStore
from simulator.deadlines import Deadlines
from simulator.events import Event, Happened

# Objects that refer to each other, in circles and long chains, as plain data and back.
#
# Every list, dictionary and record has a number and a place in one flat list;
# where it is referred to, its number stands. So nothing is nested, what was one object is
# one object again, and no class is named: records go by names of our own (``RecordKind``).
#
# The values in message headers keep the type that they have on the wire (``dlx.field_values``).


_SHORT_BYTES = 32  # longer ones are shared by number, as they may be bodies that many copies have
_INT_MIN, _INT_MAX = -(1 << 63), (1 << 63) - 1
_TEXT, _INTEGER, _TUPLE, _FROZEN_SET = "text", "integer", "tuple", "frozen set"
_LIST, _DICT, _SET, _DEQUE, _BYTES = "list", "dict", "set", "deque", "bytes"

_Record = TypeVar("_Record")


class RecordKind(msgspec.Struct, frozen=True):
    """One kind of record: its name in the data, its class, and the fields that are kept.

    Whoever restores fills in the other fields.
    """

    name: str
    of: type
    fields: tuple[str, ...]

    @classmethod
    def keeping(cls, name: str, of: type, *, but: Sequence[str] = ()) -> RecordKind:
        """Keep all fields of a dataclass, a msgspec struct or a class with slots, except some."""
        return cls(name, of, tuple(field for field in _fields(of) if field not in but))


def _fields(of: type) -> tuple[str, ...]:
    if is_dataclass(of):
        return tuple(field.name for field in fields(of))
    if issubclass(of, msgspec.Struct):
        return of.__struct_fields__
    slots: tuple[str, ...] = of.__slots__  # type: ignore[attr-defined]
    return slots


def _number(value: int) -> int | str:
    """Return the number, or its digits where 64 bits do not hold it."""
    return int(value) if _INT_MIN <= value <= _INT_MAX else str(int(value))


def _random_state(random: Random) -> list[Any]:
    version, numbers, gauss_next = random.getstate()
    return [version, list(numbers), gauss_next]


def _random(state: list[Any]) -> Random:
    version, numbers, gauss_next = state
    random = Random()
    random.setstate((version, tuple(numbers), gauss_next))
    return random


# Values that are not containers, by their class: the name in the data, and the way there and back.
_Way = Callable[[Any], Any]
_SCALARS: dict[type, tuple[str, _Way, _Way]] = {
    SignedByte: ("signed byte", _number, SignedByte),
    UnsignedByte: ("unsigned byte", _number, UnsignedByte),
    Short: ("short", _number, Short),
    UnsignedShort: ("unsigned short", _number, UnsignedShort),
    UnsignedInt: ("unsigned int", _number, UnsignedInt),
    Long: ("long", _number, Long),
    Timestamp: ("timestamp", _number, Timestamp),
    Float32: ("float", float, Float32),
    Binary: ("binary", bytes, Binary),
    DeepTable: ("deep table", bytes, DeepTable),
    DeepArray: ("deep array", bytes, DeepArray),
    datetime: ("time", datetime.isoformat, datetime.fromisoformat),
    Decimal: ("decimal", str, Decimal),
    Event: ("event", str, {event.value: event for event in Event}.__getitem__),
    Random: ("random", _random_state, _random),
}
_FROM_SCALARS: dict[str, _Way] = {name: back for name, _, back in _SCALARS.values()}
_PLAIN = frozenset({type(None), bool, float})


class Encoder:
    """Makes plain data of objects. ``objects`` are all that were met, each as its name and what it holds."""

    def __init__(self, kinds: Sequence[RecordKind]) -> None:
        self.objects: list[list[Any]] = []
        self._kinds = {kind.of: kind for kind in kinds}
        self._numbers: dict[int, int] = {}
        self._found: list[Any] = []  # which also keeps them alive, so that no other gets the same identity

    def encode(self, value: Any) -> Any:
        """Return the data for ``value``, and add the objects that it refers to.

        Raises ``TypeError`` for an object of a class that is not known.
        """
        data = self._value(value)
        while len(self.objects) < len(self._found):
            self.objects.append(self._object(self._found[len(self.objects)]))
        return data

    def met(self, of: type[_Record]) -> list[_Record]:
        """Return the records of a class that were met so far."""
        return [found for found in self._found if type(found) is of]

    def _value(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is str:
            return value if value.isascii() else _text(value)
        if kind is int:
            return value if _INT_MIN <= value <= _INT_MAX else [_INTEGER, str(value)]
        if kind is bytes and len(value) <= _SHORT_BYTES:
            return value
        if kind is tuple:
            return [_TUPLE, *map(self._value, value)]
        if kind is frozenset:
            return [_FROZEN_SET, *sorted(map(self._value, value))]
        scalar = _SCALARS.get(kind)
        if scalar is not None:
            return [scalar[0], scalar[1](value)]
        if isinstance(value, int | float | str | datetime):
            return self._derived(value)
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._found)
            self._found.append(value)
        return [number]

    def _derived(self, value: int | float | str | datetime) -> Any:
        """Encode a value of a class that a library derived, such as pika's integers of 64 bits or a frozen time."""
        if isinstance(value, datetime):
            return [_SCALARS[datetime][0], value.isoformat()]
        if isinstance(value, int):
            return [_SCALARS[Long][0], _number(value)]
        return float(value) if isinstance(value, float) else _text(str(value))

    def _object(self, found: Any) -> list[Any]:
        value, of = self._value, type(found)
        kind = self._kinds.get(of)
        if kind is not None:
            return [kind.name, *[value(getattr(found, field)) for field in kind.fields]]
        if of is dict:
            return [_DICT, *[value(each) for item in found.items() for each in item]]
        if of in _CONTAINERS:
            return [_CONTAINERS[of], *map(value, found)]
        return self._other(found)

    def _other(self, found: Any) -> list[Any]:
        """Encode an object of a derived class as the type that it has on the wire."""
        if isinstance(found, bytes | bytearray):
            return [_BYTES, bytes(found)]
        if isinstance(found, Mapping):
            return self._object(dict(found))
        if isinstance(found, Sequence) and not isinstance(found, str):
            return self._object(list(found))
        raise TypeError(f"expected a value that AMQP or the broker has, got {found!r:.80} ({type(found).__name__})")


_CONTAINERS: dict[type, str] = {list: _LIST, set: _SET, deque: _DEQUE}


def _text(value: str) -> Any:
    try:
        value.encode()
    except UnicodeEncodeError:  # bytes that were not UTF-8, in a place for text
        return [_TEXT, value.encode(errors="surrogatepass")]
    return value


class Decoder:
    """Makes objects of plain data, those of ``Encoder.objects``.

    Raises ``ValueError`` for data of a kind that is not known; other data that no
    ``Encoder`` made may raise anything.
    """

    def __init__(self, kinds: Sequence[RecordKind], objects: Sequence[Sequence[Any]]) -> None:
        self._kinds = {kind.name: kind for kind in kinds}
        self._found = [self._shell(name, held) for name, *held in objects]
        for found, (name, *held) in sorted(zip(self._found, objects, strict=True), key=lambda each: _by_hash(each[1])):
            self._fill(found, name, held)

    def decode(self, data: Any) -> Any:
        """Return the value that ``data`` encodes."""
        if type(data) is not list:
            return data
        name = data[0]
        if type(name) is int:
            return self._found[name]
        if name == _TUPLE:
            return tuple(map(self.decode, data[1:]))
        if name == _FROZEN_SET:
            return frozenset(map(self.decode, data[1:]))
        if name == _TEXT:
            return data[1].decode(errors="surrogatepass")
        if name == _INTEGER:
            return int(data[1])
        back = _FROM_SCALARS.get(name)
        if back is None:
            raise ValueError(f"expected a known kind of value, found {name!r:.80}")
        return back(data[1])

    def made(self, of: type[_Record]) -> list[_Record]:
        """Return all records of a class."""
        return [found for found in self._found if type(found) is of]

    def _shell(self, name: str, held: list[Any]) -> Any:
        """Return an object without what it holds, for others to refer to."""
        if name == _BYTES:
            return held[0]
        if name in _MAKERS:
            return _MAKERS[name]()
        kind = self._kinds.get(name)
        if kind is None:
            raise ValueError(f"expected a known kind of record, found {name!r:.80}")
        if issubclass(kind.of, msgspec.Struct):
            return kind.of(**dict.fromkeys(kind.fields))
        return object.__new__(kind.of)

    def _fill(self, found: Any, name: str, held: list[Any]) -> None:
        values = list(map(self.decode, held))
        if name == _DICT:
            found.update(zip(values[::2], values[1::2], strict=True))
        elif name == _SET:
            found.update(values)
        elif name in (_LIST, _DEQUE):
            found.extend(values)
        elif name != _BYTES:
            kind = self._kinds[name]
            put = msgspec.structs.force_setattr if issubclass(kind.of, msgspec.Struct) else setattr
            for field, value in zip(kind.fields, values, strict=True):
                put(found, field, value)


def _by_hash(data: Sequence[Any]) -> bool:
    """Return whether an object finds what it holds by the hash of objects: these must be whole when it is filled."""
    name, *held = data
    return name in (_DICT, _SET) and any(type(key) is list for key in (held[::2] if name == _DICT else held))


_MAKERS: dict[str, Callable[[], Any]] = {_LIST: list, _DICT: dict, _SET: set, _DEQUE: deque}

FORMAT = "dlx broker snapshot"
VERSION = 9
_PICKLE = b"\x80"  # what versions 1 and 2 began with

# Names are for good: another name, like another field, makes another version.
KINDS = (
    RecordKind.keeping("node", NodeState, but=("release", "peers", "observer", "watched")),
    RecordKind.keeping("virtual host", VirtualHost, but=("bound_to", "topology", "known_flow")),
    RecordKind.keeping("shovel", Shovel),
    RecordKind.keeping("user", User),
    RecordKind.keeping("permissions", Permissions),
    RecordKind.keeping("counters", Counters),
    RecordKind.keeping("global counters", GlobalCounters),
    RecordKind.keeping("queue", QueueState, but=("settings", "letters")),
    RecordKind.keeping("pending", Pending),
    RecordKind.keeping("connection", Connection),
    RecordKind.keeping("channel", Channel, but=("publishes",)),
    RecordKind.keeping("consumer", Consumer),
    RecordKind.keeping("unacked", Unacked),
    RecordKind.keeping("route", Route),
    RecordKind.keeping("publishing", Publishing),
    RecordKind.keeping("settling", Settling),
    RecordKind("deadlines", Deadlines, ("_heap", "_count")),
    RecordKind.keeping("classic store", ClassicStore, but=("settings",)),
    RecordKind.keeping("quorum store", QuorumStore, but=("settings",)),
    RecordKind.keeping("stream store", StreamStore, but=("settings",)),
    RecordKind.keeping("levels", Levels),
    RecordKind.keeping("lanes", Lanes),
    RecordKind.keeping("segment", Segment),
    RecordKind.keeping("delayed retry", DelayedRetry),
    RecordKind.keeping("copy", Copy),
    RecordKind.keeping("message", Message),
    RecordKind.keeping("message of AMQP 1.0", Amqp10),
    RecordKind.keeping("delay", Delay),
    RecordKind.keeping("delayed message", DelayedMessage),
    RecordKind.keeping("death", Death),
    RecordKind.keeping("death point", DeathPoint),
    RecordKind.keeping("exchange", Exchange),
    RecordKind.keeping("queue definition", Queue),
    RecordKind.keeping("binding", Binding),
    RecordKind.keeping("policy", Policy),
    RecordKind.keeping("crashed", effects.Crashed),
    RecordKind.keeping("dead-lettered", effects.DeadLettered),
    RecordKind.keeping("delivery failed", effects.DeliveryFailed),
    RecordKind.keeping("held", effects.DeadMessageHeld),
    RecordKind.keeping("retried", effects.Retried),
    RecordKind.keeping("leaving", effects.Leaving),
    RecordKind.keeping("policies changed", effects.PoliciesChanged),
    RecordKind.keeping("traced", effects.Traced),
    RecordKind.keeping("happened", Happened),
    RecordKind.keeping("done", replies.Done),
    RecordKind.keeping("queue declared", replies.QueueDeclared),
    RecordKind.keeping("queue purged", replies.QueuePurged),
    RecordKind.keeping("queue deleted", replies.QueueDeleted),
    RecordKind.keeping("consuming", replies.Consuming),
    RecordKind.keeping("cancelled", replies.Cancelled),
    RecordKind.keeping("consumer cancelled", replies.ConsumerCancelled),
    RecordKind.keeping("delivered", replies.Delivered),
    RecordKind.keeping("got", replies.Got),
    RecordKind.keeping("got nothing", replies.GotNothing),
    RecordKind.keeping("returned", replies.Returned),
    RecordKind.keeping("confirmed", replies.Confirmed),
    RecordKind.keeping("refused", replies.Refused),
    RecordKind.keeping("channel closed", replies.ChannelClosed),
    RecordKind.keeping("connection closed", replies.ConnectionClosed),
    RecordKind.keeping("reminded", replies.Reminded),
)
_LAYOUTS = {kind.name: kind.fields for kind in KINDS}


class _Head(msgspec.Struct):
    """The fields that every version begins with."""

    format: str
    version: int


class _Snapshot(_Head):
    """``content`` is a ``_Content``; ``checksum`` is the CRC-32 of the release's name and of it."""

    release: str
    layouts: dict[str, tuple[str, ...]]
    checksum: int
    content: bytes


class _Content(msgspec.Struct):
    """``in_force`` are the policy and the operator policy of each deleted queue that something still refers to."""

    node: Any
    more: Any
    in_force: Any
    objects: list[list[Any]]


def dumped(state: NodeState, more: Any = None) -> bytes:
    """Return the state as bytes, with ``more``: values, lists and dictionaries that refer to the same messages.

    Raises:
        TypeError: a connection's identity is neither text, a number nor a tuple of such, or a header has no AMQP type.
        ValueError: the state goes by rules that are not those of a release.
    """
    name = state.release.name
    if not is_release(name) or release(name) != state.release:
        raise ValueError(f"expected the rules of a release, found other rules under the name {name!r}")
    encoder = Encoder(KINDS)
    node, besides = encoder.encode(state), encoder.encode(more)
    deleted = [queue for queue in encoder.met(QueueState) if queue.deleted]  # whose policies may have changed since
    in_force = encoder.encode({queue: list(queue.settings.in_force) for queue in deleted})
    content = msgspec.msgpack.encode(_Content(node, besides, in_force, encoder.objects))
    return msgspec.msgpack.encode(_Snapshot(FORMAT, VERSION, name, _LAYOUTS, _checksum(name, content), content))


def loaded(data: bytes) -> tuple[NodeState, Any]:
    """Return what ``dumped`` was given.

    Raises:
        TypeError: ``data`` is not bytes.
        ValueError: it is not a snapshot of this version.
    """
    if not isinstance(data, bytes):
        raise TypeError(f"expected a snapshot as bytes, got {value_kind(data)}")
    snapshot = _checked(data)
    rules = release(snapshot.release)
    try:
        content = msgspec.msgpack.decode(snapshot.content, type=_Content)
        decoder = Decoder(KINDS, content.objects)
        state: NodeState = decoder.decode(content.node)
        more, in_force = decoder.decode(content.more), decoder.decode(content.in_force)
        _complete(state, rules, decoder, in_force)
    except Exception as error:  # data of another's making may raise anything
        raise ValueError(f"a damaged snapshot: {error}") from error
    return state, more


def _checked(data: bytes) -> _Snapshot:
    expected = f"expected a {FORMAT} of version {VERSION}"
    try:
        head = msgspec.msgpack.decode(data, type=_Head)
    except (msgspec.DecodeError, RecursionError) as error:
        found = "a pickle, as older versions made" if data[:1] == _PICKLE and len(data) > 1 else "other bytes"
        raise ValueError(f"not a snapshot of this version: {expected}, found {found}") from error
    if (head.format, head.version) != (FORMAT, VERSION):
        raise ValueError(
            f"not a snapshot of this version: {expected}, found a {head.format[:80]!r} of version {head.version}"
        )
    try:
        snapshot = msgspec.msgpack.decode(data, type=_Snapshot)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"a damaged snapshot: {error}") from error
    if not is_release(snapshot.release):
        known = ", ".join(all_releases())
        raise ValueError(f"expected a snapshot of a release of {known}, found one of {snapshot.release[:80]!r}")
    if snapshot.layouts != _LAYOUTS:
        raise ValueError(f"not a snapshot of this version: {_difference(snapshot.layouts)}")
    if _checksum(snapshot.release, snapshot.content) != snapshot.checksum:
        raise ValueError("a damaged snapshot: its checksum does not match")
    return snapshot


def _checksum(name: str, content: bytes) -> int:
    return crc32(content, crc32(name.encode()))


def _difference(found: dict[str, tuple[str, ...]]) -> str:
    for name in sorted(_LAYOUTS.keys() | found):
        if found.get(name) != _LAYOUTS.get(name):
            expected, other = (", ".join(layouts.get(name, ("no such record",))) for layouts in (_LAYOUTS, found))
            return f"expected of each {name[:80]}: {expected}; found: {other[:1_000]}"
    raise AssertionError("they are the same")


def _complete(state: NodeState, rules: Release, decoder: Decoder, in_force: dict[QueueState, list[Policy]]) -> None:
    """Make the fields that are not kept."""
    state.release, state.peers, state.observer, state.watched = rules, frozenset(), None, state.reported
    for vhost in decoder.made(VirtualHost):
        generation, vhost.topology = vhost.generation, Topology()
        vhost.show_policies()
        vhost.generation, vhost.known_flow, vhost.bound_to = generation, None, {}
        for bound in vhost.bindings.values():
            for binding in bound:
                exchanges.note_destination(vhost, binding)
        exchanges.follow_plugins(vhost, state.exchange_types)
    for channel in decoder.made(Channel):
        channel.publishes = BoundedCache()
    for queue in decoder.made(QueueState):
        topology = queue.vhost.topology
        if queue in in_force:
            own, operators = in_force[queue]
            topology = Topology(policies=_those(own), operator_policies=_those(operators))
        queue.letters = BoundedCache()
        queue.settings = queue.store.settings = effective_settings(
            queue.definition, topology, rules, at_declaration=queue.policies_as_declared
        )


def _those(policy: Policy | None) -> tuple[Policy, ...]:
    return () if policy is None else (policy,)
