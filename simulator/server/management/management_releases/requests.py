"""The resources that the management API has, and what they make of a request."""

from __future__ import annotations

from typing import Literal

from dlx.releases.rows import changed, since

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
_NONE: frozenset[str] = frozenset()


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
