"""The JSON Schema of definitions, for editors: each field with its type and what it does.

What a queue or a policy may have in a setting is not written here: the checks of all releases are asked, so a value is
valid if one release takes it. ``OBJECT_FIELDS`` has the fields of objects that servers read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dlx.amqp_errors import Refusal
from dlx.declarations import ARGUMENTS, EXCHANGE_ARGUMENTS, queue_arguments
from dlx.policy_validation import PolicyRefusedError, check_policy
from dlx.releases import RELEASES, Release, release
from dlx.topology import CLASSIC, QUORUM, STREAM
from simulator.definitions.checks import APPLY_TO_WORDS, SETTING_WORDS, check_declared, policy_keys
from simulator.json_reading import SCHEMA_DIALECT

Field = tuple[str, str]
"""The JSON type of a field, and what it is."""
_NAME, _VHOST = ("string", "Its name."), ("string", "Its virtual host; the export of one virtual host goes without.")
_DURABLE = ("boolean", "Whether it is there after a restart of the server.")
_ARGUMENTS = ("arguments", "What its declaration sets besides; only declaring it anew changes them.")
_PATTERN = ("string", "A regular expression: names that have a match in them get the policy.")

OBJECT_FIELDS: Mapping[str, Mapping[str, Field]] = {
    "queues": {
        "name": _NAME,
        "vhost": _VHOST,
        "durable": _DURABLE,
        "auto_delete": ("boolean", "Whether it is deleted when its last consumer leaves."),
        "arguments": _ARGUMENTS,
        "type": ("string", "What rabbitmqctl shows of the type; imports read the argument x-queue-type, not this."),
    },
    "exchanges": {
        "name": _NAME,
        "vhost": _VHOST,
        "type": ("string", "How it routes: direct, fanout, topic, headers, or a type that a plugin brings."),
        "durable": _DURABLE,
        "auto_delete": ("boolean", "Whether it is deleted with its last binding."),
        "internal": ("boolean", "Whether only other exchanges may publish to it."),
        "arguments": _ARGUMENTS,
    },
    "bindings": {
        "source": ("string", "The exchange that messages come from."),
        "vhost": _VHOST,
        "destination": ("string", "The queue or exchange that they go to."),
        "destination_type": ("string", "What the destination is."),
        "routing_key": ("string", "The key, or pattern of a topic exchange, of messages that it lets through."),
        "arguments": ("arguments", "What a headers exchange compares; x-match says how."),
        "properties_key": ("string", "The name of the binding in the management API; imports do not read it."),
    },
    "policies": {
        "vhost": _VHOST,
        "name": _NAME,
        "pattern": _PATTERN,
        "apply-to": ("string", "What kinds of object it is for."),
        "definition": ("settings", "What it sets."),
        "priority": ("number", "Of several policies with a match, the one with the highest priority applies."),
    },
    "users": {
        "name": _NAME,
        "password_hash": ("string", "The hash of the password, with its salt, in base64; empty for none."),
        "hashing_algorithm": ("string", "The module that made the hash."),
        "password": ("string", "The password, which servers read where there is no hash."),
        "tags": ("", "What the user may do in the management API: a list, or words with commas between."),
        "limits": ("object", "max-connections and max-channels."),
    },
    "vhosts": {
        "name": _NAME,
        "description": ("string", "What it is for."),
        "tags": ("array", "Words about it."),
        "default_queue_type": ("", "The type of a queue without one; imports read the one in the metadata."),
        "metadata": ("object", "description, tags and default_queue_type."),
        "tracing": ("boolean", "Whether the firehose is on."),
        "limits": ("", "Its limits; imports read those in the parameter vhost-limits."),
    },
    "permissions": {
        "user": ("string", "The name of the user."),
        "vhost": _VHOST,
        "configure": ("string", "A regular expression: what the user may declare and delete."),
        "write": ("string", "A regular expression: what the user may publish to or bind."),
        "read": ("string", "A regular expression: what the user may consume or bind from."),
    },
    "topic_permissions": {
        "user": ("string", "The name of the user."),
        "vhost": _VHOST,
        "exchange": ("string", "The topic exchange that this is about."),
        "write": ("string", "A regular expression: the routing keys that the user may publish with."),
        "read": ("string", "A regular expression: the routing keys that the user may bind with."),
    },
    "parameters": {
        "component": ("string", "Whose parameter it is: operator_policy, vhost-limits, shovel, federation-upstream."),
        "vhost": _VHOST,
        "name": _NAME,
        "value": ("", "What it says, in a form of its component."),
    },
    "global_parameters": {
        "name": _NAME,
        "value": ("", "What it says."),
    },
}
"""The fields of the objects of each section that servers read."""
_STRICT = ("queues", "exchanges", "bindings", "policies", "permissions", "topic_permissions")
"""Sections whose objects have these fields and no others."""
_REQUIRED = {
    "bindings": ["source", "destination", "destination_type"],
    "policies": ["name", "pattern", "definition"],
    "permissions": ["user", "configure", "write", "read"],
    "topic_permissions": ["user", "exchange", "write", "read"],
    "parameters": ["component", "name", "value"],
}
TOP_FIELDS: Mapping[str, Field] = {
    "$schema": ("string", "The address of this schema, for editors; servers do not read it."),
    "rabbit_version": ("string", "The release of the server that exported it."),
    "rabbitmq_version": ("string", "The release of the server that exported it."),
    "product_name": ("string", "The product that exported it."),
    "product_version": ("string", "The version of the product."),
    "rabbitmq_definition_format": ("string", "cluster, or single_virtual_host."),
    "original_cluster_name": ("string", "The cluster that the export is of."),
    "original_vhost_name": ("string", "The virtual host that an export of one is of."),
    "explanation": ("string", "What the file is, in words."),
    "description": ("string", "What the virtual host of an export of one is for."),
    "metadata": ("object", "That of the virtual host of an export of one."),
    "tags": ("array", "Those of the virtual host of an export of one."),
    "default_queue_type": ("", "That of the virtual host of an export of one."),
    "limits": ("", "Those of the virtual host of an export of one."),
    "tracing": ("boolean", "Whether the firehose of the virtual host of an export of one is on."),
}
"""What exports have beside their sections."""
_SECTION_TEXTS = {
    "users": "Who may connect.",
    "vhosts": "The virtual hosts.",
    "permissions": "What users may do in a virtual host.",
    "topic_permissions": "Which routing keys users may have in topic exchanges.",
    "parameters": "Runtime parameters: operator policies, limits, and what plugins have.",
    "global_parameters": "Runtime parameters of the whole cluster.",
    "policies": "Policies: settings of all queues and exchanges whose name has a match.",
    "queues": "The queues.",
    "exchanges": "The exchanges, besides those that each server has.",
    "bindings": "Which messages go from an exchange to a queue, or to another exchange.",
}
_OF_PLUGINS = {
    "federation-upstream": "The upstream to federate from.",
    "federation-upstream-set": "The set of upstreams to federate from; all is all of them.",
    "federation-upstream-pattern": "The upstreams to federate from: those whose name has a match.",
    "shards-per-node": "How many queues the sharding plugin makes on each node.",
    "routing-key": "The key with which the sharding plugin binds them.",
}
"""Keys of policies that plugins which come with the server read."""
SETTING_TEXTS = {
    "alternate-exchange": "The exchange that gets what reaches no queue.",
    "consumer-disconnected-timeout": "How long a quorum queue waits for a consumer whose node is away, in ms.",
    "consumer-timeout": "How long a consumer may keep a message before its channel is closed, in ms.",
    "dead-letter-exchange": "The exchange that gets messages which are rejected, expire or are dropped.",
    "dead-letter-routing-key": "Their routing key; without it they keep theirs.",
    "dead-letter-strategy": "Whether a quorum queue may lose dead letters on their way.",
    "delayed-retry-max": "The longest time that a returned message waits, in ms.",
    "delayed-retry-min": "The time that a returned message waits at first, in ms.",
    "delayed-retry-type": "Which returned messages wait before they are delivered again.",
    "delivery-limit": "How often a message may be returned to a quorum queue; -1 for no limit.",
    "expires": "After how long without use the queue is deleted, in ms.",
    "ha-mode": "How classic queues are mirrored, until 3.13.",
    "ha-params": "The nodes of the mirrors, or their number.",
    "ha-promote-on-failure": "Whether a mirror that is behind takes over when the leader fails.",
    "ha-promote-on-shutdown": "Whether a mirror that is behind takes over when the leader is shut down.",
    "ha-sync-batch-size": "How many messages a mirror gets at once.",
    "ha-sync-mode": "Whether new mirrors get what is in the queue.",
    "initial-cluster-size": "How many replicas a stream has at first.",
    "max-age": "How old what a stream keeps may be: 7D, 12h.",
    "max-in-memory-bytes": "How many bytes a quorum queue keeps in memory, until 3.9.",
    "max-in-memory-length": "How many messages a quorum queue keeps in memory, until 3.9.",
    "max-length": "How many messages may wait in the queue.",
    "max-length-bytes": "How many bytes of bodies may wait in the queue.",
    "max-priority": "The highest priority that the queue tells apart.",
    "message-ttl": "How long a message may wait in the queue, in ms.",
    "overflow": "What happens when the queue is full: it drops the oldest message, or refuses the new one.",
    "queue-leader-locator": "On which node the leader of a new queue is.",
    "queue-master-locator": "On which node a new mirrored queue is, until 3.13.",
    "queue-mode": "Whether a classic queue keeps messages on disk, until 3.11.",
    "queue-type": "The type of the queue; without it that of the virtual host.",
    "queue-version": "How a classic queue keeps messages: 1 or 2.",
    "quorum-initial-group-size": "How many replicas a quorum queue has at first.",
    "single-active-consumer": "Whether one consumer at a time gets messages.",
    "stream-filter-size-bytes": "The size of the filter of a chunk of a stream.",
    "stream-max-segment-size-bytes": "The size of a file of a stream.",
    "target-group-size": "How many replicas a quorum queue is to have.",
}
"""What each setting of queues and exchanges does."""
_SAMPLES: Mapping[str, tuple[Any, ...]] = {
    "integer": (1, 20, -1),
    "number": (1.5,),
    "string": ("a", "7D"),
    "boolean": (True,),
    "array": ([], ["a"]),
    "object": ({},),
}
_TYPE = "x-queue-type"
_BESIDE: tuple[dict[str, Any], ...] = (
    {},
    {"ha-mode": "exactly", "ha-params": 1},
    {"ha-mode": "nodes", "ha-params": ["a"]},
    {"delayed-retry-type": "all", "delayed-retry-min": 1, "delayed-retry-max": 2},
)
"""What some keys of a policy need beside them."""


def definitions_schema() -> dict[str, Any]:
    """Return the schema of exports of a whole cluster and of one virtual host, as plain JSON values."""
    top = {name: _typed(*field) for name, field in TOP_FIELDS.items()}
    sections = {section: _section(section, text) for section, text in _SECTION_TEXTS.items()}
    return {
        "$schema": SCHEMA_DIALECT,
        "title": "Definitions of RabbitMQ, as rabbitmqctl export_definitions writes them",
        "type": "object",
        "properties": top | sections,
        "additionalProperties": False,
        "$defs": {
            "queue_arguments": _arguments(_ARGUMENTS[1], _queue_arguments()),
            "exchange_arguments": _exchange_arguments(),
            "binding_arguments": _arguments(OBJECT_FIELDS["bindings"]["arguments"][1], None),
            "settings": _settings(),
        },
    }


def _typed(kind: str, text: str) -> dict[str, Any]:
    return {"type": kind, "description": text} if kind else {"description": text}


def _section(section: str, text: str) -> dict[str, Any]:
    arguments = {"$ref": f"#/$defs/{section.removesuffix('s')}_arguments"}
    of_kind = {"arguments": arguments, "settings": {"$ref": "#/$defs/settings"}}
    fields = OBJECT_FIELDS[section]
    properties: dict[str, dict[str, Any]] = {
        name: {**of_kind[kind], "description": about} if kind in of_kind else _typed(kind, about)
        for name, (kind, about) in fields.items()
    }
    item: dict[str, Any] = {"type": "object", "properties": properties, "required": _REQUIRED.get(section, ["name"])}
    if section in _STRICT:
        item["additionalProperties"] = False
    if section == "bindings":
        properties["destination_type"]["enum"] = ["queue", "exchange"]
    if section == "policies":
        properties["apply-to"]["enum"] = list(APPLY_TO_WORDS)
    if section == "parameters":
        item["if"] = {"properties": {"component": {"const": "operator_policy"}}, "required": ["component"]}
        item["then"] = {"properties": {"value": _operator_policy()}}
    return {"type": "array", "description": text, "items": item}


def _operator_policy() -> dict[str, Any]:
    fields = {name: _typed(*OBJECT_FIELDS["policies"][name]) for name in ("pattern", "apply-to", "priority")}
    fields["apply-to"]["enum"] = list(APPLY_TO_WORDS)
    pairs = {"type": "array", "items": {"type": "array", "minItems": 2, "maxItems": 2}}
    text = "What it sets: an object, or pairs, as rabbitmqctl before 4.1.6 writes them."
    fields["definition"] = {"anyOf": [{"$ref": "#/$defs/settings"}, pairs], "description": text}
    required = ["pattern", "definition"]
    return {"type": "object", "properties": fields, "required": required, "additionalProperties": False}


def _arguments(text: str, known: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the schema of arguments; of those of a queue, names that begin as arguments do must be known."""
    table: dict[str, Any] = {"type": "object"}
    if known is not None:
        without = [name.removeprefix("x-") for name in known]
        table["properties"] = dict(known)
        other = {"not": {"anyOf": [{"pattern": "^x-"}, {"enum": without}]}}
        table["propertyNames"] = {"anyOf": [{"enum": [*known]}, other]}
    return {"description": text, "anyOf": [table, {"type": "array", "maxItems": 0}]}


