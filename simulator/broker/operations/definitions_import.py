"""Imports definitions documents: those of a whole cluster, or their contents into one virtual host.

This goes section by section, in the release's order. In most sections everything is
tried before the first refusal ends the import; policies and parameters end it at once.
The import does not undo what came before.

Source: rabbit_definitions.erl apply_defs, add_queue_int, add_exchange_int, add_binding_int, format.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from dlx import bindings, declarations, operator_errors
from dlx.amqp_errors import Refusal
from dlx.erlang_printing import Atom
from dlx.operator_errors import OperatorError, UnforeseenError
from dlx.releases import Release
from dlx.topology import Arguments, Binding, Exchange, Queue
from simulator.broker.commands import (
    AddVhost,
    ImportDefinitions,
    ProtectVhost,
    PutUser,
    SetGlobalParameter,
    SetPermissions,
    SetTopicPermissions,
    SetTracing,
)
from simulator.broker.operations import administration, exchanges, limits, queue_lifecycle, sharding, users
from simulator.broker.operations.users import vhost_tags
from simulator.broker.state import NodeState, VirtualHost
from simulator.definitions import DefinitionsError, checking, version_of
from simulator.json_values import NoFieldValueError, field_value

# What the importers of all sections share: the items of a definitions document, and where they go.


Item = dict[str, Any]
UNDEFINED = Atom("undefined")
"""What RabbitMQ sees where an item lacks a field."""


class At(NamedTuple):
    """Where an item goes and comes from: its virtual host, who imports it, and the version that exported it."""

    vhost: str | None
    user: str | None
    version: str | None


def vhost_at(node: NodeState, at: At) -> VirtualHost:
    """Return the virtual host of an item. Raises ``OperatorError`` if there is none."""
    if not isinstance(at.vhost, str):
        raise operator_errors.vhost_not_specified()
    vhost = node.vhosts.get(at.vhost)
    if vhost is None:
        raise operator_errors.no_vhost_to_import_into(at.vhost)
    return vhost


def text(item: Item, name: str, default: str | None = None) -> str:
    """Return a field that is a string. Raises ``UnforeseenError``."""
    value = item.get(name, default)
    if not isinstance(value, str):
        raise operator_errors.wrong_type()
    return value


# Imports policies, runtime parameters and global parameters.
#
# Source: rabbit_definitions.erl add_policy, add_parameter, add_global_parameter.


def add_policy(node: NodeState, at: At, item: Item) -> None:
    """Add a policy, or change one; the queues learn of it later."""
    vhost = vhost_at(node, at)
    if "name" not in item:
        raise operator_errors.unnamed_policy(vhost.name)
    name = text(item, "name")
    definition = item.get("definition", UNDEFINED)
    if not isinstance(definition, dict | list) and definition is not UNDEFINED:
        raise operator_errors.wrong_type()
    value = {
        "pattern": item.get("pattern", UNDEFINED),
        "definition": definition,
        "priority": item.get("priority", 0),
        "apply-to": item.get("apply-to", "all"),
    }
    with _refused_at(node, vhost, key=name):
        vhost.policies[name] = administration.checked_policy(node, name, value, operator=False)


def add_parameter(node: NodeState, at: At, item: Item) -> None:
    """Add a runtime parameter; those of plugins are refused, as by a server without the plugins."""
    vhost, component, name = vhost_at(node, at), text(item, "component", UNDEFINED), text(item, "name", UNDEFINED)
    with _refused_at(node, vhost, component=component, key=name):
        administration.keep(node, vhost, component, name, item.get("value", UNDEFINED))


def add_global_parameter(node: NodeState, _at: At, item: Item) -> None:
    """Set a parameter of the whole cluster."""
    name, value = text(item, "name", UNDEFINED), item.get("value", UNDEFINED)
    administration.set_global_parameter(
        node, SetGlobalParameter(str(name), str(value) if value is UNDEFINED else value)
    )


@contextmanager
def _refused_at(node: NodeState, vhost: VirtualHost, **names: str) -> Iterator[None]:
    """Add to a refusal which policy or parameter it is about."""
    try:
        yield
    except operator_errors.UnforeseenError:
        raise
    except OperatorError as error:
        raise operator_errors.imported_parameter(error, _place(node, vhost, names), node.release) from error


def _place(node: NodeState, vhost: VirtualHost, names: Mapping[str, str]) -> str:
    """Return the place of a refused policy or parameter, in the form in which its refusal ends."""
    if node.release.definitions_refusal_texts == "printed":
        return f" ({'/'.join((vhost.name, *names.values()))})"
    between = " / " if "component" in names else " "
    named = {"vhost": vhost.name, **names}
    return " (" + between.join(f'{kind}: "{name}"' for kind, name in named.items()) + ")"


_OF_A_VHOST = frozenset({"parameters", "policies", "queues", "exchanges", "bindings"})
_NAMING_THEIR_VHOST = ("queues", "exchanges", "bindings")
ONE_BY_ONE = ("policies", "parameters")
# Where something that RabbitMQ did not foresee makes the whole request crash.
_IN_THE_REQUEST = (*ONE_BY_ONE, "global_parameters")
_READ_ITEM_BY_ITEM = (*_IN_THE_REQUEST, "users", "permissions", "topic_permissions")


def import_definitions(node: NodeState, command: ImportDefinitions) -> Iterator[None]:
    """Add what a definitions document describes, and pause after each item; what exists already is left as it is.

    Raises ``OperatorError``.
    """
    at = At(command.vhost, command.user, version_of(command.document))
    if command.vhost is not None:
        vhost_at(node, at)
    elif any("vhost" not in item for name in _NAMING_THEIR_VHOST for item in objects_in(command.document, name)):
        status = 500 if node.release.definitions_without_vhost == "crash" else 400
        raise operator_errors.vhost_not_specified(status)
    document = yield from checked_document(command.document, command.vhost)
    if command.vhost is not None:
        _check_queue_limits(node, document, at)
    for section in sections_of(node, whole=command.vhost is None):
        yield from _import_section(node, section, objects_in(document, section), at)
        if section == "vhosts":
            _check_queue_limits(node, document, at)


def checked_document(given: Mapping[str, Any], vhost: str | None) -> Generator[None, None, Item]:
    """Return a document, or what of it goes into one virtual host, and pause now and then. Raises ``OperatorError``.

    It refuses one in which something has a wrong type. RabbitMQ prints the name of an Erlang error, crashes, or keeps
    such values; here the text names the place.
    """
    document = dict(given) if vhost is None else _of_one_vhost(given)
    for section in _READ_ITEM_BY_ITEM:
        if not isinstance(document.get(section, []), list):
            raise operator_errors.unusable_document(f"definitions: {section}: expected a list")
    try:
        read = {section: items for section, items in document.items() if section not in _READ_ITEM_BY_ITEM}
        yield from checking(read, "definitions", vhost)
    except DefinitionsError as error:
        raise operator_errors.unusable_document(str(error)) from error
    return document


def _of_one_vhost(document: Mapping[str, Any]) -> Item:
    """Return the sections that go into one virtual host; which one the items name does not matter."""
    kept = {section: items for section, items in document.items() if section in _OF_A_VHOST}
    for section, items in kept.items():
        if isinstance(items, list):
            kept[section] = [_without_vhost(item) if isinstance(item, dict) else item for item in items]
    return kept


def _without_vhost(item: Item) -> Item:
    return {name: value for name, value in item.items() if name != "vhost"}


def objects_in(document: Mapping[str, Any], section: str) -> list[Item]:
    """Return the items of a section."""
    items = document.get(section, [])
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def sections_of(node: NodeState, *, whole: bool) -> list[str]:
    """Return the sections in the release's order; unless ``whole``, those that go into one virtual host."""
    order = list(node.release.definitions_order)
    if whole:
        return order
    order.remove("parameters")  # into one virtual host they come before policies, in every release
    order.insert(order.index("policies"), "parameters")
    return [section for section in order if section in _OF_A_VHOST]


