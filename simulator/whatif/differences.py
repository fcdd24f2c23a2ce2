"""In what two sides differ, thing by thing, and one side with one thing as it is on the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from dlx.message_flow import MessageFlow
from dlx.releases import Release, differing_behaviours, with_behaviour
from dlx.settings import alternate_exchange
from dlx.topology import Topology
from simulator.definitions import Definitions
from simulator.definitions.overlay import NAMED_BY, object_key
from simulator.whatif.playback_broker import QueueRef

# What has settings inside, each of which is a difference of its own: the table that holds them.
_TABLES = {"queues": "arguments", "policies": "definition", "exchanges": "arguments"}
_DECIDING = ("vhosts", "parameters", "policies", "queues", "exchanges", "bindings")
_MISSING = object()
NAMED_MAX = 12
"""Changes that a question names."""


class Side(msgspec.Struct, frozen=True):
    """Definitions under a release."""

    definitions: Definitions
    release: Release


class SideDifference(msgspec.Struct, frozen=True):
    """One thing in which two sides differ.

    Attributes:
        what: it, as a person would name it: a setting, an object, or a row of the release table.
        short: the same of a setting, as ``--set`` names it: ``jobs.x-message-ttl 5000 → 60000``; else as ``what``.
        behaviour: the row; empty for what definitions say.
        section, key, field: where definitions say it: the object, and one of its settings or nothing for all of it.
    """

    what: str
    behaviour: str = ""
    section: str = ""
    key: bytes = b""
    field: str = ""
    short: str = ""


def differences(one: Side, other: Side) -> list[SideDifference]:
    """Return in what two sides differ, the settings before the release."""
    found = [each for section in _DECIDING for each in _in_section(one, other, section)]
    rows = differing_behaviours(one.release, other.release)
    return found + [SideDifference(f"{row.name}: {row.meaning}", behaviour=row.name) for row in rows]


def taken_back(side: Side, to: Side, what: SideDifference) -> Side:
    """Return ``side`` with this one thing as it is in ``to``."""
    if what.behaviour:
        return Side(side.definitions, with_behaviour(side.release, what.behaviour, to.release))
    mine, theirs = _by_key(side, what.section), _by_key(to, what.section)
    wanted = theirs.get(what.key)
    if what.field and wanted is not None:
        wanted = _with_field(mine[what.key], _TABLES[what.section], what.field, wanted)
    items = {**mine, what.key: wanted}
    document = {**side.definitions.document, what.section: [each for each in items.values() if each is not None]}
    return Side(Definitions(document, side.definitions.source), side.release)


def _with_field(item: dict[str, Any], table: str, field: str, like: dict[str, Any]) -> dict[str, Any]:
    """Return an object with one setting as it is in ``like``."""
    settings = {name: value for name, value in (item.get(table) or {}).items() if name != field}
    theirs = like.get(table) or {}
    return {**item, table: {**settings, field: theirs[field]} if field in theirs else settings}


def _by_key(side: Side, section: str) -> dict[bytes, dict[str, Any]]:
    return {object_key(item, NAMED_BY[section]): item for item in side.definitions.document.get(section, ())}


def _in_section(one: Side, other: Side, section: str) -> Iterator[SideDifference]:
    before, after = _by_key(one, section), _by_key(other, section)
    for key in {**before, **after}:
        mine, theirs = before.get(key), after.get(key)
        if mine == theirs:
            continue
        if mine is None or theirs is None:
            yield SideDifference(f"{_describe(section, mine or theirs or {})} {'added' if mine is None else 'removed'}",
                             section=section, key=key)  # fmt: skip
            continue
        table = _TABLES.get(section)
        rest = [{name: value for name, value in each.items() if name not in (table, "type")} for each in (mine, theirs)]
        if table is None or rest[0] != rest[1]:
            yield SideDifference(f"{_describe(section, mine)} changed", section=section, key=key)
            continue
        had, has = (each.get(table) or {} for each in (mine, theirs))
        for field in {**had, **has}:
            if had.get(field, _MISSING) != has.get(field, _MISSING):
                change = f"{_shown(had, field)} → {_shown(has, field)}"
                kind = "" if section == "queues" else f"{_kind(section)} "
                yield SideDifference(
                    f"{field} of {_describe(section, mine)}: {change}",
                    section=section,
                    key=key,
                    field=field,
                    short=f"{kind}{mine.get('name')}.{field} {change}",
                )


def question(one: Side, other: Side, found: Iterable[SideDifference]) -> str:
    """Return what is asked in some words: ``4.3 instead of 3.13, jobs.x-message-ttl 5000 → 60000``.

    ``found`` are the differences of the sides.
    """
    named = list(dict.fromkeys(each.short or each.what for each in found if not each.behaviour))
    rest = [f"{len(named) - NAMED_MAX} more changes"] if len(named) > NAMED_MAX else []
    releases = [f"{other.release.name} instead of {one.release.name}"] if one.release != other.release else []
    return ", ".join([*releases, *named[:NAMED_MAX], *rest]) or "the same settings"


def _describe(section: str, item: dict[str, Any]) -> str:
    if section == "bindings":
        source = item.get("source") or "the default exchange"
        return f"binding of '{item.get('destination')}' to '{source}' with '{item.get('routing_key', '')}'"
    if section == "parameters":
        return f"{str(item.get('component', 'parameter')).replace('_', ' ')} '{item.get('name')}'"
    return f"{_kind(section)} '{item.get('name')}'"


def _kind(section: str) -> str:
    return {"policies": "policy", "queues": "queue", "exchanges": "exchange"}.get(section, section)


def _shown(table: dict[str, Any], field: str) -> str:
    return msgspec.json.encode(table[field]).decode() if field in table else "none"


def differing_queues(before: Mapping[str, MessageFlow], after: Mapping[str, MessageFlow]) -> frozenset[QueueRef] | None:
    """Return the queues whose settings differ; ``None`` where the release differs, or how messages are routed."""
    if before.keys() != after.keys() or not all(_route_alike(flow, after[name]) for name, flow in before.items()):
        return None
    return frozenset((name, queue) for name, flow in before.items() for queue in _unlike(flow, after[name]))


def _route_alike(one: MessageFlow, other: MessageFlow) -> bool:
    mine, theirs = one.topology, other.topology
    if one.release != other.release or (mine.exchanges, mine.bindings) != (theirs.exchanges, theirs.bindings):
        return False
    return all(_alternate(name, one, mine) == _alternate(name, other, theirs) for name in mine.exchanges)


def _alternate(exchange: str, flow: MessageFlow, topology: Topology) -> str | None:
    return alternate_exchange(topology.exchanges[exchange], topology, flow.release)


def _unlike(one: MessageFlow, other: MessageFlow) -> Iterator[str]:
    mine, theirs = one.topology.queues, other.topology.queues
    yield from mine.keys() ^ theirs.keys()
    yield from (name for name in mine.keys() & theirs.keys() if one.settings(name) != other.settings(name))
