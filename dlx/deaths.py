"""Read and write the deaths of a message: the entries of ``x-death``.

An entry covers all deaths of a message in one queue for one reason. A death
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
X_OPT_DEATHS = "x-opt-deaths"  # the same for clients of AMQP 1.0
FIRST_DEATH_HEADERS = ("x-first-death-reason", "x-first-death-queue", "x-first-death-exchange")
LAST_DEATH_HEADERS = ("x-last-death-reason", "x-last-death-queue", "x-last-death-exchange")


class Death(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of ``x-death``. ``time_s``: first death of this kind, seconds since 1970, UTC.

    ``last_time_s``: the latest one, where there was more than one; only clients of AMQP 1.0 see it.
    """

    queue: str
    reason: str
    count: int
    exchange: str
    routing_keys: tuple[str, ...]
    time_s: int = 0
    original_expiration: str | None = None
    last_time_s: int | None = None

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
            again = msgspec.structs.replace(known, count=known.count + 1, last_time_s=death.time_s)
            return (again, *others[:index], *others[index + 1 :])
    return (death, *others)


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
