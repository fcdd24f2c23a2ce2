"""The fields that answers of the management API have, and their form."""

from __future__ import annotations

from typing import Any, Literal

from dlx.releases.rows import changed, since

_OVERVIEW_40 = {
    "cluster_tags": {}, "node_tags": {}, "default_queue_type": "classic", "is_op_policy_updating_enabled": True,
}


class Fields:
    """The fields that answers of the management API have, and their form."""

    timestamps: Literal["local", "RFC 3339"] = since(
        "3.10", "RFC 3339", before="local",
        meaning=(
            "The form of timestamps: '2026-11-21 9:59:09' (in traces '2026-11-21 9:59:09:027'), or RFC 3339 with"
            " milliseconds."
        ),
        evidence="live",
    )
    trace_key_order: Literal["alphabetical", "of the map"] = since(
        "4.0", "of the map", before="alphabetical",
        meaning="The order of the keys in a JSON trace log.",
        evidence="live; OTP 26 changed the order of small maps, 3.13 may run on either",
    )
    vhost_default_queue_type: Literal["not shown", "undefined", "shown"] = changed(
        {"3.10": "undefined", "4.0": "shown"}, before="not shown",
        meaning=(
            'Whether virtual hosts show their default queue type: not at all; with "undefined" where none is set; or'
            " the type in force."
        ),
        evidence="live; rabbit_vhost.erl info (3.13.7)",
    )
    vhost_deletion_protection: bool = since(
        "4.3", True, before=False,
        meaning="Virtual hosts show protected_from_deletion.",
        evidence="live",
    )
    state_without_stats: Literal["live", "running"] = since(
        "3.13", "running", before="live",
        meaning="A queue's state in answers with disable_stats=true.",
        evidence="live; rabbit_classic_queue.erl format (3.13.7)",
    )
    policies_without_stats: bool = since(
        "4.3", True, before=False,
        meaning="Queues show their policies with disable_stats=true.",
        evidence="live",
    )
    backing_queue_status: bool = since(
        "3.13", False, before=True,
        meaning="Classic queues have backing_queue_status and recoverable_slaves.",
        evidence="live; rabbit_mgmt_format.erl format_queue_stats (3.13.7)",
    )
    storage_version: bool = since(
        "3.13", True, before=False,
        meaning="Classic queues have storage_version.",
        evidence="live; rabbit_mgmt_format.erl format_queue_stats (3.13.7)",
    )
    paged_out: bool = since(
        "4.3", False, before=True,
        meaning="Classic queues count messages_paged_out and message_bytes_paged_out.",
        evidence="live",
    )
    internal_queues: bool = since(
        "4.3", True, before=False,
        meaning="Queues have internal and internal_owner.",
        evidence="live",
    )
    consumer_capacity: bool = since(
        "3.10", True, before=False,
        meaning="Queues have consumer_capacity beside consumer_utilisation.",
        evidence="live",
    )
    idle_consumer_utilisation: int | None = since(
        "3.10", 0, before=None,
        meaning="The consumer_utilisation of a classic queue without consumers.",
        evidence="live",
    )
    quorum_single_active_consumer: str = since(
        "3.13", "single_active_consumer_tag", before="single_active_consumer_ctag",
        meaning="The name of the field for a quorum queue's single active consumer.",
        evidence="live; rabbit_quorum_queue.erl STATISTICS_KEYS (3.13.7)",
    )
    quorum_delivery_limit: bool = since(
        "4.0", True, before=False,
        meaning="Quorum queues show the delivery limit in force.",
        evidence="live",
    )
    quorum_in_memory: bool = since(
        "3.10", False, before=True,
        meaning="Quorum queues count their messages in messages_ram.",
        evidence="live",
    )
    stream_leader: bool = since(
        "3.13", True, before=False,
        meaning="Streams show their leader.",
        evidence="live",
    )
    stream_segments: bool = since(
        "3.13", True, before=False,
        meaning="Streams count their segments.",
        evidence="live; rabbit_stream_queue.erl INFO_KEYS (3.13.7)",
    )
    global_prefetch_shown: bool = since(
        "4.0", False, before=True,
        meaning="Channels have global_prefetch_count.",
        evidence="live",
    )
    consumer_timeout_shown: bool = since(
        "3.13", True, before=False,
        meaning="Consumers have consumer_timeout.",
        evidence="live; rabbit_mgmt_data.erl consumer_timeout (3.13.7)",
    )
    cached_segments_shown: bool = since(
        "4.3", True, before=False,
        meaning="Channels have cached_segments.",
        evidence="live",
    )
    peer_certificate_serial: bool = since(
        "4.3", True, before=False,
        meaning="Connections have peer_cert_serial_number.",
        evidence="live",
    )
    overview_fields: dict[str, Any] = changed(
        {
            "3.10": {"release_series_support_status": "supported"},
            "3.13": {"release_series_support_status": "supported", "is_op_policy_updating_enabled": True},
            "4.0": _OVERVIEW_40,
            "4.3": {**_OVERVIEW_40, "crypto_lib_version": "none", "require_definition_json_extension": False},
        },
        before={},
        meaning="Fields of the overview that are the same for all fresh nodes.",
        evidence="live; rabbit_mgmt_wm_overview.erl to_json (3.13.7)",
    )
    listener_fields: dict[str, Any] = since(
        "4.3", {"tls": False}, before={},
        meaning="Fields of a listener that say whether it uses TLS.",
        evidence="live",
    )
    node_versions: frozenset[str] = since(
        "4.3", frozenset({"rabbitmq_version", "erlang_version", "erlang_full_version"}), before=frozenset(),
        meaning="The versions that a node tells.",
        evidence="live",
    )
    nodes_can_be_drained: bool = since(
        "3.13", True, before=False,
        meaning="Nodes have being_drained.",
        evidence="live; rabbit_mgmt_db.erl (3.13.7)",
    )
    initial_global_parameters: dict[str, Any] = since(
        "4.0", {"cluster_tags": []}, before={},
        meaning="The global parameters of a fresh node.",
        evidence="live",
    )