def _exchange_arguments() -> dict[str, Any]:
    known = {name: _typed("string", SETTING_TEXTS[name]) for name in sorted(EXCHANGE_ARGUMENTS)}
    schema = _arguments(OBJECT_FIELDS["exchanges"]["arguments"][1], None)
    other = {"not": {"pattern": "[Aa]lt|[Ee]xchange"}}
    schema["anyOf"][0] |= {"properties": known, "propertyNames": {"anyOf": [{"enum": [*known]}, other]}}
    return schema


def _queue_arguments() -> dict[str, Any]:
    return {name: _setting(name.removeprefix("x-"), _takes_argument(name)) for name in sorted(ARGUMENTS)}


def _settings() -> dict[str, Any]:
    known = {key: _setting(key, _takes_key(key)) for key in sorted(policy_keys())}
    of_plugins = {key: {"description": text} for key, text in _OF_PLUGINS.items()}
    return {"type": "object", "properties": known | of_plugins, "additionalProperties": False}


def _setting(key: str, takes: Callable[[Any], bool]) -> dict[str, Any]:
    """Return the schema of a setting: the types, the words and the least number of which some release takes one."""
    words = [word for word in SETTING_WORDS if takes(word)]
    kinds = [kind for kind, samples in _SAMPLES.items() if any(map(takes, samples))]
    if "number" in kinds:
        kinds.remove("integer")
    schema: dict[str, Any] = {"description": SETTING_TEXTS[key]}
    if kinds == [] and words:
        return {**schema, "enum": words}
    if 0 < len(kinds) < len(_SAMPLES) - 1:
        schema["type"] = kinds[0] if len(kinds) == 1 else kinds
    if not takes(-1) and (least := [number for number in (0, 1) if takes(number)]):
        schema["minimum"] = least[0]
    return schema


