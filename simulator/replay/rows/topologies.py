"""Takes from definitions what a replay needs: a topology for each virtual host, and the release that exported them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dlx.delays import X_DELAYED_TYPE
from dlx.releases import Release, neighbours, release
from dlx.server_plugins import DELAYED
from dlx.settings import alternate_exchange
from dlx.topology import Topology
from simulator.definitions import Definitions

_REDACTED = "headers, of redacted values"


def topologies(definitions: Definitions) -> dict[str | None, Topology]:
    """Return the topologies by virtual host; an export that does not name its own serves all (``None``)."""
    if not definitions.vhost_named:
        return {None: definitions.topology("/")}
    return {vhost: definitions.topology(vhost) for vhost in definitions.vhosts}


def exporting_release(definitions: Definitions) -> Release | None:
    """Return the release of the server that wrote the definitions, or the nearest older one whose rules are known."""
    version = definitions.rabbitmq_version
    nearest, _ = neighbours(version) if version is not None else (None, None)
    return release(nearest) if nearest is not None else None


def left_out(places: Mapping[tuple[str, str | None], int], definitions: Definitions) -> dict[str, int]:
    """Return how many rows a log has of each virtual host that definitions are not of; none if they are of no other.

    ``places``: how many rows there are of each virtual host and queue. An export that does not name its virtual host
    is of those where it has a queue.
    """
    if definitions.vhost_named:
        own = set(definitions.vhosts)
    else:
        queues = definitions.topology("/").queues
        own = {vhost for vhost, queue in places if queue in queues}
    counted: Counter[str] = Counter()
    for (vhost, _), rows in places.items():
        counted[vhost] += rows
    return {vhost: rows for vhost, rows in counted.items() if vhost not in own} if own & counted.keys() else {}


def without_headers_exchanges(definitions: Definitions, rules: Release) -> Definitions:
    """Return definitions whose headers exchanges have a type that is not known, so that they may use any binding.

    Each has its alternate exchange as one more. Without such exchanges the definitions are the same object.
    """
    given = definitions.document.get("exchanges", [])
    chosen = [each for each in given if _compares_headers(each)]
    if not chosen:
        return definitions
    exchanges = [_by_any_binding(each) if each in chosen else each for each in given]
    bindings = [*definitions.document.get("bindings", []), *_to_alternates(chosen, definitions, rules)]
    named = definitions.vhosts[0] if definitions.single_vhost and definitions.vhost_named else None
    document = {**definitions.document, "exchanges": exchanges, "bindings": bindings}
    found = Definitions(document, definitions.source, named)
    found.is_recorded = definitions.is_recorded
    return found


def _compares_headers(exchange: Mapping[str, Any]) -> bool:
    return "headers" in (exchange.get("type"), (exchange.get("arguments") or {}).get(X_DELAYED_TYPE))


def _by_any_binding(exchange: Mapping[str, Any]) -> dict[str, Any]:
    arguments = exchange.get("arguments") or {}
    if exchange["type"] == DELAYED:
        return {**exchange, "arguments": {**arguments, X_DELAYED_TYPE: _REDACTED}}
    return {**exchange, "type": _REDACTED}


def _to_alternates(
    exchanges: Iterable[Mapping[str, Any]], definitions: Definitions, rules: Release
) -> Iterator[dict[str, Any]]:
    for each in exchanges:
        topology = definitions.topology(each.get("vhost", definitions.vhosts[0]))
        alternate = alternate_exchange(topology.exchanges[each["name"]], topology, rules)
        if alternate is not None:
            host = {"vhost": each["vhost"]} if "vhost" in each else {}
            to = {"destination": alternate, "destination_type": "exchange", "routing_key": "", "arguments": {}}
            yield {"source": each["name"], **host, **to}
