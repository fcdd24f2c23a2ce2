"""Cuts definitions down to the part that one message can come to, fast enough to do it for every finding."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from dlx.message_flow import MessageFlow
from simulator.questions.reachability import reached, whole_is_needed
from simulator.scenario.steps import Publish

Items = dict[tuple[str, str], list[Mapping[str, Any]]]


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
        self._made: dict[str, Mapping[str, Any]] = {}

    def of(self, publish: Publish) -> Mapping[str, Any]:
        """Return the definitions without what the message cannot come to; all of them where that cannot be told."""
        key = repr(publish)
        if key not in self._made:
            self._made[key] = self._cut(publish)
        return self._made[key]

    def _cut(self, publish: Publish) -> Mapping[str, Any]:
        flow, vhost = self._flows[publish.vhost], publish.vhost
        if vhost in self._whole:
            return self._document
        queues, exchanges = reached(flow, [publish])
        found = {
            "queues": [item for name in sorted(queues) for item in self._by["queues"][vhost, name]],
            "exchanges": [item for name in sorted(exchanges) for item in self._by["exchanges"][vhost, name]],
            "bindings": [
                item
                for name in sorted(exchanges)
                for item in self._by["bindings"][vhost, name]
                if item["destination"] in (queues if item.get("destination_type", "queue") == "queue" else exchanges)
            ],
        }
        rest = {section: items for section, items in found.items() if section in self._document}
        return {**self._document, **rest}

    def _indexed(self, section: str, name: str) -> Items:
        found: Items = defaultdict(list)
        for item in self._document.get(section, ()):
            vhost = self._only if self._only is not None else str(item.get("vhost", "/"))
            found[vhost, str(item.get(name, ""))].append(item)
        return found
