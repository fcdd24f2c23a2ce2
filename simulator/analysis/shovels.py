"""Dynamic shovels in definitions, which move messages from one queue of theirs to others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from dlx.message_flow import MessageFlow
from dlx.shovels import COMPONENT, LOCAL_HOSTS, ShovelDefinition, read_shovel
from simulator.analysis.snapshot import Snapshot


class ShovelPath(NamedTuple):
    """A shovel in the definitions.

    ``source`` and ``destination`` are queues of theirs, as pairs of virtual host and name.
    """

    name: str
    definition: ShovelDefinition
    source: tuple[str, str]
    destination: tuple[tuple[str, str], ...]


def given_shovels(snapshot: Snapshot) -> Iterator[tuple[str, ShovelDefinition]]:
    """Yield the shovels of the definitions that take messages from the server itself, with their names."""
    for item in snapshot.definitions.document.get("parameters", ()):
        value = item.get("value")
        if item.get("component") != COMPONENT or not isinstance(value, Mapping):
            continue
        try:
            definition = read_shovel(value)
        except (KeyError, TypeError, ValueError):  # DLX025 tells what an import would say of it
            continue
        if definition.source.host in LOCAL_HOSTS:
            yield str(item.get("name")), definition


def shovels_of(snapshot: Snapshot) -> Iterator[ShovelPath]:
    """Yield the shovels between virtual hosts of the definitions."""
    for name, definition in given_shovels(snapshot):
        source, destination = definition.source.vhost, definition.destination.vhost
        if definition.destination.host not in LOCAL_HOSTS:
            continue
        if {source, destination} <= snapshot.flows.keys() and definition.queue in snapshot.topologies[source].queues:
            at = source, definition.queue
            yield ShovelPath(name, definition, at, tuple(_entered(snapshot.flows[destination], definition)))


def _entered(flow: MessageFlow, definition: ShovelDefinition) -> Iterator[tuple[str, str]]:
    """Yield the queues that a shovel publishes to, whatever the messages' keys are where it keeps them."""
    vhost = definition.destination.vhost
    if definition.to_queue is not None:
        names = [definition.to_queue]
    else:
        passed = flow.passed({definition.to_exchange})
        bound = (each for name in passed for each in flow.topology.bindings.get(name, ()))
        names = [each.destination for each in bound if each.destination_type == "queue"]
    for name in dict.fromkeys(names):
        if name in flow.topology.queues:
            yield vhost, name
