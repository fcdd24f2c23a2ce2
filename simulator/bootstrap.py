"""Starts a broker with users and with a definitions document."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dlx.releases import Release
from dlx.server_plugins import PLAYED, PLUGINS, named_plugins, plugins_with
from dlx.shovels import COMPONENT
from simulator.broker import Broker, OperatorError
from simulator.broker.commands import (
    AddUser,
    AddVhost,
    DeleteUser,
    ImportDefinitions,
    SetPermissions,
    TakeDefinitions,
)
from simulator.broker.replies import NotImported
from simulator.definitions import Definitions, DefinitionsError, importable
from simulator.definitions.checks import check_some_release_takes, impossible_places
from simulator.definitions.completed import Completed, completed
from simulator.sources import definitions_from_file

DefinitionsSource = Mapping[str, Any] | str | os.PathLike[str]
"""An export of RabbitMQ's definitions, or the path of the file that holds one."""
ADMINISTRATOR = ("administrator",)


def start_broker(
    release: str,
    *,
    definitions: DefinitionsSource | Definitions | None = None,
    users: Mapping[str, str] | None = None,
    node: str = "rabbit@localhost",
    plugins: Iterable[str] = (),
    peers: Iterable[str] = (),
    now_us: int | None = None,
    strict_import: bool = False,
    not_imported: Callable[[NotImported], object] | None = None,
) -> Broker:
    """Start a broker of that release.

    Args:
        release: such as ``4.3``.
        definitions: an export, or the path of the file that holds one.
        users: passwords by name, of administrators who may do everything everywhere. They replace guest, who
            otherwise has the password guest, whatever the definitions say; other users have theirs.
        node: the node's name.
        plugins: the plugins that are enabled (``dlx.server_plugins.PLUGINS``). So are those without which the server
            could not have the exchanges and shovels of the definitions, unless these are imported strictly.
        peers: the other servers that shovels reach, as ``HOST:PORT``.
        now_us: the time at which it starts, microseconds since 1970.
        strict_import: whether definitions are imported as by that server; else the broker has all that they have.
        not_imported: told what an import of the definitions would not take, though the broker may have it.

    Raises:
        UnknownReleaseError: there are no rules for that release.
        UnknownPluginError: there is no such plugin.
        DefinitionsError: the definitions cannot be used.
    """
    enabled = named_plugins(plugins)
    if definitions is not None:
        definitions = _read(definitions)
        if not strict_import:
            enabled |= _plugins_of(definitions)
    broker = Broker(release, node=node, plugins=enabled, peers=frozenset(peers))
    now_us = time.time_ns() // 1000 if now_us is None else now_us
    if definitions is not None:
        import_definitions(broker, definitions, now_us, strict=strict_import, not_imported=not_imported)
        broker.handle(AddUser("guest", "guest", broker.users["guest"].tags), now_us)
    for name, password in (users or {}).items():
        add_user(broker, name, now_us, password=password, tags=ADMINISTRATOR)
    if users and "guest" not in users and "guest" in broker.users:
        broker.handle(DeleteUser("guest"), now_us)
    return broker


def _plugins_of(definitions: Definitions) -> frozenset[str]:
    """Return the plugins without which a server could not have its exchanges and shovels."""
    enabled = plugins_with(each.get("type", "") for each in definitions.document.get("exchanges", ()))
    if any(each.get("component") == COMPONENT for each in definitions.document.get("parameters", ())):
        enabled |= {PLUGINS[COMPONENT].name}
    return enabled


def add_user(broker: Broker, name: str, now_us: int, *, password: str = "", tags: tuple[str, ...] = ()) -> None:
    """Add a user who has all permissions in each virtual host."""
    broker.handle(AddUser(name, password, tags), now_us)
    for vhost in broker.vhosts:
        broker.handle(SetPermissions(name, vhost, ".*", ".*", ".*"), now_us)


