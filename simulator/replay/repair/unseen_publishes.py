"""Publishes that the log does not show, but which may be behind a delivery."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from dlx.deaths import FIRST_DEATH_HEADERS, LAST_DEATH_HEADERS, X_DEATH
from dlx.releases import Release
from simulator.events import Event
from simulator.replay.repair.other_definitions import stops
from simulator.replay.repair.sequences import Seen
from simulator.replay.row_codec import Signature, read_signature, write_signature
from simulator.replay.states import row_of

_BROKERS = frozenset((X_DEATH, *FIRST_DEATH_HEADERS, *LAST_DEATH_HEADERS))
FORGED_DEATHS_MAX = 2
"""Deaths since a forged publish that are looked for."""
SHOWN_MAX = 3
"""Earlier values of ``x-death`` that a client may have sent on."""
_encode = msgspec.json.Encoder(order="deterministic").encode


def plain_publishes(delivered: Seen) -> Iterator[Seen]:
    """Yield publishes without a history that may have led to the delivery, the likeliest first."""
    seen = read_signature(delivered.row.signature)
    deaths = stops(seen.x_death)
    if not deaths:
        yield _publish(delivered, seen.exchange, seen.routing_keys, seen.expiration, None, False)
        return
    first = _first_death(seen)
    entries = sorted(_entries(seen.x_death), key=lambda entry: _point(entry) != first)
    for entry in dict.fromkeys(map(_encode, entries)):
        yield _at(delivered, msgspec.json.decode(entry), None, False)


def forged_publishes(delivered: Seen, shown: Sequence[str], release: Release) -> Iterator[Seen]:
    """Yield publishes with the headers that brokers write, which a client may have sent.

    Where a release goes on with a client's ``x-death``, it may have died since. ``shown`` is what
    earlier deliveries had for ``x-death``: a shovel, or a client, may have sent one of them on.
    """
    seen = read_signature(delivered.row.signature)
    if seen.x_death is None and not _BROKERS & msgspec.json.decode(seen.broker_headers).keys():
        return
    entries = _entries(seen.x_death) if release.client_deaths_continued else []
    if seen.x_death not in shown:
        yield from _sent_on(delivered, entries[:FORGED_DEATHS_MAX], shown)
    yield _publish(delivered, seen.exchange, seen.routing_keys, seen.expiration, seen.x_death, True)
    for latest, before in islice(_undone(entries, release), FORGED_DEATHS_MAX):
        for forged in (before, before[::-1]):
            yield _at(delivered, latest, _encode(forged).decode(), True)


def _sent_on(delivered: Seen, latest: Sequence[dict[str, Any]], shown: Sequence[str]) -> Iterator[Seen]:
    """Yield publishes with an ``x-death`` that was delivered before, after which the message died as the latest say."""
    for x_death in islice(dict.fromkeys(reversed(shown)), SHOWN_MAX):
        for entry in latest:
            yield _at(delivered, entry, x_death, True)
            # The address of a death that happened before stays that of the first: it hides the latest one.
            yield _publish(delivered, "", (entry["queue"],), None, x_death, True)


def _entries(x_death: str | None) -> list[dict[str, Any]]:
    """Return the entries from which an address can be read."""
    decoded = [] if x_death is None else msgspec.json.decode(x_death)
    return [entry for entry in decoded if stops(_encode([entry]).decode())] if isinstance(decoded, list) else []


def _undone(entries: list[dict[str, Any]], release: Release) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield each death, the latest first, and the entries that it found."""
    reverses = release.death_order == "reversed on every death"
    while len(entries) > 1:
        latest, *entries = entries
        entries = entries[::-1] if reverses else entries
        yield latest, entries


def _first_death(seen: Signature) -> tuple[Any, ...]:
    headers = msgspec.json.decode(seen.broker_headers)
    return tuple(headers.get(name) for name in FIRST_DEATH_HEADERS)


def _point(entry: dict[str, Any]) -> tuple[Any, ...]:
    return entry.get("reason"), entry.get("queue"), entry.get("exchange")


def _at(delivered: Seen, entry: dict[str, Any], x_death: str | None, keep: bool) -> Seen:
    """Return the publish to the address that an entry of ``x-death`` names."""
    keys = tuple(map(str, entry["routing-keys"]))
    return _publish(delivered, entry["exchange"], keys, entry.get("original-expiration"), x_death, keep)


def _publish(
    delivered: Seen, exchange: str, keys: tuple[str, ...], expiration: str | None, x_death: str | None, keep: bool
) -> Seen:
    """Return the row of a publish; ``keep`` the headers that brokers write."""
    row = read_signature(delivered.row.signature)
    headers: dict[str, Any] = msgspec.json.decode(row.broker_headers)
    if len(keys) > 1 and "CC" not in headers:
        headers["CC"] = list(keys[1:])
    kept = {name: value for name, value in headers.items() if name == "CC" or (keep and name in _BROKERS)}
    signature = Signature(
        event=Event.PUBLISHED.value,
        vhost=row.vhost,
        queue=None,
        exchange=exchange,
        expiration=expiration,
        routing_keys=keys,
        broker_headers=_encode(kept).decode(),
        x_death=x_death,
    )
    return Seen(row_of(write_signature(signature)), delivered.content, delivered.headers)
