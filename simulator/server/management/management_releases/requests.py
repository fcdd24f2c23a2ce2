"""The resources that the management API has, and what they make of a request."""

from __future__ import annotations

from typing import Literal

from dlx.releases.rows import changed, since

_CHECKS_310 = frozenset(
    {"alarms", "local-alarms", "virtual-hosts", "port-listener", "protocol-listener"}
    | {"certificate-expiration", "node-is-quorum-critical", "node-is-mirror-sync-critical"}
)
_CHECKS_40 = _CHECKS_310 - {"node-is-mirror-sync-critical"}
_CHECKS_43 = _CHECKS_40 | {
    "is-in-service", "ready-to-serve-clients", "below-node-connection-limit", "reached-target-cluster-size",
    "metadata-store", "quorum-queues-without-elected-leaders",
}


class Requests:
    """The resources that the management API has, and what they make of a request."""

    allow_header: Literal["when refused", "always"] = since(
        "4.3", "always", before="when refused",
        meaning=(
            "The header Allow names the methods of a resource: where one is refused and for OPTIONS, or in every"
            " answer."
        ),
        evidence="live",
    )
    empty_bodies: frozenset[str] = since(
        "3.10", frozenset({"null"}), before=frozenset({"[]"}),
        meaning="JSON texts that count as an empty object.",
        evidence="live; rabbit_mgmt_util.erl decode",
    )
    page_out_of_range: Literal["empty", "refused"] = since(
        "3.10", "refused", before="empty",
        meaning="How a page after the last one is answered.",
        evidence="live; rabbit_mgmt_util.erl sublist",
    )
    broken_name_filter: Literal["refused", "matches nothing"] = since(
        "4.3", "matches nothing", before="refused",
        meaning="How a name filter that is not a regular expression is answered.",
        evidence="live",
    )
    unknown_default_queue_type: Literal["all are ignored", "crashes", "refused"] = changed(
        {"3.13": "crashes", "4.3": "refused"}, before="all are ignored",
        meaning=(
            "How the PUT of a virtual host with an unknown default queue type is answered; before 3.11 virtual hosts"
            " have no default at all."
        ),
        evidence="live; rabbit_vhost.erl do_add (3.13.7)",
    )
    vhost_metadata: bool = since(
        "3.10", True, before=False,
        meaning="The PUT of a virtual host that exists changes its description and tags.",
        evidence="live",
    )
    long_queue_names_refused: bool = since(
        "3.10", True, before=False,
        meaning="Queue names longer than 255 bytes are refused; otherwise such queues are created.",
        evidence="live; rabbit_mgmt_wm_queue.erl accept_content",
    )
    missing_targets: Literal["said by AMQP", "not found"] = since(
        "3.13", "not found", before="said by AMQP",
        meaning=(
            "How publishing to an exchange or getting from a queue that does not exist, or in such a virtual host, is"
            " answered: with what AMQP says, or 404 with exchange_not_found, queue_not_found or vhost_not_found."
            " Actions on such a queue crash, or are answered with 404."
        ),
        evidence="live; rabbit_mgmt_wm_queue_get.erl raise_not_found (3.13.7)",
    )
    unknown_ackmode: Literal["crashes", "refused"] = since(
        "4.3", "refused", before="crashes",
        meaning="How getting messages with an unknown ackmode is answered.",
        evidence="live; rabbit_mgmt_wm_queue_get.erl parse_ackmode",
    )
    get_requeues_by: Literal["closing the channel", "basic.nack"] = since(
        "3.13", "basic.nack", before="closing the channel",
        meaning=(
            "How messages that were only looked at return to their queue, which counts them as returned in that way."
        ),
        evidence="rabbit_mgmt_wm_queue_get.erl maybe_return (3.13.7 on)",
    )
    mirroring_actions: bool = since(
        "4.0", False, before=True,
        meaning="A queue has the actions sync and cancel_sync.",
        evidence="live; rabbit_mgmt_wm_queue_actions.erl (3.13.7)",
    )
    policy_refusals_escaped: bool = since(
        "4.3", False, before=True,
        meaning="The refusal of a policy is escaped for HTML.",
        evidence="live; rabbit_mgmt_wm_policy.erl",
    )
    unknown_node: Literal["could not be contacted", "not a member"] = since(
        "4.3", "not a member", before="could not be contacted",
        meaning="How a node that is not in the cluster is answered.",
        evidence="live",
    )
    detailed_queues: bool = since(
        "3.13", True, before=False,
        meaning="GET /api/queues/detailed lists the queues of all virtual hosts.",
        evidence="live; rabbit_mgmt_dispatcher.erl",
    )
    brief_lists: bool = since(
        "3.13", True, before=False,
        meaning="Lists of queues leave out what is null; /api/queues/detailed does not, nor does naming columns.",
        evidence="live; rabbit_mgmt_wm_queues.erl augment (3.13.7)",
    )
    version_endpoint: bool = since(
        "4.0", True, before=False,
        meaning="There is GET /api/version.",
        evidence="live",
    )
    deprecated_features: bool = since(
        "3.13", True, before=False,
        meaning="There is GET /api/deprecated-features.",
        evidence="live",
    )
    aliveness_test_declares: bool = since(
        "4.3", False, before=True,
        meaning="aliveness-test declares the queue aliveness-test and leaves it there.",
        evidence="live; rabbit_mgmt_wm_aliveness_test.erl",
    )
    health_checks: frozenset[str] = changed(
        {"3.10": _CHECKS_310, "4.0": _CHECKS_40, "4.3": _CHECKS_43}, before=frozenset(),
        meaning="The checks under /api/health/checks.",
        evidence="live; rabbit_mgmt_dispatcher.erl",
    )
    protocol_listener: Literal["one protocol", "several protocols"] = since(
        "4.3", "several protocols", before="one protocol",
        meaning="The check protocol-listener takes one protocol, or several with commas.",
        evidence="live",
    )
