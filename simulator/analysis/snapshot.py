"""Definitions under one release, as the state of a server that questions are about.

What a server exports, it has. What an import into the release would refuse is there as well, and reported.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Literal

import msgspec

from dlx.amqp_errors import Refusal
from dlx.consistent_hash import HASH_HEADER, HASH_PROPERTY
from dlx.limits import MAX_CONNECTIONS
from dlx.releases import Release
from dlx.server_plugins import CONSISTENT_HASH, LOCAL_RANDOM, PLAYED
from dlx.settings import Settings
from dlx.topology import Exchange, Topology
from simulator.analysis.entries import Entries, entries
from simulator.analysis.findings import ObjectName
from simulator.bootstrap import as_taken, take_definitions
from simulator.broker import Broker
from simulator.broker.replies import LEFT_OUT, NotImported
from simulator.definitions import Definitions, Place, importable
from simulator.definitions.checks import check_declared, is_for_plugin
from simulator.definitions.completed import completed
from simulator.definitions.overlay import items_of
from simulator.definitions.reading import FIRST_COUNTS
from simulator.scenario.player import START_US

_WHO = ("users", "permissions", "topic_permissions")  # a trial's clients may do everything
_WITH_WHO = (*_WHO, "vhosts", "exchanges", "rabbit_version", "rabbitmq_version")
_KINDS = {
    "queues": "queue",
    "exchanges": "exchange",
    "policies": "policy",
    "vhosts": "vhost",
    "users": "user",
    "permissions": "permissions of user",
    "topic_permissions": "topic permissions of user",
}
_PLACED = (*_KINDS, "bindings", "parameters")
"""The sections whose objects findings are about."""
Kept = Literal["whole", "in part", "no"]


class RefusedObject(msgspec.Struct, frozen=True):
    """An object that an import into the release would not take.

    Attributes:
        about: the object.
        why: why not, in plain words.
        words: what the server says; empty where it leaves the object out without a word.
        kept: whether questions are about the whole object, about what the release knows of it, or leave it out.
        declaration: what a server says to a client that declares the queue, where an import says nothing.
        properties: what questions take instead of refused properties, such as ``auto_delete false``.
    """

    about: ObjectName
    why: str
    words: str
    kept: Kept
    declaration: str = ""
    properties: tuple[str, ...] = ()

    @property
    def consequence(self) -> str:
        """What questions do with it, in a phrase."""
        if self.kept == "whole":
            return "a server may have it, so it is kept here"
        if self.properties:
            return f"here with {' and '.join(self.properties)}"
        return "here without the refused part" if self.kept == "in part" else "left out here"


def queue_left_out(about: ObjectName, *, exported: bool) -> str:
    """Say in a phrase that a queue is not looked into which only bindings name. ``exported``: a server wrote them."""
    left_out = "the export has its bindings but not the queue, as for an exclusive queue"
    return f"what happens to messages in {about}: {left_out if exported else 'it is bound here, and not declared'}"


class Snapshot:
    """Definitions under one release.

    Attributes:
        definitions, release: as given.
        refused: what an import into that release would refuse.
        not_imported: what questions are asked of, though an import silently leaves it out, in sentences.
        plugins: what a plugin does with the definitions, in phrases: nobody knows here.
        document: the export, with stand-ins for what it leaves out, as far as a broker of the release has it, and
            without who may do what.
        broker: a broker that has it. Whoever plays on it leaves its exchanges, queues and bindings alone,
            since the flows read them there.
        flows: what the rules say of each virtual host, by name.
    """

    def __init__(self, definitions: Definitions, release: Release) -> None:
        self.definitions, self.release = definitions, release
        types = release.exchange_types | PLAYED
        self._completed = completed(importable(definitions.document), types, self.only_vhost)
        document = {key: value for key, value in self._completed.document.items() if key not in _WHO}
        self.broker = Broker(release)
        taken = take_definitions(self.broker, document, self.only_vhost, START_US)
        self.plugins = list(map(self._of_plugin, filter(self._is_of_plugin, taken)))
        self.refused = tuple(
            self._refused(each)
            for each in taken
            if (each.text or each.taken != each.item) and not self._is_of_plugin(each)
        )
        self.not_imported = tuple(
            f"{object_name(each.section, each.item, self._vhost(each.item))} is there, as on the server that exported "
            f"it: {each.plain}"
            for each in taken
            if not each.text and each.taken == each.item
        )
        self.document = as_taken(document, taken)
        if self.only_vhost is not None:  # 3.x names it in policies and parameters alone, and parts may have neither
            self.document["original_vhost_name"] = self.only_vhost
        self.flows = {name: vhost.flow(release) for name, vhost in self.broker.vhosts.items()}

    @cached_property
    def refused_users(self) -> tuple[RefusedObject, ...]:
        """What an import would refuse of users, and of what they may do; no message goes another way by that."""
        document = {key: value for key, value in self._completed.document.items() if key in _WITH_WHO}
        if not self.definitions.is_imported:  # other files may define them
            others = [{"name": user, "password_hash": "", "tags": []} for user in self.definitions.undefined_users]
            document["users"] = [*document.get("users", ()), *others]
        taken = take_definitions(Broker(self.release), document, self.only_vhost, START_US)
        return tuple(self._refused(each) for each in taken if each.section in _WHO)

    @cached_property
    def refused_as_written(self) -> tuple[RefusedObject, ...]:
        """What an import would refuse only as it is written, and questions take in a form that all releases take."""
        given = self.definitions
        if given.is_of_server or given.is_composed or importable(given.document) == given.document:
            return ()
        told = {each.about for each in (*self.refused, *self.refused_users)}
        taken = take_definitions(Broker(self.release), given.document, self.only_vhost, START_US, as_written=True)
        refused = (self._refused(each) for each in taken if each.text and not self._is_of_plugin(each))
        return tuple(each for each in refused if each.about not in told)

    @property
    def judge(self) -> str:
        """Who refuses objects: an import of all of them, or the server to which a tool declares each."""
        server = f"RabbitMQ {self.release.name}"
        return f"an import into {server}" if self.definitions.is_imported else server

    def sentence(self, refused: RefusedObject) -> str:
        """Say what is refused, why, whether an import fails of it, and what questions do with it."""
        fails = "fails, since it refuses" if self.definitions.is_imported else "refuses"
        verb = fails if refused.words else "does not take"
        return f"{self.judge} {verb} {refused.about}: {refused.why} ({refused.consequence})"

    @property
    def only_vhost(self) -> str | None:
        """The virtual host of an export of one, whose items do not name it."""
        return self.definitions.vhosts[0] if self.definitions.single_vhost else None

    @property
    def topologies(self) -> dict[str, Topology]:
        """The virtual hosts by name."""
        return {vhost: flow.topology for vhost, flow in self.flows.items()}

    @property
    def stand_ins(self) -> dict[ObjectName, str]:
        """The types of exchanges that only bindings name. Their keys and arguments tell the type: it is a guess."""
        return {ObjectName("exchange", *at): kind for at, kind in self._completed.exchanges.items()}

    @property
    def of_plugins(self) -> dict[ObjectName, tuple[str, str]]:
        """The types of exchanges that only plugins know, each with the type as which it is taken."""
        return {ObjectName("exchange", *at): types for at, types in self._completed.of_plugins.items()}

    @property
    def left_out(self) -> frozenset[ObjectName]:
        """The queues that only bindings name: exports leave out exclusive ones, but not what binds them."""
        return frozenset(ObjectName("queue", *at) for at in self._completed.queues)

    @property
    def undeclared_vhosts(self) -> tuple[str, ...]:
        """The virtual hosts that only objects name, though the definitions declare others."""
        return self._completed.vhosts if "vhosts" in self.definitions.document else ()

    @property
    def guesses(self) -> list[str]:
        """What is taken to be so of what the export does not tell, in phrases."""
        exported = self.definitions.rabbitmq_version is not None
        lacking = "which the export leaves out" if exported else "which is not declared"
        routed = [f"how {about} routes, {lacking}: here as a {kind} exchange" for about, kind in self.stand_ins.items()]
        by_plugin = [_of_plugin(about, kind, here) for about, (kind, here) in self.of_plugins.items()]
        hashed = [
            _of_hash(ObjectName("exchange", vhost, name), exchange)
            for vhost, topology in self.topologies.items()
            for name, exchange in topology.exchanges.items()
            if exchange.type == CONSISTENT_HASH and len(topology.bindings.get(name, ())) > 1
        ]
        elsewhere = [
            f"virtual host '{name}', which the definitions do not declare: here it has what they say about it"
            for name in self.undeclared_vhosts
        ]
        closed = [
            f"whether clients connect to virtual host '{name}' ({MAX_CONNECTIONS} 0 refuses all): here they do"
            for name, vhost in self.broker.vhosts.items()
            if (vhost.limits or {}).get(MAX_CONNECTIONS) == 0
        ]
        left_out = [queue_left_out(about, exported=exported) for about in sorted(self.left_out)]
        return [*routed, *by_plugin, *hashed, *left_out, *self.plugins, *elsewhere, *closed]

    @cached_property
    def entries(self) -> Entries:
        """What publishers publish: keys that together reach every queue by all ways that bindings tell apart."""
        return entries(self.flows)

    def queues(self) -> Iterator[tuple[str, Settings]]:
        """Yield each queue's settings, with its virtual host."""
        for vhost, flow in self.flows.items():
            for name in flow.topology.queues:
                yield vhost, flow.settings(name)

    def items(self, section: str) -> Iterator[tuple[Mapping[str, Any], str]]:
        """Yield the items of a section of the export, each with its virtual host."""
        for item in self.definitions.document.get(section, ()):
            yield item, self._vhost(item)

    def _vhost(self, item: Mapping[str, Any]) -> str:
        return self.only_vhost if self.only_vhost is not None else str(item.get("vhost", "/"))

    def _refused(self, told: NotImported) -> RefusedObject:
        item = told.item
        whole = told.taken is not None and {**item, **told.taken} == item
        kept: Kept = "no" if told.taken is None else "whole" if whole else "in part"
        about, declaration = object_name(told.section, item, self._vhost(item)), ""
        if told.section == "queues" and not told.text:
            try:
                check_declared("queue", about.vhost, item, self.release)
            except Refusal as refusal:
                declaration = refusal.explanation
        changed = [name for name in ("durable", "auto_delete") if item.get(name) != (told.taken or item).get(name)]
        properties = tuple(f"{name} {str((told.taken or item)[name]).lower()}" for name in changed)
        why = told.plain if self.definitions.is_imported else told.plain.removeprefix(f"{LEFT_OUT}: ")
        return RefusedObject(about, why, told.text, kept, declaration, properties)

    def _is_of_plugin(self, told: NotImported) -> bool:
        """Return whether an item is refused only because it is for a plugin, which no release has by itself."""
        item = told.item
        if told.section == "parameters" and item.get("component") != "operator_policy":
            return item.get("component") not in _OWN_COMPONENTS
        return told.section == "policies" and bool(_keys_of_plugins(item)) and _without(item, told)

    def _of_plugin(self, told: NotImported) -> str:
        item = told.item
        about = object_name(told.section, item, self._vhost(item))
        if told.section == "parameters":
            return f"what a plugin does with {about} of {item.get('component')}"
        return f"what a plugin does with {', '.join(map(repr, _keys_of_plugins(item)))} in {about}"