def import_definitions(
    broker: Broker,
    source: DefinitionsSource | Definitions,
    now_us: int,
    *,
    strict: bool = False,
    not_imported: Callable[[NotImported], object] | None = None,
) -> None:
    """Give a broker what the server has that exported these definitions.

    Definitions of one virtual host create it. If they give no user permissions, administrators get them all.

    Args:
        broker: a new broker.
        source: the definitions, or where they are.
        now_us: the time, microseconds since 1970.
        strict: whether to import them as the server would, which refuses what its release does not know.
        not_imported: told what an import would not take, though the broker may have it.

    Raises:
        DefinitionsError: they cannot be used: with ``strict``, the server refuses them; else, where nobody is told
            what is not imported, no release takes a queue or a policy in them, so that no server can have it.
    """
    definitions = _read(source)
    if strict:
        _import(broker, definitions, now_us)
    else:
        for each in take_definitions(broker, definitions.document, _only_vhost(definitions), now_us):
            if not_imported is not None:
                not_imported(each)
            elif each.taken != each.item:
                check_some_release_takes(definitions, each.section, each.place, each.item, broker.release)
    if not definitions.document.get("permissions"):
        for vhost in broker.vhosts:
            broker.grant_everything(vhost)


def _read(source: DefinitionsSource | Definitions) -> Definitions:
    if isinstance(source, Definitions):
        return source
    return Definitions(dict(source), "definitions") if isinstance(source, Mapping) else definitions_from_file(source)


def take_definitions(
    broker: Broker, document: Mapping[str, Any], only_vhost: str | None, now_us: int, *, as_written: bool = False
) -> list[NotImported]:
    """Give a broker what a server has, with stand-ins for what its export leaves out.

    The plugins are enabled without which a server could not have its exchanges. ``only_vhost`` is the virtual host of
    an export of one. The document is taken in a form that all releases take, unless it is to be ``as_written``. Returns
    what an import would not take, though the broker may have it.
    """
    if only_vhost is not None and only_vhost not in broker.vhosts:
        broker.handle(AddVhost(only_vhost), now_us)
    broker.enable(broker.plugins | plugins_with(PLAYED & {each.get("type") for each in document.get("exchanges", ())}))
    given = document if as_written else importable(document)
    whole = completed(given, broker.exchange_types, only_vhost).document
    replies = broker.handle(TakeDefinitions(whole, only_vhost), now_us)
    told = [reply for reply in replies if isinstance(reply, NotImported)]
    return [each for each in told if each.place < len(document.get(each.section, ()))]  # stand-ins come behind


def completed_definitions(definitions: Definitions, rules: Release) -> Completed:
    """Return definitions with stand-ins for what exports leave out."""
    return completed(importable(definitions.document), rules.exchange_types, _only_vhost(definitions))


def as_taken(document: Mapping[str, Any], taken: Iterable[NotImported]) -> dict[str, Any]:
    """Return a document as a broker has taken it: without what it left out, and the rest as it has that."""
    found, taken = dict(document), list(taken)
    for section in {each.section for each in taken}:
        here = {each.place: each.taken for each in taken if each.section == section}
        kept = [here.get(place, item) for place, item in enumerate(document[section])]
        found[section] = [item for item in kept if item is not None]
    return found


def as_server_has_it(definitions: Definitions, rules: Release) -> Definitions:
    """Return definitions without what no release takes: no server has that, whatever the file says."""
    impossible = impossible_places(definitions, rules)
    if not impossible:
        return definitions
    taken = take_definitions(Broker(rules), definitions.document, _only_vhost(definitions), 0)
    kept = as_taken(definitions.document, (each for each in taken if (each.section, each.place) in impossible))
    return Definitions(kept, definitions.source, _only_vhost(definitions) if definitions.vhost_named else None)


def _import(broker: Broker, definitions: Definitions, now_us: int) -> None:
    if not definitions.is_strict and not broker.release.json_lenient:
        raise DefinitionsError(definitions.source, "", definitions.remarks[0])
    only = _only_vhost(definitions)
    if only is not None:
        broker.handle(AddVhost(only), now_us)
    try:
        broker.handle(ImportDefinitions(importable(definitions.document), only), now_us)
    except OperatorError as error:
        words = "" if error.plain == error.text else f"; the server says: {error.text}"
        raise DefinitionsError(definitions.source, _where(error, definitions), error.plain + words) from error


def _only_vhost(definitions: Definitions) -> str | None:
    """Return the virtual host of an export of one."""
    return definitions.vhosts[0] if definitions.single_vhost else None


def _where(error: OperatorError, definitions: Definitions) -> str:
    """Return the place of the item that is refused, with its name, such as ``queues[3] 'orders'``."""
    if error.item is None:
        return ""
    return item_place(definitions, *error.item)


def item_place(definitions: Definitions, section: str, place: int) -> str:
    """Return a place in definitions, with the name of what is there: ``queues[3] 'orders'``."""
    name = definitions.document[section][place].get("name")
    return f"{section}[{place}] '{name}'" if isinstance(name, str) else f"{section}[{place}]"
