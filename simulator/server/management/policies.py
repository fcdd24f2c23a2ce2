"""``/api/policies``, ``/api/operator-policies``, ``/api/parameters``, ``/api/global-parameters``, limits.

Of the runtime parameters there are only policies here: no plugin keeps others. Limits
of virtual hosts and users are refused, since nothing would heed them.

Source: rabbit_mgmt_wm_policy.erl, _operator_policy.erl, _parameter.erl, _global_parameter.erl.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from dlx.topology import Policy
from simulator.broker.commands import ClearPolicy, SetPolicy
from simulator.broker.operator_errors import OperatorError
from simulator.broker.state import VirtualHost
from simulator.server.management import access, listing
from simulator.server.management.http_errors import Crash, bad_request, not_found, object_not_found
from simulator.server.management.policy_json import policy_facts, policy_parameter
from simulator.server.management.queues import vhost_exists
from simulator.server.management.request import Call
from simulator.server.management.resources import Handler, Resource

_COMPONENTS = {"policy": False, "operator_policy": True}


def policies_of(vhost: VirtualHost, *, operator: bool) -> dict[str, Policy]:
    """The policies of a virtual host, or its operator policies."""
    return vhost.operator_policies if operator else vhost.policies


def _seen_vhosts(call: Call) -> list[VirtualHost]:
    vhosts = [call.vhost] if call.vhost is not None else list(call.broker.vhosts.values())
    return [vhost for vhost in vhosts if access.sees_vhost(call, vhost.name)]


# Policies and operator policies


def _found(call: Call, operator: bool) -> Policy | None:
    return None if call.vhost is None else policies_of(call.vhost, operator=operator).get(call.id("name"))


def _list(operator: bool) -> Handler:
    def handler(call: Call) -> Any:
        found = [
            policy_facts(policy, vhost.name)
            for vhost in _seen_vhosts(call)
            for policy in policies_of(vhost, operator=operator).values()
        ]
        return listing.listed(found, call)

    return handler


def _one(operator: bool) -> Handler:
    def handler(call: Call) -> Any:
        policy = _found(call, operator)
        if policy is None:
            raise object_not_found()
        return listing.chosen(policy_facts(policy, call.needed_vhost().name), call)

    return handler


def _put(operator: bool) -> Handler:
    def handler(call: Call) -> None:
        call.needed_vhost()
        document = call.json("pattern", "definition")
        if not isinstance(document["definition"], dict):
            raise Crash
        _set(call, document, operator=operator)

    return handler


def _set(call: Call, document: dict[str, Any], *, operator: bool) -> None:
    policy = Policy(
        name=call.id("name"),
        pattern=document["pattern"],
        definition=document["definition"],
        apply_to=document.get("apply-to", "all"),
        priority=document.get("priority", 0),
    )
    try:
        call.do(SetPolicy(call.needed_vhost().name, policy, operator))
    except OperatorError as error:
        escaped = call.api.policy_refusals_escaped and not operator
        raise bad_request(escape(error.text, quote=False) if escaped else error.text) from error


def _clear(operator: bool) -> Handler:
    def handler(call: Call) -> None:
        call.do(ClearPolicy(call.needed_vhost().name, call.id("name"), operator))

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
            exists=lambda call: _found(call, operator) is not None,
        ),
    )


# Runtime parameters


def parameters(vhost: VirtualHost, component: str | None = None) -> Iterator[dict[str, Any]]:
    """The runtime parameters of a virtual host; policies only where they are asked for by name."""
    for name in ("operator_policy",) if component is None else (component,):
        if name in _COMPONENTS:
            for policy in policies_of(vhost, operator=_COMPONENTS[name]).values():
                yield policy_parameter(policy, vhost.name, name)


def _parameters(call: Call) -> Any:
    component = call.ids.get("component")
    found = [parameter for vhost in _seen_vhosts(call) for parameter in parameters(vhost, component)]
    return listing.listed(found, call)


def _parameter(call: Call) -> dict[str, Any] | None:
    component = call.id("component")
    if call.vhost is None or component not in _COMPONENTS:
        return None
    policy = _found(call, _COMPONENTS[component])
    return None if policy is None else policy_parameter(policy, call.vhost.name, component)


def _show_parameter(call: Call) -> Any:
    return listing.chosen(_parameter(call) or {}, call)


def _put_parameter(call: Call) -> None:
    component = call.id("component")
    if call.vhost is None:
        raise not_found("vhost_not_found")
    value = call.json("value")["value"]
    if component == "policy":
        raise bad_request("policies may not be set using this method")
    if component not in _COMPONENTS:
        raise bad_request(f"Validation failed\n\ncomponent {component} not found\n")
    if not isinstance(value, dict) or not {"pattern", "definition"} <= value.keys():
        raise Crash
    _set(call, value, operator=True)


def _clear_parameter(call: Call) -> None:
    _clear(_COMPONENTS[call.id("component")])(call)


def _global_parameters(call: Call) -> Any:
    return listing.listed(global_parameters(call), call, ("name",))


def global_parameters(call: Call) -> list[dict[str, Any]]:
    """All global parameters."""
    return [{"name": name, "value": value} for name, value in call.management.global_parameters.items()]


def _has_global_parameter(call: Call) -> bool:
    return call.id("name") in call.management.global_parameters


def _global_parameter(call: Call) -> Any:
    return {"value": call.management.global_parameters[call.id("name")], "name": call.id("name")}


def _put_global_parameter(call: Call) -> None:
    call.management.global_parameters[call.id("name")] = call.json("value")["value"]


def _clear_global_parameter(call: Call) -> None:
    del call.management.global_parameters[call.id("name")]


# Limits


def _no_limits(call: Call) -> Any:
    return []


def _refuse_limit(call: Call) -> None:
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
        exists=lambda call: _parameter(call) is not None,
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
    Resource("/vhost-limits/:vhost/:name", put=_refuse_limit, delete=lambda call: None, allow=_ADMIN),
    Resource("/user-limits", _no_limits, allow=_ADMIN, offered=lambda api: api.user_limits),
    Resource("/user-limits/:user", _no_limits, allow=_ADMIN, offered=lambda api: api.user_limits),
    Resource(
        "/user-limits/:user/:name",
        put=_refuse_limit,
        delete=lambda call: None,
        allow=_ADMIN,
        offered=lambda api: api.user_limits,
    ),
)
