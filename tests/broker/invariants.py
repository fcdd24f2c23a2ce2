"""What is true of a broker after every command: its counters recomputed, and nothing that could happen left undone.

``check`` looks at one moment. ``Ledger`` follows events and knows how many copies
each queue must have: what came in is still there or has left with an event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from dlx.message import Message, payload_size
from dlx.routing import REPLY_TO, routed
from dlx.settings import DROP_HEAD
from dlx.topology import CLASSIC, QUORUM, STREAM
from simulator.broker import Broker
from simulator.broker.copies import Copy
from simulator.broker.operations import deliveries
from simulator.broker.operations.dead_letter_worker import WORKER_PREFETCH
from simulator.broker.replies import Reply
from simulator.broker.state import Channel, Connection, Consumer, QueueState, Unacked, VirtualHost
from simulator.broker.stores.classic import ClassicStore
from simulator.broker.stores.priority_queues import Lanes
from simulator.broker.stores.quorum import QuorumStore
from simulator.broker.stores.stream import StreamStore
from simulator.events import Happened
from simulator.scenario.properties import property_registry


def check(broker: Broker) -> None:
    """Assert that all the broker remembers fits together."""
    timers = {(due_us, kind, _name(subject)) for due_us, _, kind, subject in broker.state.timers._heap}
    waiting = list(_waiting(broker))
    for connection in broker.connections.values():
        _check_connection(broker, connection)
    for channel in broker.channels.values():
        _check_channel(broker, channel, timers)
    for vhost in broker.vhosts.values():
        _check_vhost(broker, vhost)
        for queue in vhost.queues.values():
            _check_consumers(queue, broker)
            _check_deliveries(queue, [unacked for _, unacked in waiting if unacked.queue is queue])
            _check_store(queue)
            _check_timers(broker, queue, timers)
            if not broker.state.agenda:
                _check_nothing_left_to_do(broker, queue)
    for key, channel_id in broker.state.reply_keys.items():
        assert key.startswith(REPLY_TO)
        assert broker.channels[channel_id].reply_key == key, "a reply key outlived its channel"
    due_us = broker.next_due()
    assert due_us is None or due_us >= broker.now_us, "something was due and not done"
    assert not broker.state.agenda or due_us is not None, "the agenda is forgotten"


def _name(subject: Any) -> Any:
    return id(subject) if isinstance(subject, QueueState) else subject


def _waiting(broker: Broker) -> Iterator[tuple[Channel, Unacked]]:
    """Deliveries that their queues wait for, those settled in open transactions among them."""
    for channel in broker.channels.values():
        for _, unacked in (*channel.unacked.items(), *channel.uncommitted()):
            if not unacked.timed_out:
                yield channel, unacked


def _check_connection(broker: Broker, connection: Connection) -> None:
    assert broker.vhosts[connection.vhost.name] is connection.vhost
    assert broker.users[connection.user.name] is connection.user
    for number, channel in connection.channels.items():
        assert broker.channels[connection.id, number] is channel
    for name, queue in connection.exclusive_queues.items():
        assert queue.owner is connection
        assert connection.vhost.queues[name] is queue


def _check_channel(broker: Broker, channel: Channel, timers: set[Any]) -> None:
    connection = broker.connections[channel.connection.id]
    assert connection is channel.connection
    assert connection.channels[channel.number] is channel
    tags = list(channel.unacked)
    assert tags == sorted(tags), "deliveries are not in order"
    assert not set(tags) & {tag for tag, _ in channel.uncommitted()}
    assert not tags or tags[-1] < channel.next_delivery_tag
    for tag, consumer in channel.consumers.items():
        assert consumer.tag == tag
        assert consumer.channel is channel
        assert consumer in consumer.queue.consumers, "a consumer without its queue"
    assert channel.global_unacked >= 0
    late = Counter(unacked.consumer for unacked in channel.unacked.values() if unacked.timed_out)
    for unacked in channel.unacked.values():
        if unacked.consumer is not None and not channel.pending_tx:
            assert unacked.consumer.timed_out >= late[unacked.consumer]
    if channel.timeout_due_us is not None:
        assert (channel.timeout_due_us, "acknowledgement", channel.id) in timers
    next_tick_us = deliveries.noticed_us(broker.state, channel, broker.now_us + 1)
    for unacked in channel.unacked.values():
        due_us = None if unacked.timed_out else deliveries.late_us(broker.state, channel, unacked)
        if due_us is not None:
            assert channel.timeout_due_us is not None, "nobody will notice that a delivery times out"
            assert channel.timeout_due_us <= max(due_us, next_tick_us), "a timeout will be noticed late"


def _check_vhost(broker: Broker, vhost: VirtualHost) -> None:
    assert broker.vhosts[vhost.name] is vhost
    assert vhost.queues.keys() == vhost.definitions.keys()
    assert vhost.topology.queues is vhost.definitions
    assert vhost.topology.exchanges is vhost.exchanges
    assert vhost.topology.bindings is vhost.bindings
    assert vhost.exchange_counters.keys() <= vhost.exchanges.keys() | {""}
    for name, queue in vhost.queues.items():
        assert queue.definition is vhost.definitions[name]
        assert queue.vhost is vhost
        assert queue.settings is queue.store.settings
        assert not queue.deleted
        if queue.owner is not None:
            assert broker.connections[queue.owner.id].exclusive_queues[name] is queue
    for name, index in vhost.topology.indexes.items():
        assert name in vhost.exchanges, "an index of an exchange that is gone"
        assert [*index] == [*vhost.bindings.get(name, ())], "an index that missed a change of the bindings"
    renewed = msgspec.structs.replace(vhost.topology)
    for (exchange, keys), (rules, found) in vhost.topology.routes.items():
        assert found == routed(Message(exchange=exchange, routing_keys=keys), renewed, rules), "a route of before"
    for source, bindings in vhost.bindings.items():
        assert source in vhost.exchanges, "bindings of an exchange that is gone"
        assert len(set(map(repr, bindings))) == len(bindings)
        for binding in bindings:
            ends = vhost.queues if binding.destination_type == "queue" else vhost.exchanges
            assert binding.destination in ends, "a binding to what is gone"


def _check_consumers(queue: QueueState, broker: Broker) -> None:
    for consumer in queue.consumers:
        assert consumer.queue is queue
        assert broker.channels[consumer.channel.id] is consumer.channel
        assert consumer.channel.consumers[consumer.tag] is consumer
        if queue.definition.type != STREAM:
            assert not consumer.no_ack or not consumer.unacked
    served = [*queue.active, *queue.blocked]
    assert len(served) == len(set(served)) == len(queue.consumers)
    assert set(served) == set(queue.consumers)
    priorities = [consumer.priority for consumer in queue.active]
    assert priorities == sorted(priorities, reverse=True)
    assert queue.exclusive_consumer is None or queue.exclusive_consumer in queue.consumers
    assert queue.active_single is None or queue.active_single in queue.consumers
    if queue.single_active and queue.definition.type != STREAM:
        able = [each for each in queue.consumers if not each.timed_out]
        if queue.active_single is None:
            assert all(each.quiescing for each in able), "nobody is active"
        else:
            assert queue.active_single in able, "a late consumer is active"
        assert not queue.blocked


def _check_deliveries(queue: QueueState, waiting: list[Unacked]) -> None:
    assert queue.unacked == len(waiting)
    assert queue.unacked_bytes == sum(payload_size(each.copy.message, each.copy.body) for each in waiting)
    assert queue.unacked_gets == sum(unacked.consumer is None for unacked in waiting)
    by_consumer: Counter[Consumer | None] = Counter(unacked.consumer for unacked in waiting)
    for consumer in (*queue.consumers, *queue.cancelled):
        assert consumer.unacked == by_consumer[consumer]
    gone = {consumer for consumer in by_consumer if consumer is not None and consumer not in queue.consumers}
    assert queue.cancelled == gone
    copies = [id(unacked.copy) for unacked in waiting]
    if queue.definition.type != STREAM:
        assert len(copies) == len(set(copies)), "a message was delivered twice"
        assert not set(copies) & {id(copy) for copy in held_copies(queue)}, "a message is delivered and still there"


def held_copies(queue: QueueState) -> list[Copy]:
    """The messages that the queue itself has: ready, delayed, or held by at-least-once dead-lettering."""
    dead = [pending.copy for pending in (*queue.discards, *queue.in_hand)]
    return [*_ready(queue), *_delayed(queue), *dead]


def _ready(queue: QueueState) -> list[Copy]:
    store = queue.store
    if isinstance(store, StreamStore):
        return [copy for segment in store._segments for copy in segment.copies]
    if isinstance(store, ClassicStore):
        return list(store._messages)
    assert isinstance(store, QuorumStore)
    return [*store._returns, *store._messages]


def _delayed(queue: QueueState) -> list[Copy]:
    return [copy for _, _, copy in queue.store._delayed] if isinstance(queue.store, QuorumStore) else []


def _check_store(queue: QueueState) -> None:
    store = queue.store
    counted = [*queue.discards, *(pending for pending in queue.in_hand if pending.counted)]
    assert store.pending == len(counted)
    assert store.pending_bytes == sum(pending.copy.size for pending in counted)
    assert len(queue.in_hand) <= WORKER_PREFETCH
    assert queue.retrying or not queue.in_hand
    if isinstance(store, StreamStore):
        return
    ready, delayed = _ready(queue), _delayed(queue)
    assert len(ready) == len({id(copy) for copy in ready})
    assert store.ready == len(ready)
    assert store.total == len(ready) + len(delayed)
    assert store.ready_bytes == sum(copy.size for copy in (*ready, *delayed))
    head = store.head()
    assert (head is None) == (not ready)
    if isinstance(store, ClassicStore):
        assert not store._discarded
        for level in store._messages.levels():
            places = [copy.position for copy in level]
            assert places == sorted(places)
    elif isinstance(store, QuorumStore) and isinstance(store._messages, Lanes):
        assert all(copy.priority for copy in store._messages._high)


def _check_timers(broker: Broker, queue: QueueState, timers: set[Any]) -> None:
    due_us = queue.store.due_us()
    if due_us is not None:
        assert queue.due_us is not None, "nobody will look after the queue"
        assert queue.due_us <= max(due_us, broker.now_us), "the queue is looked after too late"
    if queue.due_us is not None:
        assert (queue.due_us, "queue", id(queue)) in timers
    if queue.retrying:
        assert any(kind == "retry" and subject == id(queue) for _, kind, subject in timers)
    expires_ms = queue.settings.expires_ms
    if expires_ms is not None and not queue.in_use:
        ends_us = max(queue.unused_since_us + expires_ms * 1_000, broker.now_us)
        ends_us = queue.looks_at_expiry_us(ends_us, broker.release)
        assert queue.unused_due_us is not None, "the queue will not expire"
        assert queue.unused_due_us <= ends_us, "the queue will expire too late"
        assert (queue.unused_due_us, "unused", id(queue)) in timers


def _check_nothing_left_to_do(broker: Broker, queue: QueueState) -> None:
    store, kind = queue.store, queue.definition.type
    if isinstance(store, StreamStore):
        return
    if store.ready and not _left_alone(broker, queue):
        takers = [queue.active_single] if queue.single_active else queue.consumers
        for consumer in takers:
            idle = consumer is not None and not consumer.quiescing and deliveries.may_take(consumer)
            assert not idle, f"{queue.name} has messages and consumer {consumer and consumer.tag} could take one"
    settings = queue.settings
    if settings.overflow == DROP_HEAD:
        held = store.pending if kind == QUORUM else 0
        most, most_bytes = settings.max_length, settings.max_length_bytes
        assert most is None or not store.ready or store.total + held <= most, "over the length limit"
        size = store.ready_bytes + store.pending_bytes
        assert most_bytes is None or not store.ready or size <= most_bytes, "over the limit in bytes"
    assert not queue.discards or len(queue.in_hand) == WORKER_PREFETCH, "the worker is idle"


def _left_alone(broker: Broker, queue: QueueState) -> bool:
    """Releases in which RabbitMQ itself forgets to serve the next single active consumer of a classic queue."""
    forgets = not broker.release.classic_single_active_served_after_cancel
    return queue.single_active and queue.definition.type == CLASSIC and forgets


class Ledger(property_registry.QueueBalance):
    """How many messages each queue must have, by the events; ``check`` counts them one by one."""

    def observe_all(self, events: Iterable[Reply | Happened]) -> None:
        """Note what happened."""
        for event in events:
            if isinstance(event, Happened):
                self.observe(event)

    def check(self, broker: Broker) -> None:
        """Assert that every queue has as many messages as it must."""
        waiting = Counter(id(unacked.queue) for _, unacked in _waiting(broker))
        queues = {(vhost.name, name): q for vhost in broker.vhosts.values() for name, q in vhost.queues.items()}
        held = {
            key: len(held_copies(queue)) + waiting[id(queue)]
            for key, queue in queues.items()
            if queue.definition.type != STREAM
        }
        assert self.expected(broker) == {k: n for k, n in held.items() if n}, "messages were lost or came twice"
