"""Completes an export with what a server has and its export does not tell.

Exports leave out internal exchanges and exclusive queues, but not what binds them; an export of part of a server
leaves out virtual hosts. And only a plugin knows how its exchanges route. Stand-ins take their place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from dlx.topology import STOCK_EXCHANGES
from simulator.definitions.reading import NO_KEY

_STOCK = {exchange.name for exchange in STOCK_EXCHANGES}
_OF_A_VHOST = ("policies", "parameters", "queues", "exchanges", "bindings")
Named = tuple[str, str]
"""A virtual host, and the name of a queue or an exchange in it."""


class Completed(NamedTuple):
    """An export with stand-ins.

    Attributes:
        document: the export, as plain JSON values; items keep their places.
        exchanges: the types of the stand-ins for internal exchanges. Bindings tell them: it is a guess.
        of_plugins: the declared types of exchanges that only plugins know, with those that they are taken as.
        queues: the stand-ins for queues that only bindings name, or dead-letter routing keys.
        vhosts: the virtual hosts that only items name.
    """

    document: dict[str, Any]
    exchanges: dict[Named, str]
    of_plugins: dict[Named, tuple[str, str]]
    queues: frozenset[Named]
    vhosts: tuple[str, ...]


def completed(document: Mapping[str, Any], types: Container[str], only_vhost: str | None) -> Completed:
    """Return an export with stand-ins.

    Args:
        document: the export, as plain JSON values.
        types: the exchange types that need none.
        only_vhost: the virtual host of an export of one.
    """
    known = {
        section: {(_vhost(item, only_vhost), item["name"]) for item in document.get(section, ())}
        for section in ("queues", "exchanges")
    }
    bindings = [(_vhost(item, only_vhost), item) for item in document.get("bindings", ())]
    exchanges = dict(_internal_exchanges(bindings, known["exchanges"]))
    queues = (_bound(bindings) | _addressed(document, only_vhost)) - known["queues"]
    of_plugins = dict(_of_plugins(document, types, only_vhost))
    found = dict(document)

    def add(section: str, items: Iterable[dict[str, Any]]) -> None:
        if added := list(items):
            found[section] = [*found.get(section, ()), *added]

    def named(stand_in: Named, **fields: Any) -> dict[str, Any]:
        of_vhost = {} if only_vhost is not None else {"vhost": stand_in[0]}
        plain = {"name": stand_in[1], "durable": True, "auto_delete": False, "arguments": {}}
        return plain | fields | of_vhost

    def routing(item: dict[str, Any]) -> dict[str, Any]:
        at = _vhost(item, only_vhost), item["name"]
        return {**item, "type": of_plugins[at][1]} if at in of_plugins else item

    if of_plugins:
        found["exchanges"] = list(map(routing, found["exchanges"]))
    add("exchanges", (named(at, type=kind, internal=True) for at, kind in exchanges.items()))
    add("queues", (named(at) for at in sorted(queues)))
    vhosts = _undeclared_vhosts(document) if only_vhost is None else ()
    add("vhosts", ({"name": vhost} for vhost in vhosts))
    return Completed(found, exchanges, of_plugins, queues, vhosts)


def _undeclared_vhosts(document: Mapping[str, Any]) -> tuple[str, ...]:
    declared = {host["name"] for host in document.get("vhosts", ())}
    used = dict.fromkeys(_vhost(item, None) for section in _OF_A_VHOST for item in document.get(section, ()))
    return tuple(vhost for vhost in used if vhost not in declared)


def _vhost(item: Mapping[str, Any], only: str | None) -> str:
    return only if only is not None else str(item.get("vhost", "/"))


def _internal_exchanges(
    bindings: Iterable[tuple[str, Mapping[str, Any]]], known: set[Named]
) -> Iterator[tuple[Named, str]]:
    """Yield each exchange that only bindings name, with the type that they fit."""
    bound: defaultdict[Named, list[Mapping[str, Any]]] = defaultdict(list)
    for vhost, item in bindings:
        bound[vhost, item["source"]].append(item)
        if item.get("destination_type", "queue") == "exchange":
            bound[vhost, item["destination"]] += []
    for at, items in bound.items():
        if at not in known and at[1] not in _STOCK:
            yield at, _fitting_type(items)


def _fitting_type(bindings: Iterable[Mapping[str, Any]]) -> str:
    """Return the type of an exchange that such bindings make sense for.

    Clients bind by the queue's own name if they get no key, so that says nothing of the type.
    """
    keys = [str(each.get("routing_key", NO_KEY)) for each in bindings if each.get("routing_key") != each["destination"]]
    if any(each.get("arguments") for each in bindings):
        return "headers"
    if any({"*", "#"} & set(key.split(".")) for key in keys):
        return "topic"
    return "direct" if any(keys) else "fanout"


def _bound(bindings: Iterable[tuple[str, Mapping[str, Any]]]) -> frozenset[Named]:
    """Return the queues that bindings name."""
    return frozenset(
        (vhost, item["destination"]) for vhost, item in bindings if item.get("destination_type", "queue") == "queue"
    )


def _addressed(document: Mapping[str, Any], only: str | None) -> frozenset[Named]:
    """Return the queues of names that a server has made up to which other queues send dead letters by the name."""
    keys = (
        (_vhost(item, only), (item.get("arguments") or {}).get("x-dead-letter-routing-key"))
        for item in document.get("queues", ())
    )
    return frozenset((vhost, key) for vhost, key in keys if isinstance(key, str) and key.startswith("amq.gen-"))


def _of_plugins(
    document: Mapping[str, Any], types: Container[str], only: str | None
) -> Iterator[tuple[Named, tuple[str, str]]]:
    """Yield each exchange of a plugin's type: one that delays routes as the type it names.

    The others may use every binding they have, as a fanout exchange does. Plugins' types begin with x-.
    """
    for item in document.get("exchanges", ()):
        kind = item.get("type", "direct")
        if kind not in types and kind.startswith("x-"):
            named = (item.get("arguments") or {}).get("x-delayed-type")
            routes_as = named if isinstance(named, str) and named in types else "fanout"
            yield (_vhost(item, only), item["name"]), (kind, routes_as)