_OWN_COMPONENTS = ("vhost-limits", "policy")


def _of_plugin(about: ObjectName, kind: str, here: str) -> str:
    """Say as what an exchange of a plugin's type is taken."""
    if kind == LOCAL_RANDOM:
        return f"which one of its destinations {about} chooses for a message, as type {kind} does: here each of them"
    return f"how {about} routes, which the plugin of {kind} decides: here as a {here} exchange"


def _of_hash(about: ObjectName, exchange: Exchange) -> str:
    """Say what is not known of the destination that a hash chooses."""
    if value := exchange.arguments.get(HASH_PROPERTY):
        return f"which destination {about} chooses for a message by its {value}: here that of messages without one"
    hashed = "keys" if HASH_HEADER not in exchange.arguments else f"values of {exchange.arguments[HASH_HEADER]}"
    return (
        f"for which {hashed} {about} chooses which destination: here as if they were bound in the order they stand in"
    )


def _keys_of_plugins(policy: Mapping[str, Any]) -> list[str]:
    return sorted(filter(is_for_plugin, policy.get("definition") or {}))


def _without(policy: Mapping[str, Any], told: NotImported) -> bool:
    """Return whether a policy was kept except for the keys of plugins."""
    gone = policy["definition"].keys() - (told.taken or {}).get("definition", {}).keys()
    return told.taken is not None and gone <= set(_keys_of_plugins(policy))