def _import_section(node: NodeState, section: str, items: list[Item], at: At) -> Iterator[None]:
    first: OperatorError | None = None
    own_vhost = at.vhost is None
    for place, item in enumerate(items):
        if own_vhost and at.vhost != item.get("vhost"):
            at = at._replace(vhost=item.get("vhost"))
        error = import_item(node, section, at, item)
        if error is not None:
            if isinstance(error, UnforeseenError) and section in _IN_THE_REQUEST:
                error.status = 500
            if first is None:
                first = error
                first.item = section, place
            if section in _IN_THE_REQUEST:
                break
        yield
    if section in ONE_BY_ONE and items:
        for vhost in node.vhosts.values():
            administration.apply_policies(node, vhost)
    if first is not None:
        raise first


def import_item(node: NodeState, section: str, at: At, item: Item) -> OperatorError | None:
    """Add one item; return the refusal of one that the release does not import."""
    try:
        _IMPORTERS[section](node, at, item)
    except OperatorError as error:
        return error
    except NoFieldValueError as error:
        return operator_errors.unreadable_argument(str(error))
    except Refusal as refusal:
        return operator_errors.imported(refusal)
    return None


def _check_queue_limits(node: NodeState, document: Item, at: At) -> None:
    """Refuse a document with more new queues than a virtual host has room for, by the limits that it has now."""
    added: Counter[str] = Counter()
    for item in objects_in(document, "queues"):
        name = str(item.get("vhost") if at.vhost is None else at.vhost)
        if node.queue(name, item["name"]) is None:
            added[name] += 1
    for name, count in added.items():
        vhost = node.vhosts.get(name)
        limit = None if vhost is None else limits.queue_limit_reached(vhost, count)
        if vhost is not None and limit is not None:
            raise operator_errors.too_many_queues(name, count, limit, len(vhost.queues) if limit else 0)


