"""What differs between RabbitMQ releases in the management API: one row per difference.

The same two rules as for ``dlx.releases``: every difference that this package knows
stands here, and code asks for the behaviour (``api.user_limits``), never for a
version. What the broker itself does differently is in ``dlx.releases``.

"live" means observed on servers of 3.8.9, 3.10.8, 4.0.5 and 4.3.6 with the plugins
management and tracing; the column 3.13 was read from the source of 3.13.7.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from dlx.releases import RELEASES, Row

_NO_CHECKS: frozenset[str] = frozenset()
_CHECKS_310 = frozenset(
    {"alarms", "local-alarms", "virtual-hosts", "port-listener", "protocol-listener"}
    | {"certificate-expiration", "node-is-quorum-critical", "node-is-mirror-sync-critical"}
)
_CHECKS_40 = _CHECKS_310 - {"node-is-mirror-sync-critical"}
_CHECKS_43 = _CHECKS_40 | {
    "is-in-service", "ready-to-serve-clients", "below-node-connection-limit", "reached-target-cluster-size",
    "metadata-store", "quorum-queues-without-elected-leaders",
}  # fmt: skip


class Api(msgspec.Struct, frozen=True, kw_only=True):
    """How one release's management API behaves; ``TABLE`` says what each field means and how it is known."""

    name: str
    allow_header: Literal["when refused", "always"]
    login_refusal: tuple[str, str]
    login_refusal_challenges: bool
    hidden_vhost: Literal["refused", "not found"]
    user_tags: Literal["string", "list"]
    user_limits: bool
    users_say_whether_internal: bool
    unknown_user_in_bulk_delete: Literal["refused", "ignored"]
    auth_settings: dict[str, Any] | None
    empty_bodies: frozenset[str]
    page_out_of_range: Literal["empty", "refused"]
    broken_name_filter: Literal["refused", "matches nothing"]
    vhost_metadata: bool
    vhost_default_queue_type: Literal["not shown", "undefined", "shown"]
    unknown_default_queue_type: Literal["all are ignored", "crashes", "refused"]
    vhost_deletion_protection: bool
    timestamps: Literal["local", "RFC 3339"]
    long_queue_names_refused: bool
    missing_targets: Literal["said by AMQP", "not found"]
    unknown_ackmode: Literal["crashes", "refused"]
    get_requeues_by: Literal["closing the channel", "basic.nack"]
    mirroring_actions: bool
    policy_refusals_escaped: bool
    unknown_node: Literal["could not be contacted", "not a member"]
    trace_key_order: Literal["alphabetical", "of the map"]
    aliveness_test_declares: bool
    health_checks: frozenset[str]
    protocol_listener: Literal["one protocol", "several protocols"]
    version_endpoint: bool
    hash_password_endpoint: bool
    deprecated_features: bool
    detailed_queues: bool
    state_without_stats: Literal["live", "running"]
    policies_without_stats: bool
    backing_queue_status: bool
    storage_version: bool
    paged_out: bool
    internal_queues: bool
    consumer_capacity: bool
    idle_consumer_utilisation: int | None
    quorum_single_active_consumer: str
    quorum_delivery_limit: bool
    brief_lists: bool
    quorum_in_memory: bool
    stream_leader: bool
    stream_segments: bool
    global_prefetch_shown: bool
    consumer_timeout_shown: bool
    cached_segments_shown: bool
    peer_certificate_serial: bool
    overview_facts: dict[str, Any]
    listener_facts: dict[str, Any]
    node_versions: frozenset[str]
    nodes_can_be_drained: bool
    whole_import_refusals: Literal["terms", "texts"]
    definitions_say_of_what: bool
    definitions_vhost_fields: tuple[str, ...]
    definitions_internal_exchanges: bool
    definitions_queue_type: bool
    single_vhost_definitions_no_limits: list[Any] | dict[str, Any]
    single_vhost_definitions_default_queue_type: bool
    single_vhost_definitions_name_it: bool
    initial_global_parameters: dict[str, Any]


_VHOST_FIELDS = ("name", "description", "tags", "default_queue_type", "metadata")
_OVERVIEW_40 = {
    "cluster_tags": {}, "node_tags": {}, "default_queue_type": "classic", "is_op_policy_updating_enabled": True,
}  # fmt: skip

