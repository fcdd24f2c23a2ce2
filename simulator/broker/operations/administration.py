"""The commands of operators: virtual hosts, users, permissions, policies, tracing.

Policies act on live queues at once: the broker resolves settings again, applies
limits, and retries the messages that at-least-once dead-lettering holds.

Definitions documents are imported in ``definitions_import``.

Source: rabbit_vhost.erl, rabbit_auth_backend_internal.erl, rabbit_policy.erl.
"""

from __future__ import annotations

from dlx import amqp_errors, operator_errors, policy_validation
from dlx.policy_validation import PolicyRefusedError, pattern_error
from dlx.settings import AT_LEAST_ONCE, effective_settings
from dlx.topology import CLASSIC, STOCK_EXCHANGES, Policy
from simulator.broker.commands import (
    AddUser,
    AddVhost,
    ClearPermissions,
    ClearPolicy,
    ClearTopicPermissions,
    DeleteUser,
    DeleteVhost,
    SetPermissions,
    SetPolicy,
    SetTopicPermissions,
    SetTracing,
)
from simulator.broker.operations import (
    ack_deadlines,
    connections,
    dead_letter_worker,
    dead_letters,
    queue_lifecycle,
    queues,
)
from simulator.broker.state import NodeState, Permissions, QueueState, User, VirtualHost

# Virtual hosts and users


def add_vhost(node: NodeState, command: AddVhost) -> None:
    """Create a virtual host with the exchanges that every one has; an existing one only changes its metadata."""
    vhost = node.vhosts.get(command.name)
    if vhost is None:
        vhost = VirtualHost(command.name)
        vhost.exchanges = {exchange.name: exchange for exchange in STOCK_EXCHANGES}
        vhost.show_policies()
        node.vhosts[command.name] = vhost
    kind = command.default_queue_type
    vhost.default_queue_type = None if kind in node.release.queue_types_meaning_default else kind
    vhost.description, vhost.tags = command.description, command.tags


def delete_vhost(node: NodeState, command: DeleteVhost) -> None:
    """Delete a virtual host with all that is in it; its connections are closed."""
    vhost = _vhost(node, command.name)
    for connection in [c for c in node.connections.values() if c.vhost is vhost]:
        connections.force_close(node, connection, amqp_errors.vhost_deleted(vhost.name))
    for queue in list(vhost.queues.values()):
        queue_lifecycle.delete(node, queue)
    del node.vhosts[command.name]
    for user in node.users.values():
        user.permissions.pop(command.name, None)
        for key in [key for key in user.topic_permissions if key[0] == command.name]:
            del user.topic_permissions[key]


def add_user(node: NodeState, command: AddUser) -> None:
    """Create a user, or change password and tags of one that exists."""
    user = node.users.setdefault(command.name, User(command.name, command.password))
    user.password, user.tags = command.password, command.tags


def delete_user(node: NodeState, command: DeleteUser) -> None:
    """Delete a user; its connections are closed."""
    if node.users.pop(command.name, None) is None:
        raise operator_errors.no_user_to_delete(command.name)
    for connection in [c for c in node.connections.values() if c.user.name == command.name]:
        connections.force_close(node, connection, amqp_errors.user_deleted(command.name))


def set_permissions(node: NodeState, command: SetPermissions) -> None:
    """Set what a user may do in a virtual host; its channels go by it at once."""
    _vhost(node, command.vhost)
    for pattern in (command.configure, command.write, command.read):
        _check_pattern(pattern, node, shown=list(map(ord, pattern)))
    granted = Permissions(command.configure, command.write, command.read)
    _user(node, command.user).permissions[command.vhost] = granted
    _forget_allowed(node)


def clear_permissions(node: NodeState, command: ClearPermissions) -> None:
    """Take a user's permissions in a virtual host away."""
    _user(node, command.user).permissions.pop(command.vhost, None)
    _forget_allowed(node)


