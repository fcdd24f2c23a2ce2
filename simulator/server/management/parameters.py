"""``/api/parameters``, ``/api/global-parameters``, ``/api/cluster-name``.

The runtime parameters of a virtual host are its policies, its operator policies and its limits: plugins, which
would bring others, are not simulated.

Source: rabbit_mgmt_wm_parameter.erl, _parameters.erl, _global_parameter.erl, _cluster_name.erl;
rabbit_runtime_parameters.erl.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from dlx.operator_errors import OperatorError, UnforeseenError
from simulator.broker import VirtualHost
from simulator.broker.commands import (
    ClearGlobalParameter,
    ClearPolicy,
    SetGlobalParameter,
    SetParameter,
    SetVhostLimits,
)
from simulator.server.management import access, listing
from simulator.server.management.http_errors import Crash, bad_request, told
from simulator.server.management.policies import policy_parameter
from simulator.server.management.request import Request
from simulator.server.management.resources import Resource, vhost_exists

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
    return _found(request) or {}


def _put(request: Request) -> None:
    vhost, value = request.needed_vhost(), request.json("value")["value"]
    try:
        request.run(SetParameter(vhost.name, request.name("component"), request.name("name"), value))
    except UnforeseenError as error:
        raise Crash from error
    except OperatorError as error:
        escaped = request.api.policy_refusals_escaped
        refusal = bad_request(escape(error.text, quote=False) if escaped else error.text)
        raise told(refusal, request.api) from error


def _clear(request: Request) -> None:
    vhost, component = request.needed_vhost().name, request.name("component")
    if component == VHOST_LIMITS:
        request.run(SetVhostLimits(vhost, None))
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
        raise Crash
    request.run(SetGlobalParameter(_CLUSTER_NAME, name))


_MAKERS, _GLOBAL_MAKERS = access.policymakers, access.global_policymakers

RESOURCES = (
    Resource("/parameters", _all, allow=_MAKERS),
    Resource("/parameters/:component", _all, allow=_MAKERS),
    Resource("/parameters/:component/:vhost", _all, allow=_MAKERS, exists=vhost_exists),
    Resource(
        "/parameters/:component/:vhost/:name",
        _one,
        put=_put,
        delete=_clear,
        allow=_MAKERS,
        exists=lambda request: _found(request) is not None,
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
