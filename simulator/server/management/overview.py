"""``/api/overview``, ``/api/nodes`` and the other resources that describe the server.

Source: rabbit_mgmt_wm_overview.erl, _nodes.erl, _extensions.erl.
"""

from __future__ import annotations

import os
from typing import Any

from starlette.responses import Response

from dlx.routing import EXCHANGE_TYPES
from simulator.broker import VirtualHost
from simulator.broker.commands import ResetCounters
from simulator.server.management import access, listing
from simulator.server.management.http_errors import object_not_found
from simulator.server.management.message_stats import overall_stats, with_rates
from simulator.server.management.request import Request
from simulator.server.management.resources import Resource
from simulator.server.node import message_totals, object_totals

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
    node = request.node
    ports = {"amqp": node.amqp_port, "http": _http_port(request), "http/prometheus": node.metrics_port}
    return [
        {
            "node": request.broker.node,
            "protocol": protocol,
            "ip_address": "127.0.0.1",
            "port": port,
            "socket_opts": {"backlog": 128, "nodelay": True, "linger": [True, 0], "exit_on_close": False},
            **request.api.listener_fields,
        }
        for protocol, port in ports.items()
        if port
    ]


def _http_port(request: Request) -> int:
    port = request.headers.get("host", "").rpartition(":")[2]
    return int(port) if port.isdigit() else 0


def _exchange_types() -> list[dict[str, Any]]:
    described = "AMQP {} exchange, as per the AMQP specification"
    return [{"name": n, "description": described.format(n), "enabled": True} for n in EXCHANGE_TYPES]


def _overview(request: Request) -> Any:
    listing.check_samples(request)
    vhosts = [v for v in request.broker.vhosts.values() if _counts(v, request)]
    facts = _versions(request) | {
        "message_stats": overall_stats(vhosts),
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
        "exchange_types": _exchange_types(),
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
    port = str(_http_port(request))
    named = {"description": "RabbitMQ Management", "path": "/", "ip": "127.0.0.1", "port": port}
    return [{"ssl_opts": [], "node": request.broker.node, "cowboy_opts": "[]", **named}]


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
            "exchange_types": _exchange_types(),
            "auth_mechanisms": [{"name": "PLAIN", "description": "SASL PLAIN", "enabled": True}],
            "applications": [{"name": "rabbit", "description": "dlx", "version": request.broker.release.version}],
            "contexts": _contexts(request),
            "enabled_plugins": ["rabbitmq_management", "rabbitmq_tracing"],
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
    if not _is_this_node(request):
        raise object_not_found()
    return {"memory": {"total": {"erlang": 0, "rss": 0, "allocated": 0}}}


def _reset(request: Request) -> None:
    request.run(ResetCounters())


def _release(request: Request) -> Response:
    return listing.whole(request.broker.release.version, request)


RESOURCES = (
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
