"""Names the settings in force that a log did not put to the test: others in their place would have agreed as well.

A setting counts as tested where some delivery that agrees would have come out otherwise under another value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from dlx.deaths import DELIVERY_LIMIT as LIMIT_REACHED
from dlx.deaths import EXPIRED, MAXLEN
from dlx.releases import Release
from dlx.routing import DEFAULT_EXCHANGE
from dlx.settings import (
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_ROUTING_KEY,
    DEAD_LETTER_STRATEGY,
    DELIVERY_LIMIT,
    MAX_LENGTH,
    MAX_LENGTH_BYTES,
    MESSAGE_TTL,
    OVERFLOW,
    QUEUE_TYPE,
    SERVER_DEFAULT,
    Setting,
    Settings,
    effective_settings,
)
from dlx.topology import CLASSIC, Topology
from simulator.events import Event
from simulator.replay.coverage.totals import DEATHS, Place, shown_rules
from simulator.replay.rows.assumptions import DEFAULT_ASSUMPTIONS, Assumptions
from simulator.replay.rows.tables import Table, rows

QUEUES_MAX = 100
"""Queues whose settings are listed; of the others, the settings are counted."""
SHOWN = 3
"""Settings that a line names."""
_SECOND_US = 1_000_000
_STEP_US = 100_000

_TESTED_BY: Mapping[str, Iterable[str]] = {
    DEAD_LETTER_EXCHANGE: DEATHS,
    DEAD_LETTER_ROUTING_KEY: DEATHS,
    MESSAGE_TTL: ("expired_by_queue_ttl",),
    MAX_LENGTH: ("length_in_messages",),
    MAX_LENGTH_BYTES: ("length_in_bytes",),
    OVERFLOW: ("overflow_drop_head", "overflow_reject_publish_dlx"),
    DELIVERY_LIMIT: ("delivery_limit_in_quorum",),
    QUEUE_TYPE: ("redelivery_counted", "delivery_limit_in_quorum"),
}
"""The rules, as in ``coverage.catalogue``, of which one must show in the queue; no trace tests a setting without."""
_CHECKED_DEATH = {MESSAGE_TTL: EXPIRED, MAX_LENGTH: MAXLEN, MAX_LENGTH_BYTES: MAXLEN, DELIVERY_LIMIT: LIMIT_REACHED}
"""The death that tests a number, if nothing about that queue is unchecked."""
_BLURRED_BY = {MESSAGE_TTL: "expired_by_shorter"}
"""The rule that makes it unknown which of two numbers was tested."""
_TESTED_BY_COUNTERS = {DEAD_LETTER_STRATEGY}
_NEEDS_LIMIT = {OVERFLOW}
_NEEDS_EXCHANGE = {DEAD_LETTER_ROUTING_KEY, DEAD_LETTER_STRATEGY}

# How far a TTL may be from the true one: x-death has seconds, and when the message came in is known within bounds.
_CHECKED = """
    SELECT vhost, hop.queue AS queue, hop.reason AS reason, min(
        greatest(hop.latest_us - hop.earliest_us, %d) + CASE
            WHEN nth = 0 THEN 0 ELSE element_at(hops, nth).latest_us - element_at(hops, nth).earliest_us
        END
    ) AS closest_us
    FROM (
        SELECT vhost, hops, unchecked, nth, hop
        FROM {replayed} LATERAL VIEW posexplode(hops) AS nth, hop
        WHERE verdict = 'agree'
    )
    WHERE size(filter(unchecked, one -> one.name = hop.queue)) = 0
    GROUP BY 1, 2, 3"""
_QUEUES = f"""
    SELECT DISTINCT vhost, queue FROM {{replayed}} WHERE event = '{Event.DELIVERED.value}'
    UNION
    SELECT DISTINCT vhost, hop.queue AS queue FROM (SELECT vhost, explode(hops) AS hop FROM {{replayed}})"""
_ROUTED = f"""
    SELECT vhost, exchange, queue, min(queues) AS fewest
    FROM (
        SELECT vhost, exchange, size(routed_queues) AS queues, explode(routed_queues) AS queue
        FROM {{captured}} WHERE event = '{Event.PUBLISHED.value}'
    )
    GROUP BY 1, 2, 3"""


class UntestedSettings(NamedTuple):
    """The settings that a log did not test.

    Attributes:
        by_queue: each setting with its value and origin, by queue; ``vhost: queue`` where the log has several hosts;
            ``None``: nobody looked.
        more: how many there are in further queues.
    """

    by_queue: dict[str, tuple[str, ...]] | None
    more: int = 0


NOT_LOOKED_FOR = UntestedSettings(None)


class _Evidence(NamedTuple):
    """What a log shows: rules by queue, the closeness of checked deaths, to how few queues exchanges sent publishes."""

    rules: Mapping[Place, set[str]]
    closest_us: Mapping[tuple[str, str, str], int | None]
    fewest: Mapping[Place, int]
    counters: bool
    tolerance_us: int


def untested_settings(
    replayed: Table,
    captured: Table,
    topologies: Mapping[str | None, Topology],
    release: Release,
    assumptions: Assumptions = DEFAULT_ASSUMPTIONS,
    *,
    counters: bool = False,
) -> UntestedSettings:
    """Return the settings in force, in the queues that the log shows, that it did not put to the test.

    ``captured`` are the rows that were replayed; ``counters``: the broker's own were balanced with them.
    """
    routed: list[dict[str, Any]] = []
    if "routed_queues" in captured.columns:
        routed = rows(_ROUTED, captured=captured)
    places = {(row["vhost"], row["queue"]) for row in (*rows(_QUEUES, replayed=replayed), *routed)}
    evidence = _Evidence(
        shown_rules(replayed),
        {
            (row["vhost"], row["queue"], row["reason"]): row["closest_us"]
            for row in rows(_CHECKED % _SECOND_US, replayed=replayed)
        },
        _fewest((row["vhost"], row["exchange"], row["fewest"]) for row in routed),
        counters,
        assumptions.tolerance_us,
    )
    several = len({vhost for vhost, _ in places}) > 1
    found: dict[str, tuple[str, ...]] = {}
    for vhost, name in sorted(places):
        topology = topologies.get(vhost, topologies.get(None))
        if topology is not None and name in topology.queues:
            untested = tuple(_untested((vhost, name), topology, release, evidence))
            if untested:
                found[f"{vhost}: {name}" if several else name] = untested
    listed = dict(list(found.items())[:QUEUES_MAX])
    return UntestedSettings(listed, sum(map(len, found.values())) - sum(map(len, listed.values())))


def sentence(by_queue: Mapping[str, Iterable[str]], more: int) -> str:
    """Return the first few of the settings in a line, without a full stop; empty if there are none."""
    found = [f"{each} in '{queue}'" for queue, settings in by_queue.items() for each in settings]
    # Every queue has a type, and most have defaults: configured settings come first.
    found.sort(key=lambda each: (f" by {SERVER_DEFAULT}" in each, each.startswith(QUEUE_TYPE)))
    others = len(found) + more - SHOWN
    told = ", ".join(found[:SHOWN]) + (f" ({others:,} more with --json)" if others > 0 else "")
    return f"Not tested by this log: {told}" if told else ""


def _fewest(sent: Iterable[tuple[str, str, int]]) -> Mapping[Place, int]:
    found: dict[Place, int] = {}
    for vhost, exchange, queues in sent:
        found[vhost, exchange] = min(queues, found.get((vhost, exchange), queues))
    return found


def _untested(place: Place, topology: Topology, release: Release, evidence: _Evidence) -> Iterator[str]:
    """Yield what is untested of one queue, defaults last."""
    settings = effective_settings(topology.queues[place[1]], topology, release)
    for key in sorted(settings.values, key=lambda key: _rank(settings.values[key])):
        but_for = _but_for(key, place, settings, evidence) if _matters(key, settings) else None
        if but_for is not None:
            yield f"{settings.values[key]}{but_for}"
    yield from _exchange_type(place[0], settings.dead_letter_exchange, topology, evidence)


def _rank(setting: Setting) -> tuple[bool, bool]:
    return setting.origin == SERVER_DEFAULT, setting.key == QUEUE_TYPE


def _matters(key: str, settings: Settings) -> bool:
    """Return whether a setting has any effect beside the others."""
    without_limit = key in _NEEDS_LIMIT and not settings.has_length_limit
    return not without_limit and not (key in _NEEDS_EXCHANGE and not settings.dead_letters)


def _but_for(key: str, place: Place, settings: Settings, evidence: _Evidence) -> str | None:
    """Return how far a setting is untested, empty where it is so altogether; ``None`` if it is tested."""
    shown = evidence.rules.get(place, set())
    if key in _TESTED_BY_COUNTERS:
        return None if evidence.counters and not shown.isdisjoint(DEATHS) else ""
    death = _CHECKED_DEATH.get(key)
    if shown.isdisjoint(_TESTED_BY.get(key, ())) or _BLURRED_BY.get(key) in shown:
        return ", between classic and quorum" if key == QUEUE_TYPE and not shown.isdisjoint(DEATHS) else ""
    if death is not None and (*place, death) not in evidence.closest_us:
        return ""
    if key == MESSAGE_TTL:
        return _to_the_second(evidence.closest_us[*place, EXPIRED], evidence.tolerance_us)
    if key == OVERFLOW and settings.queue.type == CLASSIC:
        return ", between drop-head and reject-publish-dlx"  # both make the same dead letters
    return None


def _to_the_second(closest_us: int | None, tolerance_us: int) -> str:
    if closest_us is None:
        return ""
    steps = -(-(closest_us + 2 * tolerance_us) // _STEP_US)
    return f", by less than {steps / 10:g} s"


def _exchange_type(vhost: str, name: str | None, topology: Topology, evidence: _Evidence) -> Iterator[str]:
    """Yield the type of a dead-letter exchange, unless publishes show that it chooses among its queues.

    Dead letters alone do not: copies that another type would make may still wait.
    """
    exchange = topology.exchanges.get(name or DEFAULT_EXCHANGE)
    if exchange is None or exchange.name == DEFAULT_EXCHANGE:
        return
    bound = {binding.destination for binding in topology.bindings.get(exchange.name, ())}
    chooses = evidence.fewest.get((vhost, exchange.name), len(bound)) < len(bound)
    if exchange.type == "fanout" or not chooses:
        yield f"type {exchange.type} of dead-letter exchange '{exchange.name}'"
