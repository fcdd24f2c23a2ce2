"""``/api/overview``, ``/api/nodes`` and the other resources that describe the server.

Source: rabbit_mgmt_wm_overview.erl, _nodes.erl, _extensions.erl.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from starlette.responses import Response

from dlx.routing import EXCHANGE_TYPES
from dlx.server_plugins import (
    CONSISTENT_HASH,
    DELAYED,
    FEDERATION_UPSTREAM,
    JMS_TOPIC,
    LOCAL_RANDOM,
    MODULUS_HASH,
    RANDOM,
    RECENT_HISTORY,
)
from simulator.broker import VirtualHost
from simulator.broker.commands import DeclareQueue, ResetCounters
from simulator.server.management import access, listing
from simulator.server.management.http_errors import HandlerCrash, bad_request, json_response, object_not_found
from simulator.server.management.internal_connections import getting_channel
from simulator.server.management.management_releases import PERMITTED
from simulator.server.management.message_stats import overall_stats, with_rates
from simulator.server.management.request import Request
from simulator.server.management.resources import Resource, vhost_exists
from simulator.server.node import message_totals, object_totals
from simulator.server.tls import VERSIONS, Tls

# What comes and goes is not counted.
_CHURN = dict.fromkeys(
    (
        "channel_closed", "channel_created", "connection_closed", "connection_created",
        "queue_created", "queue_declared", "queue_deleted",
    ), 0,
)  # fmt: skip
_UNMEASURED = dict.fromkeys(
    (
        "fd_used", "sockets_used", "proc_used", "disk_free", "gc_num", "gc_bytes_reclaimed", "context_switches",
        "io_read_count", "io_read_bytes", "io_read_avg_time", "io_write_count", "io_write_bytes", "io_write_avg_time",
        "io_sync_count", "io_sync_avg_time", "io_seek_count", "io_seek_avg_time", "io_reopen_count",
        "mnesia_ram_tx_count", "mnesia_disk_tx_count", "msg_store_read_count", "msg_store_write_count",
        "queue_index_read_count", "queue_index_write_count",
    ), 0,
)  # fmt: skip


def listeners(request: Request) -> list[dict[str, Any]]:
    """Return the listeners of the node."""
    node, tls = request.node, request.node.tls
    of_tcp = {"backlog": 128, "nodelay": True, "linger": [True, 0], "exit_on_close": False}
    found = [("amqp", node.amqp_port, of_tcp)]
    if tls is not None:
        asking = {"fail_if_no_peer_cert": tls.clients == "required", "verify": _verified(tls)}
        found.append(("amqp/ssl", tls.port, of_tcp | {"versions": VERSIONS} | _files(tls) | asking))
    of_http = {"cowboy_opts": {"sendfile": False}, "ip": "127.0.0.1", "port": _http_port(request)}
    found.append(("http", _http_port(request), of_http))
    if tls is not None and tls.management_port is not None:
        ssl_opts = {**_files(tls), "port": tls.management_port}
        of_https = {"cowboy_opts": {"sendfile": False}, "port": tls.management_port, "ssl": True, "ssl_opts": ssl_opts}
        found.append(("https", tls.management_port, of_https))
    of_metrics = of_http | {"port": node.metrics_port, "protocol": "http/prometheus"}
    found.append(("http/prometheus", node.metrics_port, of_metrics))
    return [
        {
            "node": request.broker.node,
            "protocol": protocol,
            "ip_address": "127.0.0.1",
            "port": port,
            "socket_opts": socket_opts,
            **dict.fromkeys(request.api.listener_fields, protocol in _WITH_TLS),
        }
        for protocol, port, socket_opts in found
        if port
    ]


_WITH_TLS = ("amqp/ssl", "https")


def _files(tls: Tls) -> dict[str, Any]:
    files = {"cacertfile": tls.ca, "certfile": tls.cert, "keyfile": tls.key}
    return {name: file for name, file in files.items() if file is not None}


def _verified(tls: Tls) -> str:
    return "verify_peer" if tls.asks_clients else "verify_none"


def _http_port(request: Request) -> int:
    if request.node.tls is not None:
        return request.node.management_port
    port = request.headers.get("host", "").rpartition(":")[2]
    return int(port) if port.isdigit() else 0


_TYPES = {
    **{name: f"AMQP {name} exchange, as per the AMQP specification" for name in EXCHANGE_TYPES},
    CONSISTENT_HASH: "Consistent Hashing Exchange",
    DELAYED: "Delayed Message Exchange.",
    FEDERATION_UPSTREAM: "Federation upstream helper exchange",
    JMS_TOPIC: "JMS selector exchange",
    LOCAL_RANDOM: "Picks one random local binding (queue) to route via (to).",
    MODULUS_HASH: "Modulus Hashing Exchange",
    RANDOM: "Randomly picks a binding (queue) to route via (to).",
    RECENT_HISTORY: "Recent History Exchange.",
}
"""What exchange types call themselves, by their names."""


def _exchange_types(request: Request) -> list[dict[str, Any]]:
    return [
        {"name": name, "description": described}
        | ({"internal_purpose": "federation"} if name == FEDERATION_UPSTREAM else {})
        | {"enabled": True}
        for name, described in sorted(_TYPES.items())
        if name in request.broker.exchange_types
    ]


def _overview(request: Request) -> Any:
    listing.check_samples(request)
    vhosts = [v for v in request.broker.vhosts.values() if _counts(v, request)]
    facts = _versions(request) | {
        "message_stats": overall_stats(vhosts, request.api),
        "churn_rates": with_rates(_CHURN),
        "queue_totals": with_rates(message_totals(vhosts)),
        "object_totals": object_totals(vhosts, request.node),
        "statistics_db_event_queue": 0,
    }
    if access.is_monitor(request.user):
        facts |= {"node": request.broker.node, "listeners": listeners(request), "contexts": _contexts(request)}
    return facts


def _counts(vhost: VirtualHost, request: Request) -> bool:
    return access.is_monitor(request.user) or vhost.name in request.user.permissions


def _versions(request: Request) -> dict[str, Any]:
    version = request.broker.release.version
    return {
        "management_version": version,
        "rates_mode": "none",
        "sample_retention_policies": {"global": [], "basic": [], "detailed": []},
        "exchange_types": _exchange_types(request),
        "product_version": version,
        "product_name": "RabbitMQ",
        "rabbitmq_version": version,
        "cluster_name": request.broker.cluster_name,
        "erlang_version": "none",
        "erlang_full_version": "none: this is a simulator",
        "disable_stats": False,
        "enable_queue_totals": False,
        **request.api.overview_fields,
    }


def _contexts(request: Request) -> list[dict[str, Any]]:
    named = {"description": "RabbitMQ Management", "path": "/"}
    plain, tls = str(_http_port(request)), request.node.tls
    found: list[dict[str, Any]] = []
    if tls is not None and tls.management_port is not None:
        port = str(tls.management_port)
        found.append({"ssl_opts": {**_files(tls), "port": port}, "port": port, "ssl": "true"})
    if tls is None or plain != "0":
        found.append({"ssl_opts": [], "ip": "127.0.0.1", "port": plain})
    return [{"node": request.broker.node, "cowboy_opts": "[{sendfile,false}]", **named, **each} for each in found]


def _node(request: Request) -> dict[str, Any]:
    """Describe the node. Numbers that a simulator cannot measure (files, sockets, processes) are 0."""
    versions = {name: value for name, value in _versions(request).items() if name in request.api.node_versions}
    draining = {"being_drained": False} if request.api.nodes_can_be_drained else {}
    return (
        with_rates(_UNMEASURED | _CHURN)
        | versions
        | draining
        | {
            "name": request.broker.node,
            "type": "disc",
            "running": True,
            "partitions": [],
            "os_pid": str(os.getpid()),
            "uptime": (request.node.clock.now_us() - request.node.started_us) // 1000,
            "mem_used": request.node.alarm.held_bytes(),
            "mem_limit": request.node.alarm.limit_bytes,
            "mem_alarm": "memory" in request.node.alarm.resources,
            "disk_free_limit": 0,
            "disk_free_alarm": "disk" in request.node.alarm.resources,
            "fd_total": 0,
            "proc_total": 0,
            "sockets_total": 0,
            "run_queue": 0,
            "cluster_links": [],
            "db_dir": "",
            "mem_calculation_strategy": "rss",
            "processors": os.cpu_count() or 1,
            "rates_mode": "none",
            "net_ticktime": 60,
            "exchange_types": _exchange_types(request),
            "auth_mechanisms": [{"name": "PLAIN", "description": "SASL PLAIN", "enabled": True}],
            "applications": [{"name": "rabbit", "description": "dlx", "version": request.broker.release.version}],
            "contexts": _contexts(request),
            "enabled_plugins": sorted({"rabbitmq_management", "rabbitmq_tracing"} | request.broker.plugins),
            "config_files": [],
            "log_files": [],
        }
    )


def _nodes(request: Request) -> Any:
    listing.check_samples(request)
    return listing.listed([_node(request)], request, ("name",))


def _one_node(request: Request) -> Any:
    listing.check_samples(request)
    return _node(request)


def _is_this_node(request: Request) -> bool:
    return request.name("node") == request.broker.node


def _memory(request: Request) -> Any:
    return {"memory": {"total": {"erlang": 0, "rss": 0, "allocated": 0}}}


def _reset(request: Request) -> None:
    request.run(ResetCounters())


def _release(request: Request) -> Response:
    return listing.whole(request.broker.release.version, request)


_OVERVIEW = (
    Resource("/overview", _overview),
    Resource("/nodes", _nodes, allow=access.monitors),
    Resource("/nodes/:node", _one_node, allow=access.monitors, exists=_is_this_node),
    Resource("/nodes/:node/memory", _memory, allow=access.monitors, exists=_is_this_node),
    Resource("/extensions", lambda request: [{"javascript": "dispatcher.js"}, {"javascript": "tracing.js"}]),
    Resource("/version", _release, offered=lambda a: a.version_endpoint),
    Resource(
        "/auth",
        lambda request: request.api.auth_settings,
        allow=None,
        offered=lambda api: api.auth_settings is not None,
    ),
    Resource("/feature-flags", lambda request: [], allow=access.administrators),
    Resource("/reset", delete=_reset, allow=access.administrators),
    Resource("/reset/:node", delete=_reset, allow=access.administrators, exists=_is_this_node),
    Resource("/rebalance/queues", post=lambda request: None, allow=access.administrators),
)

# ``/api/health/checks``, ``/api/healthchecks``, ``/api/aliveness-test``: check the health of the node.
#
# Source: rabbit_mgmt_wm_health_check_*.erl, rabbit_mgmt_wm_aliveness_test.erl.


Facts = Mapping[str, Any]

_OK = {"status": "ok"}
_AMQP = frozenset({"amqp091", "amqp0.9.1", "amqp0-9-1", "amqp0_9_1", "amqp10", "amqp1.0", "amqp1-0", "amqp1_0"})
_UNITS = ("days", "weeks", "months", "years")


def _well(request: Request) -> Facts:
    return _OK


def _unalarmed(request: Request) -> Facts:
    if not request.node.alarm.active:
        return _OK
    alarms = [{"node": request.broker.node, "resource": resource} for resource in request.node.alarm.resources]
    return _failed(reason="There are alarms in effect in the cluster", alarms=alarms)


def _alone(request: Request) -> Facts:
    return {**_OK, "reason": "single node cluster"}


def _failed(**facts: Any) -> Facts:
    return {"status": "failed", **facts}


def _answered(facts: Facts, request: Request) -> Response:
    status = 200 if facts["status"] == "ok" else 503
    if request.api.health_checks_by_columns:
        return json_response(listing.shown(facts, request), status)
    return listing.whole(facts, request, status)


def _port(request: Request) -> Facts:
    try:
        port = int(request.name("port"))
    except ValueError as error:
        raise bad_request("Invalid port") from error
    ports = [listener["port"] for listener in listeners(request)]
    if port in ports:
        return {**_OK, "port": port}
    return _failed(reason="No active listener", missing=port, ports=ports)


def _protocols(request: Request) -> Facts:
    several = request.api.protocol_listener == "several protocols"
    asked = request.name("protocols").split(",") if several else [request.name("protocols")]
    named = {**dict.fromkeys(_AMQP, "amqp"), "amqps": "amqp/ssl"}
    wanted = [named.get(name.lower(), name.lower()) for name in asked]
    active = [listener["protocol"] for listener in listeners(request)]
    missing = [name for name in wanted if name not in active]
    if missing:
        return _failed(reason="No active listener", missing=missing if several else missing[0], protocols=active)
    return {**_OK, "protocols": active} if several else {**_OK, "protocol": wanted[0]}


def _certificates(request: Request) -> Facts:
    if request.name("unit") not in _UNITS:
        raise bad_request("Time unit not recognised. Supported units: days, weeks, months, years.")
    return _OK


def _alive(request: Request) -> Response:
    with getting_channel(request) as channel:
        if request.api.aliveness_test_declares:
            channel.run(DeclareQueue(channel=channel.id, queue="aliveness-test"))
    return _answered(_OK, request)


def _asked_node(request: Request) -> Any:
    if request.names.get("node", request.broker.node) != request.broker.node:
        raise object_not_found()
    return _OK


def _check(path: str, handler: Callable[[Request], Facts] = _well) -> Resource:
    """Return the resource of a check, which only the releases offer that list it in ``Api.health_checks``."""
    name = path.partition("/")[0]

    def checked(request: Request) -> Response:
        if name in request.api.crashing_health_checks:
            raise HandlerCrash
        return _answered(handler(request), request)

    return Resource(f"/health/checks/{path}", checked, offered=lambda api: name in api.health_checks)


_LEADERS = "quorum-queues-without-elected-leaders"

_HEALTH = (
    Resource("/aliveness-test/:vhost", _alive, allow=access.inhabitants, exists=vhost_exists),
    Resource("/healthchecks/node", _asked_node, allow=access.monitors),
    Resource("/healthchecks/node/:node", _asked_node, allow=access.monitors),
    _check("alarms", _unalarmed),
    _check("local-alarms", _unalarmed),
    _check("virtual-hosts"),
    _check("is-in-service"),
    _check("ready-to-serve-clients"),
    _check("below-node-connection-limit"),
    _check("reached-target-cluster-size"),
    _check("metadata-store/initialized"),
    _check("metadata-store/initialized/with-data"),
    _check("node-is-quorum-critical", _alone),
    _check("node-is-mirror-sync-critical", _alone),
    _check("certificate-expiration/:within/:unit", _certificates),
    _check("port-listener/:port", _port),
    _check("protocol-listener/:protocols", _protocols),
    _check(f"{_LEADERS}/all-vhosts"),
    _check(f"{_LEADERS}/all-vhosts/pattern/:pattern"),
    _check(f"{_LEADERS}/vhost/:vhost"),
    _check(f"{_LEADERS}/vhost/:vhost/pattern/:pattern"),
)

# ``/api/deprecated-features``: which features are deprecated, and which of them are in use.
#
# Source: rabbit_mgmt_wm_deprecated_features.erl; rabbit_depr_ff_extra.erl.


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


_DEPRECATED_FEATURES = (
    Resource("/deprecated-features", _all, offered=lambda api: bool(api.deprecated_features)),
    Resource("/deprecated-features/used", _used, offered=lambda api: bool(api.deprecated_features)),
)


RESOURCES = (*_OVERVIEW, *_HEALTH, *_DEPRECATED_FEATURES)
