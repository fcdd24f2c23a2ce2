"""Who may ask for what: basic authentication, the users' tags, and the virtual hosts they may enter.

Source: rabbit_web_dispatch_access_control.erl.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping

from dlx import permissions
from dlx.amqp_errors import Refusal
from simulator.broker import User, VirtualHost
from simulator.server.amqp.connection import is_loopback
from simulator.server.management.http_errors import ApiError, MalformedRequest, NoCredentials, not_authorised, not_found
from simulator.server.management.request import Request

REALM = 'Basic realm="RabbitMQ Management"'
_MANAGEMENT = frozenset({"administrator", "monitoring", "policymaker", "management"})

Rule = Callable[[Request, User], None]


def is_administrator(user: User) -> bool:
    """Return whether the user may do everything."""
    return "administrator" in user.tags


def is_monitor(user: User) -> bool:
    """Return whether the user sees what belongs to other users."""
    return is_administrator(user) or "monitoring" in user.tags


def is_policymaker(user: User) -> bool:
    """Return whether the user may set policies and parameters."""
    return is_administrator(user) or "policymaker" in user.tags


def authenticate(request: Request) -> User:
    """Return the user whose name and password the request has.

    Raises ``NoCredentials``, ``MalformedRequest``, or ``ApiError`` 401.
    """
    name, password = _credentials(request.headers)
    if password and (name, password) == request.node.operator and is_loopback(request.peer_host):
        return User(name, tags=("administrator",))
    if not request.broker.authenticated(name, password):
        error, reason = request.api.login_refusal
        challenge = {"WWW-Authenticate": REALM} if request.api.login_refusal_challenges else {}
        raise ApiError(401, error, reason, challenge)
    if name in request.node.loopback_users and not is_loopback(request.peer_host):
        raise not_authorised("User can only log in via localhost")
    user = request.broker.users[name]
    if _MANAGEMENT.isdisjoint(user.tags):
        raise not_authorised("Not management user")
    return user


def _credentials(headers: Mapping[str, str]) -> tuple[str, str]:
    """Return name and password; those of no user for a bearer token. Source: cow_http_hd.erl parse_authorization."""
    if "authorization" not in headers:
        raise NoCredentials
    scheme, _, encoded = headers["authorization"].partition(" ")
    if scheme.lower() == "bearer" and encoded:
        return "", encoded
    try:
        name, colon, password = base64.b64decode(encoded, validate=True).decode(errors="replace").partition(":")
    except ValueError as error:
        raise MalformedRequest from error
    if scheme.lower() != "basic" or not colon:
        raise MalformedRequest
    return name, password


# Rules: who may use a resource, beyond being a user of the management API. They raise ``ApiError`` 401.


def anyone(request: Request, user: User) -> None:
    """Allow every user of the management API."""


def administrators(request: Request, user: User) -> None:
    """Allow administrators."""
    if not is_administrator(user):
        raise not_authorised("Not administrator user")


def administrators_to_change(request: Request, user: User) -> None:
    """Allow everybody to look, and administrators to change."""
    if request.method not in ("GET", "HEAD"):
        administrators(request, user)


def monitors(request: Request, user: User) -> None:
    """Allow administrators, and users with the tag monitoring."""
    if not is_monitor(user):
        raise not_authorised("Not monitor user")


def inhabitants(request: Request, user: User) -> None:
    """Allow administrators, and users who may enter the virtual host asked about."""
    if request.vhost is None or is_administrator(user) or request.vhost.name in user.permissions:
        return
    if request.api.hidden_vhost == "not found":
        raise not_found("Not Found")
    raise not_authorised("User not authorised to access virtual host")


def observers(request: Request, user: User) -> None:
    """Allow users who may enter the virtual host asked about, and monitors."""
    if not is_monitor(user):
        inhabitants(request, user)


def policymakers(request: Request, user: User) -> None:
    """Allow administrators, and policymakers who may enter the virtual host asked about."""
    vhost = request.vhost
    inside = vhost is None or vhost.name in user.permissions
    if not is_administrator(user) and not (is_policymaker(user) and inside):
        raise not_authorised("User not authorised to access object")


def global_policymakers(request: Request, user: User) -> None:
    """Allow administrators and policymakers."""
    if not is_policymaker(user):
        raise not_authorised("User not authorised to access object")


def owners(owner: Callable[[Request], str | None]) -> Rule:
    """Allow the user whom the object belongs to; also monitors to see it, administrators to delete it."""

    def rule(request: Request, user: User) -> None:
        privileged = is_administrator if request.method == "DELETE" else is_monitor
        name = owner(request)
        if name is not None and not privileged(user) and name != user.name:
            raise not_authorised("User not authorised to access object")

    return rule


def sees_vhost(request: Request, vhost: str) -> bool:
    """Return whether lists show the user what is in a virtual host."""
    if request.vhost is not None:
        return vhost == request.vhost.name
    return is_administrator(request.user) or vhost in request.user.permissions


def visible_vhosts(request: Request) -> list[VirtualHost]:
    """Return the virtual hosts whose contents lists show: the one asked about, or all that the user may enter."""
    if request.vhost is not None:
        return [request.vhost]
    return [vhost for vhost in request.broker.vhosts.values() if sees_vhost(request, vhost.name)]


def may_read(request: Request, vhost: str, queue: str) -> bool:
    """Return whether the user may get messages from a queue, and so see what is in them."""
    user, release = request.user, request.broker.release
    try:
        permissions.check(
            user.permissions.get(vhost), "read", "queue", queue, vhost=vhost, user=user.name, release=release
        )
    except Refusal:
        return False
    return True
