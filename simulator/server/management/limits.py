"""``/api/vhost-limits``, ``/api/user-limits``: list, set and clear limits.

Source: rabbit_mgmt_wm_limits.erl, _limit.erl, _user_limits.erl, _user_limit.erl.
"""

from __future__ import annotations

from typing import Any

from simulator.broker import User, VirtualHost
from simulator.broker.commands import ClearUserLimit, SetUserLimits, SetVhostLimits
from simulator.server.management import access, listing
from simulator.server.management.http_errors import Crash, not_found
from simulator.server.management.request import Request
from simulator.server.management.resources import JSON, Resource, vhost_exists

# Virtual hosts


def _of_all_vhosts(request: Request) -> Any:
    return _listed([vhost for vhost in access.visible_vhosts(request) if vhost.limits is not None], request)


def _of_one_vhost(request: Request) -> Any:
    vhost = request.needed_vhost()
    return _listed([vhost] if vhost.limits else [], request)


def _listed(vhosts: list[VirtualHost], request: Request) -> Any:
    none = request.api.vhost_limits_cleared
    return listing.listed([{"vhost": vhost.name, "value": vhost.limits or none} for vhost in vhosts], request, ())


def _set_vhost_limit(request: Request) -> None:
    vhost = request.needed_vhost()
    limits = {**(vhost.limits or {}), request.name("name"): request.json("value")["value"]}
    request.run(SetVhostLimits(vhost.name, limits))


def _clear_vhost_limit(request: Request) -> None:
    if request.vhost is None:
        raise _nobody(request)
    vhost = request.vhost
    kept = {name: limit for name, limit in (vhost.limits or {}).items() if name != request.name("name")}
    request.run(SetVhostLimits(vhost.name, kept))


# Users


def _of_all_users(request: Request) -> Any:
    return _users_listed(list(request.broker.users.values()), request)


def _of_one_user(request: Request) -> Any:
    return _users_listed([request.broker.users[request.name("user")]], request)


def _users_listed(users: list[User], request: Request) -> Any:
    return listing.listed([{"user": user.name, "value": user.limits} for user in users if user.limits], request, ())


def _user_exists(request: Request) -> bool:
    return request.name("user") in request.broker.users


def _set_user_limit(request: Request) -> None:
    value = request.json("value")["value"]
    request.run(SetUserLimits(request.name("user"), {request.name("name"): value}))


def _clear_user_limit(request: Request) -> None:
    if not _user_exists(request):
        raise _nobody(request)
    request.run(ClearUserLimit(request.name("user"), request.name("name")))


def _nobody(request: Request) -> Exception:
    """Return the error of a limit to clear of nobody; a user, too, is called a virtual host."""
    return Crash() if request.api.limits_of_nobody == "crashes" else not_found("vhost_not_found")


_ADMIN = access.administrators
_USER = access.owners(lambda request: request.name("user"))


def _seers_of_all(request: Request, user: User) -> None:
    if request.api.user_limits_seen_by != "all users":
        access.administrators(request, user)


def _seers_of_one(request: Request, user: User) -> None:
    if request.api.user_limits_seen_by != "all users":
        _USER(request, user)


def _of_users(path: str, **given: Any) -> Resource:
    return Resource(f"/user-limits{path}", **given, offered=lambda api: api.broker.user_limits)


RESOURCES = (
    Resource("/vhost-limits", _of_all_vhosts),
    Resource("/vhost-limits/:vhost", _of_one_vhost, allow=access.observers, exists=vhost_exists),
    Resource(
        "/vhost-limits/:vhost/:name", put=_set_vhost_limit, delete=_clear_vhost_limit, allow=_ADMIN, takes=(JSON,)
    ),
    _of_users("", get=_of_all_users, allow=_seers_of_all),
    _of_users("/:user", get=_of_one_user, allow=_seers_of_one, exists=_user_exists),
    _of_users("/:user/:name", put=_set_user_limit, delete=_clear_user_limit, allow=_ADMIN, takes=(JSON,)),
)
