"""The states that a message passes through, seen the way a trace shows them.

A row of a capture shows exchange, routing keys, expiration and headers of a
message at one moment. ``publish_of`` and ``message_of`` turn a row into the
message the rules work on, ``visible`` turns a message into what a row would show.
Times are left out on both sides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from dlx.claimed_deaths import claimed_deaths
from dlx.death_headers import stored_headers
from dlx.deaths import FIRST_DEATH_HEADERS, LAST_DEATH_HEADERS, X_DEATH, DeathPoint, without_times
from dlx.delays import X_DELAY
from dlx.delivery_counts import COUNT_HEADERS
from dlx.message import Message, published
from dlx.recorded_deaths import death_counts, deaths_in_x_death
from dlx.releases import Release
from simulator.replay.rows.row_codec import read_signature

X_STREAM_OFFSET = "x-stream-offset"
_OF_A_DELIVERY = (*COUNT_HEADERS, X_STREAM_OFFSET)
_SHOWN = ("CC", X_DELAY, *FIRST_DEATH_HEADERS, *LAST_DEATH_HEADERS)

# The rules' counts are integers of 64 bits, which are a class of their own.
_encode = msgspec.json.Encoder(order="deterministic", enc_hook=int).encode
_decode = msgspec.json.decode


class Visible(NamedTuple):
    """The part of a message that a row shows; headers as canonical JSON, without times and delivery counts."""

    exchange: str
    routing_keys: tuple[str, ...]
    expiration: str | None
    x_death: str | None
    broker_headers: str


class CaptureRow(msgspec.Struct, frozen=True):
    """One row of a capture, decoded from its signature.

    ``of_delivery`` are the counts it shows; ``routed_queues`` where the broker routed a publish,
    ``None`` where the log does not say so.
    """

    signature: str
    event: str
    vhost: str
    queue: str | None
    visible: Visible
    headers: Mapping[str, Any]
    of_delivery: Mapping[str, Any]
    routed_queues: tuple[str, ...] | None = None


def row_of(signature: str) -> CaptureRow:
    """Read a row from its signature."""
    read = read_signature(signature)
    headers = _decode(read.broker_headers)
    if read.x_death is not None:
        headers[X_DEATH] = _with_times(_decode(read.x_death))
    of_delivery = {name: headers[name] for name in _OF_A_DELIVERY if name in headers}
    shown = {name: headers[name] for name in _SHOWN if name in headers}
    return CaptureRow(
        signature=signature,
        event=read.event,
        vhost=read.vhost,
        queue=read.queue,
        visible=Visible(read.exchange, read.routing_keys, read.expiration, read.x_death, _encode(shown).decode()),
        headers=headers,
        of_delivery=of_delivery,
        routed_queues=read.routed_queues,
    )


def publish_of(row: CaptureRow, user_headers: Mapping[str, Any], release: Release) -> Message:
    """Return the message that the publish in ``row`` made.

    A trace shows the BCC keys among the routing keys, but no longer the BCC header;
    it is put back, so that the rule for publishes sees what the client sent.
    ``user_headers`` are those that headers exchanges look at.
    """
    seen = row.visible
    headers = {**user_headers, **row.headers, "BCC": bcc_keys(seen.routing_keys, row.headers)}
    return published(
        seen.exchange,
        seen.routing_keys[0] if seen.routing_keys else "",
        headers=headers,
        expiration=seen.expiration,
        release=release,
    )


def bcc_keys(routing_keys: Sequence[str], headers: Mapping[str, Any]) -> list[str]:
    """Return the routing keys of a publish that stand neither for its own key nor in its CC header."""
    cc = headers.get("CC")
    known = 1 + (sum(isinstance(key, str) for key in cc) if isinstance(cc, list) else 0)
    return list(routing_keys[known:])


def message_of(row: CaptureRow, parent: Message | None, user_headers: Mapping[str, Any], release: Release) -> Message:
    """Return the message as a delivery showed it.

    A delivery does not show BCC keys, or whether ``x-death`` is the broker's: those
    come from ``parent``, the predicted message, if it is known.
    """
    seen, headers = row.visible, dict(row.headers)
    for name in _OF_A_DELIVERY:
        if parent is None or name not in (parent.headers or {}):
            headers.pop(name, None)
    headers = {**user_headers, **headers}
    message = Message(
        exchange=seen.exchange,
        routing_keys=seen.routing_keys or ("",),
        headers=headers,
        expiration=seen.expiration,
        bcc=() if parent is None else parent.bcc,
    )
    if X_DEATH not in headers:
        return message
    first, last = _point(headers, FIRST_DEATH_HEADERS), _point(headers, LAST_DEATH_HEADERS)
    if release.death_history == "headers":
        return msgspec.structs.replace(message, first_death=first)
    if last is None and (parent is None or parent.deaths is None) and not release.client_deaths_continued:
        return message
    own = (X_DEATH, *FIRST_DEATH_HEADERS, *LAST_DEATH_HEADERS)
    covered = {} if parent is None else {n: v for n, v in (parent.headers or {}).items() if n in own}
    return msgspec.structs.replace(
        message,
        headers={**{name: value for name, value in headers.items() if name not in own}, **covered},
        deaths=claimed_deaths(headers).deaths,
        first_death=first,
        last_death=last,
    )


def visible(message: Message) -> Visible:
    """Return what a row shows of the message."""
    headers = stored_headers(message)
    deaths = headers.get(X_DEATH)
    shown = {name: headers[name] for name in _SHOWN if name in headers}
    return Visible(
        message.exchange,
        message.routing_keys,
        message.expiration,
        None if deaths is None else _encode(without_times(deaths)).decode(),
        _encode(shown).decode(),
    )


def _with_times(deaths: Any) -> Any:
    """Put a time into each entry: a capture leaves times out, but the rules expect one; any will do."""
    if not isinstance(deaths, list):
        return deaths
    return [{**entry, "time": 0} if isinstance(entry, dict) else entry for entry in deaths]


def _point(headers: Mapping[str, Any], names: tuple[str, str, str]) -> DeathPoint | None:
    reason, queue, exchange = (headers.get(name) for name in names)
    if isinstance(reason, str) and isinstance(queue, str) and isinstance(exchange, str):
        return DeathPoint(reason, queue, exchange)
    return None


# What the ``x-death`` of a row says, read once for all who ask: how often a message died, where, in which order.


Kind = tuple[str, str]
"""The queue and the reason of a death."""
Address = tuple[Any, Any]
"""The exchange and the routing keys under which a message was in a queue."""


class DeathsShown(NamedTuple):
    """What an ``x-death`` says, by kind of death.

    Attributes:
        counts: how often the message died.
        reasons: for each queue, the reasons for which it died there.
        addresses: under which address it died first; empty for a header that no broker wrote.
        places: where the entry stands, if there is only one of its kind.
    """

    counts: Mapping[Kind, int]
    reasons: Mapping[str, list[str]]
    addresses: Mapping[Kind, Address]
    places: Mapping[Kind, int]


NO_DEATHS = DeathsShown({}, {}, {}, {})


def deaths_shown(x_death: str | None) -> DeathsShown:
    """Return what an ``x-death`` says, given as JSON; ``None``: the row has none."""
    return NO_DEATHS if x_death is None else _read(x_death)


@lru_cache(maxsize=10_000)
def _read(x_death: str) -> DeathsShown:
    decoded = msgspec.json.decode(x_death)
    entries = decoded if isinstance(decoded, list) else []
    tables = [entry for entry in entries if isinstance(entry, dict)]
    counts = death_counts(deaths_in_x_death(decoded))
    reasons: dict[str, list[str]] = {}
    for queue, reason in counts:
        reasons.setdefault(queue, []).append(reason)
    return DeathsShown(counts, reasons, addresses_in(map(death_in, tables)), _places(entries))


def addresses_in(deaths: Iterable[tuple[Kind, Address]]) -> Mapping[Kind, Address]:
    """Return the deaths by kind; nothing if two are of a kind, as only a client writes."""
    given = list(deaths)
    found = dict(given)
    return found if len(found) == len(given) else {}


def death_in(entry: Mapping[str, Any]) -> tuple[Kind, Address]:
    """Return the kind and the address of the death in an entry of ``x-death``."""
    keys = entry.get("routing-keys")
    address = entry.get("exchange"), tuple(keys) if isinstance(keys, list) else keys
    return (str(entry.get("queue")), str(entry.get("reason"))), address


def _places(entries: list[Any]) -> Mapping[Kind, int]:
    kinds = [(entry.get("queue"), entry.get("reason")) if isinstance(entry, dict) else None for entry in entries]
    return {
        (str(kind[0]), str(kind[1])): place
        for place, kind in enumerate(kinds)
        if kind is not None and kinds.count(kind) == 1
    }
