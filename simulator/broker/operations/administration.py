"""The commands of operators: virtual hosts, policies, tracing, global parameters.

Policies act on live queues: each resolves its settings again, applies its limits, and retries
the messages that at-least-once dead-lettering holds.

Users and limits have files of their own, and so has the import of definitions documents.

Source: rabbit_vhost.erl, rabbit_policy.erl.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from dlx import amqp_errors, operator_errors, policy_validation
from dlx.policy_validation import PolicyRefusedError
from dlx.server_plugins import PLUGINS
from dlx.settings import AT_LEAST_ONCE, Settings, effective_settings
from dlx.shovels import COMPONENT
from dlx.topology import CLASSIC, STOCK_EXCHANGES, Policy
from simulator.broker.commands import (
    AddVhost,
    ClearGlobalParameter,
    ClearPolicy,
    ClearShovel,
    DeleteVhost,
    ProtectVhost,
    ReportShovel,
    ResetCounters,
    SetGlobalParameter,
    SetParameter,
    SetPolicy,
    SetTracing,
    SetVhostLimits,
)
from simulator.broker.effects import PoliciesChanged, Retried
from simulator.broker.operations import (
    connections,
    dead_letters,
    deliveries,
    limits,
    queue_lifecycle,
    queues,
    sharding,
    shovels,
)
from simulator.broker.state import NodeState, Permissions, QueueState, VirtualHost

# Virtual hosts


def add_vhost(node: NodeState, command: AddVhost) -> None:
    """Create a virtual host with the exchanges that every one has; an existing one only changes its metadata.

    The user who creates it may do everything in it.
    """
    vhost = node.vhosts.get(command.name)
    if vhost is None:
        vhost = VirtualHost(command.name)
        vhost.exchanges = {exchange.name: exchange for exchange in STOCK_EXCHANGES}
        vhost.show_policies()
        node.vhosts[command.name] = vhost
        if command.user in node.users:
            node.users[command.user].permissions[command.name] = Permissions(".*", ".*", ".*")
    kind = command.default_queue_type
    vhost.default_queue_type = None if kind in node.release.queue_types_meaning_default else kind
    vhost.description, vhost.tags = command.description, command.tags


def delete_vhost(node: NodeState, command: DeleteVhost) -> None:
    """Delete a virtual host with all that is in it; its connections are closed. Raises ``OperatorError``."""
    vhost = node.known_vhost(command.name)
    if vhost.protected_from_deletion:
        raise operator_errors.protected_from_deletion(vhost.name)
    shovels.clear_all(node, vhost)
    for connection in [c for c in node.connections.values() if c.vhost is vhost]:
        connections.force_close(node, connection, amqp_errors.vhost_deleted(vhost.name))
    for queue in list(vhost.queues.values()):
        queue_lifecycle.delete(node, queue)
    del node.vhosts[command.name]
    for user in node.users.values():
        user.permissions.pop(command.name, None)
        for key in [key for key in user.topic_permissions if key[0] == command.name]:
            del user.topic_permissions[key]


def protect_vhost(node: NodeState, command: ProtectVhost) -> None:
    """Protect a virtual host from deletion, or no longer."""
    node.known_vhost(command.vhost).protected_from_deletion = command.active


def set_tracing(node: NodeState, command: SetTracing) -> None:
    """Turn the firehose of a virtual host on or off."""
    node.known_vhost(command.vhost).tracing = command.active


def set_global_parameter(node: NodeState, command: SetGlobalParameter) -> None:
    """Set a parameter of the whole cluster. An empty object is kept as an empty list, as RabbitMQ does."""
    node.global_parameters[command.name] = [] if command.value == {} else command.value


def clear_global_parameter(node: NodeState, command: ClearGlobalParameter) -> None:
    """Remove a parameter of the whole cluster, if it is there."""
    node.global_parameters.pop(command.name, None)


def reset_counters(node: NodeState, command: ResetCounters) -> None:
    """Set the counters of all queues and exchanges to zero."""
    for vhost in node.vhosts.values():
        for counters in (*vhost.exchange_counters.values(), *(queue.counters for queue in vhost.queues.values())):
            counters.reset()


# Policies


def set_policy(node: NodeState, command: SetPolicy) -> None:
    """Set a policy or operator policy."""
    vhost, policy = node.known_vhost(command.vhost), command.policy
    with _refusals_of_operators():
        policy_validation.check_policy(
            policy.name,
            policy.pattern,
            policy.definition,
            policy.apply_to,
            policy.priority,
            operator=command.operator,
            release=node.release,
            plugins=node.plugins,
        )
    _policies(vhost, command.operator)[policy.name] = policy
    apply_policies(node, vhost)


def check_policy_parameter(node: NodeState, name: str, value: Any, *, operator: bool) -> None:
    """Raise ``OperatorError`` for the value of a parameter that the release does not take as a policy."""
    with _refusals_of_operators():
        policy_validation.check_policy_parameter(
            name, value, operator=operator, release=node.release, plugins=node.plugins
        )


@contextmanager
def _refusals_of_operators() -> Iterator[None]:
    try:
        yield
    except PolicyRefusedError as error:
        if error.status == 500:
            raise operator_errors.wrong_type() from error
        raise operator_errors.invalid_parameter(str(error)) from error


def clear_policy(node: NodeState, command: ClearPolicy) -> None:
    """Remove a policy or operator policy."""
    vhost = node.known_vhost(command.vhost)
    if _policies(vhost, command.operator).pop(command.name, None) is None:
        raise operator_errors.no_policy()
    apply_policies(node, vhost)


def _policies(vhost: VirtualHost, operator: bool) -> dict[str, Policy]:
    return vhost.operator_policies if operator else vhost.policies


def apply_policies(node: NodeState, vhost: VirtualHost) -> None:
    """Have every queue go by the policies as they are now, if they changed."""
    before = vhost.topology
    vhost.show_policies()
    shown = vhost.topology
    if (before.policies, before.operator_policies) != (shown.policies, shown.operator_policies):
        node.agenda.extend(PoliciesChanged(vhost.name, queue) for queue in vhost.queues)
        sharding.update(node, vhost, before)


def reconfigure(node: NodeState, effect: PoliciesChanged) -> None:
    """Resolve the settings of a queue again, and apply what changed."""
    queue = node.queue(effect.vhost, effect.queue)
    if queue is None:
        return
    old, queue.policies_as_declared = queue.settings, False
    new = queue.settings = queue.store.settings = effective_settings(
        queue.definition, queue.vhost.topology, node.release
    )
    if new.in_force != old.in_force:  # a queue whose own policies stay is not notified: what expired unnoticed stays
        _apply(node, queue, old)
        if new.consumer_timeout_ms != old.consumer_timeout_ms:
            deliveries.reconsider_timeouts(node, queue)


def _apply(node: NodeState, queue: QueueState, old: Settings) -> None:
    new = queue.settings
    queue.store.configure(new)
    if old.dead_letter_strategy == AT_LEAST_ONCE and new.dead_letter_strategy != AT_LEAST_ONCE:
        dead_letters.abandon(node, queue, "the queue no longer dead-letters at least once")
    if queue.definition.type != CLASSIC and queue.in_hand:  # after the other queues have their policies, too
        node.agenda.append(Retried(queue.vhost.name, queue.name))
    queues.evaluate(node, queue)
    if queue.definition.type == CLASSIC or node.release.quorum_policy_restarts_expiry:
        node.used(queue)
    else:
        node.expire_unused(queue)


# Runtime parameters of virtual hosts: operator policies, and limits.
#
# Source: rabbit_runtime_parameters.erl set_any.


_POLICY, _OPERATOR_POLICY, _LIMITS = "policy", "operator_policy", "vhost-limits"


def set_parameter(node: NodeState, command: SetParameter) -> None:
    """Set a runtime parameter; it is in force at once."""
    vhost = node.known_vhost(command.vhost)
    keep(node, vhost, command.component, command.name, command.value, command.user)
    apply_policies(node, vhost)


def clear_shovel(node: NodeState, command: ClearShovel) -> None:
    """Remove a shovel, or connect it anew. Raises ``OperatorError`` if there is none of that name."""
    vhost = node.known_vhost(command.vhost)
    if command.name not in vhost.shovels:
        raise operator_errors.no_parameter()
    if command.restart:
        shovels.restart(node, vhost, command.name)
    else:
        shovels.clear_shovel(node, vhost, command.name)


def report_shovel(node: NodeState, command: ReportShovel) -> None:
    """Note what has become of a shovel that reaches another server; nothing, if it is gone."""
    vhost = node.vhosts.get(command.vhost)
    shovel = None if vhost is None else vhost.shovels.get(command.name)
    if shovel is not None:
        shovels.report(node, shovel, command)


def keep(node: NodeState, vhost: VirtualHost, component: str, name: str, value: Any, user: str | None = None) -> None:
    """Keep a runtime parameter; the queues learn of operator policies later. Raises ``OperatorError``."""
    if component == _POLICY:
        raise operator_errors.policy_as_parameter()
    if component == _OPERATOR_POLICY:
        vhost.operator_policies[name] = checked_policy(node, name, value, operator=True)
    elif component == _LIMITS:
        limits.check_vhost_limits(value, name)
        if name != "limits":  # a server keeps them, but fails when it lists them
            raise operator_errors.wrong_type()
        limits.set_vhost_limits(node, SetVhostLimits(vhost.name, value))
    elif component == COMPONENT and PLUGINS[COMPONENT].name in node.plugins:
        shovels.set_shovel(node, vhost, name, value, user)
    else:
        raise operator_errors.unknown_component(component)


def checked_policy(node: NodeState, name: str, value: Any, *, operator: bool) -> Policy:
    """Return the policy that the value of a parameter describes. Raises ``OperatorError``."""
    check_policy_parameter(node, name, value, operator=operator)
    return policy_of(name, value)


def policy_of(name: str, value: Mapping[str, Any]) -> Policy:
    """Return the policy that the value of a parameter describes, whose members have been checked."""
    return Policy(
        name=name,
        pattern=value["pattern"],
        definition=value["definition"],
        apply_to=value.get("apply-to", "all"),
        priority=value.get("priority", 0),
    )
