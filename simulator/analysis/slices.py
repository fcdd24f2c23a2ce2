"""Cuts topologies and definitions down to the part that one kind of message can come to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from dlx.delays import routing_type
from dlx.message import Message, published
from dlx.message_flow import MessageFlow, SentOn
from dlx.policies import pattern_found
from dlx.releases import Release
from dlx.server_plugins import CHOOSING
from dlx.topology import Binding, Topology
from simulator.scenario.player import Player
from simulator.scenario.steps import Publish

# Cuts a topology down to the part that one kind of message can come to: nothing else changes what becomes of it.
#
# An export of thousands of queues is imported once to be examined; a message is tried in the few queues that matter
# to it, as fast as if there were no others.


def flows_of(player: Player) -> dict[str, MessageFlow]:
    """Return what the rules say of each virtual host by name, as it is now."""
    release = player.broker.release
    return {name: MessageFlow(topology, release) for name, topology in player.topologies().items()}


def message_of(publish: Publish, release: Release) -> Message:
    """Return the message that a publish makes, its expiration and body apart."""
    return published(publish.exchange, publish.routing_key, headers=publish.headers or None, release=release)


def sliced(document: Mapping[str, Any], flow: MessageFlow, publish: Publish) -> Mapping[str, Any]:
    """Return the definitions without the queues, exchanges and bindings that a message cannot come to.

    All of them stay where exchanges choose one of them, or look at headers that only a dead letter has.
    """
    if whole_is_needed(flow.topology):
        return document
    queues, exchanges = reached(flow, [publish])

    def here(item: Mapping[str, Any]) -> bool:
        return bool(item.get("vhost", publish.vhost) == publish.vhost)

    def bound(item: Mapping[str, Any]) -> bool:
        ends = queues if item.get("destination_type", "queue") == "queue" else exchanges
        return item.get("source") in exchanges and item.get("destination") in ends

    return {
        **document,
        "queues": [each for each in document.get("queues", ()) if here(each) and each.get("name") in queues],
        "exchanges": [each for each in document.get("exchanges", ()) if here(each) and each.get("name") in exchanges],
        "bindings": [each for each in document.get("bindings", ()) if here(each) and bound(each)],
        "topic_permissions": [],  # they name exchanges; the trial's clients may do everything
    }


def whole_is_needed(topology: Topology) -> bool:
    """Return whether exchanges choose one of their destinations, or look at headers that only a dead letter has."""
    return bool(unclear_exchanges(topology))


def unclear_exchanges(topology: Topology) -> frozenset[str]:
    """Return the exchanges that choose one of their destinations, or look at headers that only a dead letter has."""
    choosing = {name for name, exchange in topology.exchanges.items() if routing_type(exchange) in CHOOSING}
    return frozenset(choosing | {name for name, bound in topology.bindings.items() if any(map(_asks_deaths, bound))})


def possibly_behind(flow: MessageFlow, exchanges: Iterable[str]) -> set[str]:
    """Return the queues that messages and their dead letters may come to from exchanges, whatever decides there."""
    bindings = (each for name in flow.passed(exchanges) for each in flow.topology.bindings.get(name, ()))
    entered = {each.destination for each in bindings if each.destination_type == "queue"}
    entered &= flow.topology.queues.keys()
    return entered | behind_queues(flow, entered)


def behind_queues(flow: MessageFlow, queues: Iterable[str]) -> set[str]:
    """Return the queues to which messages of these may come by dying, whatever decides there."""
    found: set[str] = set()
    ahead = [name for name in queues if name in flow.topology.queues]
    while ahead:
        new = flow.possible_targets(ahead.pop()) - found
        found |= new
        ahead += new
    return found


def _asks_deaths(binding: Binding) -> bool:
    return str(binding.arguments.get("x-match", "")).endswith("with-x")


def reached(flow: MessageFlow, publishes: Iterable[Publish]) -> tuple[set[str], set[str]]:
    """Return the queues that these publishes and their dead letters can come to, and the exchanges on the way."""
    return reached_by(flow, (message_of(each, flow.release) for each in publishes))


def reached_by(flow: MessageFlow, messages: Iterable[Message]) -> tuple[set[str], set[str]]:
    """Return the queues that messages and their dead letters can come to, and the exchanges on the way."""
    queues: set[str] = set()
    exchanges: set[str] = set()
    for message, entered in sent_on_from(flow, messages):
        queues.update(entered)
        exchanges.add(message.exchange)
    return queues, flow.passed(exchanges)


def sent_on_from(flow: MessageFlow, messages: Iterable[Message]) -> Iterator[SentOn]:
    """Yield messages, and their dead letters under each address that these can have."""
    ahead = [SentOn(message, flow.entries(message)) for message in messages]
    seen = {address(sent.message) for sent in ahead}
    while ahead:
        sent = ahead.pop()
        yield sent
        for name in sent.queues:
            onward = flow.sent_on(name, sent.message)
            if onward is not None and address(onward.message) not in seen:
                seen.add(address(onward.message))
                ahead.append(onward)


def address(message: Message) -> tuple[str, tuple[str, ...], str]:
    """Return what decides where a message goes: its exchange, its keys and its headers."""
    return message.exchange, message.routing_keys, repr(message.headers)


# Cuts definitions down to the part that one message can come to, fast enough to do it for every finding.


_WITH_PATTERNS = ("policies", "parameters")

Items = dict[tuple[str, str], list[Mapping[str, Any]]]
Ends = tuple[AbstractSet[str], AbstractSet[str]]
"""Names of queues, and of exchanges."""


class Slices:
    """The parts of one document, each made once. ``flows`` say what the rules say of its virtual hosts."""

    def __init__(self, document: Mapping[str, Any], flows: Mapping[str, MessageFlow], only_vhost: str | None) -> None:
        self._document, self._flows, self._only = document, flows, only_vhost
        self._whole = {vhost for vhost, flow in flows.items() if whole_is_needed(flow.topology)}
        self._by = {
            "queues": self._indexed("queues", "name"),
            "exchanges": self._indexed("exchanges", "name"),
            "bindings": self._indexed("bindings", "source"),
        }
        self._patterns = {section: [_pattern(each) for each in document.get(section, ())] for section in _WITH_PATTERNS}
        self._fits: dict[str, frozenset[tuple[str, int]]] = {}
        self._without: dict[str, str] = {}
        self._reach: dict[str, tuple[set[str], set[str]]] = {}
        self._made: dict[str, Mapping[str, Any]] = {}

    def of(self, publish: Publish) -> Mapping[str, Any]:
        """Return the definitions without what the message cannot come to; all of them where that is unknown."""
        key = repr(publish)
        if key not in self._made:
            self._made[key] = self.within({publish.vhost: self._reached(publish)})
        return self._made[key]

    def along(self, publish: Publish, queues: AbstractSet[str]) -> Mapping[str, Any]:
        """Return the definitions with no other queues than these: for one copy of the message, on one way.

        It is what ``of`` returns, the same object, where the message comes to no others.
        """
        there, exchanges = self._reached(publish)
        return self.of(publish) if there <= queues else self.within({publish.vhost: (there & queues, exchanges)})

    def within(self, ends: Mapping[str, Ends]) -> Mapping[str, Any]:
        """Return the definitions with no other queues and exchanges than these of each virtual host."""
        if not self._whole.isdisjoint(ends):
            return self._document
        found = {
            "queues": self._items("queues", ((vhost, queues) for vhost, (queues, _) in ends.items())),
            "exchanges": self._items("exchanges", ((vhost, exchanges) for vhost, (_, exchanges) in ends.items())),
            "bindings": [
                item
                for vhost, (queues, exchanges) in ends.items()
                for item in self._items("bindings", [(vhost, exchanges)])
                if item["destination"] in (queues if item.get("destination_type", "queue") == "queue" else exchanges)
            ],
        }
        found |= self._policies({name for both in ends.values() for names in both for name in names})
        rest = {section: items for section, items in found.items() if section in self._document}
        return {**self._document, **rest}

    def is_whole(self, part: Mapping[str, Any]) -> bool:
        """Tell whether nothing was cut away."""
        return part is self._document

    def applying(self, name: str, vhost: str) -> list[Mapping[str, Any]]:
        """Return the policies and parameters of a virtual host whose patterns fit a name."""
        fitting = sorted(self._fitting(name))
        found = [
            self._document[section][place] for section, place in fitting if self._patterns[section][place] is not None
        ]
        return [item for item in found if self._only is not None or item.get("vhost") in (vhost, None)]

    def without_pattern(self, vhost: str) -> str:
        """Return a text that has all parameters of a virtual host without a pattern, such as its limits."""
        if vhost not in self._without:
            every = zip(self._document.get("parameters", ()), self._patterns["parameters"], strict=True)
            here = [item for item, pattern in every if pattern is None and item.get("vhost") in (vhost, None)]
            self._without[vhost] = repr([{**item, "vhost": None} for item in here])
        return self._without[vhost]

    def _items(self, section: str, wanted: Iterable[tuple[str, AbstractSet[str]]]) -> list[Mapping[str, Any]]:
        by = self._by[section]
        return [item for vhost, names in wanted for name in sorted(names) for item in by.get((vhost, name), ())]

    def _reached(self, publish: Publish) -> tuple[set[str], set[str]]:
        key = repr(publish)
        if key not in self._reach:
            self._reach[key] = reached(self._flows[publish.vhost], [publish])
        return self._reach[key]

    def _policies(self, names: Iterable[str]) -> dict[str, list[Mapping[str, Any]]]:
        """Return the policies and parameters whose patterns fit one of the names; there may be hundreds of others."""
        fitting = {place for name in names for place in self._fitting(name)}
        return {
            section: [item for place, item in enumerate(self._document.get(section, ())) if (section, place) in fitting]
            for section in _WITH_PATTERNS
        }

    def _fitting(self, name: str) -> frozenset[tuple[str, int]]:
        if name not in self._fits:
            self._fits[name] = frozenset(
                (section, place)
                for section, patterns in self._patterns.items()
                for place, pattern in enumerate(patterns)
                if pattern is None or pattern_found(pattern, name)
            )
        return self._fits[name]

    def _indexed(self, section: str, name: str) -> Items:
        found: Items = defaultdict(list)
        for item in self._document.get(section, ()):
            vhost = self._only if self._only is not None else str(item.get("vhost", "/"))
            found[vhost, str(item.get(name, ""))].append(item)
        return found


def _pattern(item: Mapping[str, Any]) -> str | None:
    """Return the pattern of a policy or operator policy; ``None`` for another parameter."""
    value = item.get("value")
    pattern = item.get("pattern", value.get("pattern") if isinstance(value, Mapping) else None)
    return pattern if isinstance(pattern, str) else None
