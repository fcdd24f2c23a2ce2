"""The fields that answers of the management API have, and their form."""

from __future__ import annotations

from typing import Any, Literal

from dlx.releases.rows import changed, since

_OVERVIEW_40 = {
    "cluster_tags": {}, "node_tags": {}, "default_queue_type": "classic", "is_op_policy_updating_enabled": True,
}
_OVERVIEW_42 = {**_OVERVIEW_40, "crypto_lib_version": "none"}


class FieldRows:
    """The fields that answers of the management API have, and their form."""

    timestamps: Literal["local", "RFC 3339"] = since(
        "3.10", "RFC 3339", before="local",
        meaning=(
            "The form of timestamps: '2026-11-21 9:59:09' (in traces '2026-11-21 9:59:09:027'), or RFC 3339 with"
            " milliseconds."
        ),
        evidence="four live; rabbit_mgmt_format.erl now_to_str",
    )
    trace_key_order: Literal["alphabetical", "of the map"] = since(
        "4.0", "of the map", before="alphabetical",
        meaning="The order of the keys in a JSON trace log.",
        evidence=(
            "four live; OTP 26 changed the order of small maps: 3.9 to 3.12 run on earlier ones, 3.13 on either, 4.1"
            " and 4.2 on later ones"
        ),
        undecided=("3.13",),
    )
    vhost_default_queue_type: Literal["not shown", "undefined", "shown"] = changed(
        {"3.10": "undefined", "4.0": "shown"}, before="not shown",
        meaning=(
            'Whether virtual hosts show their default queue type: not at all; with "undefined" where none is set; or'
            " the type in force."
        ),
        evidence="live; rabbit_vhost.erl info",
    )
    state_without_stats: Literal["live", "running"] = since(
        "3.13", "running", before="live",
        meaning="A queue's state in answers with disable_stats=true.",
        evidence="live; rabbit_classic_queue.erl format",
    )
    policies_without_stats: bool = since(
        "4.2", True, before=False,
        meaning="Queues show their policies with disable_stats=true.",
        evidence="four live; rabbit_classic_queue.erl format",
    )
    backing_queue_status: bool = since(
        "3.12", False, before=True,
        meaning="Classic queues have backing_queue_status and recoverable_slaves.",
        evidence="live, asked directly; rabbit_mgmt_format.erl format_queue_stats",
    )
    storage_version: bool = since(
        "3.13", True, before=False,
        meaning="Classic queues have storage_version.",
        evidence="four live; rabbit_mgmt_format.erl format_queue_stats",
    )
    paged_out: bool = since(
        "4.3", False, before=True,
        meaning="Classic queues count messages_paged_out and message_bytes_paged_out.",
        evidence="four live; rabbit_backing_queue.erl INFO_KEYS",
    )
    internal_queues: bool = since(
        "4.2", True, before=False,
        meaning="Queues have internal and internal_owner.",
        evidence="four live; rabbit_mgmt_format.erl queue",
    )
    consumer_capacity: bool = since(
        "3.9", True, before=False,
        meaning="Queues have consumer_capacity beside consumer_utilisation.",
        evidence="four live; rabbit_amqqueue_process.erl statistics_keys",
    )
    idle_consumer_utilisation: int | None = since(
        "3.9", 0, before=None,
        meaning="The consumer_utilisation of a classic queue without consumers.",
        evidence="four live; rabbit_amqqueue_process.erl i",
    )
    quorum_single_active_consumer: str = since(
        "3.12", "single_active_consumer_tag", before="single_active_consumer_ctag",
        meaning="The name of the field for a quorum queue's single active consumer.",
        evidence="live, asked directly; rabbit_quorum_queue.erl STATISTICS_KEYS",
    )
    quorum_publishers: bool = since(
        "4.0", True, before=False,
        meaning=(
            "Quorum queues count their publishers, and of what is ready what came back, and the rest by priority. Their"
            " single_active_consumer_tag is that of the first consumer, also where others are active beside it."
        ),
        evidence="3.8, 3.10, 4.0 and 4.3 live",
        undecided=("3.11", "3.12", "3.13"),
    )
    stream_first_timestamp: bool = since(
        "4.3", True, before=False,
        meaning="Streams have first_timestamp, which stays 0 until they drop segments or are opened again.",
        evidence="3.8, 3.10, 4.0 and 4.3 live",
        undecided=("4.1", "4.2"),
    )
    quorum_delivery_limit: bool = since(
        "4.0", True, before=False,
        meaning="Quorum queues show the delivery limit in force.",
        evidence="four live; rabbit_quorum_queue.erl format",
    )
    quorum_in_memory: bool = since(
        "3.10", False, before=True,
        meaning="Quorum queues count their messages in messages_ram.",
        evidence="live, asked directly",
    )
    stream_leader: bool = since(
        "3.13", True, before=False,
        meaning="Streams show their leader.",
        evidence="four live; rabbit_stream_queue.erl format",
    )
    stream_segments: bool = since(
        "3.13", True, before=False,
        meaning="Streams count their segments.",
        evidence="four live; rabbit_stream_queue.erl INFO_KEYS",
    )
    global_prefetch_shown: bool = since(
        "4.0", False, before=True,
        meaning="Channels have global_prefetch_count.",
        evidence="four live; rabbit_channel.erl STATISTICS_KEYS",
    )
    consumer_timeout_shown: bool = since(
        "3.12", True, before=False,
        meaning="Consumers have consumer_timeout.",
        evidence="live, asked directly; rabbit_mgmt_data.erl consumer_timeout",
    )
    nothings_counted: bool = since(
        "3.10", True, before=False,
        meaning="message_stats count get_empty and drop_unroutable; before, both are 0.",
        evidence="four live",
        undecided=("3.9",),
    )
    cached_segments_shown: bool = since(
        "4.1", True, before=False,
        meaning="Channels have cached_segments.",
        evidence="four live; rabbit_channel.erl STATISTICS_KEYS",
    )
    peer_certificate_serial: bool = since(
        "4.2", True, before=False,
        meaning="Connections have peer_cert_serial_number.",
        evidence="four live; rabbit_reader.erl CREATION_EVENT_KEYS",
    )
    overview_fields: dict[str, Any] = changed(
        {
            "3.9": {"release_series_support_status": "out of support"},
            "3.10": {"release_series_support_status": "supported"},
            "3.11": {"release_series_support_status": "supported", "is_op_policy_updating_enabled": True},
            "3.12": {"release_series_support_status": "out of support", "is_op_policy_updating_enabled": True},
            "3.13": {"release_series_support_status": "supported", "is_op_policy_updating_enabled": True},
            "4.0": _OVERVIEW_40,
            "4.2": _OVERVIEW_42,
            "4.3": {**_OVERVIEW_42, "require_definition_json_extension": False},
        },
        before={},
        meaning=(
            "Fields of the overview that are the same for all fresh nodes. A server that was built with an end of"
            " support says whether that day has come."
        ),
        evidence="live, asked directly, 4.1 and 4.2 read: rabbit_mgmt_wm_overview.erl to_json",
    )
    listener_fields: dict[str, Any] = since(
        "4.1", {"tls": False}, before={},
        meaning="Fields of a listener that say whether it uses TLS.",
        evidence="four live; rabbit_mgmt_format.erl listener",
    )
    node_versions: frozenset[str] = since(
        "4.2", frozenset({"rabbitmq_version", "erlang_version", "erlang_full_version"}), before=frozenset(),
        meaning="The versions that a node reports.",
        evidence="four live; rabbit_mgmt_external_stats.erl",
    )
    nodes_can_be_drained: bool = since(
        "3.11", True, before=False,
        meaning="Nodes have being_drained.",
        evidence="live, asked directly; rabbit_mgmt_db.erl",
    )
