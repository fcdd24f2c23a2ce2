"""Runtime parameters of virtual hosts: operator policies, and limits.

Source: rabbit_runtime_parameters.erl set_any.
"""

from __future__ import annotations

from typing import Any

from dlx import operator_errors
from dlx.topology import Policy
from simulator.broker.commands import SetParameter, SetVhostLimits
from simulator.broker.operations import administration, limits
from simulator.broker.state import NodeState, VirtualHost

_POLICY, _OPERATOR_POLICY, _LIMITS = "policy", "operator_policy", "vhost-limits"


def set_parameter(node: NodeState, command: SetParameter) -> None:
    """Set a runtime parameter; it is in force at once."""
    vhost = node.known_vhost(command.vhost)
    keep(node, vhost, command.component, command.name, command.value)
    administration.apply_policies(node, vhost)


def keep(node: NodeState, vhost: VirtualHost, component: str, name: str, value: Any) -> None:
    """Keep a runtime parameter; the queues learn of operator policies later. Raises ``OperatorError``."""
    if component == _POLICY:
        raise operator_errors.policy_as_parameter()
    if component == _OPERATOR_POLICY:
        vhost.operator_policies[name] = checked_policy(node, name, value, operator=True)
    elif component == _LIMITS:
        limits.check_vhost_limits(value, name)
        if name != "limits":  # a server keeps them, but fails when it tells of them
            raise operator_errors.wrong_type()
        limits.set_vhost_limits(node, SetVhostLimits(vhost.name, value))
    else:
        raise operator_errors.unknown_component(component)


def checked_policy(node: NodeState, name: str, value: Any, *, operator: bool) -> Policy:
    """Return the policy that the value of a parameter describes. Raises ``OperatorError``."""
    administration.check_policy_parameter(node, name, value, operator=operator)
    return Policy(
        name=name,
        pattern=value["pattern"],
        definition=value["definition"],
        apply_to=value.get("apply-to", "all"),
        priority=value["priority"],
    )
