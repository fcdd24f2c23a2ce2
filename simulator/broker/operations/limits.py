"""Limits of virtual hosts and users: set by operators, and enforced where something is opened or declared.

Source: rabbit_vhost_limit.erl; rabbit_auth_backend_internal.erl set_user_limits, is_over_channel_limit;
rabbit_reader.erl is_over_vhost_connection_limit, is_over_user_connection_limit, create_channel.
"""

from __future__ import annotations

from typing import Any

from dlx import amqp_errors, limits, operator_errors
from dlx.limits import MAX_CHANNELS, MAX_CONNECTIONS, MAX_QUEUES, limit_reached
from simulator.broker.commands import ClearUserLimit, SetUserLimits, SetVhostLimits
from simulator.broker.state import Connection, NodeState, User, VirtualHost

# Set by operators. Raise ``OperatorError``.


def set_vhost_limits(node: NodeState, command: SetVhostLimits) -> None:
    """Set all limits of a virtual host, or remove them. What is there already stays, even beyond them."""
    vhost = node.known_vhost(command.vhost)
    if command.limits is None:
        vhost.limits = None
        return
    check_vhost_limits(command.limits)
    vhost.limits = dict(command.limits)


def check_vhost_limits(given: Any, name: str = "limits") -> None:
    """Refuse a value that is not for the limits of a virtual host, under the name of a parameter."""
    if wrong := limits.wrong_limits(given, limits.OF_VHOSTS, name):
        raise operator_errors.invalid_parameter("\n".join(wrong))


def set_user_limits(node: NodeState, command: SetUserLimits) -> None:
    """Add limits to those of a user."""
    if wrong := limits.wrong_limits(command.limits, limits.OF_USERS, "user-limits"):
        raise operator_errors.invalid_user_limit(wrong[0])
    user = node.users.get(command.user)
    if user is None:
        raise operator_errors.no_user_to_grant(command.user)
    user.limits |= command.limits


def clear_user_limit(node: NodeState, command: ClearUserLimit) -> None:
    """Take one limit of a user away, or all."""
    user = node.known_user(command.user)
    user.limits = {name: limit for name, limit in user.limits.items() if command.limit not in (name, "all")}


# Enforced. Raise ``Refusal``.


def check_connection(node: NodeState, vhost: VirtualHost, user: User) -> None:
    """Refuse one more connection to the virtual host, or of the user, where the limit is reached."""
    counted = [connection for connection in node.connections.values() if connection.limited]
    limit = limit_reached(vhost.limits, MAX_CONNECTIONS, sum(c.vhost is vhost for c in counted))
    if limit is not None:
        raise amqp_errors.vhost_connection_limit(vhost.name, user.name, limit)
    limit = limit_reached(user.limits, MAX_CONNECTIONS, sum(c.user is user for c in counted))
    if limit is not None:
        raise amqp_errors.user_connection_limit(user.name, limit)


def check_channel(node: NodeState, connection: Connection) -> None:
    """Refuse one more channel of the connection's user where the limit is reached."""
    user = connection.user
    if not connection.limited or not user.limits:
        return
    mine = (c for c in node.connections.values() if c.user is user and c.limited)
    limit = limit_reached(user.limits, MAX_CHANNELS, sum(len(c.channels) for c in mine))
    if limit is not None:
        raise amqp_errors.user_channel_limit(user.name, limit, node.name, node.release)


def queue_limit_reached(vhost: VirtualHost, adding: int = 1) -> int | None:
    """Return the virtual host's limit of queues, if there is no room for that many more."""
    return limit_reached(vhost.limits, MAX_QUEUES, len(vhost.queues) + adding - 1)
