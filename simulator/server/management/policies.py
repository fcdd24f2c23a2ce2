"""``/api/policies`` and ``/api/operator-policies``.

Source: rabbit_mgmt_wm_policy.erl, _operator_policy.erl.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import escape
from typing import Any

from dlx.operator_errors import OperatorError, UnforeseenError
from dlx.releases import Release
from dlx.settings import DELIVERY_LIMIT, OVERFLOW
from dlx.topology import Policy
from simulator.broker import VirtualHost
from simulator.broker.commands import ClearPolicy, SetPolicy
from simulator.json_values import plain
from simulator.server.management import access, listing
from simulator.server.management.http_errors import HandlerCrash, bad_request, told
from simulator.server.management.request import Request
from simulator.server.management.resources import JSON, Handler, Resource, vhost_exists


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


def _one(request: Request) -> Any:
    return policy_json(request.found, request.needed_vhost().name)


def _put(operator: bool) -> Handler:
    async def handler(request: Request) -> None:
        request.needed_vhost()
        document = request.json("pattern", "definition")
        if not isinstance(document["definition"], dict):
            raise HandlerCrash
        await _set(request, document, operator=operator)

    return handler


async def _set(request: Request, document: dict[str, Any], *, operator: bool) -> None:
    policy = Policy(
        name=request.name("name"),
        pattern=document["pattern"],
        definition=document["definition"],
        apply_to=document.get("apply-to", "all"),
        priority=document.get("priority", 0),
    )
    with refusals(request, escaped=request.api.policy_refusals_escaped and not operator):
        await request.carry_out(SetPolicy(request.needed_vhost().name, policy, operator))


@contextmanager
def refusals(request: Request, *, escaped: bool) -> Iterator[None]:
    """Answer what the broker refuses of a policy or parameter with 400; the text may be ``escaped`` for HTML."""
    try:
        yield
    except UnforeseenError as error:
        raise HandlerCrash from error
    except OperatorError as error:
        refusal = bad_request(escape(error.text, quote=False) if escaped else error.text)
        raise told(refusal, request.api) from error


def _clear(operator: bool) -> Handler:
    async def handler(request: Request) -> None:
        await request.carry_out(ClearPolicy(request.needed_vhost().name, request.name("name"), operator))

    return handler


def _policy_resources(path: str, operator: bool, allow: access.Rule) -> tuple[Resource, ...]:
    listed = _list(operator)
    return (
        Resource(path, listed, allow=access.inhabitants),
        Resource(f"{path}/:vhost", listed, allow=access.inhabitants, exists=vhost_exists),
        Resource(
            f"{path}/:vhost/:name",
            _one,
            put=_put(operator),
            delete=_clear(operator),
            allow=allow,
            exists=lambda request: _found(request, operator),
            takes=(JSON,) if operator else (),
        ),
    )


_MAKERS, _ADMIN = access.policymakers, access.administrators

RESOURCES = (
    *_policy_resources("/policies", operator=False, allow=_MAKERS),
    *_policy_resources("/operator-policies", operator=True, allow=_ADMIN),
)

# Describes policies as the management API does, and merges a policy with an operator policy.
#
# Source: rabbit_policy.erl format, merge_operator_definitions; rabbit_policies.erl merge_policy_value.


def policy_json(policy: Policy, vhost: str) -> dict[str, Any]:
    """Describe a policy or operator policy."""
    return {
        "vhost": vhost,
        "name": policy.name,
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": plain(policy.definition),
        "priority": policy.priority,
    }


def policy_parameter(policy: Policy, vhost: str, component: str) -> dict[str, Any]:
    """Describe the runtime parameter in which a policy is kept."""
    facts = policy_json(policy, vhost)
    value = {name: facts[name] for name in ("pattern", "definition", "priority", "apply-to")}
    return {"value": value, "vhost": vhost, "component": component, "name": policy.name}


def effective_definition(policy: Policy | None, operator: Policy | None, release: Release) -> dict[str, Any]:
    """Merge a queue's policy and operator policy; of two numbers the lower one applies."""
    own: Mapping[str, Any] = {} if policy is None else policy.definition
    merged = dict(own)
    for key, value in ({} if operator is None else operator.definition).items():
        merged[key] = _merged(key, own[key], value, release) if key in own else value
    definition: dict[str, Any] = plain(merged)
    return definition


def _merged(key: str, own: Any, operators: Any, release: Release) -> Any:
    if key == OVERFLOW or not isinstance(own, int) or not isinstance(operators, int):
        return operators
    negative = key == DELIVERY_LIMIT and min(own, operators) < 0
    if negative and release.quorum_negative_delivery_limit == "unlimited":
        return max(own, operators)
    return min(own, operators)