# Who may do what


def _add_user(node: NodeState, at: At, item: Item) -> None:
    if "name" not in item:
        raise operator_errors.missing_key("name")
    users.put_user(node, PutUser(text(item, "name"), item, at.version))


def _add_vhost(node: NodeState, at: At, item: Item) -> None:
    """Add a virtual host; one that exists keeps the metadata that the document does not mention."""
    name = text(item, "name")
    known = node.vhosts.get(name) or VirtualHost(name)
    metadata = item.get("metadata") or {}
    kind = metadata.get("default_queue_type", known.default_queue_type)
    if node.release.definitions_unknown_queue_type == "refused":
        _check_queue_type(kind, node)
    said = {**metadata, **item}
    tags = vhost_tags(said["tags"]) if "tags" in said else known.tags
    description = str(said.get("description", known.description) or "")
    kind = None if kind == UNDEFINED else kind
    administration.add_vhost(node, AddVhost(name, kind, description, tags, at.user))
    if node.release.vhost_deletion_protection and isinstance(metadata.get("protected_from_deletion"), bool):
        administration.protect_vhost(node, ProtectVhost(name, metadata["protected_from_deletion"]))
    if "tracing" in item:
        if not isinstance(item["tracing"], bool):
            raise operator_errors.unforeseen_case(item["tracing"])
        administration.set_tracing(node, SetTracing(name, item["tracing"]))


def _check_queue_type(kind: Any, node: NodeState) -> None:
    known = node.release.queue_types | node.release.queue_types_meaning_default
    if isinstance(kind, str) and kind not in known:
        raise operator_errors.unknown_queue_type(kind)


def _add_permission(node: NodeState, at: At, item: Item) -> None:
    user, vhost = _user_and_vhost(node, at, item)
    users.set_permissions(
        node, SetPermissions(user, vhost, *(text(item, name) for name in ("configure", "write", "read")))
    )


def _add_topic_permission(node: NodeState, at: At, item: Item) -> None:
    user, vhost = _user_and_vhost(node, at, item)
    users.set_topic_permissions(
        node, SetTopicPermissions(user, vhost, *(text(item, name) for name in ("exchange", "write", "read")))
    )


def _user_and_vhost(node: NodeState, at: At, item: Item) -> tuple[str, str]:
    user = text(item, "user")
    if user not in node.users:
        raise operator_errors.no_user_to_grant(user)
    return user, vhost_at(node, at).name


# Queues, exchanges, bindings


def _add_queue(node: NodeState, at: At, item: Item) -> None:
    vhost, name, release = vhost_at(node, at), item["name"], node.release
    exists = name in vhost.queues
    if name.startswith("amq.") or (exists and release.definitions_existing == "skipped"):
        return
    _check_fields("queues", item, release)
    queue = queue_of(item, arguments_of(item), vhost, release, limits.queue_limit_reached(vhost))
    if queue is not None and not exists:
        over_http = at.user is not None  # other documents tell what a broker has, and not which came first
        queue_lifecycle.add(node, vhost, queue, None, policies_as_declared=over_http)


