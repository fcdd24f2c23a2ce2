"""Acknowledgements: basic.ack, nack, reject and recover, and what they do to queues and consumers.

Deliveries settled together are handed to their queues in batches, one for each queue and consumer,
oldest first; in a transaction they wait for the commit. A rejected message goes on in ``queues.reject``.

Source: rabbit_channel.erl collect_acks, internal_reject, foreach_per_queue.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby, takewhile
from operator import itemgetter
from typing import NamedTuple

from dlx import amqp_errors
from dlx.delivery_counts import Return
from dlx.message import annotated
from dlx.releases import Release
from dlx.topology import CLASSIC, QUORUM, STREAM
from simulator.broker.commands import Ack, Cancel, DetachLink, Nack, Recover, Reject, Settle
from simulator.broker.copies import Copy
from simulator.broker.operations import consumers, deliveries, queues, stream_consumers
from simulator.broker.replies import Done
from simulator.broker.state import Channel, NodeState, QueueState, Unacked
from simulator.broker.state.clients import Settled, Settling
from simulator.events import Event

_ACKED = Event.ACKED  # Python 3.11 takes long to look it up
LOST_CHANNEL = "lost channel"


class Batch(NamedTuple):
    """Deliveries of one queue that it hears of at once, in the order in which it takes them."""

    queue: QueueState
    deliveries: list[Unacked]


def ack(node: NodeState, command: Ack) -> None:
    """Acknowledge a delivery, or all up to it (basic.ack)."""
    channel = node.channel(command.channel)
    settled = _collect(channel, command.delivery_tag, command.multiple)
    _settle(node, channel, Settling("ack", False, settled))


def nack(node: NodeState, command: Nack) -> None:
    """Reject a delivery, or all up to it, or requeue them (basic.nack)."""
    channel = node.channel(command.channel)
    settled = _collect(channel, command.delivery_tag, command.multiple)
    how = "nack" if command.requeue else "final nack"
    _settle(node, channel, Settling(how, command.requeue, settled))


def reject(node: NodeState, command: Reject) -> None:
    """Reject or requeue a delivery (basic.reject)."""
    channel = node.channel(command.channel)
    settled = _collect(channel, command.delivery_tag, False)
    how = "reject" if command.requeue else "final reject"
    _settle(node, channel, Settling(how, command.requeue, settled))


def settle(node: NodeState, command: Settle) -> None:
    """Settle deliveries of AMQP 1.0 by their outcome. Source: rabbit_amqp_session.erl settle_op_from_outcome."""
    channel = node.channel(command.channel)
    settled = [(tag, channel.unacked.pop(tag)) for tag in command.delivery_tags if tag in channel.unacked]
    if command.annotations:
        for _, unacked in settled:
            if unacked.queue.definition.type == QUORUM and not unacked.timed_out:
                unacked.copy.message = annotated(unacked.copy.message, command.annotations)
    failed = "failed" if command.delivery_failed else "released"
    how, requeue = {
        "accepted": ("ack", False),
        "rejected": ("final reject", False),
        "released": ("released", True),
        "modified": (f"final {failed}", False) if command.undeliverable_here else (failed, True),
    }[command.outcome]
    _settle(node, channel, Settling(how, requeue, settled))


def detach_link(node: NodeState, command: DetachLink) -> None:
    """Cancel the consumer of a link of AMQP 1.0; what it has not settled goes back, uncounted in quorum queues."""
    channel = node.channel(command.channel)
    consumer = channel.consumers.get(command.consumer_tag)
    consumers.cancel(node, Cancel(command.channel, command.consumer_tag))
    settled = [item for item in channel.unacked.items() if item[1].consumer is consumer]
    for tag, _ in settled:
        del channel.unacked[tag]
    quorum = consumer is not None and consumer.queue.definition.type == QUORUM
    _apply(node, channel, Settling("released" if quorum else LOST_CHANNEL, True, settled))


def recover(node: NodeState, command: Recover) -> None:
    """Return all unacknowledged deliveries of the channel to their queues (basic.recover)."""
    channel = node.channel(command.channel)
    if not command.requeue:
        raise amqp_errors.recover_without_requeue()
    # The channel itself reads on in streams before it answers.
    _apply(node, channel, Settling("recover", True, _take(channel, from_streams=True)))
    node.out.append(Done(channel.id, "basic.recover-ok"))
    _apply(node, channel, Settling("recover", True, _take(channel, from_streams=False)))


def _take(channel: Channel, *, from_streams: bool) -> list[Settled]:
    """Remove and return the channel's unacknowledged deliveries, those from streams or the others."""
    taken = [item for item in channel.unacked.items() if from_streams == (item[1].queue.definition.type == STREAM)]
    for tag, _ in taken:
        del channel.unacked[tag]
    return taken


