"""``/api/parameters``, ``/api/global-parameters``, ``/api/cluster-name``.

The runtime parameters of a virtual host are its policies, its operator policies, its limits and its shovels.

Source: rabbit_mgmt_wm_parameter.erl, _parameters.erl, _global_parameter.erl, _cluster_name.erl;
rabbit_runtime_parameters.erl.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dlx.shovels import COMPONENT
from simulator.broker import User, VirtualHost
from simulator.broker.commands import (
    ClearGlobalParameter,
    ClearPolicy,
    ClearShovel,
    ClearUserLimit,
    SetGlobalParameter,
    SetParameter,
    SetUserLimits,
    SetVhostLimits,
)
from simulator.server.management import access, listing
from simulator.server.management.http_errors import HandlerCrash, not_found
from simulator.server.management.policies import policy_parameter, refusals
from simulator.server.management.request import Request
from simulator.server.management.resources import JSON, Resource, vhost_exists

POLICY, OPERATOR_POLICY, VHOST_LIMITS = "policy", "operator_policy", "vhost-limits"
_CLUSTER_NAME = "cluster_name"

# Parameters of virtual hosts


def parameters(vhost: VirtualHost, component: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield the runtime parameters of a virtual host; policies only if ``component`` asks for them."""
    if component in (None, OPERATOR_POLICY):
        for policy in vhost.operator_policies.values():
            yield policy_parameter(policy, vhost.name, OPERATOR_POLICY)
    if component == POLICY:
        for policy in vhost.policies.values():
            yield policy_parameter(policy, vhost.name, POLICY)
    if component in (None, VHOST_LIMITS) and vhost.limits is not None:
        yield {"value": vhost.limits or [], "vhost": vhost.name, "component": VHOST_LIMITS, "name": "limits"}
    if component in (None, COMPONENT):
        for shovel in vhost.shovels.values():
            yield {"value": shovel.value, "vhost": vhost.name, "component": COMPONENT, "name": shovel.name}


def _all(request: Request) -> Any:
    component = request.names.get("component")
    found = [parameter for vhost in access.visible_vhosts(request) for parameter in parameters(vhost, component)]
    return listing.listed(found, request)


def _found(request: Request) -> dict[str, Any] | None:
    if request.vhost is None:
        return None
    of_component = parameters(request.vhost, request.name("component"))
    return next((parameter for parameter in of_component if parameter["name"] == request.name("name")), None)


def _one(request: Request) -> Any:
    return request.found


def _put(request: Request) -> None:
    vhost, value = request.needed_vhost(), request.json("value")["value"]
    with refusals(request, escaped=request.api.policy_refusals_escaped):
        user = request.user.name
        request.run(SetParameter(vhost.name, request.name("component"), request.name("name"), value, user))


def _clear(request: Request) -> None:
    vhost, component = request.needed_vhost().name, request.name("component")
    if component == VHOST_LIMITS:
        request.run(SetVhostLimits(vhost, None))
    elif component == COMPONENT:
        request.run(ClearShovel(vhost, request.name("name")))
    else:
        request.run(ClearPolicy(vhost, request.name("name"), component == OPERATOR_POLICY))


# Parameters of the cluster


def global_parameters(request: Request) -> list[dict[str, Any]]:
    """Return all global parameters."""
    return [{"name": name, "value": value} for name, value in request.broker.global_parameters.items()]


def _all_global(request: Request) -> Any:
    return listing.listed(global_parameters(request), request, ("name",))


def _has_global(request: Request) -> bool:
    return request.name("name") in request.broker.global_parameters


def _one_global(request: Request) -> Any:
    return {"value": request.broker.global_parameters[request.name("name")], "name": request.name("name")}


def _put_global(request: Request) -> None:
    request.run(SetGlobalParameter(request.name("name"), request.json("value")["value"]))


def _clear_global(request: Request) -> None:
    request.run(ClearGlobalParameter(request.name("name")))


def _cluster_name(request: Request) -> Any:
    return {"name": request.broker.cluster_name}


def _put_cluster_name(request: Request) -> None:
    name = request.json("name")["name"]
    if not isinstance(name, str):
        raise HandlerCrash
    request.run(SetGlobalParameter(_CLUSTER_NAME, name))


_MAKERS, _GLOBAL_MAKERS = access.policymakers, access.global_policymakers

