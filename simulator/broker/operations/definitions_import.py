"""Imports definitions documents: those of a whole cluster, or their contents into one virtual host.

This goes section by section, in the release's order. In most sections everything is
tried before the first refusal ends the import; policies and parameters end it at once.
The import does not undo what came before.

Source: rabbit_definitions.erl apply_defs, add_queue_int, add_exchange_int, add_binding_int, format.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any

from dlx import bindings, declarations, exchange_declarations, operator_errors
from dlx.amqp_errors import Refusal
from dlx.operator_errors import OperatorError
from dlx.topology import Binding, Exchange, Policy
from simulator.broker.commands import (
    AddUser,
    AddVhost,
    ImportDefinitions,
    SetPermissions,
    SetTopicPermissions,
    SetTracing,
)
from simulator.broker.operations import administration, exchanges, queue_lifecycle
from simulator.broker.state import NodeState, VirtualHost
from simulator.definitions import Definitions, DefinitionsError
from simulator.json_values import NoFieldValueError, field_value

Item = dict[str, Any]
_OF_A_VHOST = frozenset({"parameters", "policies", "queues", "exchanges", "bindings"})
_NAMING_THEIR_VHOST = ("queues", "exchanges", "bindings")
_ONE_BY_ONE = ("policies", "parameters")
# Components that plugins and limits bring; nothing here heeds them.
_UNHEEDED_COMPONENTS = frozenset({"vhost-limits", "shovel", "federation-upstream", "federation-upstream-set"})


def import_definitions(node: NodeState, command: ImportDefinitions) -> None:
    """Add what a definitions document describes; what exists already is left as it is.

    Raises ``OperatorError``.
    """
    document = dict(command.document)
    if command.vhost is not None:
        _vhost(node, command.vhost)
        document = _of_one_vhost(document)
    elif any("vhost" not in item for name in _NAMING_THEIR_VHOST for item in _objects(document, name)):
        status = 500 if node.release.definitions_without_vhost == "crash" else 400
        raise operator_errors.vhost_not_specified(status)
    try:
        Definitions(document, "definitions", command.vhost)  # refuses what has a wrong type
    except DefinitionsError as error:
        raise operator_errors.unusable_document(str(error)) from error
    for section in _sections(node, whole=command.vhost is None):
        _import_section(node, section, _objects(document, section), command.vhost)


def _of_one_vhost(document: Item) -> Item:
    """Return the sections that go into one virtual host; which one the items name does not matter."""
    kept = {section: items for section, items in document.items() if section in _OF_A_VHOST}
    for section, items in kept.items():
        if isinstance(items, list):
            kept[section] = [_without_vhost(item) if isinstance(item, dict) else item for item in items]
    return kept


def _without_vhost(item: Item) -> Item:
    return {name: value for name, value in item.items() if name != "vhost"}


def _objects(document: Item, section: str) -> list[Item]:
    items = document.get(section, [])
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _sections(node: NodeState, *, whole: bool) -> list[str]:
    order = list(node.release.definitions_order)
    if whole:
        return order
    order.remove("parameters")  # into one virtual host they come before policies, in every release
    order.insert(order.index("policies"), "parameters")
    return [section for section in order if section in _OF_A_VHOST]


def _import_section(node: NodeState, section: str, items: list[Item], only: str | None) -> None:
    first: OperatorError | None = None
    for item in items:
        try:
            _IMPORTERS[section](node, item.get("vhost") if only is None else only, item)
        except (Refusal, NoFieldValueError, OperatorError) as error:
            first = first or _as_operator_error(error)
            if section in _ONE_BY_ONE:
                break
    if section in _ONE_BY_ONE and items:
        for vhost in node.vhosts.values():
            administration.apply_policies(node, vhost)
    if first is not None:
        raise first


# Who may do what


def _add_user(node: NodeState, _vhost_name: str | None, item: Item) -> None:
    """Add a user. Exported passwords are hashes, which say nothing here: a new user gets its name as password."""
    tags = item.get("tags")
    if "name" not in item:
        raise operator_errors.missing_key("name")
    if tags is None:
        raise operator_errors.tags_not_present()
    hashed = item.get("password_hash")
    if isinstance(hashed, str) and not _is_base64(hashed):
        raise operator_errors.not_base64(hashed)
    name = _text(item, "name")
    known = node.users.get(name)
    password = item.get("password") or (known.password if known else name)
    administration.add_user(node, AddUser(name, str(password), _tags(tags)))


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _tags(given: Any) -> tuple[str, ...]:
    tags = given.split(",") if isinstance(given, str) else given
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise operator_errors.wrong_type()
    return tuple(tag.strip() for tag in tags if tag.strip())


def _add_vhost(node: NodeState, _vhost_name: str | None, item: Item) -> None:
    """Add a virtual host; one that exists keeps the metadata that the document does not mention."""
    name = _text(item, "name")
    known = node.vhosts.get(name) or VirtualHost(name)
    said = {**(item.get("metadata") or {}), **item}
    kind = said.get("default_queue_type", known.default_queue_type)
    tags = _tags(said["tags"]) if "tags" in said else known.tags
    description = str(said.get("description", known.description) or "")
    administration.add_vhost(node, AddVhost(name, None if kind == "undefined" else kind, description, tags))
    if isinstance(item.get("tracing"), bool):
        administration.set_tracing(node, SetTracing(name, item["tracing"]))


def _add_permission(node: NodeState, vhost_name: str | None, item: Item) -> None:
    user, vhost = _user_and_vhost(node, vhost_name, item)
    administration.set_permissions(
        node, SetPermissions(user, vhost, *(_text(item, name) for name in ("configure", "write", "read")))
    )


def _add_topic_permission(node: NodeState, vhost_name: str | None, item: Item) -> None:
    user, vhost = _user_and_vhost(node, vhost_name, item)
    administration.set_topic_permissions(
        node, SetTopicPermissions(user, vhost, *(_text(item, name) for name in ("exchange", "write", "read")))
    )


def _user_and_vhost(node: NodeState, vhost_name: str | None, item: Item) -> tuple[str, str]:
    user = _text(item, "user")
    if user not in node.users:
        raise operator_errors.no_user_to_grant(user)
    return user, _vhost(node, vhost_name).name


# Policies and parameters


def _add_policy(node: NodeState, vhost_name: str | None, item: Item) -> None:
    vhost, name = _vhost(node, vhost_name), item["name"]
    policy = _policy(name, item)
    _check_policy(node, policy, _place(node, vhost, key=name), operator=False)
    vhost.policies[name] = policy


def _add_parameter(node: NodeState, vhost_name: str | None, item: Item) -> None:
    vhost, component, name = _vhost(node, vhost_name), _text(item, "component"), _text(item, "name")
    place = _place(node, vhost, component=component, key=name)
    if component == "policy":
        raise operator_errors.imported_parameter(operator_errors.policy_as_parameter(), place, node.release)
    if component == "operator_policy":
        policy = _policy(name, item["value"])
        _check_policy(node, policy, place, operator=True)
        vhost.operator_policies[name] = policy
    elif component not in _UNHEEDED_COMPONENTS:
        raise operator_errors.imported_parameter(operator_errors.unknown_component(component), place, node.release)


def _policy(name: str, item: Item) -> Policy:
    """Return the policy of an item. Servers before 4.1.6 export the definition of operator policies as pairs."""
    return Policy(
        name=name,
        pattern=item["pattern"],
        definition=dict(item["definition"]),
        apply_to=item.get("apply-to", "all"),
        priority=item.get("priority", 0),
    )


def _check_policy(node: NodeState, policy: Policy, place: str, *, operator: bool) -> None:
    try:
        administration.check_policy(node, policy, operator=operator)
    except OperatorError as error:
        raise operator_errors.imported_parameter(error, place, node.release) from error


def _place(node: NodeState, vhost: VirtualHost, **names: str) -> str:
    """Return the place of a refused policy or parameter, in the form in which its refusal ends."""
    if node.release.definitions_refusal_texts == "printed":
        return f" ({'/'.join((vhost.name, *names.values()))})"
    between = " / " if "component" in names else " "
    named = {"vhost": vhost.name, **names}
    return " (" + between.join(f'{kind}: "{name}"' for kind, name in named.items()) + ")"


# Queues, exchanges, bindings


def _add_queue(node: NodeState, vhost_name: str | None, item: Item) -> None:
    vhost, name, release = _vhost(node, vhost_name), item["name"], node.release
    exists = name in vhost.queues
    if name.startswith("amq.") or (exists and release.definitions_existing == "skipped"):
        return
    queue = declarations.imported_queue(
        name,
        vhost=vhost.name,
        durable=item.get("durable", True),
        auto_delete=item.get("auto_delete", False),
        arguments=_arguments(item),
        release=release,
        default_queue_type=vhost.default_queue_type,
    )
    if queue is not None and not exists:
        queue_lifecycle.add(node, vhost, queue, None)


def _add_exchange(node: NodeState, vhost_name: str | None, item: Item) -> None:
    vhost, name, kind = _vhost(node, vhost_name), item["name"], item.get("type", "undefined")
    exists = name in vhost.exchanges
    if not name or name.startswith("amq.") or (exists and node.release.definitions_existing == "skipped"):
        return
    exchange_declarations.check_type(kind, node.release)
    exchange = Exchange(
        name=name,
        type=kind,
        durable=item.get("durable", True),
        auto_delete=item.get("auto_delete", False),
        internal=item.get("internal", False),
        arguments=_arguments(item),
    )
    if not exists:
        exchanges.add_exchange(vhost, exchange)


def _add_binding(node: NodeState, vhost_name: str | None, item: Item) -> None:
    binding = Binding(
        source=item["source"],
        destination=item["destination"],
        destination_type=item.get("destination_type", "queue"),
        routing_key=item.get("routing_key", ""),
        arguments=_arguments(item),
    )
    if not binding.source:  # every queue has one from the default exchange
        return
    try:
        _check_binding(node, vhost_name, binding)
    except OperatorError:
        if node.release.definitions_impossible_bindings == "refused":
            raise
        return
    exchanges.add_binding(node.vhosts[str(vhost_name)], binding)


def _check_binding(node: NodeState, vhost_name: str | None, binding: Binding) -> None:
    vhost = node.vhosts.get(str(vhost_name)) or VirtualHost(str(vhost_name))
    destinations = vhost.definitions if binding.destination_type == "queue" else vhost.exchanges
    ends = (
        ("exchange", binding.source, vhost.exchanges),
        (binding.destination_type, binding.destination, destinations),
    )
    missing = [(kind, name) for kind, name, known in ends if name not in known]
    if missing:
        raise operator_errors.resources_missing(vhost.name, missing)
    source, destination = vhost.exchanges[binding.source], destinations[binding.destination]
    try:
        bindings.check_binding(
            source, binding.routing_key, binding.arguments, destination=destination, release=node.release
        )
    except bindings.BindingRefusal as refusal:
        raise operator_errors.invalid_binding(refusal.words, refusal.terms) from refusal


def _arguments(item: Item) -> dict[str, Any]:
    arguments: dict[str, Any] = field_value(item.get("arguments") or {})
    return arguments


# What all items share


def _vhost(node: NodeState, name: str | None) -> VirtualHost:
    if not isinstance(name, str):
        raise operator_errors.vhost_not_specified()
    vhost = node.vhosts.get(name)
    if vhost is None:
        raise operator_errors.no_vhost_to_import_into(name)
    return vhost


def _text(item: Item, name: str) -> str:
    value = item.get(name)
    if not isinstance(value, str):
        raise operator_errors.wrong_type()
    return value


def _as_operator_error(error: Refusal | NoFieldValueError | OperatorError) -> OperatorError:
    if isinstance(error, OperatorError):
        return error
    if isinstance(error, NoFieldValueError):
        return operator_errors.unreadable_argument(str(error))
    return operator_errors.imported(error)


_IMPORTERS: dict[str, Callable[[NodeState, str | None, Item], None]] = {
    "users": _add_user,
    "vhosts": _add_vhost,
    "permissions": _add_permission,
    "topic_permissions": _add_topic_permission,
    "policies": _add_policy,
    "parameters": _add_parameter,
    "queues": _add_queue,
    "exchanges": _add_exchange,
    "bindings": _add_binding,
    "global_parameters": lambda node, vhost_name, item: None,  # the management API keeps them
}