def queue_of(
    item: Item, arguments: Arguments, vhost: VirtualHost, release: Release, limit_reached: int | None = None
) -> Queue | None:
    """Return the queue that an item describes, with these arguments; ``None`` where a release leaves it out silently.

    ``limit_reached``: how many queues the virtual host may have, if it has as many. Raises ``Refusal``.
    """
    return declarations.imported_queue(
        item["name"],
        vhost=vhost.name,
        durable=item.get("durable", True),
        auto_delete=item.get("auto_delete", False),
        arguments=arguments,
        release=release,
        default_queue_type=vhost.default_queue_type if release.definitions_default_queue_type else None,
        limit_reached=limit_reached,
    )


def _add_exchange(node: NodeState, at: At, item: Item) -> None:
    vhost, name, kind = vhost_at(node, at), item["name"], item.get("type", "undefined")
    exists = name in vhost.exchanges
    if not name or name.startswith("amq.") or (exists and node.release.definitions_existing == "skipped"):
        return
    declarations.check_type(kind, node.release, node.exchange_types)
    _check_fields("exchanges", item, node.release)
    exchange = exchange_of(item)
    if not exists:
        declarations.check_exchange_arguments(kind, exchange.arguments, node.release, node.exchange_types)
        exchanges.add_exchange(vhost, exchange)
        sharding.start(node, vhost, exchange)


def exchange_of(item: Item) -> Exchange:
    """Return the exchange that an item describes. Raises ``NoFieldValueError``."""
    return Exchange(
        name=item["name"],
        type=item.get("type", "direct"),
        durable=item.get("durable", True),
        auto_delete=item.get("auto_delete", False),
        internal=item.get("internal", False),
        arguments=arguments_of(item),
    )


def _add_binding(node: NodeState, at: At, item: Item) -> None:
    _check_fields("bindings", item, node.release)
    binding = binding_of(item)
    try:
        _check_binding(node, at.vhost, binding)
    except OperatorError:
        if node.release.definitions_impossible_bindings == "refused":
            raise
        return
    if "routing_key" not in item and node.vhosts[str(at.vhost)].exchanges[binding.source].type == "topic":
        unsplit = node.release.definitions_topic_binding_without_key
        raise operator_errors.wrong_type() if unsplit == "function_clause" else operator_errors.bad_argument()
    if binding.source:  # every queue has one from the default exchange, which routes by no other
        exchanges.add_binding(node, node.vhosts[str(at.vhost)], binding)


def binding_of(item: Item) -> Binding:
    """Return the binding that an item describes. Raises ``NoFieldValueError``."""
    return Binding(
        source=item["source"],
        destination=item["destination"],
        destination_type=item["destination_type"],
        routing_key=item.get("routing_key", str(UNDEFINED)),
        arguments=arguments_of(item),
    )


def _check_binding(node: NodeState, vhost_name: str | None, binding: Binding) -> None:
    vhost = node.vhosts.get(str(vhost_name)) or VirtualHost(str(vhost_name))
    destinations = vhost.definitions if binding.destination_type == "queue" else vhost.exchanges
    source, destination = vhost.exchanges.get(binding.source), destinations.get(binding.destination)
    if source is None or destination is None:
        ends = ("exchange", binding.source, source), (binding.destination_type, binding.destination, destination)
        missing = [(kind, name) for kind, name, found in ends if found is None]
        raise operator_errors.resources_missing(vhost.name, missing)
    try:
        bindings.check_binding(
            source, binding.routing_key, binding.arguments, destination=destination, release=node.release
        )
    except bindings.BindingRefusal as refusal:
        raise operator_errors.invalid_binding(refusal) from refusal


def _check_fields(section: str, item: Item, release: Release) -> None:
    missing = _needed(section, release.definitions_required_fields) - item.keys()
    if missing:
        raise operator_errors.missing_fields(sorted(missing))


@cache
def _needed(section: str, required: frozenset[str]) -> frozenset[str]:
    return frozenset(field.removeprefix(f"{section}.") for field in required if section in field)


def arguments_of(item: Item) -> dict[str, Any]:
    """Return the arguments of an item as field values. Raises ``NoFieldValueError``."""
    given = item.get("arguments")
    arguments: dict[str, Any] = field_value(given) if given else {}
    return arguments


_IMPORTERS: dict[str, Callable[[NodeState, At, Item], None]] = {
    "users": _add_user,
    "vhosts": _add_vhost,
    "permissions": _add_permission,
    "topic_permissions": _add_topic_permission,
    "policies": add_policy,
    "parameters": add_parameter,
    "queues": _add_queue,
    "exchanges": _add_exchange,
    "bindings": _add_binding,
    "global_parameters": add_global_parameter,
}
