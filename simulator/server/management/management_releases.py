"""The differences between RabbitMQ releases in the management API, by subject.

The same two rules as for ``dlx.releases``: every difference that is known
stands here, and code asks for the behaviour (``api.brief_lists``), never for a
version. ``dlx.releases`` has the differences of the broker itself.

"live" means that servers of all ten releases answered calls that decide it
(``tests/management/recorded``), or were asked directly; they had the plugins management
and tracing. "four live" means observed on servers of 3.8.9, 3.10.8, 4.0.5 and 4.3.6: the
other releases were read from the source of 3.9.29, 3.11.28, 3.12.14, 3.13.7, 4.1.8 and
4.2.9, in the files that the evidence names. ``undecided`` names releases for which nothing decides.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import msgspec

from dlx.releases import Release
from dlx.releases.rows import changed, rows_of, since, subjects_of, with_behaviours

_LIST: list[Any] | dict[str, Any] = []
_MAP: list[Any] | dict[str, Any] = {}
_NONE: frozenset[str] = frozenset()


class AccessRows:
    """Who may use the management API, how a login is refused, and what is said of users."""

    login_refusal: tuple[str, str] = changed(
        {
            "3.9": ("not_authorized", "Login failed"),
            "3.11": ("not_authorized", "Not_Authorized"),
        },
        before=("not_authorised", "Login failed"),
        meaning="The error and reason when user and password do not match.",
        evidence="live; rabbit_web_dispatch_access_control.erl not_authenticated",
    )
    login_refusal_challenges: bool = changed(
        {"3.9": True, "3.13": False}, before=False,
        meaning="That refusal has the header WWW-Authenticate.",
        evidence=(
            "four live; rabbit_mgmt_util.erl not_authenticated (3.9.29), rabbit_web_dispatch_access_control.erl"
            " not_authenticated"
        ),
    )
    hidden_vhost: Literal["refused", "not found"] = since(
        "4.2", "not found", before="refused",
        meaning="How a virtual host that the user may not enter is answered: 401, or 404 as if it did not exist.",
        evidence="live; rabbit_web_dispatch_access_control.erl user_matches_vhost",
    )
    users_say_whether_internal: bool = since(
        "3.13", True, before=False,
        meaning="whoami has is_internal_user.",
        evidence="live; rabbit_mgmt_format.erl user",
    )
    unknown_user_in_bulk_delete: Literal["refused", "ignored"] = since(
        "3.12", "ignored", before="refused",
        meaning="How bulk-delete of users treats a name that does not exist.",
        evidence="live; rabbit_auth_backend_internal.erl delete_user",
    )
    auth_settings: dict[str, Any] | None = changed(
        {
            "3.11": {"oauth_enabled": False},
            "4.2": None,
        },
        before={"enable_uaa": False, "uaa_client_id": "", "uaa_location": ""},
        meaning="The answer to GET /api/auth; from 4.2 on the resource does not exist.",
        evidence="live; rabbit_mgmt_wm_auth.erl authSettings",
    )
    hash_password_endpoint: bool = since(
        "3.11", True, before=False,
        meaning="There is GET /api/auth/hash_password.",
        evidence="live, asked directly; rabbit_mgmt_dispatcher.erl",
    )


_CHECKS_39 = frozenset(
    {"alarms", "local-alarms", "virtual-hosts", "port-listener", "protocol-listener"}
    | {"certificate-expiration", "node-is-quorum-critical", "node-is-mirror-sync-critical"}
)
_CHECKS_40 = _CHECKS_39 - {"node-is-mirror-sync-critical"}
_CONNECTION_CHECKS = frozenset({"ready-to-serve-clients", "below-node-connection-limit"})
_CHECKS_41 = (
    _CHECKS_40 | _CONNECTION_CHECKS | {"is-in-service", "metadata-store", "quorum-queues-without-elected-leaders"}
)
_CHECKS_42 = _CHECKS_41 | {"reached-target-cluster-size"}


class RequestRows:
    """The resources that the management API has, and what they make of a request."""

    allow_header: Literal["when refused", "always"] = since(
        "4.1", "always", before="when refused",
        meaning=(
            "The header Allow names the methods of a resource: where one is refused and for OPTIONS, or in every"
            " answer."
        ),
        evidence="four live; cowboy_rest.erl allowed_methods (from Cowboy 2.13, which 4.1.8 uses)",
    )
    paths_with_reserved_characters: Literal["not found", "refused"] = since(
        "3.9", "refused", before="not found",
        meaning=(
            "How a path without a resource and with an escaped slash, backslash or NUL in it is answered: 404, or"
            " 400 without a body."
        ),
        evidence="live, asked directly; cowboy_static.erl validate_reserved (from Cowboy 2.8, which 3.9.29 uses)",
    )
    names_in_reasons: Literal["any", "ASCII"] = since(
        "4.0", "ASCII", before="any",
        meaning=(
            "The names and values that the reason of a refusal may hold: any, or ASCII alone; others make the request"
            " fail with 500, such as the PUT of a queue that exists as another one, with a name that is not ASCII."
        ),
        evidence="3.8, 3.10, 4.0 and 4.3 live; rabbit_mgmt_util.erl bad_request_exception",
        undecided=("3.11", "3.12", "3.13"),
    )
    lists_of_arguments_taken: frozenset[str] = changed(
        {"3.10": frozenset({"exchange", "binding"}), "4.0": frozenset({"exchange"})},
        before=frozenset({"exchange", "binding", "queue"}),
        meaning=(
            "What takes a JSON list for its arguments, which no argument is found in and none is shown of; others fail."
        ),
        evidence="3.8, 3.10, 4.0 and 4.3 live; 3.10 also takes one for a queue that exists, which is not done here",
        undecided=("3.9", "3.11", "3.12", "3.13"),
    )
    empty_bodies: frozenset[str] = changed(
        {"3.9": frozenset({"null"}), "3.10": frozenset({"null", "true", "false"}), "4.0": frozenset({"null"})},
        before=frozenset({"[]"}),
        meaning="JSON texts that count as an empty object.",
        evidence="live for null and []; 3.8, 3.10, 4.0 and 4.3 live for true and false; rabbit_mgmt_util.erl decode",
        undecided=("3.11", "3.12", "3.13"),
    )
    page_out_of_range: Literal["empty", "refused"] = since(
        "3.9", "refused", before="empty",
        meaning="How a page after the last one is answered.",
        evidence="live; rabbit_mgmt_util.erl sublist",
    )
    users_in_pages: bool = since(
        "4.0", True, before=False,
        meaning="The lists of users have pages, as have queues, exchanges, virtual hosts, connections and channels.",
        evidence="3.8, 3.10, 4.0 and 4.3 live; rabbit_mgmt_wm_users.erl to_json",
        undecided=("3.11", "3.12", "3.13"),
    )
    vhosts_listed: Literal["as asked for", "whole"] = since(
        "4.0", "whole", before="as asked for",
        meaning=(
            "How virtual hosts are listed: by the columns and the page that the query asks for; or whole, where asking"
            " for a page fails."
        ),
        evidence="3.8, 3.10, 4.0 and 4.3 live; rabbit_mgmt_wm_vhosts.erl to_json, rabbit_queue_type.erl inject_dqt",
        undecided=("3.11", "3.12", "3.13"),
    )
    definitions_by_columns: bool = since(
        "4.3", False, before=True,
        meaning="An export has only the columns that the query names.",
        evidence="3.8, 3.10, 4.0 and 4.3 live",
        undecided=("4.1", "4.2"),
    )
    health_checks_by_columns: bool = since(
        "4.3", False, before=True,
        meaning="The answer of a health check, or of aliveness-test, has only the columns that the query names.",
        evidence="3.8, 3.10, 4.0 and 4.3 live",
        undecided=("4.1", "4.2"),
    )
    unknown_sort_reverse: Literal["crashes", "counts as false"] = since(
        "4.3", "counts as false", before="crashes",
        meaning="What a sort_reverse that is neither true nor false does, if there is anything to sort.",
        evidence="3.8, 3.10, 4.0 and 4.3 live; rabbit_mgmt_util.erl get_sort_reverse, maybe_reverse",
        undecided=("4.1", "4.2"),
    )
    broken_name_filter: Literal["refused", "matches nothing"] = since(
        "4.2", "matches nothing", before="refused",
        meaning="How a name filter that is not a regular expression is answered.",
        evidence="live",
    )
    default_queue_type_keys: tuple[str, ...] = changed(
        {"3.10": ("defaultqueuetype",), "3.11": ("default_queue_type", "defaultqueuetype")}, before=(),
        meaning="The keys in which the PUT of a virtual host names its default queue type; the first one wins.",
        evidence="live, 3.10 asked directly; rabbit_mgmt_wm_vhost.erl accept_content",
    )
    default_queue_type_set: Literal["when created", "by every PUT", "when named"] = changed(
        {"3.11": "by every PUT", "4.0": "when named", "4.1": "by every PUT"}, before="when created",
        meaning=(
            "When the PUT of a virtual host sets its default queue type: when it creates it; always, to none where it"
            ' names none (until 3.13 the metadata say"undefined" from then on); or when it names one.'
        ),
        evidence=(
            "live for the metadata until 3.13, and for 3.10, 4.0 and 4.3; rabbit_vhost.erl update (3.11.28, 3.12.14,"
            " 3.13.7), vhost.erl new_metadata (4.0.5, 4.1.8, 4.2.9)"
        ),
    )
    unknown_default_queue_type: Literal["fails", "crashes", "refused"] = changed(
        {"3.13": "crashes", "4.2": "refused"}, before="fails",
        meaning=(
            "How the PUT of a virtual host with an unknown default queue type is answered: 500 with a reason, 500"
            " without, or 400."
        ),
        evidence=(
            "live for 3.10, 4.0 and 4.3; rabbit_vhost.erl do_add, rabbit_mgmt_wm_vhost.erl accept_content. A virtual"
            " host that exists takes one in 4.0, which is not done here; 3.11 to 3.13 and 4.1 were not asked for that"
        ),
    )
    vhost_metadata: bool = since(
        "3.9", True, before=False,
        meaning="The PUT of a virtual host that exists changes its description and tags.",
        evidence="live",
    )
    long_queue_names_refused: bool = since(
        "3.9", True, before=False,
        meaning="Queue names longer than 255 bytes are refused; otherwise such queues are created.",
        evidence="live; rabbit_mgmt_wm_queue.erl accept_content",
    )
    missing_targets: Literal["said by AMQP", "not found"] = since(
        "3.13", "not found", before="said by AMQP",
        meaning=(
            "How publishing to an exchange or getting from a queue that does not exist is answered: with what AMQP"
            " says, or 404 with exchange_not_found or queue_not_found. Actions on such a queue crash, or are answered"
            " with 404."
        ),
        evidence="live; rabbit_mgmt_wm_queue_get.erl raise_not_found",
    )
    missing_vhost: Literal["refused", "crashes", "not found"] = changed(
        {"3.12": "crashes", "3.13": "not found"}, before="refused",
        meaning=(
            "How publishing and getting in a virtual host that does not exist are answered: 401, 500, or 404 with"
            " vhost_not_found."
        ),
        evidence="live; rabbit_mgmt_util.erl with_channel",
    )
    unknown_ackmode: Literal["crashes", "refused"] = since(
        "4.2", "refused", before="crashes",
        meaning="How getting messages with an unknown ackmode is answered.",
        evidence="live; rabbit_mgmt_wm_queue_get.erl parse_ackmode",
    )
    get_requeues_by: Literal["closing the channel", "basic.nack"] = since(
        "3.11", "basic.nack", before="closing the channel",
        meaning=(
            "How messages that a client only peeks at return to their queue, which counts them as returned that way."
        ),
        evidence="rabbit_mgmt_wm_queue_get.erl maybe_return (3.11.28 on)",
    )
    mirroring_actions: bool = since(
        "4.0", False, before=True,
        meaning="A queue has the actions sync and cancel_sync.",
        evidence="live; rabbit_mgmt_wm_queue_actions.erl",
    )
    policy_refusals_escaped: bool = since(
        "4.2", False, before=True,
        meaning="The refusal of a policy is escaped for HTML.",
        evidence="live; rabbit_mgmt_wm_policy.erl",
    )
    unknown_node_in_body: Literal["could not be contacted", "not a member"] = since(
        "4.2", "not a member", before="could not be contacted",
        meaning="How a declaration that names a node that is not in the cluster is refused.",
        evidence="live",
    )
    unknown_node_in_path: Literal["could not be contacted", "not a member"] = since(
        "4.3", "not a member", before="could not be contacted",
        meaning="How the traces and logs of a node that is not in the cluster are refused.",
        evidence="live",
    )
    detailed_queues: bool = since(
        "3.13", True, before=False,
        meaning="GET /api/queues/detailed lists the queues of all virtual hosts.",
        evidence="four live; rabbit_mgmt_dispatcher.erl",
    )
    brief_lists: bool = since(
        "3.13", True, before=False,
        meaning="Lists of queues leave out what is null; /api/queues/detailed does not, nor does naming columns.",
        evidence="four live; rabbit_mgmt_wm_queues.erl augment",
    )
    version_endpoint: bool = since(
        "4.0", True, before=False,
        meaning="There is GET /api/version.",
        evidence="live",
    )
    sessions_endpoint: bool = since(
        "4.1", True, before=False,
        meaning="There is GET /api/connections/NAME/sessions, for the sessions and links of AMQP 1.0.",
        evidence="4.0 and 4.3 live; rabbit_mgmt_dispatcher.erl (4.1.0)",
    )
    hidden_of_amqp10_connections: frozenset[str] = since(
        "4.1", _NONE, before=frozenset({"channels", "container_id", "send_pend", "state"}),
        meaning="What a connection of AMQP 1.0 does not show that others show, or that later releases show.",
        evidence="4.0 and 4.3 live",
    )
    missing_channels_are_objects: bool = since(
        "4.1", True, before=False,
        meaning="GET /api/consumers shows the channel that a link of AMQP 1.0 has not as {}, and not as [].",
        evidence="4.0 and 4.3 live; rabbit_mgmt_format.erl format_consumer_arguments (4.1.0)",
    )
    stream_consumers_active: bool = since(
        "4.1", True, before=False,
        meaning="A consumer of a stream is shown as active.",
        evidence="3.10, 4.0 and 4.3 live; rabbit_stream_queue.erl consume (3.11.0 to 4.1.0)",
    )
    fields_of_links: frozenset[str] = changed(
        {"4.2": frozenset({"filter"}), "4.3": frozenset({"filter", "consumer_timeout"})}, before=_NONE,
        meaning="What a session's outgoing links show besides the fields of 4.1.",
        evidence="4.3 live; rabbit_amqp_session.erl info_outgoing_link (4.1.0, 4.2.0, 4.3.5)",
    )
    aliveness_test_declares: bool = since(
        "4.1", False, before=True,
        meaning="aliveness-test declares the queue aliveness-test and leaves it there.",
        evidence="live; rabbit_mgmt_wm_aliveness_test.erl",
    )
    health_checks: frozenset[str] = changed(
        {"3.9": _CHECKS_39, "4.0": _CHECKS_40, "4.1": _CHECKS_41, "4.2": _CHECKS_42}, before=_NONE,
        meaning="The checks under /api/health/checks.",
        evidence="live, except for virtual-hosts and reached-target-cluster-size; rabbit_mgmt_dispatcher.erl",
    )
    crashing_health_checks: frozenset[str] = changed(
        {"4.1": _CONNECTION_CHECKS, "4.2": _NONE}, before=_NONE,
        meaning="The checks among these that answer 500, whatever the state of the node.",
        evidence="live",
    )
    unknown_shovels_deleted: bool = since(
        "4.0", True, before=False,
        meaning="DELETE of a shovel's state succeeds though there is no shovel of that name.",
        evidence="3.8, 3.10, 4.0 and 4.3 live",
        undecided=("3.11", "3.12", "3.13"),
    )
    shovel_answer: Literal["state in a list", "parameter"] = since(
        "4.0", "parameter", before="state in a list",
        meaning="What GET of one shovel answers: its state, as the only one of a list, or its parameter.",
        evidence="3.8, 3.10, 4.0 and 4.3 live",
        undecided=("3.11", "3.12", "3.13"),
    )
    shovels_changed_by: Literal["monitors", "policymakers"] = since(
        "4.3", "policymakers", before="monitors",
        meaning="Whose tag lets a user delete and restart a shovel; monitors see it in every release.",
        evidence="3.8, 3.10, 4.0 and 4.3 live",
        undecided=("3.11", "3.12", "3.13", "4.1", "4.2"),
    )
    shovel_state_fields: frozenset[str] = changed(
        {
            "4.0": frozenset({"blocked_status"}),
            "4.3": frozenset({"blocked_status", "forwarded", "pending", "remaining", "remaining_unacked"}),
        },
        before=_NONE,
        meaning="What a running shovel's state tells besides its addresses: whether it is blocked, and what it counts.",
        evidence="3.8, 3.10, 4.0 and 4.3 live",
        undecided=("3.11", "3.12", "3.13", "4.1", "4.2"),
    )
    protocol_listener: Literal["one protocol", "several protocols"] = since(
        "4.1", "several protocols", before="one protocol",
        meaning="The check protocol-listener takes one protocol, or several with commas.",
        evidence="live",
    )


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


_VHOST_FIELDS = ("name", "description", "tags", "metadata")


class DefinitionCallRows:
    """Export and import of definitions through the management API."""

    whole_import_refusals: Literal["terms", "texts"] = since(
        "3.13", "texts", before="terms",
        meaning="How an import for the whole broker is refused: with Erlang terms as JSON, or with texts.",
        evidence="live; rabbit_definitions.erl apply_defs",
    )
    definitions_say_of_what: bool = since(
        "4.0", True, before=False,
        meaning="An export says what it is an export of: rabbitmq_definition_format, original_cluster_name and so on.",
        evidence="live; rabbit_mgmt_wm_definitions.erl",
    )
    definitions_vhost_fields: tuple[str, ...] = changed(
        {
            "3.13": (*_VHOST_FIELDS, "default_queue_type"),
            "4.1": _VHOST_FIELDS,
            "4.2": ("name", "metadata", "limits"),
        },
        before=("name",),
        meaning="The fields of a virtual host in an export.",
        evidence=(
            "four live; rabbit_mgmt_wm_definitions.erl rw_state (until 4.1), rabbit_definitions.erl vhost_definition"
        ),
    )
    definitions_queue_type: bool = since(
        "4.2", True, before=False,
        meaning="Exported queues have a field type.",
        evidence="live; rabbit_definitions.erl queue_definition",
    )
    single_vhost_definitions_name_it: bool = since(
        "3.11", False, before=True,
        meaning="The export of one virtual host still names it in policies and parameters.",
        evidence="live; rabbit_mgmt_wm_definitions.erl strip_vhost",
    )
    single_vhost_definitions_no_limits: list[Any] | dict[str, Any] = since(
        "4.2", _MAP, before=_LIST,
        meaning="The limits in the export of a virtual host that has none.",
        evidence="live; exports until 3.13 have no limits",
    )
    single_vhost_definitions_default_queue_type: bool = changed(
        {"4.0": True, "4.1": False}, before=False,
        meaning="The export of one virtual host has default_queue_type beside its metadata.",
        evidence="live",
    )
    download_names: Literal["tokens", "any"] = since(
        "4.3", "tokens", before="any",
        meaning="The names of files that ?download= takes: only names that need no quotes in a header, or all.",
        evidence="four live",
        undecided=("4.1", "4.2"),
    )
    definitions_internal_parameters: bool = since(
        "4.2", False, before=True,
        meaning="Exports contain the global parameters whose names begin with internal.",
        evidence="four live; rabbit_mgmt_wm_definitions.erl (4.1.8, 4.2.9); rabbit_definitions.erl",
    )




class LimitCallRows:
    """Limits of virtual hosts and users in the management API; ``dlx.releases`` has what they do."""

    limits_of_nobody: Literal["crashes", "not found"] = since(
        "3.12", "not found", before="crashes",
        meaning="How the DELETE of a limit is answered if the virtual host or user does not exist.",
        evidence="four live; rabbit_mgmt_wm_limit.erl, rabbit_mgmt_wm_user_limit.erl delete_resource",
    )
    vhost_limits_cleared: list[Any] | dict[str, Any] = since(
        "3.13", _MAP, before=_LIST,
        meaning="The value in the list of all limits for a virtual host whose limits were all cleared.",
        evidence="four live; rabbit_mgmt_wm_limits.erl limits",
    )
    user_limits_seen_by: Literal["all users", "monitors and the user"] = since(
        "4.2.9", "monitors and the user", before="all users",
        meaning="Who sees the limits of a user; the list for all users is for all, or for administrators.",
        evidence="four live; rabbit_mgmt_wm_user_limits.erl is_authorized",
    )


PERMITTED, DENIED, REMOVED = "permitted_by_default", "denied_by_default", "removed"

_313 = dict.fromkeys(
    (
        "classic_queue_mirroring", "global_qos", "management_metrics_collection", "ram_node_type",
        "transient_nonexcl_queues",
    ), PERMITTED,
)  # fmt: skip
_40 = _313 | {"amqp_address_v1": PERMITTED, "classic_queue_mirroring": REMOVED, "queue_master_locator": PERMITTED}
_41 = _40 | {"amqp_filter_set_bug": PERMITTED}
_DENIED_IN_43 = ("amqp_address_v1", "amqp_filter_set_bug", "global_qos", "queue_master_locator")
_43 = _41 | dict.fromkeys(_DENIED_IN_43, DENIED) | {"ram_node_type": REMOVED}


class DeprecatedFeatureRows:
    """The deprecated features that the management API lists."""

    deprecated_features: dict[str, str] = changed(
        {"3.13": _313, "4.0": _40, "4.1": _41, "4.3": _43}, before={},
        meaning="The deprecated features, and how far each deprecation has come; a release without any has no list.",
        evidence="four live; -rabbit_deprecated_feature in rabbit and rabbitmq_management_agent",
    )
    deprecated_addresses_document: str = since(
        "4.1", "docs/amqp#addresses", before="docs/next/amqp#address",
        meaning="Where the deprecated feature amqp_address_v1 is documented.",
        evidence="four live; rabbit_amqp_session.erl (4.1.8)",
    )
    deprecation_states: bool = since(
        "4.1", True, before=False,
        meaning="The list of all deprecated features says whether each is permitted.",
        evidence="four live; rabbit_depr_ff_extra.erl cli_info0",
    )


@with_behaviours
class Api(
    AccessRows,
    RequestRows,
    FieldRows,
    DefinitionCallRows,
    LimitCallRows,
    DeprecatedFeatureRows,
    msgspec.Struct,
    frozen=True,
    kw_only=True,
):
    """How one release's management API behaves; ``TABLE`` says what each field means and how it is known.

    ``broker`` is how the release behaves apart from that.
    """

    broker: Release


TABLE = rows_of(*subjects_of(Api))


@cache
def api_of(release: Release) -> Api:
    """Return the management API of a release."""
    return Api(broker=release, **{row.name: row.value_in(release.version) for row in TABLE})
