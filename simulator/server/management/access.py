"""Who may ask what: basic authentication, the users' tags, and the virtual hosts they may enter.

Source: rabbit_web_dispatch_access_control.erl.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

from simulator.broker.state import User
from simulator.server.amqp.login import is_loopback
from simulator.server.management.http_errors import ApiError, NoCredentials, not_authorised, not_found
from simulator.server.management.request import Call

REALM = 'Basic realm="RabbitMQ Management"'
_MANAGEMENT = frozenset({"administrator", "monitoring", "policymaker", "management"})

Rule = Callable[[Call, User], None]


def is_administrator(user: User) -> bool:
    """Whether the user may do everything."""
    return "administrator" in user.tags


def is_monitor(user: User) -> bool:
    """Whether the user sees what belongs to other users."""
    return is_administrator(user) or "monitoring" in user.tags


def is_policymaker(user: User) -> bool:
    """Whether the user sets policies and parameters."""
    return is_administrator(user) or "policymaker" in user.tags


def authenticate(call: Call) -> User:
    """The user of the request. Raises ``NoCredentials``, or ``ApiError`` 401."""
    name, password = _credentials(call.headers.get("authorization", ""))
    if not call.broker.authenticated(name, password):
        error, reason = call.api.login_refusal
        challenge = {"WWW-Authenticate": REALM} if call.api.login_refusal_challenges else {}
        raise ApiError(401, error, reason, challenge)
    if name in call.node.loopback_users and not is_loopback(call.peer_host):
        raise not_authorised("User can only log in via localhost")
    user = call.broker.users[name]
    if _MANAGEMENT.isdisjoint(user.tags):
        raise not_authorised("Not management user")
    return user


def _credentials(header: str) -> tuple[str, str]:
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        raise NoCredentials
    try:
        name, colon, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise NoCredentials from error
    if not colon:
        raise NoCredentials
    return name, password


# Rules: who may use a resource, beyond being a user of the management API.


def anyone(call: Call, user: User) -> None:
    """Every user of the management API."""


def administrators(call: Call, user: User) -> None:
    """Administrators."""
    if not is_administrator(user):
        raise not_authorised("Not administrator user")


def monitors(call: Call, user: User) -> None:
    """Administrators and those with the tag monitoring."""
    if not is_monitor(user):
        raise not_authorised("Not monitor user")


def inhabitants(call: Call, user: User) -> None:
    """Administrators, and those who may enter the virtual host that is asked about."""
    if call.vhost is None or is_administrator(user) or call.vhost.name in user.permissions:
        return
    if call.api.hidden_vhost == "not found":
        raise not_found("Not Found")
    raise not_authorised("User not authorised to access virtual host")


def observers(call: Call, user: User) -> None:
    """Those who may enter the virtual host, and monitors."""
    if not is_monitor(user):
        inhabitants(call, user)


def policymakers(call: Call, user: User) -> None:
    """Administrators, and policymakers who may enter the virtual host."""
    vhost = call.vhost
    inside = vhost is None or vhost.name in user.permissions
    if not is_administrator(user) and not (is_policymaker(user) and inside):
        raise not_authorised("User not authorised to access object")


def global_policymakers(call: Call, user: User) -> None:
    """Administrators and policymakers."""
    if not is_policymaker(user):
        raise not_authorised("User not authorised to access object")


def owners(owner: Callable[[Call], str | None]) -> Rule:
    """The user whom the object belongs to; to see it monitors, to delete it administrators, too."""

    def rule(call: Call, user: User) -> None:
        privileged = is_administrator if call.method == "DELETE" else is_monitor
        name = owner(call)
        if name is not None and not privileged(user) and name != user.name:
            raise not_authorised("User not authorised to access object")

    return rule


def sees_vhost(call: Call, vhost: str) -> bool:
    """Whether what is in a virtual host appears in lists for the user who asks."""
    if call.vhost is not None:
        return vhost == call.vhost.name
    return is_administrator(call.user) or vhost in call.user.permissions
