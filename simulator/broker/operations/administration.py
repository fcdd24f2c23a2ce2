"""What operators do: virtual hosts, users, permissions, policies, tracing.

Policies act on live queues at once: settings are resolved anew, limits applied, and
what at-least-once dead-lettering holds is tried again.

Source: rabbit_vhost.erl, rabbit_auth_backend_internal.erl, rabbit_policy.erl. Definitions documents: importing.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dlx import policy_validation
from dlx.erlang_printing import Atom
from dlx.policy_validation import PolicyRefusedError, pattern_error
from dlx.settings import AT_LEAST_ONCE, effective_settings
from dlx.topology import CLASSIC, STOCK_EXCHANGES, Policy, Topology
from simulator.broker.commands import (
    AddUser,
    AddVhost,
    ClearPermissions,
    ClearPolicy,
    ClearTopicPermissions,
    CloseConnection,
    DeleteUser,
    DeleteVhost,
    SetPermissions,
    SetPolicy,
    SetTopicPermissions,
    SetTracing,
)
from simulator.broker.operations import ack_timeouts, dead_letters, queues
from simulator.broker.operator_errors import OperatorError, refused
from simulator.broker.replies import ConnectionClosed
from simulator.broker.state import Permissions, QueueState, User, VirtualHost

if TYPE_CHECKING:
    from simulator.broker.broker import Broker


# Virtual hosts and users


def add_vhost(broker: Broker, command: AddVhost) -> None:
    """Create a virtual host with the exchanges that every one has; an existing one only changes its metadata."""
    vhost = broker.vhosts.get(command.name)
    if vhost is None:
        vhost = VirtualHost(command.name)
        vhost.exchanges = {exchange.name: exchange for exchange in STOCK_EXCHANGES}
        retopologise(vhost)
        broker.vhosts[command.name] = vhost
    kind = command.default_queue_type
    vhost.default_queue_type = None if kind in broker.release.queue_types_meaning_default else kind
    vhost.description, vhost.tags = command.description, command.tags


def delete_vhost(broker: Broker, command: DeleteVhost) -> None:
    """Delete a virtual host with all that is in it; its connections are closed."""
    vhost = _vhost(broker, command.name)
    for connection in [c for c in broker.connections.values() if c.vhost is vhost]:
        text = f"CONNECTION_FORCED - vhost '{vhost.name}' is deleted"
        broker.out.append(ConnectionClosed(connection.id, 320, text))
        broker.act(CloseConnection(connection.id))
    for queue in list(vhost.queues.values()):
        broker.delete_queue(queue)
    del broker.vhosts[command.name]
    for user in broker.users.values():
        user.permissions.pop(command.name, None)
        for key in [key for key in user.topic_permissions if key[0] == command.name]:
            del user.topic_permissions[key]


def add_user(broker: Broker, command: AddUser) -> None:
    """Create a user, or change password and tags of one that exists."""
    user = broker.users.setdefault(command.name, User(command.name, command.password))
    user.password, user.tags = command.password, command.tags


def delete_user(broker: Broker, command: DeleteUser) -> None:
    """Delete a user; its connections are closed."""
    if broker.users.pop(command.name, None) is None:
        raise OperatorError(f"Object Not Found: user '{command.name}'", 404)
    for connection in [c for c in broker.connections.values() if c.user.name == command.name]:
        text = f"CONNECTION_FORCED - user '{command.name}' was deleted"
        broker.out.append(ConnectionClosed(connection.id, 320, text))
        broker.act(CloseConnection(connection.id))


def set_permissions(broker: Broker, command: SetPermissions) -> None:
    """What a user may do in a virtual host; known to its channels at once."""
    _vhost(broker, command.vhost)
    for pattern in (command.configure, command.write, command.read):
        _check_pattern(pattern, list(map(ord, pattern)), broker)
    granted = Permissions(command.configure, command.write, command.read)
    _user(broker, command.user).permissions[command.vhost] = granted
    _forget_allowed(broker)


def clear_permissions(broker: Broker, command: ClearPermissions) -> None:
    """Take a user's permissions in a virtual host away."""
    _user(broker, command.user).permissions.pop(command.vhost, None)
    _forget_allowed(broker)


def set_topic_permissions(broker: Broker, command: SetTopicPermissions) -> None:
    """What a user may publish to and bind in a topic exchange, by routing key."""
    for pattern in (command.write, command.read):
        _check_pattern(pattern, pattern.encode(), broker)
    missing = command.exchange not in _vhost(broker, command.vhost).exchanges
    if missing and broker.release.topic_permissions_need_exchange:
        raise refused((Atom("no_such_exchange"), command.exchange.encode()))
    key = (command.vhost, command.exchange)
    _user(broker, command.user).topic_permissions[key] = (command.write, command.read)
    _forget_allowed(broker)


