"""Messages: the properties that clients publish, and what a broker holds of them."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

from hypothesis import reject
from hypothesis import strategies as st

from dlx.consumer import DeathHistory, death_history
from dlx.dead_lettering import record_death
from dlx.death_headers import QueueCrashError
from dlx.deaths import REASONS, X_DEATH, Death
from dlx.field_values import Long, Timestamp
from dlx.message import Message, PublishRefusedError, published
from dlx.releases import DEFAULT, Release
from simulator.testing.strategies.amqp import field_tables, field_values
from simulator.testing.strategies.building_blocks import (
    NOWHERE,
    built,
    check_count,
    check_flags,
    checked_names,
    checked_release,
    first_names,
)

# Deaths, as values and as the ``x-death`` header: the broker's own, and what clients make up.


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


_HEADER_NAMES = ("kind", "tenant", "n")
_PLAIN: st.SearchStrategy[Any] = st.sampled_from(("a", "b", 1, True))
_PROPERTIES: dict[str, st.SearchStrategy[Any]] = {
    "expiration": st.sampled_from(("1000", "60000", "0")),
    "priority": st.sampled_from((1, 5, 9, 255)),
    "delivery_mode": st.sampled_from((2, 1)),
    "message_id": st.sampled_from(("m1", "m2")),
    "content_type": st.just("application/json"),
}
_SOME_PROPERTIES = st.lists(st.sampled_from(tuple(_PROPERTIES)), max_size=2, unique=True)
_NO_EXPIRATIONS = ("-1", "", "soon", "1.5", "10 ")
_NO_CARBON_COPIES = ("orders", 1, True, {"to": "orders"}, None)


def properties(
    *,
    carbon_copies: bool = True,
    hostile: bool = False,
    malformed: bool = False,
    routing_keys: Collection[str] = first_names(4),
) -> st.SearchStrategy[dict[str, Any]]:
    """Draw the properties of a publish by their protocol names, as ``simulator.broker.commands.Publish`` takes them.

    Most have few, and shrinking leaves none.

    Args:
        carbon_copies: whether the headers CC and BCC may be there.
        hostile: headers that only brokers should write, ``x-death`` first of all (``x_deaths``), and values of
            every type, nested deep.
        malformed: draw only what RabbitMQ refuses (406): CC or BCC that are not arrays, an expiration that is not a
            number of milliseconds.
        routing_keys: the keys that CC and BCC are drawn from.
    """
    check_flags(carbon_copies=carbon_copies, hostile=hostile, malformed=malformed)
    found = _properties(_headers(checked_names("routing_keys", routing_keys), carbon_copies, hostile))
    return _malformed(found) if malformed else found


def messages(
    *,
    carbon_copies: bool = True,
    hostile: bool = False,
    deaths_max: int = 2,
    exchange_names: Collection[str] = ("", "dlx"),
    routing_keys: Collection[str] = first_names(4),
    release: Release | str = DEFAULT,
) -> st.SearchStrategy[Message]:
    """Draw messages as a broker of the release holds them: published, and dead-lettered a few times by its rules.

    Args:
        carbon_copies: whether they may have been published with CC and BCC.
        hostile: with headers that only brokers should write; see ``properties``.
        deaths_max: how often a message has died already, at most.
        exchange_names: the exchanges that it was last published to.
        routing_keys: routing keys, CC and BCC; the names of the queues that it died in, too.
        release: a release or its name.
    """
    rules = checked_release(release)
    check_flags(carbon_copies=carbon_copies, hostile=hostile)
    check_count("deaths_max", deaths_max)
    names, keys = checked_names("exchange_names", exchange_names), checked_names("routing_keys", routing_keys)
    found = properties(carbon_copies=carbon_copies, hostile=hostile, routing_keys=keys)
    return _messages(found, names, keys, deaths_max, rules)


@st.composite
def _properties(draw: st.DrawFn, headers: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    found = {name: draw(_PROPERTIES[name]) for name in draw(_SOME_PROPERTIES)}
    having = draw(headers)
    return {**found, "headers": having} if having else found


def _headers(routing_keys: tuple[str, ...], carbon_copies: bool, hostile: bool) -> st.SearchStrategy[dict[str, Any]]:
    users = st.dictionaries(st.sampled_from(_HEADER_NAMES), field_values() if hostile else _PLAIN, max_size=2)
    parts = [users]
    if carbon_copies:
        parts.append(_carbon_copies(st.lists(st.sampled_from((*routing_keys, NOWHERE)), min_size=1, max_size=2)))
    if hostile:
        parts.append(_brokers_headers(routing_keys))
    return built(_merged, *parts)


def _merged(*parts: dict[str, Any]) -> dict[str, Any]:
    return {name: value for part in parts for name, value in part.items()}


def _carbon_copies(keys: st.SearchStrategy[list[str]]) -> st.SearchStrategy[dict[str, Any]]:
    cc, bcc = keys.map(lambda found: {"CC": found}), keys.map(lambda found: {"BCC": found})
    both = st.tuples(keys, keys).map(lambda found: {"CC": found[0], "BCC": found[1]})
    return st.one_of(st.just({}), cc, bcc, both)


def _brokers_headers(queues: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw headers that brokers write, as a client makes them up."""
    names, counts = st.sampled_from(queues), st.sampled_from((3, -1, 2**40, "many"))
    forged = {
        X_DEATH: x_deaths(queue_names=queues, hostile=True),
        "x-first-death-queue": names | field_values(),
        "x-first-death-reason": st.sampled_from(REASONS),
        "x-last-death-queue": names,
        "x-delivery-count": counts,
        "x-acquired-count": counts,
    }
    one = st.one_of([values.map(partial(_header, name)) for name, values in forged.items()])
    several = st.fixed_dictionaries({}, optional=forged)
    return st.one_of(st.just({}), one, forged[X_DEATH].map(partial(_header, X_DEATH)), several)


def _header(name: str, value: Any) -> dict[str, Any]:
    return {name: value}


@st.composite
def _malformed(draw: st.DrawFn, valid: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    found = draw(valid)
    wrongs: list[dict[str, Any]] = [{"expiration": text} for text in _NO_EXPIRATIONS]
    for name in ("CC", "BCC"):
        wrongs += [{"headers": found.get("headers", {}) | {name: value}} for value in _NO_CARBON_COPIES]
    wrong: dict[str, Any] = draw(st.sampled_from(wrongs))
    return found | wrong


@st.composite
def _messages(
    draw: st.DrawFn,
    publishable: st.SearchStrategy[dict[str, Any]],
    exchanges: tuple[str, ...],
    routing_keys: tuple[str, ...],
    deaths_max: int,
    release: Release,
) -> Message:
    having = draw(publishable)
    exchange, routing_key = draw(st.sampled_from(exchanges)), draw(st.sampled_from(routing_keys))
    headers, expiration = having.pop("headers", None), having.pop("expiration", None)
    try:
        message = published(
            exchange, routing_key, headers=headers, expiration=expiration, properties=having, release=release
        )
    except PublishRefusedError:  # 3.13 cannot read every x-death that a client makes up
        reject()
    deaths = st.tuples(st.sampled_from(routing_keys), st.sampled_from(REASONS), st.integers(_TIME_S, _TIME_S + 60))
    for queue, reason, time_s in draw(st.lists(deaths, max_size=deaths_max)):
        try:
            message = record_death(message, queue, reason, release, time_s=time_s)
        except QueueCrashError:  # this history has no next death
            break
    return message
