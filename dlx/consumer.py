"""What a consumer in production asks of ``x-death``.

    history = dlx.death_history(properties)        # pika's BasicProperties, or headers
    if history.rejected_in("orders") >= 5: ...

Nothing here raises on what a message carries: a header that is missing, of the
wrong type or forged is read as far as it makes sense, and what was passed over is
named in ``DeathHistory.malformed``. Every release's form of the header is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from dlx.deaths import FIRST_DEATH_HEADERS, LAST_DEATH_HEADERS, REJECTED, X_DEATH, Death, DeathPoint, seconds


class DeathHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The deaths of one message.

    ``deaths`` are in the header's order. Only the first is sure to be the latest:
    until 3.12 RabbitMQ shuffles the others. ``first`` and ``last`` come from the
    headers of that name where they are, else from what ``x-death`` can tell.
    """

    deaths: tuple[Death, ...] = ()
    first: DeathPoint | None = None
    last: DeathPoint | None = None
    malformed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.deaths)

    @property
    def attempts(self) -> int:
        """How often the message was rejected in any queue: failed attempts, this delivery not included."""
        return self.count(reason=REJECTED)

    @property
    def total(self) -> int:
        """All deaths in all queues, for whatever reason."""
        return self.count()

    def rejected_in(self, queue: str) -> int:
        """How often the message was rejected in ``queue``."""
        return self.count(queue=queue, reason=REJECTED)

    def count(self, *, queue: str | None = None, reason: str | None = None) -> int:
        """The number of deaths, of that queue and reason where they are given."""
        return sum(
            death.count
            for death in self.deaths
            if queue in (None, death.queue) and reason in (None, death.reason)
        )

    @property
    def path(self) -> str:
        """The deaths as text, oldest entry first: ``orders rejected x3 -> orders.wait expired x3``."""
        return " -> ".join(
            f"{death.queue} {death.reason}" + (f" x{death.count}" if death.count > 1 else "")
            for death in reversed(self.deaths)
        )


def death_history(source: Any) -> DeathHistory:
    """The death history in ``source``, which may be anything that has headers.

    That is an object with a ``headers`` attribute (pika's ``BasicProperties``, an
    aio-pika or kombu message), a mapping with a ``headers`` entry, or the headers
    themselves. Never raises.
    """
    headers = _headers_of(source)
    malformed: list[str] = []
    entries = headers.get(X_DEATH)
    if entries is None:
        entries = []
    elif not isinstance(entries, (list, tuple)):
        malformed.append(f"{X_DEATH} is a {type(entries).__name__}, not an array")
        entries = []
    deaths = tuple(
        death
        for death in (_read_entry(entry, index, malformed) for index, entry in enumerate(entries))
        if death is not None
    )
    return DeathHistory(
        deaths=deaths,
        first=_read_point(headers, FIRST_DEATH_HEADERS) or _oldest(deaths),
        last=_read_point(headers, LAST_DEATH_HEADERS) or _newest(deaths),
        malformed=tuple(malformed),
    )


def _headers_of(source: Any) -> Mapping[str, Any]:
    """The headers in or of ``source``; empty where there are none."""
    try:
        headers = source if isinstance(source, Mapping) else getattr(source, "headers", None)
        if (
            isinstance(headers, Mapping)
            and X_DEATH not in headers
            and isinstance(headers.get("headers"), Mapping)
        ):
            headers = headers["headers"]
        if not isinstance(headers, Mapping):
            return {}
        return {_text(name): value for name, value in headers.items()}
    except Exception:  # a hostile mapping or property; a consumer must not fall over it
        return {}


def _read_entry(entry: Any, index: int, malformed: list[str]) -> Death | None:
    if not isinstance(entry, Mapping):
        malformed.append(f"{X_DEATH}[{index}] is a {type(entry).__name__}, not a table")
        return None
    try:
        fields = {_text(name): value for name, value in entry.items()}
    except Exception:
        fields = {}
    queue, reason = _string(fields.get("queue")), _string(fields.get("reason"))
    if queue is None or reason is None:
        malformed.append(f"{X_DEATH}[{index}] lacks a queue or a reason")
        return None
    return Death(
        queue=queue,
        reason=reason,
        count=_read_count(fields.get("count"), index, malformed),
        exchange=_string(fields.get("exchange")) or "",
        routing_keys=_read_keys(fields.get("routing-keys")),
        time_s=_read_time(fields.get("time")),
        original_expiration=_string(fields.get("original-expiration")),
    )


def _read_count(value: Any, index: int, malformed: list[str]) -> int:
    """The count; 1 where it is missing (very old brokers) or makes no sense."""
    if value is None:
        return 1
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    malformed.append(f"{X_DEATH}[{index}].count is {value!r:.40}, not a number of deaths")
    return 1


def _read_keys(value: Any) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)):
        return ()
    return tuple(key for key in map(_string, value) if key is not None)


def _read_time(value: Any) -> int:
    try:
        return seconds(value) or 0
    except (OverflowError, OSError, ValueError):
        return 0


def _read_point(headers: Mapping[str, Any], names: tuple[str, str, str]) -> DeathPoint | None:
    reason, queue, exchange = (_string(headers.get(name)) for name in names)
    if reason is None or queue is None:
        return None
    return DeathPoint(reason, queue, exchange or "")


def _oldest(deaths: tuple[Death, ...]) -> DeathPoint | None:
    """The entry with the earliest first death; the last of the list among equals."""
    if not deaths:
        return None
    oldest = min(reversed(deaths), key=lambda death: death.time_s)
    return DeathPoint(oldest.reason, oldest.queue, oldest.exchange)


def _newest(deaths: tuple[Death, ...]) -> DeathPoint | None:
    return DeathPoint(deaths[0].reason, deaths[0].queue, deaths[0].exchange) if deaths else None


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else str(value)


def _string(value: Any) -> str | None:
    return _text(value) if isinstance(value, (str, bytes)) else None


def first_death_at(history: DeathHistory) -> datetime | None:
    """When the message first died, to the second, UTC; ``None`` when no entry says."""
    times = [death.time_s for death in history.deaths if death.time_s > 0]
    try:
        return datetime.fromtimestamp(min(times), UTC) if times else None
    except (OverflowError, OSError, ValueError):
        return None
