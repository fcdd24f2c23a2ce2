"""Users: their passwords and tags, and what they may do.

Source: rabbit_auth_backend_internal.erl put_user, set_permissions, set_topic_permissions.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from dlx import amqp_errors, limits, operator_errors, passwords
from dlx.policy_validation import pattern_error
from dlx.releases import Release
from simulator.broker.commands import (
    AddUser,
    ClearPermissions,
    ClearTopicPermissions,
    DeleteUser,
    PutUser,
    SetPermissions,
    SetTopicPermissions,
)
from simulator.broker.operations import connections
from simulator.broker.state import NodeState, Permissions, User

_RIGHTS = ("configure", "write", "read")

# Users


def add_user(node: NodeState, command: AddUser) -> None:
    """Create a user, or change password and tags of one that exists."""
    user = node.users.setdefault(command.name, User(command.name))
    user.password_hash, user.hashing_algorithm = passwords.password_hash(command.password), passwords.SHA256
    user.tags = command.tags


def put_user(node: NodeState, command: PutUser) -> None:
    """Create or change a user; without password and hash it cannot log in with any password. Raises ``OperatorError``.

    Permissions in the description are those of a user that is created.
    """
    name, given = command.name, command.description
    tags, user_limits = _given_tags(given, node.release), _given_limits(given, node.release)
    algorithm, hashed = _given_hash(given, command.version)
    created = name not in node.users
    user = node.users.setdefault(name, User(name))
    user.password_hash, user.hashing_algorithm, user.tags = hashed, algorithm, tags
    user.limits |= user_limits
    if created and "permissions" in given:
        _grant(node, name, given["permissions"])


def _given_tags(given: Mapping[str, Any], release: Release) -> tuple[str, ...]:
    if "tags" not in given:
        raise operator_errors.tags_not_present()
    if release.user_tags == "string" and not isinstance(given["tags"], str):
        raise operator_errors.bad_argument()
    return tag_names(given["tags"])


def _given_limits(given: Mapping[str, Any], release: Release) -> dict[str, int]:
    if "limits" not in given or not release.user_limits:
        return {}
    if wrong := limits.wrong_limits(given["limits"], limits.OF_USERS, "user-limits"):
        raise operator_errors.user_with_invalid_limits(wrong[0])
    if not isinstance(given["limits"], Mapping):
        raise operator_errors.bad_argument()
    return dict(given["limits"])


def _grant(node: NodeState, name: str, granted: Any) -> None:
    if not isinstance(granted, Mapping):
        raise operator_errors.wrong_type()
    for vhost, rights in granted.items():
        if vhost not in node.vhosts:
            raise operator_errors.no_vhost_to_import_into(vhost)
        if not isinstance(rights, Mapping) or not all(isinstance(rights.get(right), str) for right in _RIGHTS):
            raise operator_errors.bad_argument()
        set_permissions(node, SetPermissions(name, vhost, *(rights[right] for right in _RIGHTS)))


def _given_hash(given: Mapping[str, Any], version: str | None) -> tuple[str, bytes]:
    """Return the hashing algorithm and the hash of a description: of its password, or as it gives it."""
    if "password" in given and "password_hash" in given:
        raise operator_errors.password_and_hash()
    if "password" in given:
        if not isinstance(given["password"], str):
            raise operator_errors.bad_argument()
        return passwords.SHA256, passwords.password_hash(given["password"])
    algorithm = given.get("hashing_algorithm") or passwords.algorithm_of(version)
    if "password_hash" not in given:
        return algorithm, passwords.NO_PASSWORD
    try:
        return algorithm, base64.b64decode("".join(given["password_hash"].split()), validate=True)
    except (AttributeError, binascii.Error, ValueError) as error:
        raise operator_errors.not_base64(given["password_hash"]) from error


def delete_user(node: NodeState, command: DeleteUser) -> None:
    """Delete a user; its connections are closed."""
    if node.users.pop(command.name, None) is None:
        raise operator_errors.no_user_to_delete(command.name)
    for connection in [c for c in node.connections.values() if c.user.name == command.name]:
        connections.force_close(node, connection, amqp_errors.user_deleted(command.name))


# Permissions


def set_permissions(node: NodeState, command: SetPermissions) -> None:
    """Set what a user may do in a virtual host; its channels go by it at once."""
    node.known_vhost(command.vhost)
    for pattern in (command.configure, command.write, command.read):
        _check_pattern(pattern, node, shown=list(pattern.encode()))
    granted = Permissions(command.configure, command.write, command.read)
    node.known_user(command.user).permissions[command.vhost] = granted
    _permissions_changed(node)


def clear_permissions(node: NodeState, command: ClearPermissions) -> None:
    """Take a user's permissions in a virtual host away."""
    node.known_user(command.user).permissions.pop(command.vhost, None)
    _permissions_changed(node)


def set_topic_permissions(node: NodeState, command: SetTopicPermissions) -> None:
    """Set the routing keys with which a user may publish to a topic exchange and bind from it."""
    for pattern in (command.write, command.read):
        _check_pattern(pattern, node, shown=pattern)
    missing = command.exchange not in node.known_vhost(command.vhost).exchanges
    if missing and node.release.topic_permissions_need_exchange:
        raise operator_errors.no_exchange_for_topic_permissions(command.exchange)
    key = (command.vhost, command.exchange)
    node.known_user(command.user).topic_permissions[key] = (command.write, command.read)
    _permissions_changed(node)


def clear_topic_permissions(node: NodeState, command: ClearTopicPermissions) -> None:
    """Take topic permissions away: of one exchange, or all of the virtual host."""
    granted = node.known_user(command.user).topic_permissions
    for vhost, exchange in list(granted):
        if vhost == command.vhost and command.exchange in (None, exchange):
            del granted[vhost, exchange]
    _permissions_changed(node)


def _check_pattern(pattern: str, node: NodeState, *, shown: str | list[int]) -> None:
    error = pattern_error(pattern, node.release)
    if error is not None:
        raise operator_errors.invalid_permission_pattern(shown, error)


def _permissions_changed(node: NodeState) -> None:
    for channel in node.channels.values():
        channel.permissions_changed = True
        channel.publishes.clear()


# Tags of users and virtual hosts, as requests and definitions give them.
#
# Source: rabbit_auth_backend_internal.erl tag_list_from; rabbit_vhost.erl put_vhost, parse_tags.


def tag_names(given: Any) -> tuple[str, ...]:
    """Return tags given as a list, or as a string that commas divide. Raises ``UnforeseenError`` for other values."""
    tags = given.split(",") if isinstance(given, str) else given
    if not isinstance(tags, list) or not all(isinstance(tag, str | int) for tag in tags):
        raise operator_errors.wrong_type()
    return tuple(tag for tag in (str(tag).strip() for tag in tags) if tag)


def vhost_tags(given: Any) -> tuple[str, ...]:
    """Return the tags of a virtual host, of which null stands for none. Raises ``UnforeseenError`` for other values."""
    return () if given is None else tag_names(given)
