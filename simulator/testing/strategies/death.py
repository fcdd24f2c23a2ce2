"""Deaths, as values and as the ``x-death`` header: the broker's own, and what clients make up."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from hypothesis import strategies as st

from dlx.consumer import DeathHistory, death_history
from dlx.deaths import REASONS, X_DEATH, Death
from dlx.field_values import Long, Timestamp
from simulator.testing.strategies.amqp import field_tables, field_values
from simulator.testing.strategies.building_blocks import built, check_count, check_flags, checked_names, first_names

_TIME_S = 1_767_225_600
_COUNT_MAX = 2**63 - 1
_ANY = field_values()
_ODD = {
    "count": st.one_of(st.sampled_from((Long(_COUNT_MAX), 0, -1, "3", 1.5)), _ANY),
    "time": st.one_of(st.sampled_from((0, Timestamp(2**64 - 1), "now")), _ANY),
    "reason": st.one_of(st.sampled_from(("retried", "", 5)), _ANY),
}


def deaths(
    *, queue_names: Collection[str] = first_names(4), exchange_names: Collection[str] = ("", "dlx")
) -> st.SearchStrategy[Death]:
    """Draw one entry of a history, as brokers write it.

    ``queue_names`` are the queues, and the routing keys; ``exchange_names`` those that the message came through.
    """
    names = checked_names("queue_names", queue_names)
    return st.builds(
        Death,
        queue=st.sampled_from(names),
        reason=st.sampled_from(REASONS),
        count=st.integers(1, 30),
        exchange=st.sampled_from(checked_names("exchange_names", exchange_names)),
        routing_keys=st.lists(st.sampled_from(names), min_size=1, max_size=2).map(tuple),
        time_s=st.integers(_TIME_S, _TIME_S + 86_400),
        original_expiration=st.none() | st.sampled_from(("1000", "60000")),
    )


def x_deaths(
    *,
    queue_names: Collection[str] = first_names(4),
    exchange_names: Collection[str] = ("", "dlx"),
    entries_max: int = 3,
    hostile: bool = False,
) -> st.SearchStrategy[Any]:
    """Draw values of the header ``x-death``.

    Args:
        queue_names: names of queues, and the routing keys.
        exchange_names: the exchanges that the message came through.
        entries_max: entries, at most. As brokers write them, no two are of one queue and reason.
        hostile: draw what a client can send, too: no array, entries that are not tables, fields of wrong types or
            missing, huge and negative counts, one entry twice.
    """
    check_count("entries_max", entries_max)
    check_flags(hostile=hostile)
    entries = deaths(queue_names=queue_names, exchange_names=exchange_names)
    honest = built(_tables, st.lists(entries, max_size=entries_max, unique_by=lambda death: death.key))
    if not hostile:
        return honest
    return st.one_of(honest, st.lists(_forged(entries), max_size=entries_max), _ANY)


def death_histories(
    *,
    queue_names: Collection[str] = first_names(4),
    exchange_names: Collection[str] = ("", "dlx"),
    entries_max: int = 3,
    hostile: bool = False,
) -> st.SearchStrategy[DeathHistory]:
    """Draw what ``dlx.death_history`` reads from the header that ``x_deaths`` draws with the same arguments."""
    headers = x_deaths(queue_names=queue_names, exchange_names=exchange_names, entries_max=entries_max, hostile=hostile)
    return built(lambda value: death_history({X_DEATH: value}), headers)


def _tables(history: list[Death]) -> list[dict[str, Any]]:
    return [death.as_table() for death in history]


def _forged(entries: st.SearchStrategy[Death]) -> st.SearchStrategy[Any]:
    tables = built(Death.as_table, entries)
    return st.one_of(tables, _spoilt(tables), field_tables(), _ANY)


@st.composite
def _spoilt(draw: st.DrawFn, tables: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    """Draw an entry in which a field is missing, huge, or of another type."""
    table = draw(tables)
    name = draw(st.sampled_from(sorted(table)))
    del table[name]
    if draw(st.booleans()):
        table[name] = draw(_ODD.get(name, _ANY))
    return table
