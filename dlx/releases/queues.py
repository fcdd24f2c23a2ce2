"""The rows about the messages in a queue: their order, size and limits."""

from __future__ import annotations

from typing import Literal

from dlx.releases.rows import changed, since


class QueueRows:
    """The order, size and limits of what is in a queue."""

    purge_clears_pending_dead_letters: bool = since(
        "4.3", True, before=False,
        meaning=(
            "queue.purge also removes what at-least-once dead-lettering holds, except the 32 messages that its worker"
            " is publishing."
        ),
        evidence="live; rabbit_fifo.erl apply purge",
    )
    quorum_confirms_own_dead_letters: bool = since(
        "3.11", True, before=False,
        meaning=(
            "The at-least-once worker of a queue hears what this queue itself answers. Otherwise a dead letter that"
            " comes back into its queue is never refused, and never confirmed: the queue holds the message as well."
        ),
        evidence="live (3.10.8, 4.0.5); pull request 8799 of RabbitMQ, July 2023, for 3.11 and 3.12, too",
    )
    quorum_overflow_before_delivery_limit: bool = since(
        "4.2.1", False, before=True,
        meaning=(
            "When messages come back to a quorum queue, the ones that a length limit pushes out are dead-lettered"
            " before the ones that exceeded their delivery limit."
        ),
        evidence="live; 4.1 and 4.2 by source: rabbit_fifo.erl apply return, evaluate_limit (4.2.1 on)",
    )
    quorum_rejection_order: Literal["newest first", "oldest first"] = since(
        "3.10", "oldest first", before="newest first",
        meaning=(
            "The order in which a quorum queue dead-letters deliveries of one consumer that are rejected together."
        ),
        evidence="live; rabbit_fifo.erl apply discard (3.8.9, 3.10.8)",
    )
    quorum_drop_head_order: Literal["newest first", "oldest first"] = since(
        "4.2.1", "oldest first", before="newest first",
        meaning=(
            "The order in which a quorum queue dead-letters what one command pushes out of it. Newest first also"
            " means before what the same command expired or found over the delivery limit."
        ),
        evidence="live; rabbit_fifo.erl drop_head; release notes of 4.2.1",
    )
    quorum_requeue_without_limit: Literal["front", "back"] = changed(
        {"3.10": "back", "4.3": "front"}, before="front",
        meaning=(
            "Where a quorum queue without a delivery limit puts a returned message. With a limit, and when its"
            " channel is lost, a message always goes to the front."
        ),
        evidence="live; rabbit_fifo.erl handle_aux return, apply requeue",
    )
    quorum_expiry_looks_at: Literal["next message", "head of every priority"] = since(
        "4.3", "head of every priority", before="next message",
        meaning=(
            "The messages of a quorum queue that may expire: the one to be delivered next, or also the first of every"
            " priority, even if others are to be delivered before it."
        ),
        evidence="live; rabbit_fifo.erl expire_msgs, expire_batch",
    )
    quorum_policy_restarts_expiry: bool = since(
        "4.3", False, before=True,
        meaning="A change of policy restarts the expiry of an unused quorum queue.",
        evidence="rabbit_fifo.erl update_config (3.10.8 to 4.0.5, 4.3.5)",
    )
    quorum_first_tick: Literal["after 5 s", "once elected"] = since(
        "4.1", "once elected", before="after 5 s",
        meaning=(
            "When a new quorum queue first looks at its x-expires: with its first tick, or also as soon as its leader"
            " is elected, milliseconds after its declaration."
        ),
        evidence="3.10, 4.0 and 4.3 live, the others by source: ra_server_proc.erl candidate (ra 2.16.4)",
    )
    quorum_message_size: Literal["body", "body and properties"] = since(
        "4.3", "body and properties", before="body",
        meaning="The size of a message that counts towards a quorum queue's limit in bytes.",
        evidence="live; rabbit_fifo.erl maybe_enqueue, mc_amqpl.erl size",
    )
    quorum_refusal_outlives_limits: bool = since(
        "4.0", False, before=True,
        meaning="A channel that a quorum queue refuses stays refused after the queue's limits are removed.",
        evidence="live; rabbit_fifo.erl evaluate_limit",
    )
    quorum_delayed_retry: bool = since(
        "4.3", True, before=False,
        meaning="Quorum queues know delayed-retry-type, -min and -max.",
        evidence="live; 4.1 and 4.2 by source: rabbit_fifo.erl should_delay",
    )
    classic_max_priority_min: int = since(
        "3.13", 1, before=0,
        meaning=(
            "The highest priority of a classic queue with an x-max-priority of 0: with 0 it has one priority, with 1"
            " two."
        ),
        evidence="live; rabbit_priority_queue.erl priorities",
    )
    quorum_priorities: Literal["none", "two lanes", "32 levels"] = changed(
        {"4.0": "two lanes", "4.3": "32 levels"}, before="none",
        meaning=(
            "How a quorum queue treats a message's priority: it ignores it; it has two lanes, above 4 and the rest,"
            " served two to one; or 32 levels, the highest first, where a message without one has 4."
        ),
        evidence="live; rabbit_fifo_q.erl (4.0.5), rabbit_fifo_pq.erl (4.3.5)",
    )
    stream_message_overhead: int = since(
        "3.13", 153, before=141,
        meaning="Bytes that a message without properties takes in a stream beside its body; segments count them.",
        evidence="live: sizes of segment files of 3.10 and 4.0; 3.13 and the releases from 4.1 on taken to be as 4.0",
    )
    commit_to_deleted_queue: Literal["returned", "by queue type", "ends the connection"] = changed(
        {"3.13": "by queue type", "4.2": "ends the connection"}, before="returned",
        meaning=(
            "How tx.commit treats a message whose queue was deleted after the publish: it returns it as unroutable;"
            " it fails for a classic queue, loses the message silently for a quorum queue, and ends the"
            " connection for a stream; or it ends the connection."
        ),
        evidence="live; rabbit_channel.erl deliver_to_queues",
    )
    direct_replies_taken_by: Literal["channel", "volatile queue"] = since(
        "4.2", "volatile queue", before="channel",
        meaning=(
            "What receives answers by direct reply-to: the channel, which uses no delivery tags for them, so that a"
            " mandatory answer comes back as unroutable although it arrives, and one in a transaction does not wait for"
            " the commit; or a queue of its own type, which others cannot bind, get from or consume."
        ),
        evidence="live; rabbit_channel.erl deliver_reply (4.0.5), rabbit_volatile_queue.erl (4.3.5)",
    )
    direct_replies_by_dead_letter: bool = changed(
        {"3.13": False, "4.2": True}, before=True,
        meaning="A dead letter with the address of a direct reply among its routing keys is an answer, too.",
        evidence=(
            "live; rabbit_exchange.erl route, which sends answers itself (3.12.14) and does not (3.13.7);"
            " rabbit_volatile_queue.erl (4.2.0)"
        ),
    )
