"""Read and write the deaths of a message: the entries of ``x-death``.

An entry stands for all deaths of a message in one queue for one reason. A death
that matches an entry only raises its ``count`` and moves it to the front: time,
exchange, routing keys and original expiration stay those of the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from dlx.field_values import Long

REJECTED = "rejected"
EXPIRED = "expired"
MAXLEN = "maxlen"
DELIVERY_LIMIT = "delivery_limit"
REASONS = (REJECTED, EXPIRED, MAXLEN, DELIVERY_LIMIT)

X_DEATH = "x-death"
FIRST_DEATH_HEADERS = ("x-first-death-reason", "x-first-death-queue", "x-first-death-exchange")
LAST_DEATH_HEADERS = ("x-last-death-reason", "x-last-death-queue", "x-last-death-exchange")


class Death(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of ``x-death``. ``time_s``: first death of this kind, seconds since 1970, UTC."""

    queue: str
    reason: str
    count: int
    exchange: str
    routing_keys: tuple[str, ...]
    time_s: int = 0
    original_expiration: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Return the queue and the reason, on which entries merge."""
        return self.queue, self.reason

    def as_table(self) -> dict[str, Any]:
        """Return the entry as an AMQP table, in the field order of 3.13 and later (mc_amqpl.erl death_table)."""
        table: dict[str, Any] = {}
        if self.original_expiration is not None:
            table["original-expiration"] = self.original_expiration
        table["count"] = Long(self.count)
        table["reason"] = self.reason
        table["queue"] = self.queue
        table["time"] = datetime.fromtimestamp(self.time_s, UTC)
        table["exchange"] = self.exchange
        table["routing-keys"] = list(self.routing_keys)
        return table


def without_times(deaths: Any) -> Any:
    """Return the entries of an ``x-death`` header without their times, which no rule looks at.

    A header that is not an array comes back unchanged, as does an element that is not a table.
    """
    if not isinstance(deaths, list):
        return deaths
    return [_without_time(entry) if isinstance(entry, Mapping) else entry for entry in deaths]


def _without_time(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name != "time"}


class DeathPoint(msgspec.Struct, frozen=True):
    """The contents of the ``x-first-death-*`` or ``x-last-death-*`` headers."""

    reason: str
    queue: str
    exchange: str

    def as_headers(self, names: tuple[str, str, str]) -> dict[str, str]:
        """Return the three headers; ``names`` is ``FIRST_DEATH_HEADERS`` or ``LAST_DEATH_HEADERS``."""
        return dict(zip(names, (self.reason, self.queue, self.exchange), strict=True))


def merged(deaths: Iterable[Death], death: Death, *, reverse: bool = False) -> tuple[Death, ...]:
    """Return the history after one more death: newest first, equal queue and reason merged.

    ``reverse`` reverses the order of the known deaths first, as releases until 3.12 do.
    Source: mc.erl record_death (3.13.3 and later).
    """
    others = tuple(deaths)[::-1] if reverse else tuple(deaths)
    for index, known in enumerate(others):
        if known.key == death.key:
            again = msgspec.structs.replace(known, count=known.count + 1)
            return (again, *others[:index], *others[index + 1 :])
    return (death, *others)


def deaths_in_header(headers: Mapping[str, Any] | None) -> tuple[Death, ...] | None:
    """Return the history that 3.13 takes over from a client's ``x-death``; ``None`` without that header.

    Entries that lack a field are passed over, and a header that is not an array is
    ignored. Source: mc_amqpl.erl headers_to_deaths, recover_deaths (3.13.7).
    """
    value = None if headers is None else headers.get(X_DEATH)
    if not isinstance(value, (list, tuple)):
        return None
    entries = (_recovered(entry) for entry in value)
    return tuple(entry for entry in entries if entry is not None)


def _recovered(entry: Any) -> Death | None:
    if not isinstance(entry, Mapping):
        return None
    time_s, count, keys = seconds(entry.get("time")), entry.get("count"), entry.get("routing-keys")
    names = [entry.get(name) for name in ("queue", "reason", "exchange")]
    expiration = entry.get("original-expiration")
    if time_s is None or not isinstance(count, int) or not isinstance(keys, (list, tuple)):
        return None
    if not all(isinstance(name, str) for name in names):
        return None
    queue, reason, exchange = map(str, names)
    return Death(
        queue=queue,
        reason=reason,
        count=count,
        exchange=exchange,
        routing_keys=tuple(map(str, keys)),
        time_s=time_s,
        original_expiration=str(expiration) if isinstance(expiration, str) else None,
    )


def seconds(value: Any) -> int | None:
    """Return a timestamp header as seconds since 1970: a datetime (naive means UTC) or an integer; else ``None``."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return int(aware.timestamp())
    return None
