"""Lays one export over another, as an import into a running server would: new objects, replaced ones, the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from simulator.definitions.places import Path, Place
from simulator.definitions.reading import NO_KEY, Definitions, DefinitionsError

NAMED_BY: dict[str, tuple[str, ...]] = {
    "users": ("name",),
    "vhosts": ("name",),
    "permissions": ("user", "vhost"),
    "topic_permissions": ("user", "vhost", "exchange"),
    "parameters": ("component", "vhost", "name"),
    "global_parameters": ("name",),
    "policies": ("vhost", "name"),
    "queues": ("vhost", "name"),
    "exchanges": ("vhost", "name"),
    "bindings": ("vhost", "source", "destination_type", "destination", "routing_key", "arguments"),
}
"""What tells the objects of each section apart. A binding has no name: all of it does."""
_VERSIONS = ("rabbit_version", "rabbitmq_version")
_SAME_BINDING = {"destination_type": "queue", "routing_key": NO_KEY, "arguments": {}}  # what these are where left out


def laid_over(above: Definitions, below: Definitions) -> Definitions:
    """Return ``below`` with the objects of ``above``: each replaces the one of its kind, virtual host and name.

    Bindings are added to those of ``below``, and a queue or exchange keeps its bindings when it is replaced.

    Raises:
        DefinitionsError: ``above`` does not say to which virtual host of ``below`` it belongs, or
            ``below`` is the export of one virtual host and ``above`` is for others.
    """
    vhost = _one_vhost(above, below) if below.single_vhost else None
    if vhost is None and not above.vhost_named:
        problem = f'missing; expected the virtual host of {below.source} that this is for, such as "/"'
        raise DefinitionsError(above.source, "original_vhost_name", problem)
    document = dict(as_of_server(below).document)
    places: dict[Path, Place] = {}
    for section, names in NAMED_BY.items():
        placed = [*items_of(below, section, vhost), *items_of(above, section, vhost)]
        items: dict[bytes, tuple[dict[str, Any], Place | None]] = {}
        for item, place in placed:
            key = object_key(item, names)
            # An import keeps what it does not say of a virtual host, such as its default queue type.
            known = items[key][0] if section == "vhosts" and key in items else {}
            items[key] = ({**known, **item}, place)
        if items:
            document[section] = [item for item, _ in items.values()]
            places |= {(section, at): place for at, (_, place) in enumerate(items.values()) if place is not None}
    found = Definitions(document, f"{above.source} over {below.source}", places=places)
    found.is_of_server, found.is_composed = below.is_of_server, True
    found.remarks = (*above.remarks, *below.remarks)
    found.assumptions = (*above.assumptions, *below.assumptions)
    found.is_imported = above.is_imported and below.is_imported
    there = {each for each in below.vhosts if each not in below.assumed_vhosts}
    assumed = dict.fromkeys((*above.assumed_vhosts, *below.assumed_vhosts))
    found.assumed_vhosts = tuple(each for each in assumed if each not in there)
    return found


def _one_vhost(above: Definitions, below: Definitions) -> str:
    """Return the virtual host that both are of; ``/`` where neither says. Raises ``DefinitionsError`` for several."""
    named = dict.fromkeys(vhost for each in (below, above) if each.vhost_named for vhost in each.vhosts)
    if len(named) > 1:
        own = f"virtual host {below.vhosts[0]!r}" if below.vhost_named else "one virtual host"
        others = ", ".join(map(repr, above.vhosts))
        problem = f"the export of {own}, and {above.source} is for {others}; expected objects of that virtual host"
        raise DefinitionsError(below.source, "", f"{problem}, or --over the export of the whole server")
    return next(iter(named), "/")


def as_of_server(definitions: Definitions) -> Definitions:
    """Return the export of one virtual host as one of a server that has no other: each object names it."""
    if not definitions.single_vhost:
        return definitions
    document = {
        section: items for section in NAMED_BY if (items := [item for item, _ in items_of(definitions, section)])
    }
    versions = {key: each for key, each in definitions.document.items() if key in _VERSIONS}
    return Definitions({**versions, **document}, definitions.source)


def with_vhosts_of(above: Definitions, below: Definitions) -> Definitions:
    """Return ``above`` with what only ``below`` says of virtual hosts that both have, as their default queue types."""
    had = {host["name"]: host for host, _ in items_of(below, "vhosts")}
    own = list(above.document.get("vhosts", ()))
    hosts = [{**had.get(host["name"], {}), **host} for host in own]
    if above.single_vhost or hosts == own:
        return above
    places: dict[Path, Place] = {
        (section, at): place
        for section in NAMED_BY
        for at, (_, place) in enumerate(items_of(above, section))
        if place is not None
    }
    found = Definitions({**above.document, "vhosts": hosts}, above.source, places=places)
    found.remarks, found.assumptions, found.assumed_vhosts = above.remarks, above.assumptions, above.assumed_vhosts
    found.is_imported = above.is_imported
    return found


def items_of(
    definitions: Definitions, section: str, vhost: str | None = None
) -> Iterator[tuple[dict[str, Any], Place | None]]:
    """Yield the items of a section with their places, each with its virtual host, which the export of one leaves out.

    ``vhost`` names that one, where the export does not. An export of one virtual host has that one as the only item of
    ``vhosts``.
    """
    own = definitions.document.get(section, ())
    if not definitions.single_vhost:
        yield from ((item, definitions.place(section, at)) for at, item in enumerate(own))
        return
    vhost = vhost or definitions.vhosts[0]
    if section == "vhosts":
        metadata = definitions.document.get("metadata", {})
        yield {"name": vhost, **({"metadata": metadata} if metadata else {})}, None
    for at, item in enumerate(own):
        with_vhost = {**item, "vhost": vhost} if "vhost" in NAMED_BY[section] else item
        yield with_vhost, definitions.place(section, at)


def object_key(item: Mapping[str, Any], names: tuple[str, ...]) -> bytes:
    """Return what tells an object of a section from the others: the values of ``NAMED_BY`` as JSON."""
    values = [item.get(name, _SAME_BINDING.get(name)) for name in names]
    return msgspec.json.encode(values, order="sorted")