def set_topic_permissions(node: NodeState, command: SetTopicPermissions) -> None:
    """Set the routing keys with which a user may publish to a topic exchange and bind from it."""
    for pattern in (command.write, command.read):
        _check_pattern(pattern, node, shown=pattern)
    missing = command.exchange not in _vhost(node, command.vhost).exchanges
    if missing and node.release.topic_permissions_need_exchange:
        raise operator_errors.no_exchange_for_topic_permissions(command.exchange)
    key = (command.vhost, command.exchange)
    _user(node, command.user).topic_permissions[key] = (command.write, command.read)
    _forget_allowed(node)


def clear_topic_permissions(node: NodeState, command: ClearTopicPermissions) -> None:
    """Take topic permissions away: of one exchange, or all of the virtual host."""
    granted = _user(node, command.user).topic_permissions
    for vhost, exchange in list(granted):
        if vhost == command.vhost and command.exchange in (None, exchange):
            del granted[vhost, exchange]
    _forget_allowed(node)


def _check_pattern(pattern: str, node: NodeState, *, shown: str | list[int]) -> None:
    error = pattern_error(pattern, node.release)
    if error is not None:
        raise operator_errors.invalid_permission_pattern(shown, error)


def _forget_allowed(node: NodeState) -> None:
    for channel in node.channels.values():
        channel.allowed.clear()
        channel.publishes.clear()


def set_tracing(node: NodeState, command: SetTracing) -> None:
    """Turn the firehose of a virtual host on or off."""
    _vhost(node, command.vhost).tracing = command.active


# Policies


def set_policy(node: NodeState, command: SetPolicy) -> None:
    """Set a policy or operator policy."""
    vhost, policy = _vhost(node, command.vhost), command.policy
    check_policy(node, policy, operator=command.operator)
    _policies(vhost, command.operator)[policy.name] = policy
    apply_policies(node, vhost)


def check_policy(node: NodeState, policy: Policy, *, operator: bool) -> None:
    """Raise ``OperatorError`` for a policy that the release does not take."""
    try:
        policy_validation.check_policy(
            policy.name,
            policy.pattern,
            policy.definition,
            policy.apply_to,
            policy.priority,
            operator=operator,
            release=node.release,
        )
    except PolicyRefusedError as error:
        raise operator_errors.invalid_parameter(str(error), error.status) from error


def clear_policy(node: NodeState, command: ClearPolicy) -> None:
    """Remove a policy or operator policy."""
    vhost = _vhost(node, command.vhost)
    if _policies(vhost, command.operator).pop(command.name, None) is None:
        raise operator_errors.no_policy()
    apply_policies(node, vhost)


def _policies(vhost: VirtualHost, operator: bool) -> dict[str, Policy]:
    return vhost.operator_policies if operator else vhost.policies


def apply_policies(node: NodeState, vhost: VirtualHost) -> None:
    """Resolve the settings of every queue again, and apply what changed."""
    vhost.show_policies()
    affected = list(vhost.queues.values())
    timeouts_ms = [queue.settings.consumer_timeout_ms for queue in affected]
    for queue in affected:
        _reconfigure(node, queue)
    if timeouts_ms != [queue.settings.consumer_timeout_ms for queue in affected]:
        ack_deadlines.reconsider(node, vhost)


def _reconfigure(node: NodeState, queue: QueueState) -> None:
    old = queue.settings
    new = effective_settings(queue.definition, queue.vhost.topology, node.release)
    if new == old:
        return
    queue.settings = new
    queue.store.configure(new)
    if old.dead_letter_strategy == AT_LEAST_ONCE and new.dead_letter_strategy != AT_LEAST_ONCE:
        dead_letters.abandon(node, queue, "the queue no longer dead-letters at least once")
    if queue.definition.type != CLASSIC and queue.in_hand:
        dead_letter_worker.retry(node, queue)
    queues.evaluate(node, queue)
    if queue.definition.type == CLASSIC or node.release.quorum_policy_restarts_expiry:
        node.used(queue)
    else:
        node.expire_unused(queue)


def _vhost(node: NodeState, name: str) -> VirtualHost:
    vhost = node.vhosts.get(name)
    if vhost is None:
        raise operator_errors.no_vhost(name)
    return vhost


def _user(node: NodeState, name: str) -> User:
    user = node.users.get(name)
    if user is None:
        raise operator_errors.no_user(name)
    return user
