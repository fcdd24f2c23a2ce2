"""Definitions under one release, as a broker of that release takes them: what questions are asked of."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import msgspec

from dlx.amqp_errors import Refusal
from dlx.releases import Release
from dlx.settings import Settings
from dlx.topology import STOCK_EXCHANGES, Topology
from simulator.broker import Broker
from simulator.definitions import Definitions, DefinitionsError, importable
from simulator.definitions_checks import is_declared
from simulator.questions.entries import Entries, entries
from simulator.questions.findings import ObjectName
from simulator.scenario.trial import Trial

_STOCK = {exchange.name for exchange in STOCK_EXCHANGES}
_PLACE = re.compile(r"\[\d+\]")
_WHO = ("users", "permissions", "topic_permissions")  # a trial's clients may do everything


_OF_PLUGINS = frozenset({
    "federation-upstream", "federation-upstream-set", "federation-upstream-pattern", "shards-per-node", "routing-key",
})  # fmt: skip
"""Fields of policies by which plugins take part: federation and sharding."""
SAYS_NOTHING = {"queue-mode": "default"}
"""A policy that changes nothing, and still keeps others from applying; RabbitMQ takes none that is empty."""


class Refused(msgspec.Struct, frozen=True):
    """An object that the broker does not take, and why not, in RabbitMQ's words."""

    about: ObjectName
    why: str


def queue_left_out(about: ObjectName) -> str:
    """Say in a phrase that a queue is not looked into which only bindings name."""
    left_out = "the export has its bindings, and leaves out the queue, as it does where a queue is exclusive"
    return f"what becomes of messages in {about}: {left_out}"


