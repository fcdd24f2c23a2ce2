"""A node's state as bytes and back: data, which names no class, and of one version.

A snapshot is refused rather than misread: it carries its version, the release whose
rules it was made under, the fields of its records, and a checksum. It leaves out
everything that follows from the rest, which is made again: the settings of queues, and
results that are remembered only because that saves work.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

import msgspec

from dlx.deaths import Death, DeathPoint
from dlx.message import Message
from dlx.releases import Release, all_releases, is_release, release
from dlx.settings import DelayedRetry, effective_settings
from dlx.topology import Binding, Exchange, Policy, Queue, Topology
from dlx.value_kinds import value_kind
from simulator.broker import effects, replies
from simulator.broker.copies import Copy
from simulator.broker.object_graph import Decoder, Encoder, Kind
from simulator.broker.operations import exchanges
from simulator.broker.state import (
    Channel,
    Connection,
    Consumer,
    Counters,
    GlobalCounters,
    NodeState,
    Pending,
    Permissions,
    QueueState,
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
from simulator.events import Happened

FORMAT = "dlx broker snapshot"
VERSION = 7
_PICKLE = b"\x80"  # what versions 1 and 2 began with

# Names are for good: another name, like another field, makes another version.
KINDS = (
    Kind.keeping("node", NodeState, but=("release", "observer", "watched")),
    Kind.keeping("virtual host", VirtualHost, but=("bound_to", "topology", "known_flow")),
    Kind.keeping("user", User),
    Kind.keeping("permissions", Permissions),
    Kind.keeping("counters", Counters),
    Kind.keeping("global counters", GlobalCounters),
    Kind.keeping("queue", QueueState, but=("settings", "letters")),
    Kind.keeping("pending", Pending),
    Kind.keeping("connection", Connection),
    Kind.keeping("channel", Channel, but=("publishes",)),
    Kind.keeping("consumer", Consumer),
    Kind.keeping("unacked", Unacked),
    Kind.keeping("route", Route),
    Kind.keeping("publishing", Publishing),
    Kind.keeping("settling", Settling),
    Kind("deadlines", Deadlines, ("_heap", "_count")),
    Kind.keeping("classic store", ClassicStore, but=("settings",)),
    Kind.keeping("quorum store", QuorumStore, but=("settings",)),
    Kind.keeping("stream store", StreamStore, but=("settings",)),
    Kind.keeping("levels", Levels),
    Kind.keeping("lanes", Lanes),
    Kind.keeping("segment", Segment),
    Kind.keeping("delayed retry", DelayedRetry),
    Kind.keeping("copy", Copy),
    Kind.keeping("message", Message),
    Kind.keeping("death", Death),
    Kind.keeping("death point", DeathPoint),
    Kind.keeping("exchange", Exchange),
    Kind.keeping("queue definition", Queue),
    Kind.keeping("binding", Binding),
    Kind.keeping("policy", Policy),
    Kind.keeping("crashed", effects.Crashed),
    Kind.keeping("dead-lettered", effects.DeadLettered),
    Kind.keeping("delivery failed", effects.DeliveryFailed),
    Kind.keeping("held", effects.Held),
    Kind.keeping("retried", effects.Retried),
    Kind.keeping("leaving", effects.Leaving),
    Kind.keeping("policies changed", effects.PoliciesChanged),
    Kind.keeping("traced", effects.Traced),
    Kind.keeping("happened", Happened),
    Kind.keeping("done", replies.Done),
    Kind.keeping("queue declared", replies.QueueDeclared),
    Kind.keeping("queue purged", replies.QueuePurged),
    Kind.keeping("queue deleted", replies.QueueDeleted),
    Kind.keeping("consuming", replies.Consuming),
    Kind.keeping("cancelled", replies.Cancelled),
    Kind.keeping("consumer cancelled", replies.ConsumerCancelled),
    Kind.keeping("delivered", replies.Delivered),
    Kind.keeping("got", replies.Got),
    Kind.keeping("got nothing", replies.GotNothing),
    Kind.keeping("returned", replies.Returned),
    Kind.keeping("confirmed", replies.Confirmed),
    Kind.keeping("refused", replies.Refused),
    Kind.keeping("channel closed", replies.ChannelClosed),
    Kind.keeping("connection closed", replies.ConnectionClosed),
    Kind.keeping("reminded", replies.Reminded),
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
        raise ValueError(f"no snapshot of this version: {expected}, found {found}") from error
    if (head.format, head.version) != (FORMAT, VERSION):
        raise ValueError(
            f"no snapshot of this version: {expected}, found a {head.format[:80]!r} of version {head.version}"
        )
    try:
        snapshot = msgspec.msgpack.decode(data, type=_Snapshot)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"a damaged snapshot: {error}") from error
    if not is_release(snapshot.release):
        known = ", ".join(all_releases())
        raise ValueError(f"expected a snapshot of a release of {known}, found one of {snapshot.release[:80]!r}")
    if snapshot.layouts != _LAYOUTS:
        raise ValueError(f"no snapshot of this version: {_difference(snapshot.layouts)}")
    if _checksum(snapshot.release, snapshot.content) != snapshot.checksum:
        raise ValueError("a damaged snapshot: its checksum is another")
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
    state.release, state.observer, state.watched = rules, None, state.reported
    for vhost in decoder.made(VirtualHost):
        generation, vhost.topology = vhost.generation, Topology()
        vhost.show_policies()
        vhost.generation, vhost.known_flow, vhost.bound_to = generation, None, {}
        for bound in vhost.bindings.values():
            for binding in bound:
                exchanges.note_destination(vhost, binding)
    for channel in decoder.made(Channel):
        channel.publishes = {}
    for queue in decoder.made(QueueState):
        topology = queue.vhost.topology
        if queue in in_force:
            own, operators = in_force[queue]
            topology = Topology(policies=_those(own), operator_policies=_those(operators))
        queue.letters = {}
        queue.settings = queue.store.settings = effective_settings(
            queue.definition, topology, rules, at_declaration=queue.policies_as_declared
        )


def _those(policy: Policy | None) -> tuple[Policy, ...]:
    return () if policy is None else (policy,)
