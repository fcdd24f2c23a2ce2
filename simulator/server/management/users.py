"""``/api/users``, ``/api/whoami``, ``/api/permissions``, ``/api/topic-permissions``.

A simulator keeps passwords as they are; what stands in for a hash is made of the
password when it is asked for, in RabbitMQ's form.

Source: rabbit_mgmt_wm_user.erl, _users.erl, _permission.erl, _topic_permission.erl; rabbit_password.erl.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator
from typing import Any

from simulator.broker.commands import (
    AddUser,
    ClearPermissions,
    ClearTopicPermissions,
    DeleteUser,
    SetPermissions,
    SetTopicPermissions,
)
from simulator.broker.state import User
from simulator.server.management import access, listing
from simulator.server.management.http_errors import Crash, bad_request, object_not_found
from simulator.server.management.management_releases import Api
from simulator.server.management.request import Call
from simulator.server.management.resources import Resource

_ALGORITHM = "rabbit_password_hashing_sha256"
_NO_PASSWORD = ""


# Users


def password_hash(password: str) -> str:
    """A password as RabbitMQ keeps it: four bytes of salt (here always the same) and the SHA-256 of both."""
    if password == _NO_PASSWORD:
        return ""
    salt = hashlib.sha256(password.encode()).digest()[:4]
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()


def user_facts(user: User, api: Api) -> dict[str, Any]:
    """A user as lists and exports show it."""
    facts: dict[str, Any] = {
        "name": user.name,
        "password_hash": password_hash(user.password),
        "hashing_algorithm": _ALGORITHM,
        "tags": _shown_tags(user, api),
    }
    return facts | ({"limits": {}} if api.user_limits else {})


def _shown_tags(user: User, api: Api) -> Any:
    return ",".join(user.tags) if api.user_tags == "string" else list(user.tags)


def _user(call: Call) -> User | None:
    return call.broker.users.get(call.id("user"))


def _user_exists(call: Call) -> bool:
    return _user(call) is not None


def _needed_user(call: Call) -> User:
    user = _user(call)
    if user is None:
        raise object_not_found()
    return user


def _all(call: Call) -> Any:
    users = [user_facts(user, call.api) for user in call.broker.users.values()]
    return listing.listed(users, call, ("name",))


def _without_permissions(call: Call) -> Any:
    users = [user_facts(user, call.api) for user in call.broker.users.values() if not user.permissions]
    return listing.listed(users, call, ("name",))


def _one(call: Call) -> Any:
    return listing.chosen(user_facts(_needed_user(call), call.api), call)


def _put(call: Call) -> None:
    document = call.json()
    if "tags" not in document:
        raise bad_request("tags_not_present")
    tags = _tags(document["tags"], call.api)
    call.do(AddUser(call.id("user"), _password(document, _user(call)), tags))


def _password(document: dict[str, Any], user: User | None) -> str:
    """The password that the request gives. A hash says nothing, unless it is that of the password it has."""
    if isinstance(document.get("password"), str):
        return str(document["password"])
    given = document.get("password_hash")
    if given in (None, ""):
        return _NO_PASSWORD
    try:
        base64.b64decode(given, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise bad_request(["not_base64", given]) from error
    if user is not None and given == password_hash(user.password):
        return user.password
    raise bad_request("a simulator cannot check password hashes: give the password itself as 'password'")


def _tags(given: Any, api: Api) -> tuple[str, ...]:
    if isinstance(given, str):
        given = given.split(",")
    elif api.user_tags == "string":
        raise Crash
    if not isinstance(given, list) or not all(isinstance(tag, str) for tag in given):
        raise Crash
    return tuple(tag.strip() for tag in given if tag.strip())


def _delete(call: Call) -> None:
    call.do(DeleteUser(call.id("user")))


def _bulk_delete(call: Call) -> None:
    for name in call.json("users")["users"]:
        if name in call.broker.users:
            call.do(DeleteUser(name))
        elif call.api.unknown_user_in_bulk_delete == "refused":
            raise bad_request(["no_such_user", name])


def _whoami(call: Call) -> Any:
    facts = {"name": call.user.name, "tags": _shown_tags(call.user, call.api)}
    return facts | ({"is_internal_user": True} if call.api.users_say_whether_internal else {})


def _hashed(call: Call) -> Any:
    return {"ok": password_hash(call.id("password"))}


# Permissions


def permissions(users: list[User]) -> Iterator[dict[str, str]]:
    """The permissions of these users in all virtual hosts."""
    for user in users:
        for vhost, granted in user.permissions.items():
            rights = {"configure": granted.configure, "write": granted.write, "read": granted.read}
            yield {"user": user.name, "vhost": vhost, **rights}


def topic_permissions(users: list[User]) -> Iterator[dict[str, str]]:
    """The topic permissions of these users in all virtual hosts."""
    for user in users:
        for (vhost, exchange), (write, read) in user.topic_permissions.items():
            yield {"user": user.name, "vhost": vhost, "exchange": exchange, "write": write, "read": read}


def _granted(call: Call) -> Any:
    found = [p for p in permissions(_users(call)) if _is_asked_for(p, call)]
    return listing.listed(found, call, ("vhost", "user"))


def _granted_topics(call: Call) -> Any:
    found = [p for p in topic_permissions(_users(call)) if _is_asked_for(p, call)]
    return listing.listed(found, call, ("vhost", "user"))


def _users(call: Call) -> list[User]:
    """The users whose permissions are asked for: one, or all."""
    return [_needed_user(call)] if "user" in call.ids else list(call.broker.users.values())


def _is_asked_for(permission: dict[str, str], call: Call) -> bool:
    if "vhost" in call.ids and permission["vhost"] != call.ids["vhost"]:
        return False
    return permission.get("exchange", "") == call.ids.get("exchange", permission.get("exchange", ""))


def _vhost_exists(call: Call) -> bool:
    return call.vhost is not None


def _has_permission(call: Call) -> bool:
    user = _user(call)
    return user is not None and call.vhost is not None and call.vhost.name in user.permissions


def _has_topic_permission(call: Call) -> bool:
    user = _user(call)
    if user is None or call.vhost is None:
        return False
    return any(_is_asked_for(permission, call) for permission in topic_permissions([user]))


def _permission(call: Call) -> Any:
    facts = next(p for p in permissions([_needed_user(call)]) if _is_asked_for(p, call))
    return listing.chosen(facts, call)


def _strings(call: Call, *names: str) -> list[str]:
    """What the request grants. Raises ``ApiError`` where user or virtual host do not exist."""
    if _user(call) is None or call.vhost is None:
        raise bad_request("vhost_or_user_not_found")
    document = call.json(*names)
    given = [document[name] for name in names]
    if not all(isinstance(value, str) for value in given):
        raise Crash
    return given


def _grant(call: Call) -> None:
    rights = _strings(call, "configure", "write", "read")
    call.do(SetPermissions(call.id("user"), call.id("vhost"), *rights))


def _revoke(call: Call) -> None:
    call.do(ClearPermissions(call.id("user"), call.id("vhost")))


def _grant_topics(call: Call) -> None:
    rights = _strings(call, "exchange", "write", "read")
    call.do(SetTopicPermissions(call.id("user"), call.id("vhost"), *rights))


def _revoke_topics(call: Call) -> None:
    call.do(ClearTopicPermissions(call.id("user"), call.id("vhost"), call.ids.get("exchange")))


_ADMIN = access.administrators

RESOURCES = (
    Resource("/whoami", _whoami),
    Resource("/auth/hash_password/:password", _hashed, allow=_ADMIN, offered=lambda a: a.hash_password_endpoint),
    Resource("/users", _all, allow=_ADMIN),
    Resource("/users/without-permissions", _without_permissions, allow=_ADMIN),
    Resource("/users/bulk-delete", post=_bulk_delete, allow=_ADMIN),
    Resource("/users/:user", _one, put=_put, delete=_delete, allow=_ADMIN, exists=_user_exists),
    Resource("/users/:user/permissions", _granted, allow=_ADMIN, exists=_user_exists),
    Resource("/users/:user/topic-permissions", _granted_topics, allow=_ADMIN, exists=_user_exists),
    Resource("/vhosts/:vhost/permissions", _granted, allow=_ADMIN, exists=_vhost_exists),
    Resource("/vhosts/:vhost/topic-permissions", _granted_topics, allow=_ADMIN, exists=_vhost_exists),
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