_PARAMETERS = (
    Resource("/parameters", _all, allow=_MAKERS),
    Resource("/parameters/:component", _all, allow=_MAKERS),
    Resource("/parameters/:component/:vhost", _all, allow=_MAKERS, exists=vhost_exists),
    Resource(
        "/parameters/:component/:vhost/:name",
        _one,
        put=_put,
        delete=_clear,
        allow=_MAKERS,
        exists=_found,
    ),
    Resource("/global-parameters", _all_global, allow=_GLOBAL_MAKERS),
    Resource(
        "/global-parameters/:name",
        _one_global,
        put=_put_global,
        delete=_clear_global,
        allow=_GLOBAL_MAKERS,
        exists=_has_global,
    ),
    Resource("/cluster-name", _cluster_name, put=_put_cluster_name, allow=access.administrators_to_change),
)

# ``/api/vhost-limits``, ``/api/user-limits``: list, set and clear limits.
#
# Source: rabbit_mgmt_wm_limits.erl, _limit.erl, _user_limits.erl, _user_limit.erl.


# Virtual hosts


def _of_all_vhosts(request: Request) -> Any:
    return _listed([vhost for vhost in access.visible_vhosts(request) if vhost.limits is not None], request)


def _of_one_vhost(request: Request) -> Any:
    vhost = request.needed_vhost()
    return _listed([vhost] if vhost.limits else [], request)


def _listed(vhosts: list[VirtualHost], request: Request) -> Any:
    none = request.api.vhost_limits_cleared
    return listing.listed([{"vhost": vhost.name, "value": vhost.limits or none} for vhost in vhosts], request, ())


def _set_vhost_limit(request: Request) -> None:
    vhost = request.needed_vhost()
    limits = {**(vhost.limits or {}), request.name("name"): request.json("value")["value"]}
    request.run(SetVhostLimits(vhost.name, limits))


def _clear_vhost_limit(request: Request) -> None:
    if request.vhost is None:
        raise _nobody(request)
    vhost = request.vhost
    kept = {name: limit for name, limit in (vhost.limits or {}).items() if name != request.name("name")}
    request.run(SetVhostLimits(vhost.name, kept))


# Users


def _of_all_users(request: Request) -> Any:
    return _users_listed(list(request.broker.users.values()), request)


def _of_one_user(request: Request) -> Any:
    return _users_listed([request.broker.users[request.name("user")]], request)


def _users_listed(users: list[User], request: Request) -> Any:
    return listing.listed([{"user": user.name, "value": user.limits} for user in users if user.limits], request, ())


def _user_exists(request: Request) -> bool:
    return request.name("user") in request.broker.users


def _set_user_limit(request: Request) -> None:
    value = request.json("value")["value"]
    request.run(SetUserLimits(request.name("user"), {request.name("name"): value}))


def _clear_user_limit(request: Request) -> None:
    if not _user_exists(request):
        raise _nobody(request)
    request.run(ClearUserLimit(request.name("user"), request.name("name")))


def _nobody(request: Request) -> Exception:
    """Return the error for clearing a limit of nothing that exists; a user, too, is called a virtual host."""
    return HandlerCrash() if request.api.limits_of_nobody == "crashes" else not_found("vhost_not_found")


_ADMIN = access.administrators
_USER = access.owners(lambda request: request.name("user"))


def _seers_of_all(request: Request, user: User) -> None:
    if request.api.user_limits_seen_by != "all users":
        access.administrators(request, user)


def _seers_of_one(request: Request, user: User) -> None:
    if request.api.user_limits_seen_by != "all users":
        _USER(request, user)


def _of_users(path: str, **given: Any) -> Resource:
    return Resource(f"/user-limits{path}", **given, offered=lambda api: api.broker.user_limits)


_LIMITS = (
    Resource("/vhost-limits", _of_all_vhosts),
    Resource("/vhost-limits/:vhost", _of_one_vhost, allow=access.observers, exists=vhost_exists),
    Resource(
        "/vhost-limits/:vhost/:name", put=_set_vhost_limit, delete=_clear_vhost_limit, allow=_ADMIN, takes=(JSON,)
    ),
    _of_users("", get=_of_all_users, allow=_seers_of_all),
    _of_users("/:user", get=_of_one_user, allow=_seers_of_one, exists=_user_exists),
    _of_users("/:user/:name", put=_set_user_limit, delete=_clear_user_limit, allow=_ADMIN, takes=(JSON,)),
)


RESOURCES = (*_PARAMETERS, *_LIMITS)
