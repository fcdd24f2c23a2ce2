"""``/api/users``, ``/api/whoami``, ``/api/permissions``, ``/api/topic-permissions``.

Source: rabbit_mgmt_wm_user.erl, _users.erl, _permission.erl, _topic_permission.erl, _hash_password.erl.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from dlx.passwords import password_hash
from simulator.broker import User
from simulator.broker.commands import (
    ClearPermissions,
    ClearTopicPermissions,
    DeleteUser,
    PutUser,
    SetPermissions,
    SetTopicPermissions,
)
from simulator.server.management import access, listing
from simulator.server.management.http_errors import HandlerCrash, bad_request
from simulator.server.management.management_releases import Api
from simulator.server.management.request import Request
from simulator.server.management.resources import Resource, vhost_exists

# Users


def user_json(user: User, api: Api) -> dict[str, Any]:
    """Describe a user for lists and exports."""
    shown: dict[str, Any] = {
        "name": user.name,
        "password_hash": base64.b64encode(user.password_hash).decode(),
        "hashing_algorithm": user.hashing_algorithm,
        "tags": _shown_tags(user, api),
    }
    return shown | ({"limits": user.limits} if api.broker.user_limits else {})


def _shown_tags(user: User, api: Api) -> Any:
    return ",".join(user.tags) if api.broker.user_tags == "string" else list(user.tags)


def _user(request: Request) -> User | None:
    return request.broker.users.get(request.name("user"))


def _all(request: Request) -> Any:
    return _listed(list(request.broker.users.values()), request)


def _without_permissions(request: Request) -> Any:
    return _listed([user for user in request.broker.users.values() if not user.permissions], request)


def _listed(users: list[User], request: Request) -> Any:
    facts = [user_json(user, request.api) for user in users]
    if request.api.users_in_pages:
        return listing.paged(facts, request, ("name",), sampled=False)
    return listing.listed(facts, request, ("name",))


def _one(request: Request) -> Any:
    return user_json(request.found, request.api)


def _put(request: Request) -> None:
    request.run(PutUser(request.name("user"), request.json()))


def _delete(request: Request) -> None:
    request.run(DeleteUser(request.name("user")))


def _bulk_delete(request: Request) -> None:
    names = request.json("users")["users"]
    if not isinstance(names, list):
        raise HandlerCrash
    for name in names:
        if isinstance(name, str) and name in request.broker.users:
            request.run(DeleteUser(name))
        elif request.api.unknown_user_in_bulk_delete == "refused":
            raise bad_request(["no_such_user", name])
        elif not isinstance(name, str):
            raise HandlerCrash


def _whoami(request: Request) -> Any:
    shown = {"name": request.user.name, "tags": _shown_tags(request.user, request.api)}
    return shown | ({"is_internal_user": True} if request.api.users_say_whether_internal else {})


def _hashed(request: Request) -> Any:
    return {"ok": base64.b64encode(password_hash(request.name("password"))).decode()}


# Permissions


def permissions(users: list[User]) -> Iterator[dict[str, str]]:
    """Yield the permissions of these users in all virtual hosts."""
    for user in users:
        for vhost, granted in user.permissions.items():
            rights = {"configure": granted.configure, "write": granted.write, "read": granted.read}
            yield {"user": user.name, "vhost": vhost, **rights}


def topic_permissions(users: list[User]) -> Iterator[dict[str, str]]:
    """Yield the topic permissions of these users in all virtual hosts."""
    for user in users:
        for (vhost, exchange), (write, read) in user.topic_permissions.items():
            yield {"user": user.name, "vhost": vhost, "exchange": exchange, "write": write, "read": read}


def _granted(request: Request) -> Any:
    found = [p for p in permissions(_users(request)) if _is_asked_for(p, request)]
    return listing.listed(found, request, ("vhost", "user"))


def _granted_topics(request: Request) -> Any:
    found = [p for p in topic_permissions(_users(request)) if _is_asked_for(p, request)]
    return listing.listed(found, request, ("vhost", "user"))


def _users(request: Request) -> list[User]:
    """Return the user that the path names, or all users if it names no user."""
    users = request.broker.users
    return [users[request.name("user")]] if "user" in request.names else list(users.values())


def _is_asked_for(permission: dict[str, str], request: Request) -> bool:
    if "vhost" in request.names and permission["vhost"] != request.names["vhost"]:
        return False
    return permission.get("exchange", "") == request.names.get("exchange", permission.get("exchange", ""))


def _has_permission(request: Request) -> bool:
    user = _user(request)
    return user is not None and request.vhost is not None and request.vhost.name in user.permissions


def _has_topic_permission(request: Request) -> bool:
    user = _user(request)
    if user is None or request.vhost is None:
        return False
    return any(_is_asked_for(permission, request) for permission in topic_permissions([user]))


def _permission(request: Request) -> Any:
    return next(p for p in permissions(_users(request)) if _is_asked_for(p, request))


def _strings(request: Request, *names: str) -> list[str]:
    """Return the strings that the request gives. Raises ``ApiError`` if user or virtual host do not exist."""
    if _user(request) is None or request.vhost is None:
        raise bad_request("vhost_or_user_not_found")
    document = request.json(*names)
    given = [document[name] for name in names]
    if not all(isinstance(value, str) for value in given):
        raise HandlerCrash
    return given


def _grant(request: Request) -> None:
    rights = _strings(request, "configure", "write", "read")
    request.run(SetPermissions(request.name("user"), request.name("vhost"), *rights))


def _revoke(request: Request) -> None:
    request.run(ClearPermissions(request.name("user"), request.name("vhost")))


def _grant_topics(request: Request) -> None:
    rights = _strings(request, "exchange", "write", "read")
    request.run(SetTopicPermissions(request.name("user"), request.name("vhost"), *rights))


def _revoke_topics(request: Request) -> None:
    request.run(ClearTopicPermissions(request.name("user"), request.name("vhost"), request.names.get("exchange")))


_ADMIN = access.administrators

RESOURCES = (
    Resource("/whoami", _whoami),
    Resource("/auth/hash_password/:password", _hashed, allow=_ADMIN, offered=lambda a: a.hash_password_endpoint),
    Resource("/users", _all, allow=_ADMIN),
    Resource("/users/without-permissions", _without_permissions, allow=_ADMIN),
    Resource("/users/bulk-delete", post=_bulk_delete, allow=_ADMIN),
    Resource("/users/:user", _one, put=_put, delete=_delete, allow=_ADMIN, exists=_user),
    Resource("/users/:user/permissions", _granted, allow=_ADMIN, exists=_user),
    Resource("/users/:user/topic-permissions", _granted_topics, allow=_ADMIN, exists=_user),
    Resource("/vhosts/:vhost/permissions", _granted, allow=_ADMIN, exists=vhost_exists),
    Resource("/vhosts/:vhost/topic-permissions", _granted_topics, allow=_ADMIN, exists=vhost_exists),
    Resource("/permissions", _granted, allow=_ADMIN),
    Resource(
        "/permissions/:vhost/:user",
        _permission,
        put=_grant,
        delete=_revoke,
        allow=_ADMIN,
        exists=_has_permission,
    ),
    Resource("/topic-permissions", _granted_topics, allow=_ADMIN),
    Resource(
        "/topic-permissions/:vhost/:user",
        _granted_topics,
        put=_grant_topics,
        delete=_revoke_topics,
        allow=_ADMIN,
        exists=_has_topic_permission,
    ),
    Resource(
        "/topic-permissions/:vhost/:user/:exchange",
        _granted_topics,
        delete=_revoke_topics,
        allow=_ADMIN,
        exists=_has_topic_permission,
    ),
)
