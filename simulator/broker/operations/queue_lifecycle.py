"""Queues come and go: they are created, and deleted by clients, with their connection, or unused for too long.

Source: rabbit_amqqueue.erl declare, delete, notify_queue_deleted; rabbit_amqqueue_process.erl maybe_expire.
"""

from __future__ import annotations

from dlx.settings import Settings, effective_settings
from dlx.topology import QUORUM, STREAM, Queue
from simulator.broker.effects import Crashed
from simulator.broker.operations import deliveries, exchanges, queues
from simulator.broker.replies import ConsumerCancelled, QueueGone
from simulator.broker.state import Connection, NodeState, QueueState, VirtualHost
from simulator.broker.stores.classic import ClassicStore
from simulator.broker.stores.quorum import QuorumStore
from simulator.broker.stores.store import Store
from simulator.broker.stores.stream import StreamStore


def add(
    node: NodeState,
    vhost: VirtualHost,
    definition: Queue,
    owner: Connection | None,
    *,
    policies_as_declared: bool = True,
) -> QueueState:
    """Create a queue; its settings follow from arguments and policies.

    ``policies_as_declared``: no policy has changed since it was declared.
    """
    vhost.definitions[definition.name] = definition
    settings = effective_settings(definition, vhost.topology, node.release, at_declaration=policies_as_declared)
    queue = QueueState(definition, vhost, settings, _store(settings), owner)
    queue.policies_as_declared = policies_as_declared
    queue.created_us = node.now_us
    queue.single_active = definition.arguments.get("x-single-active-consumer") is True
    vhost.queues[definition.name] = queue
    vhost.changed()
    if owner is not None:
        owner.exclusive_queues[definition.name] = queue
    node.used(queue)
    return queue


def _store(settings: Settings) -> Store:
    kinds: dict[str, type] = {QUORUM: QuorumStore, STREAM: StreamStore}
    store: Store = kinds.get(settings.queue.type, ClassicStore)(settings)
    return store


def delete(node: NodeState, queue: QueueState) -> None:
    """Delete a queue with all that is in it; nothing of that is dead-lettered."""
    vhost = queue.vhost
    if queue.deleted:
        return
    if node.agenda:
        queues.finish_leaving(node, queue)
    queue.deleted = True
    del vhost.queues[queue.name], vhost.definitions[queue.name]
    if queue.owner is not None:
        queue.owner.exclusive_queues.pop(queue.name, None)
    exchanges.forget_queue(vhost, queue.name)
    _notify_consumers(node, queue)
    for channel in node.channels.values():
        if queue.name in channel.queues_of_links and channel.connection.vhost is vhost:
            del channel.queues_of_links[queue.name]
            node.out.append(QueueGone(channel.id, queue.name))
    node.counters.keep(queue.definition.type, queue.counters)
    if queue.definition.type != STREAM:
        queues.lose(node, queue, "the queue was deleted")


def restart(node: NodeState, effect: Crashed) -> None:
    """Start a classic queue again whose process crashed: it has its persistent messages, and none of its clients.

    What its consumers still settle is nothing to it.
    """
    crashed = effect.queue
    if crashed.deleted:
        return
    queues.finish_leaving(node, crashed)
    copies = [*effect.copies, *crashed.store.purge(), *(unacked.copy for unacked in queues.waiting(node, crashed))]
    crashed.deleted = True
    _notify_consumers(node, crashed)
    as_declared = crashed.policies_as_declared
    queue = add(node, crashed.vhost, crashed.definition, crashed.owner, policies_as_declared=as_declared)
    queue.counters = crashed.counters
    copies.sort(key=lambda copy: copy.position)
    queues.removed(node, queue, [copy for copy in copies if not crashed.keeps_over_crash(copy)], "the queue crashed")
    if isinstance(queue.store, ClassicStore):
        queue.store.take_over(copy for copy in copies if crashed.keeps_over_crash(copy))
    queues.expire(node, queue)  # it looks at its limits when the next message comes


def unused_due(node: NodeState, due_us: int, queue: QueueState) -> None:
    """Delete the queue if it has been unused for as long as x-expires says."""
    if queue.unused_due_us != due_us:
        return
    queue.unused_due_us = None
    expires_ms = queue.settings.expires_ms
    if queue.deleted or queue.in_use or expires_ms is None:
        return
    if queue.unused_since_us + expires_ms * 1_000 <= due_us:
        delete(node, queue)
    else:
        node.expire_unused(queue)


def _notify_consumers(node: NodeState, queue: QueueState) -> None:
    """Tell the consumers of a deleted queue, each channel's by their tags, if they understand it."""
    for consumer in sorted(queue.consumers, key=lambda consumer: consumer.tag.encode(errors="surrogatepass")):
        channel = consumer.channel
        channel.consumers.pop(consumer.tag, None)
        if deliveries.understands_cancel(consumer):
            node.send(channel, ConsumerCancelled(channel.id, consumer.tag))
    queue.consumers.clear()
    queue.active.clear()
    queue.blocked.clear()