# Columns: 3.8, 3.10, 3.13, 4.0, 4.3
TABLE: tuple[Row, ...] = (
    Row(
        "allow_header",
        "The header Allow names the methods of a resource: where one is refused and for OPTIONS, or in every answer.",
        ("when refused",) * 4 + ("always",),
        "live",
    ),
    Row(
        "login_refusal",
        "error and reason when user and password do not fit.",
        (("not_authorised", "Login failed"), ("not_authorized", "Login failed"))
        + (("not_authorized", "Not_Authorized"),) * 3,
        "live; rabbit_web_dispatch_access_control.erl not_authenticated (3.13.7)",
    ),
    Row(
        "login_refusal_challenges",
        "That refusal has the header WWW-Authenticate.",
        (False, True, False, False, False),
        "live; rabbit_web_dispatch_access_control.erl not_authenticated (3.13.7)",
    ),
    Row(
        "hidden_vhost",
        "A virtual host that the user may not enter: 401, or 404 as if it did not exist.",
        ("refused",) * 4 + ("not found",),
        "live; rabbit_web_dispatch_access_control.erl user_matches_vhost",
    ),
    Row(
        "user_tags",
        "Tags of users in answers: one string with commas, or a list. Until 3.8 a list is not understood in requests.",
        ("string", "list", "list", "list", "list"),
        "live",
    ),
    Row("user_limits", "Users have limits.", (False, True, True, True, True), "live"),
    Row(
        "users_say_whether_internal",
        "whoami has is_internal_user.",
        (False, False, True, True, True),
        "live; rabbit_mgmt_format.erl user (3.13.7)",
    ),
    Row(
        "unknown_user_in_bulk_delete",
        "bulk-delete of users with a name that does not exist.",
        ("refused", "refused", "ignored", "ignored", "ignored"),
        "live; rabbit_auth_backend_internal.erl delete_user (3.13.7)",
    ),
    Row(
        "auth_settings",
        "What GET /api/auth answers; 4.3 has no such resource.",
        ({"enable_uaa": False, "uaa_client_id": "", "uaa_location": ""},) * 2
        + ({"oauth_enabled": False},) * 2
        + (None,),
        "live; rabbit_mgmt_wm_auth.erl authSettings (3.13.7)",
    ),
    Row(
        "empty_bodies",
        "JSON texts that count as an empty object.",
        (frozenset({"[]"}),) + (frozenset({"null"}),) * 4,
        "live; rabbit_mgmt_util.erl decode",
    ),
    Row(
        "page_out_of_range",
        "A page behind the last one.",
        ("empty", "refused", "refused", "refused", "refused"),
        "live; rabbit_mgmt_util.erl sublist",
    ),
    Row(
        "broken_name_filter",
        "A name filter that is no regular expression.",
        ("refused",) * 4 + ("matches nothing",),
        "live",
    ),
    Row(
        "vhost_metadata",
        "PUT of a virtual host that exists changes its description and tags.",
        (False, True, True, True, True),
        "live",
    ),
    Row(
        "vhost_default_queue_type",
        'Virtual hosts show their default queue type: not, "undefined" where none is set, or the one in force.',
        ("not shown", "undefined", "undefined", "shown", "shown"),
        "live; rabbit_vhost.erl info (3.13.7)",
    ),
    Row(
        "unknown_default_queue_type",
        "A virtual host is put with a default queue type that is none; before 3.11 they have no default at all.",
        ("all are ignored", "all are ignored", "crashes", "crashes", "refused"),
        "live; rabbit_vhost.erl do_add (3.13.7)",
    ),
    Row(
        "vhost_deletion_protection",
        "Virtual hosts show protected_from_deletion.",
        (False, False, False, False, True),
        "live",
    ),
    Row(
        "timestamps",
        "Points in time: '2026-11-21 9:59:09' (in traces '2026-11-21 9:59:09:027'), or RFC 3339 with milliseconds.",
        ("local",) + ("RFC 3339",) * 4,
        "live",
    ),
    Row(
        "long_queue_names_refused",
        "Names of queues longer than 255 bytes are refused; before, such queues come to be.",
        (False, True, True, True, True),
        "live; rabbit_mgmt_wm_queue.erl accept_content",
    ),
    Row(
        "missing_targets",
        "Publishing to an exchange and getting from a queue that do not exist, or in such a virtual host: what"
        " AMQP says of it, or 404 with exchange_not_found, queue_not_found, vhost_not_found. Actions on such a queue"
        " crash, or 404.",
        ("said by AMQP", "said by AMQP", "not found", "not found", "not found"),
        "live; rabbit_mgmt_wm_queue_get.erl raise_not_found (3.13.7)",
    ),
    Row(
        "unknown_ackmode",
        "Getting messages with an unknown ackmode.",
        ("crashes",) * 4 + ("refused",),
        "live; rabbit_mgmt_wm_queue_get.erl parse_ackmode",
    ),
    Row(
        "get_requeues_by",
        "How messages that were only looked at go back to their queue, which counts them as returned in some way.",
        ("closing the channel", "closing the channel", "basic.nack", "basic.nack", "basic.nack"),
        "rabbit_mgmt_wm_queue_get.erl maybe_return (3.13.7 on)",
    ),
    Row(
        "mirroring_actions",
        "The actions sync and cancel_sync of a queue.",
        (True, True, True, False, False),
        "live; rabbit_mgmt_wm_queue_actions.erl (3.13.7)",
    ),
    Row(
        "policy_refusals_escaped",
        "The refusal of a policy is escaped for HTML.",
        (True, True, True, True, False),
        "live; rabbit_mgmt_wm_policy.erl",
    ),
    Row(
        "unknown_node",
        "What is said of a node that is not in the cluster.",
        ("could not be contacted",) * 4 + ("not a member",),
        "live",
    ),
    Row(
        "trace_key_order",
        "Order of the keys in a JSON trace log.",
        ("alphabetical", "alphabetical", "alphabetical", "of the map", "of the map"),
        "live; OTP 26 changed the order of small maps, 3.13 may run on either",
    ),
    Row(
        "aliveness_test_declares",
        "aliveness-test declares the queue aliveness-test, and leaves it.",
        (True, True, True, True, False),
        "live; rabbit_mgmt_wm_aliveness_test.erl",
    ),
    Row(
        "health_checks",
        "What can be asked under /api/health/checks.",
        (_NO_CHECKS, _CHECKS_310, _CHECKS_310, _CHECKS_40, _CHECKS_43),
        "live; rabbit_mgmt_dispatcher.erl",
    ),
    Row(
        "protocol_listener",
        "The check protocol-listener takes one protocol, or several with commas, and answers accordingly.",
        ("one protocol",) * 4 + ("several protocols",),
        "live",
    ),
    Row("version_endpoint", "GET /api/version.", (False, False, False, True, True), "live"),
    Row("hash_password_endpoint", "GET /api/auth/hash_password.", (False, False, True, True, True), "live"),
    Row("deprecated_features", "GET /api/deprecated-features.", (False, False, True, True, True), "live"),
    Row(
        "detailed_queues",
        "GET /api/queues/detailed lists the queues of all virtual hosts.",
        (False, False, True, True, True),
        "live; rabbit_mgmt_dispatcher.erl",
    ),
    Row(
        "state_without_stats",
        "A queue's state with disable_stats=true.",
        ("live", "live", "running", "running", "running"),
        "live; rabbit_classic_queue.erl format (3.13.7)",
    ),
    Row(
        "policies_without_stats",
        "Queues show their policies with disable_stats=true.",
        (False, False, False, False, True),
        "live",
    ),
    Row(
        "backing_queue_status",
        "Classic queues have backing_queue_status and recoverable_slaves.",
        (True, True, False, False, False),
        "live; rabbit_mgmt_format.erl format_queue_stats (3.13.7)",
    ),
    Row(
        "storage_version",
        "Classic queues have storage_version.",
        (False, False, True, True, True),
        "live; rabbit_mgmt_format.erl format_queue_stats (3.13.7)",
    ),
    Row(
        "paged_out",
        "Classic queues count messages_paged_out and message_bytes_paged_out.",
        (True, True, True, True, False),
        "live",
    ),
    Row(
        "internal_queues",
        "Queues have internal and internal_owner.",
        (False, False, False, False, True),
        "live",
    ),
    Row(
        "consumer_capacity",
        "Queues have consumer_capacity beside consumer_utilisation.",
        (False, True, True, True, True),
        "live",
    ),
    Row(
        "idle_consumer_utilisation",
        "consumer_utilisation of a classic queue without consumers.",
        (None, 0, 0, 0, 0),
        "live",
    ),
    Row(
        "quorum_single_active_consumer",
        "The name of the field for a quorum queue's single active consumer.",
        ("single_active_consumer_ctag",) * 2 + ("single_active_consumer_tag",) * 3,
        "live; rabbit_quorum_queue.erl STATISTICS_KEYS (3.13.7)",
    ),
    Row(
        "quorum_delivery_limit",
        "Quorum queues show the delivery limit in force.",
        (False, False, False, True, True),
        "live",
    ),
    Row(
        "brief_lists",
        "Lists of queues leave out what is null; /api/queues/detailed does not, nor does naming columns.",
        (False, False, True, True, True),
        "live; rabbit_mgmt_wm_queues.erl augment (3.13.7)",
    ),
    Row(
        "quorum_in_memory",
        "Quorum queues count their messages in messages_ram.",
        (True, False, False, False, False),
        "live",
    ),
    Row("stream_leader", "Streams show their leader.", (False, False, True, True, True), "live"),
    Row(
        "stream_segments",
        "Streams count their segments.",
        (False, False, True, True, True),
        "live; rabbit_stream_queue.erl INFO_KEYS (3.13.7)",
    ),
    Row(
        "global_prefetch_shown",
        "Channels have global_prefetch_count.",
        (True, True, True, False, False),
        "live",
    ),
    Row(
        "consumer_timeout_shown",
        "Consumers have consumer_timeout.",
        (False, False, True, True, True),
        "live; rabbit_mgmt_data.erl consumer_timeout (3.13.7)",
    ),
    Row("cached_segments_shown", "Channels have cached_segments.", (False, False, False, False, True), "live"),
    Row(
        "peer_certificate_serial",
        "Connections have peer_cert_serial_number.",
        (False, False, False, False, True),
        "live",
    ),
    Row(
        "overview_facts",
        "What the overview says besides, which is the same for all fresh nodes.",
        (
            {},
            {"release_series_support_status": "supported"},
            {"release_series_support_status": "supported", "is_op_policy_updating_enabled": True},
            _OVERVIEW_40,
            {**_OVERVIEW_40, "crypto_lib_version": "none", "require_definition_json_extension": False},
        ),
        "live; rabbit_mgmt_wm_overview.erl to_json (3.13.7)",
    ),
    Row("listener_facts", "Listeners say whether they use TLS.", ({},) * 4 + ({"tls": False},), "live"),
    Row(
        "node_versions",
        "Nodes tell their versions.",
        (frozenset(),) * 4 + (frozenset({"rabbitmq_version", "erlang_version", "erlang_full_version"}),),
        "live",
    ),
    Row(
        "nodes_can_be_drained",
        "Nodes have being_drained.",
        (False, False, True, True, True),
        "live; rabbit_mgmt_db.erl (3.13.7)",
    ),
    Row(
        "whole_import_refusals",
        "What is said of a refused import that is not into one virtual host: Erlang terms as JSON, or texts.",
        ("terms", "terms", "texts", "texts", "texts"),
        "live; rabbit_definitions.erl apply_defs (3.13.7)",
    ),
    Row(
        "definitions_say_of_what",
        "Exports say what they are of: rabbitmq_definition_format, original_cluster_name and so on.",
        (False, False, False, True, True),
        "live; rabbit_mgmt_wm_definitions.erl",
    ),
    Row(
        "definitions_vhost_fields",
        "What an export says of a virtual host.",
        (("name",), ("name",), _VHOST_FIELDS, _VHOST_FIELDS, ("name", "metadata", "limits")),
        "live; rabbit_mgmt_wm_definitions.erl rw_state (3.13.7)",
    ),
    Row(
        "definitions_internal_exchanges",
        "Exports contain internal exchanges, and the field internal.",
        (True, True, True, True, False),
        "live; rabbit_definitions.erl list_exchanges",
    ),
    Row(
        "definitions_queue_type",
        "Exported queues have a field type.",
        (False, False, False, False, True),
        "live; rabbit_definitions.erl queue_definition",
    ),
    Row(
        "single_vhost_definitions_name_it",
        "The export of one virtual host names it in policies and parameters all the same.",
        (True, True, False, False, False),
        "live; rabbit_mgmt_wm_definitions.erl strip_vhost (3.13.7)",
    ),
    Row(
        "single_vhost_definitions_no_limits",
        "The limits in the export of one virtual host that has none.",
        ([], [], [], [], {}),
        "live for 4.0 and 4.3; older exports have no limits",
    ),
    Row(
        "single_vhost_definitions_default_queue_type",
        "The export of one virtual host has default_queue_type beside its metadata.",
        (False, False, False, True, False),
        "live",
    ),
    Row(
        "initial_global_parameters",
        "Global parameters that a fresh node has.",
        ({}, {}, {}, {"cluster_tags": []}, {"cluster_tags": []}),
        "live",
    ),
)


def _api(column: int) -> Api:
    return Api(name=RELEASES[column], **{row.name: row.values[column] for row in TABLE})


_BY_NAME = {name: _api(column) for column, name in enumerate(RELEASES)}


def api_of(release: str) -> Api:
    """The management API of the release of that name, such as ``"4.3"``."""
    return _BY_NAME[release]
