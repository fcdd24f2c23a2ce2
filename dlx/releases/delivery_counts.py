"""The rows about delivery counts, and about which deliveries count towards the delivery limit."""

from __future__ import annotations

from typing import Literal

from dlx.releases.rows import changed, since


class DeliveryCountRows:
    """How deliveries are counted, and which of them count towards the delivery limit."""

    quorum_delivery_limit_counts: Literal["returns", "failures"] = since(
        "4.3", "failures", before="returns",
        meaning=(
            "The deliveries that count towards the delivery limit: every return, or only failures (basic.reject and"
            " lost channels)."
        ),
        evidence="live; rabbit_fifo.erl return_one",
    )
    returns_counted_as_failures: frozenset[str] = changed(
        {
            "4.0": frozenset({"lost channel", "final nack", "final reject", "failed", "final failed"}),
            "4.3": frozenset({"reject", "lost channel", "final reject", "failed", "final failed"}),
        },
        before=frozenset(),
        meaning="The returns that count as failed deliveries, a count that is kept beside that of all returns.",
        evidence="live; rabbit_fifo.erl discard, return (4.0.5, 4.3.5)",
    )
    delivery_time_asked: bool = since(
        "4.3", True, before=False,
        meaning=(
            "A consumer of AMQP 1.0 may have a quorum queue keep a message back until a time, by the annotation"
            " x-opt-delivery-time of the outcome modified."
        ),
        evidence="4.0 and 4.3 live; rabbit_fifo.erl should_delay",
    )
    quorum_count_on_first_get: bool = since(
        "3.12", False, before=True,
        meaning="basic.get shows x-delivery-count 0 on the first delivery.",
        evidence="live; rabbit_fifo_client.erl",
    )
    quorum_acquired_count_header: bool = since(
        "4.3", True, before=False,
        meaning="Deliveries carry x-acquired-count (every return) beside x-delivery-count (failed ones only).",
        evidence="live; rabbit_fifo_client.erl",
    )
    delivery_count_carried: Literal["never", "from quorum queues", "from all queues"] = changed(
        {"4.0": "from quorum queues", "4.3": "from all queues"}, before="never",
        meaning=(
            "Whether a dead letter brings its count of failed deliveries along, for the next quorum queue to show:"
            " never, from a quorum queue, or from any queue. Where the delivery limit counts failures, the next queue"
            " counts on from it."
        ),
        evidence=(
            "live; rabbit_fifo.erl incr_msg, annotate_msg; rabbit_variable_queue.erl annotate_delivery_count (4.3)"
        ),
    )
