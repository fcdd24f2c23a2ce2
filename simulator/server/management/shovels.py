"""``/api/shovels``: the state of dynamic shovels; delete and restart them.

Source: rabbit_shovel_mgmt.erl, rabbit_shovel_mgmt_shovel.erl, rabbit_shovel_mgmt_util.erl; live servers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dlx.server_plugins import PLUGINS
from dlx.shovels import COMPONENT, ShovelUri
from simulator.broker import Shovel, User, VirtualHost
from simulator.broker.commands import ClearShovel
from simulator.server.management import access, listing
from simulator.server.management.http_errors import object_not_found
from simulator.server.management.request import Request
from simulator.server.management.resources import Resource, vhost_exists
from simulator.server.management.values import local_time


def _is_enabled(request: Request) -> bool:
    return PLUGINS[COMPONENT].name in request.broker.state.plugins


def _vhost_exists(request: Request) -> bool:
    return _is_enabled(request) and vhost_exists(request)


def _all(request: Request) -> Any:
    vhosts = access.visible_vhosts(request)
    found = [shovel_json(shovel, vhost, request) for vhost in vhosts for shovel in vhost.shovels.values()]
    return listing.listed(found, request)


def _found(request: Request) -> Shovel | None:
    return None if request.vhost is None else request.vhost.shovels.get(request.name("name"))


def _one(request: Request) -> Any:
    shovel = _found(request)
    if shovel is None:
        raise object_not_found()
    vhost = request.needed_vhost()
    if request.api.shovel_answer == "state in a list":
        return [shovel_json(shovel, vhost, request)]
    return {"value": shovel.value, "vhost": vhost.name, "component": COMPONENT, "name": shovel.name}


def _delete(request: Request) -> None:
    _clear(request, restart=False)


def _restart(request: Request) -> None:
    _clear(request, restart=True)


def _clear(request: Request, *, restart: bool) -> None:
    if _found(request) is not None:
        request.run(ClearShovel(request.needed_vhost().name, request.name("name"), restart))


def _deletable(request: Request) -> bool:
    return _is_enabled(request) and (_found(request) is not None or request.api.unknown_shovels_deleted)


def _restartable(request: Request) -> bool:
    return _is_enabled(request) and _found(request) is not None


def shovel_json(shovel: Shovel, vhost: VirtualHost, request: Request) -> dict[str, Any]:
    """Return what the API says of a shovel."""
    facts: dict[str, Any] = {
        "node": request.broker.node,
        "timestamp": local_time(shovel.since_us),
        "name": shovel.name,
        "vhost": vhost.name,
        "type": "dynamic",
        "state": shovel.state,
    }
    if shovel.state == "terminated":
        return facts | {"reason": shovel.reason}
    if shovel.state == "starting":
        return facts
    definition, value = shovel.definition, shovel.value
    named = {
        "src_queue": definition.queue,
        "src_exchange": definition.exchange,
        "src_exchange_key": value.get("src-exchange-key"),
        "dest_queue": definition.to_queue,
        "dest_exchange": definition.to_exchange,
        "dest_exchange_key": value.get("dest-exchange-key"),
    }
    left = "unlimited" if shovel.left is None else shovel.left
    told = {
        "blocked_status": "running",
        "forwarded": shovel.forwarded,
        "pending": 0,
        "remaining": left,
        "remaining_unacked": left,
    }
    return facts | {
        **_address("src", definition.source, value),
        **_address("dest", definition.destination, value),
        **{name: each for name, each in named.items() if each},
        **{name: each for name, each in told.items() if name in request.api.shovel_state_fields},
    }


def _address(side: str, uri: ShovelUri, value: Mapping[str, Any]) -> dict[str, str]:
    protocol = value.get(f"{side}-protocol", "amqp091")
    return {f"{side}_uri": "" if protocol == "local" else uri.shown, f"{side}_protocol": protocol}


_MONITORS = access.monitors


def _to_change(request: Request, user: User) -> None:
    """Allow monitors to look at a shovel, and those to change it whom the release lets."""
    changes = request.method not in ("GET", "HEAD") and request.api.shovels_changed_by == "policymakers"
    (access.policymakers if changes else _MONITORS)(request, user)


RESOURCES = (
    Resource("/shovels", _all, allow=_MONITORS, exists=_is_enabled),
    Resource("/shovels/:vhost", _all, allow=_MONITORS, exists=_vhost_exists),
    Resource("/shovels/vhost/:vhost/:name", _one, delete=_delete, allow=_to_change, exists=_deletable),
    Resource("/shovels/vhost/:vhost/:name/restart", delete=_restart, allow=_to_change, exists=_restartable),
)