class Snapshot:
    """Definitions under one release.

    Attributes:
        definitions, release: as given.
        refused: what a broker of that release does not take. It is left out of everything else.
        stand_ins: types of exchanges that only bindings name, since RabbitMQ exports no internal ones. Their keys
            and arguments tell the type: it is a guess.
        left_out: queues that only bindings name: exports leave out exclusive ones, but not what binds them.
        document: the rest, as an export.
        broker: a broker that has imported it. Whoever plays on it leaves its exchanges, queues and bindings alone,
            since the flows read them there.
        flows: what the rules say of each virtual host, by name.

    Raises ``DefinitionsError`` where the broker refuses the whole document.
    """

    def __init__(self, definitions: Definitions, release: Release) -> None:
        self.definitions, self.release = definitions, release
        self._names = _VhostNames(definitions)
        self.refused = tuple(self._refusals())
        self.stand_ins = dict(self._unexported())
        self.left_out = frozenset(self._missing_queues())
        self.document = self._playable()
        self.broker = self._imported()
        self.flows = {name: vhost.flow(release) for name, vhost in self.broker.vhosts.items()}

    @property
    def only_vhost(self) -> str | None:
        """The virtual host of an export of one, whose items do not name it."""
        return self.definitions.vhosts[0] if self.definitions.single_vhost else None

    @property
    def topologies(self) -> dict[str, Topology]:
        """The virtual hosts by name."""
        return {vhost: flow.topology for vhost, flow in self.flows.items()}

    @property
    def guesses(self) -> list[str]:
        """What is taken to be so of the exchanges that the export leaves out, in phrases."""
        routed = [f"how {about} routes, which the export leaves out: here as a {kind} exchange" for about, kind in
                  self.stand_ins.items()]  # fmt: skip
        unknown = [queue_left_out(about) for about in sorted(self.left_out)]
        plugins = [f"what a plugin does by {', '.join(map(repr, keys))} in {about}"
                   for about, keys in self._of_plugins()]  # fmt: skip
        limited = [f"{about}, which the broker does not declare: the queue limit of its virtual host is reached"
                   for about in self._beyond_limits()]  # fmt: skip
        return routed + unknown + plugins + limited

    @cached_property
    def entries(self) -> Entries:
        """What publishers publish: keys that together reach every queue by all ways that bindings tell apart."""
        return entries(self.flows)

    def queues(self) -> Iterator[tuple[str, Settings]]:
        """Yield each queue's settings, with its virtual host."""
        for vhost, flow in self.flows.items():
            for name in flow.topology.queues:
                yield vhost, flow.settings(name)

    def _imported(self) -> Broker:
        try:
            return Trial(self.document, release=self.release.name).broker
        except DefinitionsError as error:
            # Where something was left out, a place in what is left is another one in the export.
            where = _PLACE.sub("", error.where) if self.refused else error.where
            raise DefinitionsError(self.definitions.source, where, error.problem) from error

    def _refusals(self) -> Iterator[Refused]:
        for section, kind in (("exchanges", "exchange"), ("queues", "queue")):
            for item, vhost in self.items(section):
                try:
                    is_declared(kind, vhost, item, self.release)
                except Refusal as refusal:
                    yield Refused(ObjectName(kind, vhost, item["name"]), refusal.text)

    def _unexported(self) -> Iterator[tuple[ObjectName, str]]:
        """Yield each exchange that only bindings name, with the type that they fit."""
        known = {(vhost, item["name"]) for item, vhost in self.items("exchanges")}
        bound: defaultdict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
        for item, vhost in self.items("bindings"):
            bound[vhost, item["source"]].append(item)
            if item.get("destination_type", "queue") == "exchange":
                bound[vhost, item["destination"]] += []
        for (vhost, name), bindings in bound.items():
            if (vhost, name) not in known and name not in _STOCK:
                yield ObjectName("exchange", vhost, name), _kind(bindings)

    def _missing_queues(self) -> Iterator[ObjectName]:
        """Yield each queue that only bindings name."""
        known = {(vhost, item["name"]) for item, vhost in self.items("queues")}
        for item, vhost in self.items("bindings"):
            name = str(item.get("destination"))
            if (vhost, name) not in known and item.get("destination_type", "queue") == "queue":
                yield ObjectName("queue", vhost, name)

    def _beyond_limits(self) -> Iterator[ObjectName]:
        """Yield each queue that an import passes over."""
        refused = {each.about for each in self.refused}
        for item, vhost in self.items("queues"):
            about = ObjectName("queue", vhost, item["name"])
            flow = self.flows.get(vhost)
            if about not in refused and flow is not None and about.name not in flow.topology.queues:
                yield about

    def _of_plugins(self) -> Iterator[tuple[ObjectName, list[str]]]:
        """Yield each policy that says something to a plugin, with its fields that do."""
        for item, vhost in self.items("policies"):
            definition = item.get("definition")
            keys = sorted(_OF_PLUGINS & definition.keys()) if isinstance(definition, Mapping) else []
            if keys:
                yield ObjectName("policy", vhost, str(item.get("name"))), keys

    def items(self, section: str) -> Iterator[tuple[Mapping[str, Any], str]]:
        """Yield the items of a section of the export, each with its virtual host."""
        for item in self.definitions.document.get(section, ()):
            yield item, self._names.of(item)

    def _playable(self) -> dict[str, Any]:
        """Return the document without who may do what, and without what the broker refuses."""
        without = {each.about for each in self.refused} | self.left_out
        document = {key: value for key, value in self.definitions.document.items() if key not in _WHO}

        def taken(kind: str, item: Mapping[str, Any], name: str) -> bool:
            return ObjectName(kind, self._names.of(item), item.get(name, "")) not in without

        for section, kind in (("queues", "queue"), ("exchanges", "exchange")):
            if without and section in document:
                document[section] = [item for item in document[section] if taken(kind, item, "name")]
        if without and "bindings" in document:
            document["bindings"] = [
                item
                for item in document["bindings"]
                if taken("exchange", item, "source")
                and taken(item.get("destination_type", "queue"), item, "destination")
            ]
        if "policies" in document:
            document["policies"] = list(map(_without_plugins, document["policies"]))
        if self.stand_ins:
            document["exchanges"] = self._exchanges(document)
        return importable(document)

    def completed(self) -> dict[str, Any]:
        """Return the whole export with the stand-ins: of what a broker refuses, too, nothing is left out."""
        document = dict(self.definitions.document)
        return document | {"exchanges": self._exchanges(document)}

    def _exchanges(self, document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        return [*document.get("exchanges", ()), *map(self._stand_in, self.stand_ins)]

    def _stand_in(self, about: ObjectName) -> dict[str, Any]:
        of_vhost = {} if self.only_vhost is not None else {"vhost": about.vhost}
        return {"name": about.name, "type": self.stand_ins[about], "internal": True, **of_vhost}


def _without_plugins(policy: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the policy without what it says to plugins, which a server without them refuses; it applies as before."""
    definition = policy.get("definition")
    if not isinstance(definition, Mapping) or not _OF_PLUGINS & definition.keys():
        return policy
    rest = {key: value for key, value in definition.items() if key not in _OF_PLUGINS}
    return {**policy, "definition": rest or SAYS_NOTHING}


def _kind(bindings: Iterable[Mapping[str, Any]]) -> str:
    """Return the type of an exchange that such bindings make sense for."""
    keys = [str(each.get("routing_key", "")) for each in bindings]
    if any(each.get("arguments") for each in bindings):
        return "headers"
    if any({"*", "#"} & set(key.split(".")) for key in keys):
        return "topic"
    return "direct" if any(keys) else "fanout"


class _VhostNames:
    """Tells the virtual host of an item; an export of one virtual host does not name it there."""

    def __init__(self, definitions: Definitions) -> None:
        self._only = definitions.vhosts[0] if definitions.single_vhost else None

    def of(self, item: Mapping[str, Any]) -> str:
        return self._only if self._only is not None else str(item.get("vhost", "/"))
