"""The deprecated features that the management API lists."""

from __future__ import annotations

from dlx.releases.rows import changed, since

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