def clear_topic_permissions(broker: Broker, command: ClearTopicPermissions) -> None:
    """Take topic permissions away: of one exchange, or all of the virtual host."""
    granted = _user(broker, command.user).topic_permissions
    for vhost, exchange in list(granted):
        if vhost == command.vhost and command.exchange in (None, exchange):
            del granted[vhost, exchange]
    _forget_allowed(broker)


def _check_pattern(pattern: str, shown: Any, broker: Broker) -> None:
    error = pattern_error(pattern, broker.release)
    if error is not None:
        raise refused((Atom("invalid_regexp"), shown, error))


def _forget_allowed(broker: Broker) -> None:
    for channel in broker.channels.values():
        channel.allowed.clear()
        channel.publishes.clear()


def set_tracing(broker: Broker, command: SetTracing) -> None:
    """Turn the firehose of a virtual host on or off."""
    _vhost(broker, command.vhost).tracing = command.active


# Policies


def set_policy(broker: Broker, command: SetPolicy) -> None:
    """Set a policy or operator policy."""
    vhost, policy = _vhost(broker, command.vhost), command.policy
    check_policy(broker, policy, operator=command.operator)
    _policies(vhost, command.operator)[policy.name] = policy
    apply_policies(broker, vhost)


def check_policy(broker: Broker, policy: Policy, *, operator: bool) -> None:
    """Raises ``OperatorError`` for a policy that the release does not take."""
    try:
        policy_validation.check_policy(
            policy.name,
            policy.pattern,
            policy.definition,
            policy.apply_to,
            policy.priority,
            operator=operator,
            release=broker.release,
        )
    except PolicyRefusedError as error:
        raise OperatorError(f"Validation failed\n\n{error}\n", error.status) from error


def clear_policy(broker: Broker, command: ClearPolicy) -> None:
    """Remove a policy or operator policy."""
    vhost = _vhost(broker, command.vhost)
    if _policies(vhost, command.operator).pop(command.name, None) is None:
        raise OperatorError("Object Not Found", 404)
    apply_policies(broker, vhost)


def _policies(vhost: VirtualHost, operator: bool) -> dict[str, Policy]:
    return vhost.operator_policies if operator else vhost.policies


def retopologise(vhost: VirtualHost) -> None:
    """Show the rules the policies as they are now; everything else they see as it changes."""
    vhost.topology = Topology(
        exchanges=vhost.exchanges,
        queues=vhost.definitions,
        bindings=vhost.bindings,
        policies=tuple(vhost.policies.values()),
        operator_policies=tuple(vhost.operator_policies.values()),
    )
    vhost.generation += 1


def apply_policies(broker: Broker, vhost: VirtualHost) -> None:
    """Resolve every queue's settings anew."""
    retopologise(vhost)
    affected = list(vhost.queues.values())
    timeouts_ms = [queue.settings.consumer_timeout_ms for queue in affected]
    for queue in affected:
        _reconfigure(broker, queue)
    if timeouts_ms != [queue.settings.consumer_timeout_ms for queue in affected]:
        ack_timeouts.reconsider(broker, vhost)


def _reconfigure(broker: Broker, queue: QueueState) -> None:
    old = queue.settings
    new = effective_settings(queue.definition, queue.vhost.topology, broker.release)
    if new == old:
        return
    queue.settings = new
    queue.store.configure(new)
    if old.dead_letter_strategy == AT_LEAST_ONCE and new.dead_letter_strategy != AT_LEAST_ONCE:
        dead_letters.abandon(broker, queue, "the queue no longer dead-letters at least once")
    if queue.definition.type != CLASSIC and queue.in_hand:
        dead_letters.retry(broker, queue)
    queues.evaluate(broker, queue)
    if queue.definition.type == CLASSIC or broker.release.quorum_policy_restarts_expiry:
        broker.used(queue)
    else:
        broker.expire_unused(queue)


def _vhost(broker: Broker, name: str) -> VirtualHost:
    vhost = broker.vhosts.get(name)
    if vhost is None:
        raise OperatorError(f"vhost '{name}' not found", 404)
    return vhost


def _user(broker: Broker, name: str) -> User:
    user = broker.users.get(name)
    if user is None:
        raise OperatorError(f"user '{name}' not found", 404)
    return user
