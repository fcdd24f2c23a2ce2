"""Writes definitions as objects of the messaging topology operator, and says what it has no field for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from simulator.definitions import NO_KEY, Definitions
from simulator.definitions.overlay import NAMED_BY, items_of, object_key
from simulator.definitions.reading import FIRST_COUNTS
from simulator.sources.operator_fields import SPECS, server_name

CLUSTER = "CLUSTER"
"""Stands for the name of the cluster, which definitions do not have."""
_NOT_A_NAME = re.compile("[^a-z0-9]+")
_NAME_LENGTH_MAX = 200
_BREAKS_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_VERSION = "rabbitmq.com/v1beta1"
_WHOLE_MAX = 2**53


class OperatorObjects(NamedTuple):
    """Objects as a text in YAML, and what is to say of them, in sentences."""

    text: str
    remarks: tuple[str, ...]


class _Object(NamedTuple):
    kind: str
    title: str
    spec: dict[str, Any]


Written = Iterator[_Object | str]
"""Objects, and what is to say of them."""


def operator_objects(definitions: Definitions) -> OperatorObjects:
    """Return the objects that make the operator declare what the definitions have."""
    remarks = [f"rabbitmqClusterReference: put the name of your cluster for {CLUSTER}"]
    if not definitions.vhost_named:
        remarks.append("the export does not say which virtual host it is of: the objects are for '/'")
    taken: dict[tuple[str, str], int] = {}
    documents = []
    for each in _objects(definitions):
        if isinstance(each, str):
            remarks.append(each)
        else:
            documents.append(operator_object(each.kind, _unique(each, taken), each.spec))
    return OperatorObjects("---\n".join(documents), tuple(remarks))


def operator_object(kind: str, name: str, spec: Mapping[str, Any]) -> str:
    """Return an object in YAML, its fields in JSON, which YAML includes; ``CLUSTER`` is to be replaced in it."""
    lines = [f"apiVersion: {_VERSION}", f"kind: {kind}", "metadata:", f"  name: {name}", "spec:"]
    lines += [f"  {field}: {_in_json(value)}" for field, value in spec.items()]
    return "\n".join([*lines, "  rabbitmqClusterReference:", f"    name: {CLUSTER}", ""])


def policy_spec(rule: Mapping[str, Any], name: str, vhost: str) -> dict[str, Any]:
    """Return the fields of a Policy or an OperatorPolicy for one that has them all."""
    same = {"name": name, "vhost": vhost, "pattern": rule["pattern"], "applyTo": rule["apply-to"]}
    return {**same, "priority": rule["priority"], "definition": rule["definition"]}


def _in_json(value: Any) -> str:
    return _BREAKS_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", msgspec.json.encode(value).decode())


def _unique(given: _Object, taken: dict[tuple[str, str], int]) -> str:
    """Return a name that Kubernetes takes, and that no other object of the kind has."""
    plain = _NOT_A_NAME.sub("-", given.title.lower())[:_NAME_LENGTH_MAX].strip("-") or given.kind.lower()
    name = plain
    while (given.kind, name) in taken:
        taken[given.kind, plain] += 1
        name = f"{plain}-{taken[given.kind, plain]}"
    taken[given.kind, name] = 1
    return name


def _objects(definitions: Definitions) -> Written:
    sections = {section: _counting(definitions, section) for section in _WRITTEN}
    limits = {
        each["vhost"]: each["value"] for each in sections["parameters"] if each.get("component") == "vhost-limits"
    }
    for vhost in sections["vhosts"]:
        yield from _vhost(vhost, limits.pop(vhost["name"], {}))
    for vhost in limits:
        yield f"the limits of virtual host {vhost!r} left out: the virtual host itself is not defined here"
    for section, write in _WRITTEN.items():
        for item in sections[section]:
            if write is not None:
                yield from write(item)
    if names := [str(each.get("name")) for each in definitions.document.get("global_parameters", ())]:
        yield f"the operator has no global parameters: {', '.join(names)} left out"


def _counting(definitions: Definitions, section: str) -> list[dict[str, Any]]:
    """Return the items of a section without those that have no effect, since another has their name."""
    found: dict[bytes, dict[str, Any]] = {}
    for item, _ in items_of(definitions, section):
        key = object_key(item, NAMED_BY[section])
        if section not in FIRST_COUNTS or key not in found:
            found[key] = item
    return list(found.values())


def _title(item: Mapping[str, Any], *names: str) -> str:
    vhost = "" if item.get("vhost", "/") == "/" else item["vhost"]
    return " ".join([vhost, *(str(item.get(name, "")) for name in names)])


def _vhost(vhost: Mapping[str, Any], limits: Mapping[str, Any]) -> Written:
    name, metadata = vhost["name"], vhost.get("metadata") or {}
    default_type = metadata.get("default_queue_type")
    known = {limit: value for limit in ("connections", "queues") if (value := limits.get(f"max-{limit}")) is not None}
    set_ = {
        "tracing": vhost.get("tracing"),
        "tags": metadata.get("tags"),
        "defaultQueueType": default_type if default_type in SPECS["Vhost"]["defaultQueueType"] else None,
        "limits": known,
    }
    spec = {field: value for field, value in set_.items() if value}
    if metadata.get("description"):
        yield f"Vhost {name!r}: the operator has no description: left out"
    if default_type not in (None, "undefined", *SPECS["Vhost"]["defaultQueueType"]):
        yield f"Vhost {name!r}: the operator has no default queue type {default_type!r}: left out"
    if name == "/" and not spec:
        return  # every server has it
    if name == "/":
        spec["deletionPolicy"] = "retain"
    yield _Object("Vhost", name, {"name": name, **spec})


def _queue(queue: Mapping[str, Any]) -> Written:
    where = f"Queue {queue['name']!r} in virtual host {queue['vhost']!r}"
    if queue.get("exclusive"):
        yield f"{where} is exclusive, which the operator declares none: left out"
        return
    arguments = dict(queue.get("arguments") or {})
    yield from _numbers(where, arguments)
    kind = {"type": arguments.pop("x-queue-type")} if isinstance(arguments.get("x-queue-type"), str) else {}
    spec = {**_declared(queue), **kind, **({"arguments": arguments} if arguments else {})}
    yield _Object("Queue", _title(queue, "name"), spec)


def _declared(item: Mapping[str, Any]) -> dict[str, Any]:
    flags = {"durable": item.get("durable", True), "autoDelete": item.get("auto_delete", False)}
    return {"name": item["name"], "vhost": item["vhost"], **flags}


def _exchange(exchange: Mapping[str, Any]) -> Written:
    where = f"Exchange {exchange['name']!r} in virtual host {exchange['vhost']!r}"
    if exchange["name"] == "" or exchange["name"].startswith("amq."):
        yield f"{where} is there on each server: left out"
        return
    if exchange.get("internal"):
        yield f"{where}: the operator has no internal exchanges: clients can publish to this one"
    arguments = exchange.get("arguments") or {}
    yield from _numbers(where, arguments)
    spec = {**_declared(exchange), "type": exchange.get("type", "direct")}
    yield _Object("Exchange", _title(exchange, "name"), spec | ({"arguments": arguments} if arguments else {}))


def _binding(binding: Mapping[str, Any]) -> Written:
    if binding["source"] == "":
        return  # every queue has it
    arguments = binding.get("arguments") or {}
    yield from _numbers(f"Binding of {binding['destination']!r} to {binding['source']!r}", arguments)
    spec = {
        "vhost": binding["vhost"],
        "source": binding["source"],
        "destination": binding["destination"],
        "destinationType": binding["destination_type"],
        "routingKey": binding.get("routing_key", NO_KEY),
    }
    spec |= {"arguments": arguments} if arguments else {}
    yield _Object("Binding", _title(binding, "source", "destination"), spec)


def _numbers(where: str, arguments: Mapping[str, Any]) -> Iterator[str]:
    """Say which numbers the operator changes: it reads each into a float of 64 bits."""
    pending: list[tuple[str, Any]] = list(arguments.items())
    while pending:
        name, value = pending.pop(0)
        if isinstance(value, dict):
            pending += [(f"{name}.{key}", each) for key, each in value.items()]
        elif isinstance(value, list):
            pending += [(f"{name}[{at}]", each) for at, each in enumerate(value)]
        elif isinstance(value, float) and value.is_integer():
            yield f"{where}: of {name}, {value!r}, the operator makes the integer {int(value)}"
        elif isinstance(value, int) and abs(value) > _WHOLE_MAX:
            yield f"{where}: of {name}, {value}, the operator keeps the first 53 bits"


def _rule(kind: str, policy: Mapping[str, Any], value: Mapping[str, Any]) -> Written:
    apply_to, priority = value.get("apply-to", "all"), value.get("priority", 0)
    where = f"{kind} {policy['name']!r} in virtual host {policy['vhost']!r}"
    if kind == "OperatorPolicy" and apply_to == "all":
        apply_to = "queues"  # which are all that it applies to
    if apply_to not in SPECS[kind]["applyTo"] or type(priority) is not int:
        told = f"priority {priority!r}" if apply_to in SPECS[kind]["applyTo"] else f"apply-to {apply_to!r}"
        yield f"{where}: the operator takes no {told}: left out"
        return
    rule = {**value, "apply-to": apply_to, "priority": priority, "definition": dict(value["definition"])}
    yield _Object(kind, _title(policy, "name"), policy_spec(rule, policy["name"], policy["vhost"]))


def _policy(policy: Mapping[str, Any]) -> Written:
    yield from _rule("Policy", policy, policy)


def _parameter(parameter: Mapping[str, Any]) -> Written:
    component, name = parameter.get("component"), parameter.get("name")
    kind = {"shovel": "Shovel", "federation-upstream": "Federation"}.get(str(component))
    if component == "operator_policy":
        yield from _rule("OperatorPolicy", parameter, parameter["value"])
    elif kind is not None:
        yield from _link(kind, parameter)
    elif component != "vhost-limits":
        yield f"the operator has no parameters of {component}: {name!r} in {parameter.get('vhost')!r} left out"


def _link(kind: str, parameter: Mapping[str, Any]) -> Written:
    """Write a shovel or an upstream; its URIs belong in a secret."""
    value = dict(parameter["value"])
    fields = {server_name(field): field for field in SPECS[kind]}
    where = f"{kind} {parameter['name']!r} in virtual host {parameter['vhost']!r}"
    spec = {"name": parameter["name"], "vhost": parameter["vhost"]}
    uris = [each for each in ("uri", "src-uri", "dest-uri") if value.pop(each, None)]
    for name, each in value.items():
        if name in fields:
            spec[fields[name]] = str(each) if SPECS[kind][fields[name]] is str else each
        else:
            yield f"{where}: the operator has no field for {name}: left out"
    title = _title(parameter, "name")
    secret = f"{_NOT_A_NAME.sub('-', title.lower()).strip('-')}-uris"
    yield f"{where}: make the secret {secret!r}: {' and '.join(uris)} belong there, and are not written"
    yield _Object(kind, title, {**spec, "uriSecret": {"name": secret}})


def _user(user: Mapping[str, Any]) -> Written:
    known = SPECS["User"]["tags"][0]
    given = user.get("tags") or []
    tags = [each.strip() for each in given.split(",")] if isinstance(given, str) else given
    if others := [each for each in tags if each and each not in known]:
        yield f"User {user['name']!r}: the operator has no tags {', '.join(others)}: left out"
    secret = f"{_NOT_A_NAME.sub('-', user['name'].lower()).strip('-')}-credentials"
    yield f"User {user['name']!r}: make the secret {secret!r} with username and password, which are not written"
    limits = {limit.removeprefix("max-"): value for limit, value in (user.get("limits") or {}).items()}
    spec: dict[str, Any] = {"tags": [each for each in tags if each in known]}
    spec |= {"limits": limits} if limits else {}
    yield _Object("User", user["name"], {**spec, "importCredentialsSecret": {"name": secret}})


def _permission(permission: Mapping[str, Any]) -> Written:
    yield from _rights("Permission", permission, ("configure", "write", "read"))


def _topic_permission(permission: Mapping[str, Any]) -> Written:
    yield from _rights("TopicPermission", permission, ("exchange", "write", "read"))


def _rights(kind: str, permission: Mapping[str, Any], rights: Iterable[str]) -> Written:
    spec = {"user": permission["user"], "vhost": permission["vhost"]}
    allowed = {right: permission.get(right, "") for right in rights}
    yield _Object(kind, _title(permission, "user"), {**spec, "permissions": allowed})


_WRITTEN: Mapping[str, Callable[[Mapping[str, Any]], Written] | None] = {
    "vhosts": None,
    "exchanges": _exchange,
    "queues": _queue,
    "bindings": _binding,
    "policies": _policy,
    "parameters": _parameter,
    "users": _user,
    "permissions": _permission,
    "topic_permissions": _topic_permission,
}
"""What writes the items of each section, in the order in which the objects stand; virtual hosts come first."""
