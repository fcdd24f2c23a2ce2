"""``/api/policies``, ``/api/operator-policies``, ``/api/parameters``, ``/api/global-parameters``, limits.

Policies are the only runtime parameters here, since no plugin keeps others. Limits of
virtual hosts and users are refused, because nothing would enforce them.

Source: rabbit_mgmt_wm_policy.erl, _operator_policy.erl, _parameter.erl, _global_parameter.erl.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from dlx import operator_errors
from dlx.topology import Policy
from simulator.broker import OperatorError, VirtualHost
from simulator.broker.commands import ClearPolicy, SetPolicy
from simulator.server.management import access, listing
from simulator.server.management.http_errors import Crash, bad_request, not_found, object_not_found
from simulator.server.management.policy_json import policy_json, policy_parameter
from simulator.server.management.request import Request
from simulator.server.management.resources import Handler, Resource, vhost_exists

_COMPONENTS = {"policy": False, "operator_policy": True}


def policies_of(vhost: VirtualHost, *, operator: bool) -> dict[str, Policy]:
    """Return the policies of a virtual host, or its operator policies."""
    return vhost.operator_policies if operator else vhost.policies


# Policies and operator policies


def _found(request: Request, operator: bool) -> Policy | None:
    return None if request.vhost is None else policies_of(request.vhost, operator=operator).get(request.name("name"))


def _list(operator: bool) -> Handler:
    def handler(request: Request) -> Any:
        found = [
            policy_json(policy, vhost.name)
            for vhost in access.visible_vhosts(request)
            for policy in policies_of(vhost, operator=operator).values()
        ]
        return listing.listed(found, request)

    return handler


def _one(operator: bool) -> Handler:
    def handler(request: Request) -> Any:
        policy = _found(request, operator)
        if policy is None:
            raise object_not_found()
        return listing.chosen(policy_json(policy, request.needed_vhost().name), request)

    return handler


def _put(operator: bool) -> Handler:
    def handler(request: Request) -> None:
        request.needed_vhost()
        document = request.json("pattern", "definition")
        if not isinstance(document["definition"], dict):
            raise Crash
        _set(request, document, operator=operator)

    return handler


def _set(request: Request, document: dict[str, Any], *, operator: bool) -> None:
    policy = Policy(
        name=request.name("name"),
        pattern=document["pattern"],
        definition=document["definition"],
        apply_to=document.get("apply-to", "all"),
        priority=document.get("priority", 0),
    )
    try:
        request.run(SetPolicy(request.needed_vhost().name, policy, operator))
    except OperatorError as error:
        escaped = request.api.policy_refusals_escaped and not operator
        raise bad_request(escape(error.text, quote=False) if escaped else error.text) from error


def _clear(operator: bool) -> Handler:
    def handler(request: Request) -> None:
        request.run(ClearPolicy(request.needed_vhost().name, request.name("name"), operator))

    return handler


def _policy_resources(path: str, operator: bool, allow: access.Rule) -> tuple[Resource, ...]:
    listed = _list(operator)
    return (
        Resource(path, listed, allow=access.inhabitants),
        Resource(f"{path}/:vhost", listed, allow=access.inhabitants, exists=vhost_exists),
        Resource(
            f"{path}/:vhost/:name",
            _one(operator),
            put=_put(operator),
            delete=_clear(operator),
            allow=allow,
            exists=lambda request: _found(request, operator) is not None,
        ),
    )


# Runtime parameters


def parameters(vhost: VirtualHost, component: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield the runtime parameters of a virtual host; policies only if ``component`` asks for them."""
    for name in ("operator_policy",) if component is None else (component,):
        if name in _COMPONENTS:
            for policy in policies_of(vhost, operator=_COMPONENTS[name]).values():
                yield policy_parameter(policy, vhost.name, name)


def _parameters(request: Request) -> Any:
    component = request.names.get("component")
    found = [parameter for vhost in access.visible_vhosts(request) for parameter in parameters(vhost, component)]
    return listing.listed(found, request)


def _parameter(request: Request) -> dict[str, Any] | None:
    component = request.name("component")
    if request.vhost is None or component not in _COMPONENTS:
        return None
    policy = _found(request, _COMPONENTS[component])
    return None if policy is None else policy_parameter(policy, request.vhost.name, component)


def _show_parameter(request: Request) -> Any:
    return listing.chosen(_parameter(request) or {}, request)


def _put_parameter(request: Request) -> None:
    component = request.name("component")
    if request.vhost is None:
        raise not_found("vhost_not_found")
    value = request.json("value")["value"]
    if component == "policy":
        raise operator_errors.policy_as_parameter()
    if component not in _COMPONENTS:
        raise operator_errors.unknown_component(component)
    if not isinstance(value, dict) or not {"pattern", "definition"} <= value.keys():
        raise Crash
    _set(request, value, operator=True)


def _clear_parameter(request: Request) -> None:
    _clear(_COMPONENTS[request.name("component")])(request)


def _global_parameters(request: Request) -> Any:
    return listing.listed(global_parameters(request), request, ("name",))


def global_parameters(request: Request) -> list[dict[str, Any]]:
    """Return all global parameters."""
    return [{"name": name, "value": value} for name, value in request.management.global_parameters.items()]


def _has_global_parameter(request: Request) -> bool:
    return request.name("name") in request.management.global_parameters


def _global_parameter(request: Request) -> Any:
    return {"value": request.management.global_parameters[request.name("name")], "name": request.name("name")}


def _put_global_parameter(request: Request) -> None:
    request.management.global_parameters[request.name("name")] = request.json("value")["value"]


def _clear_global_parameter(request: Request) -> None:
    del request.management.global_parameters[request.name("name")]


# Limits


def _no_limits(request: Request) -> Any:
    return []


def _refuse_limit(request: Request) -> None:
    raise bad_request("the simulator has no limits of virtual hosts and users")


_MAKERS, _ADMIN = access.policymakers, access.administrators

RESOURCES = (
    *_policy_resources("/policies", operator=False, allow=_MAKERS),
    *_policy_resources("/operator-policies", operator=True, allow=_ADMIN),
    Resource("/parameters", _parameters, allow=_MAKERS),
    Resource("/parameters/:component", _parameters, allow=_MAKERS),
    Resource("/parameters/:component/:vhost", _parameters, allow=_MAKERS, exists=vhost_exists),
    Resource(
        "/parameters/:component/:vhost/:name",
        _show_parameter,
        put=_put_parameter,
        delete=_clear_parameter,
        allow=_MAKERS,
        exists=lambda request: _parameter(request) is not None,
    ),
    Resource("/global-parameters", _global_parameters, allow=access.global_policymakers),
    Resource(
        "/global-parameters/:name",
        _global_parameter,
        put=_put_global_parameter,
        delete=_clear_global_parameter,
        allow=access.global_policymakers,
        exists=_has_global_parameter,
    ),
    Resource("/vhost-limits", _no_limits),
    Resource("/vhost-limits/:vhost", _no_limits, allow=access.observers, exists=vhost_exists),
    Resource("/vhost-limits/:vhost/:name", put=_refuse_limit, delete=lambda request: None, allow=_ADMIN),
    Resource("/user-limits", _no_limits, allow=_ADMIN, offered=lambda api: api.user_limits),
    Resource("/user-limits/:user", _no_limits, allow=_ADMIN, offered=lambda api: api.user_limits),
    Resource(
        "/user-limits/:user/:name",
        put=_refuse_limit,
        delete=lambda request: None,
        allow=_ADMIN,
        offered=lambda api: api.user_limits,
    ),
)
