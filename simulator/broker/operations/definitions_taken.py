"""Takes definitions as the state of a server: a server has what it exports, whatever an import would say.

Each item is imported as ``definitions_import`` does it. One that the release would not import is still there,
without what the release does not know, and a reply says what an import would have said. So a server has queues whose
names begin with ``amq.``, policies from before an upgrade, and more queues than a limit that came later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from dlx import declarations
from dlx.amqp_errors import Refusal
from dlx.operator_errors import OperatorError
from dlx.server_plugins import CONSISTENT_HASH
from dlx.topology import Arguments, Queue
from simulator.broker.commands import AddVhost, PutUser, TakeDefinitions
from simulator.broker.operations import administration, exchanges, queue_lifecycle, users
from simulator.broker.operations.definitions_import import (
    ONE_BY_ONE,
    At,
    Item,
    arguments_of,
    binding_of,
    checked_document,
    exchange_of,
    import_item,
    objects_in,
    queue_of,
    sections_of,
)
from simulator.broker.replies import LEFT_OUT, NotImported
from simulator.broker.state import NodeState, VirtualHost
from simulator.definitions import version_of
from simulator.definitions.checks import unknown_keys
from simulator.json_values import NoFieldValueError, field_value

Taken = Item | None
"""What the broker has of an item."""
_FIT_EVERY_TYPE = {"durable": True, "auto_delete": False}


def take_definitions(node: NodeState, command: TakeDefinitions) -> Iterator[None]:
    """Have what a definitions document has, and pause after each item. Replies tell what an import would not take.

    Raises ``OperatorError`` for a document in which something has a wrong type.
    """
    document = yield from checked_document(command.document, command.vhost)
    at = At(command.vhost, None, version_of(document))
    for section in sections_of(node, whole=command.vhost is None):
        items = objects_in(document, section)
        for place, item in enumerate(items):
            here = at if command.vhost is not None else at._replace(vhost=item.get("vhost"))
            _take(node, section, place, item, here)
            yield
        if section in ONE_BY_ONE and items:
            for vhost in node.vhosts.values():
                administration.apply_policies(node, vhost)


def _take(node: NodeState, section: str, place: int, item: Item, at: At) -> None:
    error = import_item(node, section, at, item)
    take = _TAKERS.get(section)
    if take is None:
        if error is not None:
            node.out.append(NotImported(section, place, item, error.text, error.plain, None))
        return
    vhost = node.vhosts.get(str(at.vhost)) or VirtualHost("")
    taken, plain = take(node, vhost, _readable(item), error)
    if error is not None:
        node.out.append(NotImported(section, place, item, error.text, plain or error.plain, taken))
    elif plain:
        node.out.append(NotImported(section, place, item, "", plain, taken))


def _readable(item: Item) -> Item:
    """Return an item without arguments that are not AMQP values."""
    arguments = item.get("arguments") or {}
    try:
        field_value(arguments)
    except NoFieldValueError:
        return {**item, "arguments": {name: value for name, value in arguments.items() if _is_field_value(value)}}
    return item


def _is_field_value(value: Any) -> bool:
    try:
        field_value(value)
    except NoFieldValueError:
        return False
    return True


# Each returns what the broker has of the item, and in plain words why an import would not take it, where it knows more
# than the refusal says.


def _take_user(node: NodeState, _vhost: VirtualHost, item: Item, error: OperatorError | None) -> tuple[Taken, str]:
    """Keep a user whose password was taken out of the export: no client can log in as that user."""
    if error is None:
        return item, ""
    if not isinstance(item.get("name"), str):
        return None, ""
    kept = {"name": item["name"], "password_hash": "", "tags": item.get("tags", "")}
    try:
        users.put_user(node, PutUser(item["name"], kept, None))
    except OperatorError:
        return None, ""
    return kept, ""


def _take_vhost(node: NodeState, _vhost: VirtualHost, item: Item, error: OperatorError | None) -> tuple[Taken, str]:
    if error is None or item["name"] in node.vhosts:
        return item, ""
    administration.add_vhost(node, AddVhost(item["name"]))
    return {"name": item["name"]}, ""


def _take_queue(node: NodeState, vhost: VirtualHost, item: Item, error: OperatorError | None) -> tuple[Taken, str]:
    if item["name"] in vhost.queues:
        return item, ""

    def declared(arguments: Arguments, properties: Item) -> Queue | None:
        try:
            return queue_of(properties, arguments, vhost, node.release)
        except Refusal:
            return None

    arguments = arguments_of(item)
    taken, queue, wrong = item, declared(arguments, item), list[str]()
    if queue is None:
        kind = {name: value for name, value in arguments.items() if name == "x-queue-type"}
        properties = item if declared(kind, item) is not None else {**item, **_FIT_EVERY_TYPE}
        if declared(kind, properties) is None:  # of a type that is none the rest may be right
            kind, properties = {}, item
        alone = {name: value for name, value in arguments.items() if declared({**kind, name: value}, properties)}
        fit = {name: value for name, value in arguments.items() if declared({**alone, name: value}, properties)}
        unfit = [name for name in arguments if name not in fit]
        wrong = [f"it does not take {_listed(unfit)}"] if unfit and error is None else []
        queue = declared(fit, properties)
        if queue is not None and properties is not item:
            asked = msgspec.structs.replace(
                queue, durable=item.get("durable", True), auto_delete=item.get("auto_delete", False)
            )
            wrong += [why for _, why in declarations.unfit_properties(asked)]
        given = {name: value for name, value in properties.items() if name in item}
        taken = {**given, "arguments": {name: item["arguments"][name] for name in fit}}
    if queue is None:
        return None, "" if error is not None else LEFT_OUT
    queue_lifecycle.add(node, vhost, queue, None, policies_as_declared=False)
    if wrong and error is not None:
        return taken, "; ".join([error.plain, *(why for why in wrong if why != error.plain)])
    if wrong:
        return taken, f"{LEFT_OUT}: {'; '.join(wrong)}"
    if error is None:
        reserved = item["name"].startswith("amq.")
        why = "its name begins with amq." if reserved else "the queue limit of its virtual host is reached"
        return item, f"{LEFT_OUT}: {why}"
    return taken, ""


def _take_exchange(node: NodeState, vhost: VirtualHost, item: Item, error: OperatorError | None) -> tuple[Taken, str]:
    name = item["name"]
    if name in vhost.exchanges:
        return item, ""
    if error is not None and item.get("type") not in node.exchange_types:
        return None, "" if "type" in item else "the field type is missing"
    exchange = exchange_of(item)
    try:
        declarations.check_exchange_arguments(exchange.type, exchange.arguments, node.release, node.exchange_types)
    except Refusal:
        return None, ""
    exchanges.add_exchange(vhost, exchange)
    return item, "" if error is not None else f"{LEFT_OUT}: its name begins with amq."


def _take_binding(node: NodeState, vhost: VirtualHost, item: Item, error: OperatorError | None) -> tuple[Taken, str]:
    binding = binding_of(item)
    if not binding.source or binding in vhost.bindings.get(binding.source, ()):
        return item, ""
    destinations = vhost.definitions if binding.destination_type == "queue" else vhost.exchanges
    if binding.source not in vhost.exchanges or binding.destination not in destinations:
        return None, "" if error is not None else LEFT_OUT
    if vhost.exchanges[binding.source].type in ("headers", CONSISTENT_HASH):  # what is not read there matches nothing
        return None, "" if error is not None else LEFT_OUT
    exchanges.add_binding(node, vhost, binding)
    return item, "" if error is not None else LEFT_OUT


def _take_policy(node: NodeState, vhost: VirtualHost, item: Item, error: OperatorError | None) -> tuple[Taken, str]:
    if error is None:
        return item, ""
    kept, plain = _known_policy(node, str(item.get("name")), item, operator=False)
    if kept is not None:
        vhost.policies[str(item["name"])] = administration.policy_of(str(item["name"]), kept)
    return kept, plain


def _take_parameter(node: NodeState, vhost: VirtualHost, item: Item, error: OperatorError | None) -> tuple[Taken, str]:
    value = item.get("value")
    if error is None or item.get("component") != "operator_policy" or not isinstance(value, dict):
        return item if error is None else None, ""
    kept, plain = _known_policy(node, str(item.get("name")), value, operator=True)
    if kept is None:
        return None, plain
    vhost.operator_policies[str(item["name"])] = administration.policy_of(str(item["name"]), kept)
    return {**item, "value": kept}, plain


def _known_policy(node: NodeState, name: str, value: Item, *, operator: bool) -> tuple[Taken, str]:
    """Return a policy without the keys that the release does not take; ``None`` where it applies to nothing there."""
    whole: Item = {"priority": 0, "apply-to": "all"} | {key: value[key] for key in _OF_A_POLICY if key in value}

    def refusal(definition: Mapping[str, Any]) -> OperatorError | None:
        try:
            administration.check_policy_parameter(node, name, {**whole, "definition": definition}, operator=operator)
        except OperatorError as error:
            return error
        return None

    if refusal({"max-length": 1}) is not None or not isinstance(whole.get("definition"), dict):
        return None, ""
    keys = node.release.operator_policy_keys if operator else node.release.policy_keys
    unknown = [key for key in whole["definition"] if key not in keys]
    kept = {key: each for key, each in whole["definition"].items() if refusal({key: each}) is None}
    only_unknown = unknown and len(unknown) + len(kept) == len(whole["definition"])
    return {**value, "definition": kept}, unknown_keys(unknown) if only_unknown else ""


_OF_A_POLICY = ("pattern", "definition", "priority", "apply-to")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


_TAKERS: dict[str, Callable[[NodeState, VirtualHost, Item, OperatorError | None], tuple[Taken, str]]] = {
    "users": _take_user,
    "vhosts": _take_vhost,
    "policies": _take_policy,
    "parameters": _take_parameter,
    "queues": _take_queue,
    "exchanges": _take_exchange,
    "bindings": _take_binding,
}
