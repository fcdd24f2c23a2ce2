"""Which consumer gets a message, on what terms, and for how long."""

from __future__ import annotations

from typing import Literal

from dlx.releases.rows import changed, since

_PRIORITY = frozenset({"x-priority"})
_FAILOVER = _PRIORITY | {"x-cancel-on-ha-failover"}
_FILTERED = frozenset({"x-stream-offset", "x-stream-filter", "x-stream-match-unfiltered"})


class Consumers:
    """Which consumer gets a message, on what terms, and for how long."""

    acknowledgements_awaited_by: Literal["nobody", "channel", "queue"] = changed(
        {"3.10": "channel", "4.3": "queue"}, before="nobody",
        meaning=(
            "Who minds a delivery that is not acknowledged in time: the channel, which looks once a minute and"
            " closes, or the quorum queue, which takes the delivery back and tells the consumer that it is cancelled."
        ),
        evidence="live; rabbit_channel.erl evaluate_consumer_timeout (4.0.5), rabbit_fifo.erl (4.3.5)",
    )
    consumer_timeout_ms: int | None = since(
        "3.10", 1_800_000, before=None,
        meaning="How long a delivery may stay unacknowledged, in ms, by default.",
        evidence="rabbit_channel.erl evaluate_consumer_timeout",
    )
    consumer_timeout_setting: bool = since(
        "3.13", True, before=False,
        meaning="A queue may have a consumer-timeout of its own.",
        evidence=(
            "rabbit_channel.erl get_consumer_timeout (3.13.7, 4.0.5), rabbit_queue_type.erl get_consumer_timeout"
            " (4.3.5)"
        ),
    )
    global_qos: bool = since(
        "4.3", False, before=True,
        meaning=(
            "basic.qos with global set limits all of a channel's consumers together, or is read as if it were not"
            " set."
        ),
        evidence="live; rabbit_channel.erl is_global_qos_permitted",
    )
    quorum_consumer_order: Literal["tag", "subscription"] = since(
        "4.0", "subscription", before="tag",
        meaning=(
            "In which order a quorum queue goes through its consumers, both to take back the deliveries of a lost"
            " channel and to send what one command lets it hand out: by their tags, a basic.get having its delivery"
            " tag, or as they subscribed and then the gets."
        ),
        evidence="live; rabbit_fifo.erl handle_down, add_delivery_effects",
    )
    quorum_consumer_continues: bool = since(
        "3.10", True, before=False,
        meaning=(
            "A consumer that subscribes again, on the same channel and under the tag of a cancelled one that has"
            " deliveries left, goes on as that one: they count against its prefetch. In 3.8 it gets nothing, in 3.10"
            " its channel fails at the next acknowledgement; neither is simulated."
        ),
        evidence="live; rabbit_fifo.erl update_consumer, merge_consumer",
    )
    quorum_consumer_priorities: bool = since(
        "3.10", True, before=False,
        meaning="Quorum queues serve consumers by x-priority.",
        evidence="live; rabbit_fifo.erl",
    )
    quorum_delivery_limit_widens_prefetch: bool = since(
        "3.13", False, before=True,
        meaning=(
            "A consumer that returns a message over the delivery limit gets the credit for it twice, so that from"
            " then on it has one message more at a time than its prefetch."
        ),
        evidence="live; rabbit_fifo.erl return, return_one, complete (3.8.9, 3.10.8), increase_credit (3.13.7)",
    )
    quorum_single_active_by_priority: bool = since(
        "4.0", True, before=False,
        meaning=(
            "The next single active consumer of a quorum queue is the one of the highest x-priority, and one of"
            " higher priority takes over; before, they take over in the order in which they subscribed."
        ),
        evidence="live; rabbit_fifo.erl activate_next_consumer",
    )
    classic_single_active_served_after_cancel: bool = since(
        "4.0", True, before=False,
        meaning=(
            "When the single active consumer of a classic queue cancels, the next one gets messages at once, not only"
            " when something else happens to the queue."
        ),
        evidence="live; rabbit_amqqueue_process.erl handle_call basic_cancel",
    )
    stream_takes_rejections: bool = since(
        "3.13", True, before=False,
        meaning=(
            "basic.nack, reject and recover of a stream's delivery count as an acknowledgement; before, the server"
            " refuses the first two and dies of the third."
        ),
        evidence="live; rabbit_stream_queue.erl settle",
    )
    stream_filters: bool = since(
        "3.13", True, before=False,
        meaning="x-stream-filter and x-stream-match-unfiltered choose what a stream's consumer gets, or mean nothing.",
        evidence="live; rabbit_stream_queue.erl filter_spec",
    )
    classic_consumer_arguments: frozenset[str] = changed(
        {
            "3.10": _FAILOVER | {"x-credit"},
            "4.0": _PRIORITY,
        },
        before=_FAILOVER,
        meaning="The arguments of a classic queue's consumers that are checked; those of other types are refused.",
        evidence="live; rabbit_classic_queue.erl capabilities",
    )
    quorum_consumer_arguments: frozenset[str] = changed(
        {
            "3.10": _PRIORITY | {"x-credit"},
            "4.0": _PRIORITY,
            "4.3": _PRIORITY | {"x-consumer-timeout"},
        },
        before=_FAILOVER,
        meaning="The arguments of a quorum queue's consumers that are checked; those of other types are refused.",
        evidence="live; rabbit_quorum_queue.erl capabilities",
    )
    stream_consumer_arguments: frozenset[str] = changed(
        {"3.10": frozenset({"x-stream-offset", "x-credit"}), "4.0": _FILTERED}, before=frozenset(),
        meaning="The arguments of a stream's consumers that are checked; those of other types are refused.",
        evidence="live; rabbit_stream_queue.erl capabilities",
    )
    stream_refusals: Literal["stream queues queue", "stream queue"] = since(
        "4.0", "stream queue", before="stream queues queue",
        meaning="How refusals name a stream that was asked for automatic acknowledgements, or without a prefetch.",
        evidence="live; rabbit_stream_queue.erl consume",
    )
    single_active_get_refusal: str = since(
        "4.3", '<<"quorum">>', before="quorum",
        meaning="What the refusal of basic.get calls a quorum queue with a single active consumer.",
        evidence="live; rabbit_channel.erl unsupported_single_active_consumer_error",
    )
