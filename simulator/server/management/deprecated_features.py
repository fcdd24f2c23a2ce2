"""``/api/deprecated-features``: which features are deprecated, and which of them are in use.

Source: rabbit_mgmt_wm_deprecated_features.erl; rabbit_depr_ff_extra.erl.
"""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from simulator.server.management import listing
from simulator.server.management.http_errors import json_response
from simulator.server.management.management_releases.deprecations import PERMITTED
from simulator.server.management.request import Request
from simulator.server.management.resources import Resource

_OF_AGENT = "management_metrics_collection"
_ANNOUNCED = "https://blog.rabbitmq.com/posts/2021/08/4.0-deprecation-announcements/#"
_DOCUMENTS = {
    "amqp_filter_set_bug": (
        "https://docs.oasis-open.org/amqp/core/v1.0/os/amqp-core-messaging-v1.0-os.html#type-filter-set"
    ),
    "classic_queue_mirroring": f"{_ANNOUNCED}removal-of-classic-queue-mirroring",
    "global_qos": f"{_ANNOUNCED}removal-of-global-qos",
    "management_metrics_collection": f"{_ANNOUNCED}disable-metrics-delivery-via-the-management-api--ui",
    "ram_node_type": f"{_ANNOUNCED}removal-of-ram-nodes",
    "transient_nonexcl_queues": f"{_ANNOUNCED}removal-of-transient-non-exclusive-queues",
}


def _feature(name: str, request: Request) -> dict[str, Any]:
    return {
        "name": name,
        "desc": "",
        "deprecation_phase": request.api.deprecated_features[name],
        "doc_url": _document(name, request),
        "provided_by": "rabbitmq_management_agent" if name == _OF_AGENT else "rabbit",
    }


def _document(name: str, request: Request) -> str:
    if name == "amqp_address_v1":
        return f"https://www.rabbitmq.com/{request.api.deprecated_addresses_document}"
    return _DOCUMENTS.get(name, "")


def _all(request: Request) -> Response:
    features = [_feature(name, request) for name in request.api.deprecated_features]
    if request.api.deprecation_states:
        for feature in features:
            feature["state"] = "permitted" if feature["deprecation_phase"] == PERMITTED else "denied"
    listing.page_or_crash(request)
    return json_response(features)


def _used(request: Request) -> Any:
    vhosts = request.broker.vhosts.values()
    queues = [queue.definition for vhost in vhosts for queue in vhost.queues.values()]
    policies = [policy for vhost in vhosts for policy in vhost.policies.values()]
    used = {
        "transient_nonexcl_queues": any(not queue.durable and not queue.exclusive for queue in queues),
        "classic_queue_mirroring": any("ha-mode" in policy.definition for policy in policies),
    }
    return [_feature(name, request) for name, is_used in used.items() if is_used]


RESOURCES = (
    Resource("/deprecated-features", _all, offered=lambda api: bool(api.deprecated_features)),
    Resource("/deprecated-features/used", _used, offered=lambda api: bool(api.deprecated_features)),
)