def object_places(definitions: Definitions) -> dict[ObjectName, Place]:
    """Return where the objects stand: of several with one name the one that counts in an import."""
    found: dict[ObjectName, Place] = {}
    for section in _PLACED:
        for item, place in items_of(definitions, section):
            if place is not None:
                about = object_name(section, item, str(item.get("vhost", "/")))
                if section not in FIRST_COUNTS or about not in found:
                    found[about] = place
    for section in definitions.document:
        if (place := definitions.place(section)) is not None:
            found[ObjectName("section", "", section)] = place
    for section in _PLACED:  # what is not declared stands where something names it
        for item, place in items_of(definitions, section):
            if place is not None:
                for about in _named_by(section, item):
                    found.setdefault(about, place)
    if (place := definitions.not_strict_at) is not None:
        found[whole_file(definitions)] = place
    return found


def whole_file(definitions: Definitions) -> ObjectName:
    """Return the name of all that was read from a file, as findings have it."""
    return ObjectName("file", "", os.path.basename(definitions.source))


def _named_by(section: str, item: Mapping[str, Any]) -> Iterator[ObjectName]:
    """Yield the objects that an item names."""
    if "vhost" in item:
        vhost = str(item["vhost"])
        yield ObjectName("vhost", vhost, vhost)
        if section == "bindings":
            yield ObjectName("exchange", vhost, str(item.get("source")))
            yield ObjectName(str(item.get("destination_type", "queue")), vhost, str(item.get("destination")))


def object_name(section: str, item: Mapping[str, Any], vhost: str) -> ObjectName:
    """Return the name of an item of a section as findings have it."""
    name, kind = str(item.get("name", item.get("user", ""))), _KINDS.get(section, "parameter")
    if section == "users":
        return ObjectName(kind, "", name)
    if section == "bindings":
        key = f" by '{item['routing_key']}'" if item.get("routing_key") else ""
        return ObjectName("binding", vhost, f"{item['source']} → {item['destination']}{key}")
    if section == "parameters" and item.get("component") == "operator_policy":
        kind = "operator policy"
    return ObjectName(kind, name if section == "vhosts" else vhost, name)
