"""Cuts definitions down to the part that one message can come to, fast enough to do it for every finding."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from dlx.message_flow import MessageFlow
from dlx.policies import pattern_found
from simulator.questions.reachability import reached, whole_is_needed
from simulator.scenario.steps import Publish

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
        self._reach: dict[str, tuple[set[str], set[str]]] = {}
        self._made: dict[str, Mapping[str, Any]] = {}

    def of(self, publish: Publish) -> Mapping[str, Any]:
        """Return the definitions without what the message cannot come to; all of them where that cannot be told."""
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
