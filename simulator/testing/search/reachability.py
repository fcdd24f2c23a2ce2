"""The part of a topology that one kind of message can come to: nothing else changes what becomes of it.

An export of thousands of queues is imported once to be looked at; a message is tried
in the few queues that matter to it, as fast as if there were no others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from dlx.message import Message, published
from dlx.releases import Release
from dlx.routing import route
from dlx.settings import alternate_exchange, effective_settings
from dlx.topology import Topology
from simulator.scenario.steps import Publish

_AT_RANDOM = frozenset({"x-local-random", "x-modulus-hash", "x-consistent-hash", "x-random", "x-recent-history"})


def sliced(document: Mapping[str, Any], topology: Topology, publish: Publish, release: Release) -> Mapping[str, Any]:
    """The definitions without the queues, exchanges and bindings that a message cannot come to.

    All of them where exchanges choose at random, or by headers that only a dead letter has.
    """
    if any(exchange.type in _AT_RANDOM for exchange in topology.exchanges.values()) or _asks_for_deaths(topology):
        return document
    queues, exchanges = reached(topology, [publish], release)

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


def _asks_for_deaths(topology: Topology) -> bool:
    bindings = (binding for bound in topology.bindings.values() for binding in bound)
    return any(str(binding.arguments.get("x-match", "")).endswith("with-x") for binding in bindings)


def reached(topology: Topology, publishes: Iterable[Publish], release: Release) -> tuple[set[str], set[str]]:
    """The queues that the messages and their dead letters can come to, and the exchanges on the way."""
    ahead = [published(each.exchange, each.routing_key, headers=each.headers or None, release=release)
             for each in publishes]  # fmt: skip
    queues: set[str] = set()
    seen = {_address(message) for message in ahead}
    while ahead:
        message = ahead.pop()
        for name in route(message, topology, release):
            queues.add(name)
            settings = effective_settings(topology.queues[name], topology, release)
            if settings.dead_letter_exchange is None:
                continue
            key = settings.dead_letter_routing_key
            keys = message.routing_keys if key is None else (key,)
            letter = msgspec.structs.replace(message, exchange=settings.dead_letter_exchange, routing_keys=keys)
            if _address(letter) not in seen:
                seen.add(_address(letter))
                ahead.append(letter)
    return queues, _passed(topology, {exchange for exchange, _, _ in seen}, release)


def _address(message: Message) -> tuple[str, tuple[str, ...], str]:
    return message.exchange, message.routing_keys, repr(message.headers)


def _passed(topology: Topology, first: Iterable[str], release: Release) -> set[str]:
    """The exchanges, and those that they may hand messages on to."""
    found: set[str] = set()
    ahead = list(first)
    while ahead:
        name = ahead.pop()
        exchange = topology.exchanges.get(name)
        if name in found or exchange is None:
            continue
        found.add(name)
        bindings = topology.bindings.get(name, ())
        ahead += [each.destination for each in bindings if each.destination_type == "exchange"]
        other = alternate_exchange(exchange, topology, release)
        ahead += [other] if other else []
    return found
