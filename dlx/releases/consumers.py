"""The rows about consumers: which one gets a message, on what terms, and for how long."""

from __future__ import annotations

from typing import Literal

from dlx.releases.rows import changed, since

_PRIORITY = frozenset({"x-priority"})
_FAILOVER = _PRIORITY | {"x-cancel-on-ha-failover"}
_FILTERED = frozenset({"x-stream-offset", "x-stream-filter", "x-stream-match-unfiltered"})
_ALL_39 = _FAILOVER | {"x-stream-offset"}  # of any queue


class ConsumerRows:
    """Which consumer gets a message, on what terms, and for how long."""

    consumer_timeout_enforced_by: Literal["nobody", "channel", "queue"] = changed(
        {"3.9": "channel", "4.3": "queue"}, before="nobody",
        meaning=(
            "Who acts when a delivery is not acknowledged in time: the channel, which checks once a minute and is"
            " closed, or the quorum queue, which takes the delivery back and cancels the consumer."
        ),
        evidence="live; rabbit_channel.erl evaluate_consumer_timeout (4.0.5), rabbit_fifo.erl (4.3.5)",
    )
    consumer_timeout_ms: int | None = since(
        "3.9", 1_800_000, before=None,
        meaning="How long a delivery may stay unacknowledged by default, in ms.",
        evidence="rabbit_channel.erl evaluate_consumer_timeout",
    )
    consumer_timeout_setting: bool = since(
        "3.12", True, before=False,
        meaning="A queue may have a consumer-timeout of its own.",
        evidence=(
            "live on 3.12.14; rabbit_channel.erl get_consumer_timeout (3.13.7, 4.0.5), rabbit_queue_type.erl"
            " get_consumer_timeout (4.3.5)"
        ),
    )
    global_qos: bool = since(
        "4.3", False, before=True,
        meaning="basic.qos with global set limits all consumers of a channel together; otherwise the flag is ignored.",
        evidence="live; rabbit_channel.erl is_global_qos_permitted",
    )
    global_qos_refused: Literal["before the arguments", "after the arguments"] = since(
        "3.9", "after the arguments", before="before the arguments",
        meaning=(
            "When a consumer of a quorum queue is refused for the channel's global prefetch: before or after its"
            " arguments are checked."
        ),
        evidence="3.8 and 3.10 live, 3.9 by source: rabbit_amqqueue.erl basic_consume",
    )
    quorum_consumer_order: Literal["tag", "subscription"] = since(
        "4.0", "subscription", before="tag",
        meaning=(
            "The order in which a quorum queue goes through its consumers, both to take back the deliveries of a lost"
            " channel and to send what one command lets it deliver: by consumer tag (a basic.get counts with its"
            " delivery tag), or as they subscribed, with the gets last."
        ),
        evidence="live; rabbit_fifo.erl handle_down, add_delivery_effects",
    )
    quorum_consumer_continues: bool = since(
        "3.10", True, before=False,
        meaning=(
            "A consumer that subscribes again, on the same channel and with the tag of a cancelled consumer that"
            " still has deliveries, continues as that consumer: those deliveries count against its prefetch. In 3.8 it"
            " gets nothing, in 3.10 its channel fails at the next acknowledgement; neither is simulated."
        ),
        evidence="live; rabbit_fifo.erl update_consumer, merge_consumer",
    )
    quorum_repeats_are_flagged: bool = since(
        "3.10", True, before=False,
        meaning=(
            "A quorum queue flags each further delivery of a message as redelivered. In 3.8 some come without the flag"
            " and without a count; when is not known, and they are not simulated."
        ),
        evidence="live: the workload and random traffic through the firehose (3.8.9, 3.10.8)",
        undecided=("3.9",),
    )
    quorum_consumer_priorities: bool = since(
        "3.9", True, before=False,
        meaning="Quorum queues serve consumers by x-priority.",
        evidence="live; rabbit_fifo.erl",
    )
    quorum_delivery_limit_widens_prefetch: bool = since(
        "3.11", False, before=True,
        meaning=(
            "A consumer that returns a message over the delivery limit gets the credit for it twice; from then on it"
            " holds one message more than its prefetch."
        ),
        evidence="live; rabbit_fifo.erl return, return_one, complete (3.8.9, 3.10.8), increase_credit (3.13.7)",
    )
    quorum_single_active_by_priority: bool = since(
        "4.0", True, before=False,
        meaning=(
            "A quorum queue's next single active consumer is the one with the highest x-priority, of several the one"
            " with the most room in its prefetch, and one of higher priority takes over at once; otherwise they follow"
            " in the order in which they subscribed."
        ),
        evidence="live; rabbit_fifo.erl activate_next_consumer, sort_waiting",
    )
    quorum_single_active_beside_cancelled: bool = since(
        "3.10", True, before=False,
        meaning=(
            "A consumer of a quorum queue becomes the single active one as soon as there is no other. Otherwise one"
            " that subscribes while a cancelled one has deliveries left waits until the channel of that one is lost;"
            " when they are settled, one that subscribes later overtakes it."
        ),
        evidence="live; rabbit_fifo.erl update_consumer, cancel_consumer (3.8.9, 3.9.29, 3.10.0)",
    )
    quorum_single_active_after_return: bool = since(
        "4.1.2", True, before=False,
        meaning=(
            "When a single active consumer that makes way for one of higher priority has returned its last message,"
            " that one takes over; otherwise the queue delivers nothing until a consumer subscribes, cancels or is"
            " lost."
        ),
        evidence="live; rabbit_fifo.erl return (4.0.5), and with its machine version 7 (4.1.2)",
    )
    classic_single_active_served_after_cancel: bool = since(
        "4.0", True, before=False,
        meaning=(
            "When the single active consumer of a classic queue cancels, the next one gets messages at once;"
            " otherwise only when something else happens to the queue."
        ),
        evidence="live; rabbit_amqqueue_process.erl handle_call basic_cancel",
    )
    stream_takes_rejections: bool = since(
        "3.13", True, before=False,
        meaning=(
            "basic.nack, basic.reject and basic.recover of a delivery from a stream count as an acknowledgement;"
            " otherwise the server refuses the first two and crashes on the third."
        ),
        evidence="live; rabbit_stream_queue.erl settle",
    )
    stream_filters: bool = since(
        "3.13", True, before=False,
        meaning=(
            "x-stream-filter and x-stream-match-unfiltered choose what a stream's consumer gets; otherwise they are"
            " ignored."
        ),
        evidence="live; rabbit_stream_queue.erl filter_spec",
    )
    classic_consumer_arguments: frozenset[str] = changed(
        {
            "3.9": _ALL_39,
            "3.10": _FAILOVER | {"x-credit"},
            "4.0": _PRIORITY,
        },
        before=_FAILOVER,
        meaning=(
            "The consumer arguments that a classic queue knows and checks; it refuses those of other types."
        ),
        evidence="live; rabbit_classic_queue.erl capabilities",
    )
    quorum_consumer_arguments: frozenset[str] = changed(
        {
            "3.9": _ALL_39,
            "3.10": _PRIORITY | {"x-credit"},
            "4.0": _PRIORITY,
            "4.3": _PRIORITY | {"x-consumer-timeout"},
        },
        before=_FAILOVER,
        meaning=(
            "The consumer arguments that a quorum queue knows and checks; it refuses those of other types."
        ),
        evidence="live; 4.1 and 4.2 by source: rabbit_quorum_queue.erl capabilities",
    )
    stream_consumer_arguments: frozenset[str] = changed(
        {"3.9": _ALL_39, "3.10": frozenset({"x-stream-offset", "x-credit"}), "4.0": _FILTERED}, before=frozenset(),
        meaning="The consumer arguments that a stream knows and checks; it refuses those of other types.",
        evidence="live; rabbit_stream_queue.erl capabilities",
    )
    credit_read_by: frozenset[str] = changed(
        {"3.9": frozenset({"classic", "quorum"}), "4.0": frozenset()}, before=frozenset({"classic"}),
        meaning="The queue types that read a consumer's x-credit, and crash if it is not a table.",
        evidence="live; rabbit_queue_consumers.erl, rabbit_quorum_queue.erl parse_credit_args",
    )
    stream_refusals: Literal["stream queues queue", "stream queue"] = since(
        "4.0", "stream queue", before="stream queues queue",
        meaning=(
            "How the server names a stream when it refuses a consumer with automatic acknowledgements or without a"
            " prefetch."
        ),
        evidence="live; rabbit_stream_queue.erl consume",
    )
    filters_found_by: Literal["name", "descriptor"] = since(
        "4.1", "descriptor", before="name",
        meaning=(
            "How the filters of a source of AMQP 1.0 are known: by their name, and the answer repeats the whole set, or"
            " by their descriptor, and the answer has those in force."
        ),
        evidence="live for 4.0 and 4.3; rabbit_amqp_session.erl filter_to_consumer_args, parse_filters",
    )
    plain_stream_filters: bool = since(
        "4.3", False, before=True,
        meaning="A filter rabbitmq:stream-… of a source of AMQP 1.0 may be a plain value, without a descriptor.",
        evidence="live for 4.0 and 4.3; rabbit_amqp_session.erl amqp_filter_set_bug",
    )
    stream_offset_may_be_symbol: bool = since(
        "4.2", True, before=False,
        meaning="The filter rabbitmq:stream-offset-spec may be a symbol, not only a string, such as first.",
        evidence="live for 4.0 and 4.3; rabbit_amqp_session.erl parse_filters",
    )
    property_filters: bool = since(
        "4.1", True, before=False,
        meaning="A source of AMQP 1.0 may filter a stream by properties and application properties.",
        evidence="live for 4.0 and 4.3; rabbit_amqp_filtex.erl (4.1), rabbit_amqp_filter_prop.erl",
    )
    sql_filters: bool = since(
        "4.2", True, before=False,
        meaning="A source of AMQP 1.0 may filter a stream by an SQL expression.",
        evidence="live for 4.0 and 4.3; rabbit_amqp_filter_sql.erl",
    )
    single_active_get_refusal: str = since(
        "4.2", '<<"quorum">>', before="quorum",
        meaning=(
            "How the server names the queue type when it refuses basic.get on a quorum queue with a single active"
            " consumer."
        ),
        evidence="live; rabbit_channel.erl unsupported_single_active_consumer_error",
    )
