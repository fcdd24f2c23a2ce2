"""Check what a user may do with which queues and exchanges.

Permissions are three regular expressions for each user and virtual host: of the
names that may be configured, written to and read from. An expression is found
anywhere in a name; the empty one matches only the empty name. Topic permissions
check routing keys as well; a user without topic permissions may use every key.

Source: rabbit_access_control.erl check_resource_access, check_topic_access;
rabbit_auth_backend_internal.erl; rabbit_channel.erl for the permissions that each method asks for;
live servers.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, Protocol

from dlx.amqp_errors import Refusal, resource
from dlx.policies import pattern_found
from dlx.releases import Release

What = Literal["configure", "write", "read"]
Kind = Literal["queue", "exchange"]


class Permissions(Protocol):
    """Regular expressions of the names that a user may configure, write and read in one virtual host."""

    configure: str
    write: str
    read: str


class Needed(NamedTuple):
    """A permission that a method needs: ``what`` of the ``kind`` that its field ``of`` names.

    ``when`` is the condition under which RabbitMQ asks for it; "" means always.
    """

    what: What
    kind: Kind
    of: str
    when: str = ""


_NEW_WITH_DLX = "the queue is new, and its arguments name a dead-letter exchange"
_NEW_WITH_ALTERNATE = "the exchange is new, and its arguments name an alternate exchange"
# In the order in which a server asks. Passive declarations: Release.passive_declare_needs.
NEEDED: dict[str, tuple[Needed, ...]] = {
    "exchange.declare": (
        Needed("configure", "exchange", "exchange"),
        Needed("read", "exchange", "exchange", _NEW_WITH_ALTERNATE),
        Needed("write", "exchange", "alternate-exchange", _NEW_WITH_ALTERNATE),
    ),
    "exchange.delete": (Needed("configure", "exchange", "exchange"),),
    "exchange.bind": (Needed("write", "exchange", "destination"), Needed("read", "exchange", "source")),
    "exchange.unbind": (Needed("write", "exchange", "destination"), Needed("read", "exchange", "source")),
    "queue.declare": (
        Needed("configure", "queue", "queue"),
        Needed("read", "queue", "queue", _NEW_WITH_DLX),
        Needed("write", "exchange", "x-dead-letter-exchange", _NEW_WITH_DLX),
    ),
    "queue.delete": (Needed("configure", "queue", "queue"),),
    "queue.bind": (Needed("write", "queue", "queue"), Needed("read", "exchange", "exchange")),
    "queue.unbind": (Needed("write", "queue", "queue"), Needed("read", "exchange", "exchange")),
    "queue.purge": (Needed("read", "queue", "queue"),),
    "basic.publish": (Needed("write", "exchange", "exchange"),),
    "basic.consume": (Needed("read", "queue", "queue"),),
    "basic.get": (Needed("read", "queue", "queue"),),
}


def check(
    permissions: Permissions | None,
    what: str,
    resource_kind: str,
    name: str,
    *,
    vhost: str,
    user: str,
    release: Release,
) -> None:
    """Raise ``Refusal`` 403 unless the user may ``configure``, ``write`` or ``read`` the queue or exchange.

    The default exchange goes by the name ``amq.default``. Without ``permissions`` nothing is allowed.
    """
    if resource_kind == "exchange" and not name:
        name = "amq.default"
    if permissions is None or not _allows(getattr(permissions, what), name, release):
        verb = f"{what} access" if release.access_refusal_names_permission else "access"
        raise Refusal(403, f"{verb} to {resource(resource_kind, name, vhost)} refused for user '{user}'")


def check_topic(
    granted: tuple[str, str],
    what: str,
    exchange: str,
    routing_key: str,
    *,
    vhost: str,
    user: str,
    release: Release,
) -> None:
    """Raise ``Refusal`` 403 unless the topic permission (write, read) covers the routing key.

    ``{username}`` and ``{vhost}`` in it mean the user and the virtual host.
    """
    pattern = granted[0] if what == "write" else granted[1]
    for key, value in (("username", user), ("vhost", vhost)):
        literal = re.escape(value) if release.topic_permission_expansion == "escaped" else value
        pattern = pattern.replace("{" + key + "}", literal)
    if not _allows(pattern, routing_key, release):
        verb = f"{what} access" if release.access_refusal_names_permission else "access"
        raise Refusal(
            403,
            f"{verb} to topic '{routing_key}' in exchange '{exchange}' in vhost '{vhost}' refused for user '{user}'",
        )


def _allows(pattern: str, name: str, release: Release) -> bool:
    return pattern == ".*" or pattern_found(pattern or "^$", name, release.regex_library)
