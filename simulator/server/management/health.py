"""``/api/health/checks``, ``/api/healthchecks``, ``/api/aliveness-test``: check the health of the node.

Source: rabbit_mgmt_wm_health_check_*.erl, rabbit_mgmt_wm_aliveness_test.erl.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from starlette.responses import Response

from simulator.broker.commands import DeclareQueue
from simulator.server.management import access, listing
from simulator.server.management.http_errors import Crash, bad_request, json_response, object_not_found
from simulator.server.management.internal_connections import getting_channel
from simulator.server.management.overview import listeners
from simulator.server.management.request import Request
from simulator.server.management.resources import Resource, vhost_exists

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
    wanted = ["amqp" if name.lower() in _AMQP else name.lower() for name in asked]
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


def _node(request: Request) -> Any:
    if request.names.get("node", request.broker.node) != request.broker.node:
        raise object_not_found()
    return _OK


def _check(path: str, handler: Callable[[Request], Facts] = _well) -> Resource:
    """Return the resource of a check, which only the releases offer that list it in ``Api.health_checks``."""
    name = path.partition("/")[0]

    def checked(request: Request) -> Response:
        if name in request.api.crashing_health_checks:
            raise Crash
        return _answered(handler(request), request)

    return Resource(f"/health/checks/{path}", checked, offered=lambda api: name in api.health_checks)


_LEADERS = "quorum-queues-without-elected-leaders"

RESOURCES = (
    Resource("/aliveness-test/:vhost", _alive, allow=access.inhabitants, exists=vhost_exists),
    Resource("/healthchecks/node", _node, allow=access.monitors),
    Resource("/healthchecks/node/:node", _node, allow=access.monitors),
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
