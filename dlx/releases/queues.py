"""The order, size and limits of what is in a queue."""

from __future__ import annotations

from typing import Literal

from dlx.releases.rows import changed, since


class Queues:
    """The order, size and limits of what is in a queue."""

    purge_clears_pending: bool = since(
        "4.3", True, before=False,
        meaning=(
            "queue.purge also removes what at-least-once dead-lettering holds, but for the 32 messages that its"
            " worker has in hand."
        ),
        evidence="live; rabbit_fifo.erl apply purge",
    )
    quorum_drops_before_returns_die: bool = since(
        "4.3", False, before=True,
        meaning=(
            "What a length limit pushes out when messages come back to a quorum queue is dead-lettered before those"
            " of them that exceeded their delivery limit."
        ),
        evidence="live; rabbit_fifo.erl apply return",
    )
    quorum_rejection_order: Literal["newest first", "oldest first"] = since(
        "3.10", "oldest first", before="newest first",
        meaning="In which order a quorum queue dead-letters deliveries of one consumer that are rejected together.",
        evidence="live; rabbit_fifo.erl apply discard (3.8.9, 3.10.8)",
    )
    quorum_drop_head_order: Literal["newest first", "oldest first"] = since(
        "4.2.1", "oldest first", before="newest first",
        meaning=(
            "The order in which a quorum queue dead-letters what one command pushes out of it. Newest first means"
            " also before what the same command expired or found over the delivery limit."
        ),
        evidence="live; rabbit_fifo.erl drop_head; release notes of 4.2.1",
    )
    quorum_requeue_without_limit: Literal["front", "back"] = changed(
        {"3.10": "back", "4.3": "front"}, before="front",
        meaning=(
            "Where a message goes that is returned to a quorum queue without a delivery limit. With a limit, and when"
            " its channel is lost, it always goes to the front."
        ),
        evidence="live; rabbit_fifo.erl handle_aux return, apply requeue",
    )
    quorum_expiry_looks_at: Literal["next message", "head of every priority"] = since(
        "4.3", "head of every priority", before="next message",
        meaning=(
            "The messages of a quorum queue that may expire: the one to be delivered next, or also the first of every"
            " priority, whatever is to be delivered before it."
        ),
        evidence="live; rabbit_fifo.erl expire_msgs, expire_batch",
    )
    quorum_policy_restarts_expiry: bool = since(
        "4.3", False, before=True,
        meaning="A change of policy makes the expiry of an unused quorum queue count from then on.",
        evidence="rabbit_fifo.erl update_config (3.10.8 to 4.0.5, 4.3.5)",
    )
    quorum_message_size: Literal["body", "body and properties"] = since(
        "4.3", "body and properties", before="body",
        meaning="What a message counts towards the limit in bytes of a quorum queue.",
        evidence="live; rabbit_fifo.erl maybe_enqueue, mc_amqpl.erl size",
    )
    quorum_refusal_outlives_limits: bool = since(
        "4.0", False, before=True,
        meaning="A channel that a quorum queue refuses stays refused when the queue's limits are removed.",
        evidence="live; rabbit_fifo.erl evaluate_limit",
    )
    quorum_delayed_retry: bool = since(
        "4.3", True, before=False,
        meaning="Quorum queues know delayed-retry-type, -min and -max.",
        evidence="live; rabbit_fifo.erl should_delay",
    )
    classic_least_max_priority: int = since(
        "3.13", 1, before=0,
        meaning="An x-max-priority of 0 gives a classic queue one priority or two.",
        evidence="live; rabbit_priority_queue.erl priorities",
    )
    quorum_priorities: Literal["none", "two lanes", "32 levels"] = changed(
        {"4.0": "two lanes", "4.3": "32 levels"}, before="none",
        meaning=(
            "What a quorum queue makes of a message's priority: nothing; two lanes, above 4 and the rest, served two"
            " to one; or 32 levels, the highest first, where a message without one has 4."
        ),
        evidence="live; rabbit_fifo_q.erl (4.0.5), rabbit_fifo_pq.erl (4.3.5)",
    )
    stream_message_overhead: int = since(
        "3.13", 153, before=141,
        meaning="Bytes that a message without properties takes in a stream beside its body, which segments count.",
        evidence="live: sizes of segment files of 3.10 and 4.0; 3.13 and 4.3 taken to be as 4.0",
    )
    commit_to_deleted_queue: Literal["returned", "fails", "ends the connection"] = changed(
        {"4.0": "fails", "4.3": "ends the connection"}, before="returned",
        meaning=(
            "What tx.commit makes of a message whose queue was deleted after it was published: it is unroutable, or"
            " the commit fails (of a classic queue), or the connection ends."
        ),
        evidence="live; rabbit_channel.erl deliver_to_queues",
    )
    direct_replies_by: Literal["channel", "volatile queue"] = since(
        "4.3", "volatile queue", before="channel",
        meaning=(
            "What takes answers by direct reply-to: the channel, which uses up no delivery tags for them, so that a"
            " mandatory one comes back as unroutable although it arrives; or a queue of a type of its own, which"
            " cannot be bound, got from or consumed by others."
        ),
        evidence="live; rabbit_channel.erl deliver_reply (4.0.5), rabbit_volatile_queue.erl (4.3.5)",
    )