def _takes_argument(name: str) -> Callable[[Any], bool]:
    """Return the check of all types and releases in which the argument means something: others take any value."""
    every = [(kind, rules) for rules in map(release, RELEASES) for kind in (CLASSIC, QUORUM, STREAM)]
    knowing = [(kind, rules) for kind, rules in every if name in queue_arguments(kind, rules)]

    def takes(value: Any) -> bool:
        return any(_declares(kind, name, value, rules) for kind, rules in knowing or every)

    return takes


def _declares(kind: str, name: str, value: Any, rules: Release) -> bool:
    arguments = {"x-dead-letter-exchange": "dlx"} if name.startswith("x-dead-letter-") else {}
    item = {"name": "q", "arguments": {**arguments, _TYPE: kind, name: value}}
    try:
        check_declared("queue", "/", item, rules)
    except Refusal:
        return False
    return True


def _takes_key(key: str) -> Callable[[Any], bool]:
    def takes(value: Any) -> bool:
        return any(_defines({**beside, key: value}, release(name)) for beside in _BESIDE for name in RELEASES)

    return takes


def _defines(definition: Mapping[str, Any], rules: Release) -> bool:
    try:
        check_policy("p", ".*", definition, "all", 0, operator=False, release=rules)
    except PolicyRefusedError:
        return False
    return True
