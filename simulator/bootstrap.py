"""Starts a broker with users and with a definitions document."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from simulator.broker import Broker, OperatorError
from simulator.broker.commands import AddUser, AddVhost, DeleteUser, ImportDefinitions, SetPermissions
from simulator.definitions import Definitions, DefinitionsError, importable, read_definitions

DefinitionsSource = Mapping[str, Any] | str | os.PathLike[str]
"""An export of RabbitMQ's definitions, or the path of the file that holds one."""
ADMINISTRATOR = ("administrator",)


def start_broker(
    release: str,
    *,
    definitions: DefinitionsSource | None = None,
    users: Mapping[str, str] | None = None,
    node: str = "rabbit@localhost",
    now_us: int | None = None,
) -> Broker:
    """Start a broker of that release.

    Args:
        release: such as ``4.3``.
        definitions: an export, or the path of the file that holds one.
        users: passwords by name, of administrators who may do everything everywhere. They replace guest, who
            otherwise has the password guest, whatever the definitions say; other users have theirs.
        node: the node's name.
        now_us: the time at which it starts, microseconds since 1970.

    Raises:
        UnknownReleaseError: there are no rules for that release.
        DefinitionsError: the definitions cannot be used.
    """
    broker = Broker(release, node=node)
    now_us = time.time_ns() // 1000 if now_us is None else now_us
    if definitions is not None:
        import_definitions(broker, definitions, now_us)
        broker.handle(AddUser("guest", "guest", broker.users["guest"].tags), now_us)
    for name, password in (users or {}).items():
        add_user(broker, name, now_us, password=password, tags=ADMINISTRATOR)
    if users and "guest" not in users and "guest" in broker.users:
        broker.handle(DeleteUser("guest"), now_us)
    return broker


def add_user(broker: Broker, name: str, now_us: int, *, password: str = "", tags: tuple[str, ...] = ()) -> None:
    """Add a user who has all permissions in each virtual host."""
    broker.handle(AddUser(name, password, tags), now_us)
    for vhost in broker.vhosts:
        broker.handle(SetPermissions(name, vhost, ".*", ".*", ".*"), now_us)


def import_definitions(broker: Broker, source: DefinitionsSource, now_us: int) -> None:
    """Import definitions into a broker.

    Definitions of one virtual host create it. Where they give nobody permissions, administrators get them all.

    Raises ``DefinitionsError`` if they cannot be used.
    """
    if isinstance(source, Mapping):
        definitions = Definitions(dict(source), "definitions")
    else:
        definitions = read_definitions(source)
    only = definitions.vhosts[0] if definitions.single_vhost else None
    if only is not None:
        broker.handle(AddVhost(only), now_us)
    try:
        broker.handle(ImportDefinitions(importable(definitions.document), only), now_us)
    except OperatorError as error:
        raise DefinitionsError(definitions.source, _where(error, definitions), error.text) from error
    if not definitions.document.get("permissions"):
        for vhost in broker.vhosts:
            broker.grant_everything(vhost)


def _where(error: OperatorError, definitions: Definitions) -> str:
    """Return the place of the item that is refused, with its name, such as ``queues[3] 'orders'``."""
    if error.item is None:
        return ""
    section, place = error.item
    name = definitions.document[section][place].get("name")
    return f"{section}[{place}] '{name}'" if isinstance(name, str) else f"{section}[{place}]"
