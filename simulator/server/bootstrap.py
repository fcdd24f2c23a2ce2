"""A broker with what it starts with: users, and what a definitions document describes."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from simulator.broker.broker import Broker
from simulator.broker.commands import AddUser, AddVhost, DeleteUser, ImportDefinitions, SetPermissions
from simulator.broker.operator_errors import OperatorError
from simulator.definitions import Definitions, DefinitionsError, read_definitions

Source = Mapping[str, Any] | str | os.PathLike[str]
ADMINISTRATOR = ("administrator",)


def furnished(
    release: str,
    *,
    definitions: Source | None = None,
    users: Mapping[str, str] | None = None,
    node: str = "rabbit@localhost",
    now_us: int | None = None,
) -> Broker:
    """A broker of that release.

    Args:
        release: such as ``4.3``.
        definitions: an export, or the file that holds one.
        users: passwords by name, of administrators who may do everything everywhere. They replace guest.
        node: the node's name.
        now_us: the time at which it starts, microseconds since 1970.

    Raises:
        UnknownReleaseError: there are no rules for that release.
        DefinitionsError: the definitions cannot be used.
    """
    broker = Broker(release, node=node)
    now_us = time.time_ns() // 1000 if now_us is None else now_us
    if definitions is not None:
        furnish(broker, definitions, now_us)
    for name, password in (users or {}).items():
        broker.handle(AddUser(name, password, ADMINISTRATOR), now_us)
        for vhost in broker.vhosts:
            broker.handle(SetPermissions(name, vhost, ".*", ".*", ".*"), now_us)
    if users and "guest" not in users and "guest" in broker.users:
        broker.handle(DeleteUser("guest"), now_us)
    return broker


def furnish(broker: Broker, source: Source, now_us: int) -> None:
    """Import definitions. Those of one virtual host make it; where nobody has permissions, administrators get them.

    Raises ``DefinitionsError`` when they cannot be used.
    """
    if isinstance(source, Mapping):
        definitions = Definitions(dict(source), "definitions")
    else:
        definitions = read_definitions(source)
    only = definitions.vhosts[0] if definitions.single_vhost else None
    if only is not None:
        broker.handle(AddVhost(only), now_us)
    try:
        broker.handle(ImportDefinitions(definitions.document, only), now_us)
    except OperatorError as error:
        raise DefinitionsError(definitions.source, "", error.text) from error
    if not definitions.document.get("permissions"):
        for vhost in broker.vhosts:
            broker.grant_everything(vhost)