def channel_lost(node: NodeState, channel: Channel) -> None:
    """Give the unacknowledged deliveries of a channel that is gone back to their queues."""
    settled = sorted((*channel.unacked.items(), *channel.uncommitted()), key=itemgetter(0))
    channel.pending_tx.clear()
    channel.unacked.clear()
    _apply(node, channel, Settling(LOST_CHANNEL, True, settled))


def commit(node: NodeState, channel: Channel) -> None:
    """Carry out the transaction's acknowledgements in their order, those of one kind in a row as one.

    They stay with the channel until it is their turn, where a channel that is lost halfway finds them.
    """
    settlings = [item for item in channel.pending_tx if isinstance(item, Settling)]
    for (how, requeue), run in groupby(settlings, key=lambda settling: (settling.how, settling.requeue)):
        alike = list(run)
        del channel.pending_tx[: len(alike)]
        together = sorted((item for settling in alike for item in settling.settled), key=itemgetter(0))
        _apply(node, channel, Settling(how, requeue, together))


def roll_back(node: NodeState, channel: Channel, settlings: Iterable[Settling]) -> None:
    """Have the deliveries wait for their acknowledgement again."""
    for settling in settlings:
        channel.unacked.update(settling.settled)
        for _, unacked in settling.settled:
            deliveries.watch(node, channel, unacked)
    channel.unacked = dict(sorted(channel.unacked.items()))


def _collect(channel: Channel, tag: int, multiple: bool) -> list[Settled]:
    """Remove and return the unacknowledged deliveries that a tag means, oldest first."""
    unacked = channel.unacked
    if not multiple:
        found = unacked.pop(tag, None)
        if found is None:
            raise amqp_errors.unknown_delivery_tag(tag)
        return [(tag, found)]
    if tag and tag not in unacked:
        raise amqp_errors.unknown_delivery_tag(tag)
    tags = list(unacked) if not tag else list(takewhile(lambda t: t <= tag, unacked))
    return [(t, unacked.pop(t)) for t in tags]


def _settle(node: NodeState, channel: Channel, settling: Settling) -> None:
    if channel.transactional:
        channel.pending_tx.append(settling)
    else:
        _apply(node, channel, settling)


def _apply(node: NodeState, channel: Channel, settling: Settling) -> None:
    """Take the deliveries from their consumers, and tell queue after queue what became of them."""
    settled = _settle_late(node, settling)
    batches = by_queue(settled, node.release) if settling.how == LOST_CHANNEL else _by_queue_and_consumer(settled)
    _count_for_channel(channel, settled)
    for place, batch in enumerate(batches):
        try:
            _settle_batch(node, channel, batch, settling)
        except amqp_errors.Refusal:  # the channel is lost, and with it what the other queues have not heard
            untold = {id(unacked) for batch in batches[place + 1 :] for unacked in batch.deliveries}
            channel.unacked.update(item for item in settled if id(item[1]) in untold)
            raise
    if channel.global_prefetch:
        consumers.resume(node, channel)


def _settle_late(node: NodeState, settling: Settling) -> list[Settled]:
    """Settle the deliveries that had timed out, which are in their queues again, and return the others."""
    for _, unacked in settling.settled:
        if unacked.timed_out:
            _hear_again(node, unacked, settling.how)
    return [item for item in settling.settled if not item[1].timed_out]


def _hear_again(node: NodeState, unacked: Unacked, how: str) -> None:
    """Bring back the consumer that went deaf, if this was the last late delivery that it had.

    What settles it for good brings its consumer back, and so does a return by one that waits to be the single
    active one; another that returns it stays deaf, a link of AMQP 1.0 until it grants credit.
    """
    consumer = unacked.consumer
    if consumer is None or how == LOST_CHANNEL:
        return
    hears = consumer.queue.single_active or how == "ack" or how.startswith("final")
    if not hears and consumer.credit is None:
        return
    consumer.timed_out -= 1
    if hears and not consumer.timed_out and not consumer.queue.deleted:
        deliveries.unblock(consumer.queue, consumer.channel)
        queues.settled(node, consumer.queue)


def _count_for_channel(channel: Channel, settled: list[Settled]) -> None:
    """Make room in the global prefetch: the limiter hears of all deliveries before the queues ask it."""
    if channel.global_unacked:
        counted = [item for _, item in settled if item.consumer is not None and item.queue.definition.type == CLASSIC]
        channel.global_unacked -= min(len(counted), channel.global_unacked)


def _by_queue_and_consumer(settled: list[Settled]) -> list[Batch]:
    if len(settled) == 1:
        return [Batch(settled[0][1].queue, [settled[0][1]])]
    groups: dict[tuple[QueueState, bool, str | int], list[Unacked]] = {}
    for tag, unacked in settled:
        consumer = unacked.consumer
        key = (unacked.queue, consumer is not None, tag if consumer is None else consumer.tag)
        groups.setdefault(key, []).append(unacked)
    return [Batch(key[0], groups[key]) for key in sorted(groups, key=_erlang_order)]


def by_queue(settled: list[Settled], release: Release) -> list[Batch]:
    """Return deliveries that come back by themselves in batches: each queue takes back its own at once.

    A classic one takes them back in their order, a quorum queue consumer by consumer,
    each basic.get being one.
    """
    queues_of: dict[QueueState, list[Settled]] = {}  # a queue and one of its name that was deleted are two
    for tag, unacked in settled:
        queues_of.setdefault(unacked.queue, []).append((tag, unacked))
    batches = []
    for queue in sorted(queues_of, key=lambda queue: _octets(queue.name)):
        own = queues_of[queue]
        if queue.definition.type == QUORUM:
            own.sort(key=lambda item: _consumer_order(item[0], item[1], release))
        batches.append(Batch(queue, [unacked for _, unacked in own]))
    return batches


def _consumer_order(tag: int, unacked: Unacked, release: Release) -> tuple[int, bytes, int]:
    consumer = unacked.consumer
    key = str(tag) if consumer is None else consumer.tag
    if release.quorum_consumer_order == "tag":
        return 0, _octets(key), tag
    return (1, _octets(key), tag) if consumer is None else (0, consumer.serial.to_bytes(8), tag)


def _erlang_order(key: tuple[QueueState, bool, str | int]) -> tuple[bytes, bool, int, bytes]:
    queue, consumed, tag = key
    return _octets(queue.name), consumed, tag if isinstance(tag, int) else 0, _octets(str(tag))


def _octets(name: str) -> bytes:
    return name.encode(errors="surrogatepass")  # some releases take names that encode surrogates


def _settle_batch(node: NodeState, channel: Channel, batch: Batch, settling: Settling) -> None:
    """Stop counting the deliveries, and tell their queue, if it is still there."""
    queue, consumer = batch.queue, batch.deliveries[0].consumer
    held_back = channel.global_prefetch > 0 and deliveries.held_back(queue, channel)
    in_vain = held_back and consumer is not None and not deliveries.has_credit(consumer)
    deliveries.settle(node, queue, batch.deliveries)
    if queue.deleted:
        return
    if in_vain:
        deliveries.try_in_vain(queue, channel)
    if queue.definition.type == STREAM:
        stream_consumers.settled(node, queue, batch.deliveries, settling.how)
        return
    # A queue that is held back looks at its consumers when everything is settled, in turns with others.
    has_room = not held_back and (deliveries.unblock_settled(queue, channel) or _is_single_active(batch))
    chooses = _change_single_active(node, queue, settling)
    if settling.how == "ack":
        _acknowledge(node, batch)
    else:
        _return(node, batch, settling)
    if chooses and (has_room or queue.definition.type == QUORUM):
        queues.settled(node, queue)


def _change_single_active(node: NodeState, queue: QueueState, settling: Settling) -> bool:
    """Let the single active consumer make way where it has to now; whether its queue chooses one after it settled."""
    if settling.how == LOST_CHANNEL and deliveries.waits_for_cancelled(queue, node.release):
        deliveries.choose_single_active(node, queue)
    chooses = not _leaves_single_active(queue, settling, node.release)
    if not chooses:
        deliveries.retire_single_active(queue)
    return chooses


def _acknowledge(node: NodeState, batch: Batch) -> None:
    batch.queue.counters.ack += len(batch.deliveries)
    if _ACKED in node.watched:
        for unacked in batch.deliveries:
            node.happened(_ACKED, batch.queue, unacked.copy)


def _return(node: NodeState, batch: Batch, settling: Settling) -> None:
    """Have the queue take the messages back, or let them die there."""
    queue, copies = batch.queue, [unacked.copy for unacked in batch.deliveries]
    how: Return = settling.how  # type: ignore[assignment]
    if settling.requeue:
        queues.requeue(node, queue, copies, how, batch.deliveries[0].consumer)
    else:
        queues.reject(node, queue, _in_order_of_death(queue, copies, node.release), how)


def _in_order_of_death(queue: QueueState, rejected: list[Copy], release: Release) -> list[Copy]:
    """Return the copies that are rejected at once as they die: a queue with priorities begins with the highest.

    Source: rabbit_priority_queue.erl ackfold; rabbit_fifo.erl discard.
    """
    if len(rejected) == 1:
        return rejected
    if queue.definition.type == QUORUM:
        return rejected[::-1] if release.quorum_rejection_order == "newest first" else rejected
    return sorted(rejected, key=lambda copy: -copy.priority)


def _is_single_active(batch: Batch) -> bool:
    single = batch.queue.active_single
    return batch.queue.single_active and any(unacked.consumer is single for unacked in batch.deliveries)


def _leaves_single_active(queue: QueueState, settling: Settling, release: Release) -> bool:
    """Return whether a queue that takes deliveries back does not look who its single active consumer should be."""
    if queue.definition.type != QUORUM or not queue.single_active or release.quorum_single_active_after_return:
        return False
    return settling.requeue and settling.how != LOST_CHANNEL
