"""Read ``x-death`` for a consumer in production.

    history = dlx.death_history(properties)        # pika's BasicProperties, or headers
    if history.rejected_in("orders") >= 5: ...

Nothing here raises on what a message carries: a header that is missing, of the
wrong type or forged is read as far as it makes sense, and ``DeathHistory.malformed``
names the skipped parts. Every release's form of the header is read.

The header has a limit: from 4.0 a message that is published again starts a new
history at its next death, and until then shows whatever its publisher put there.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

import msgspec

from dlx.deaths import (
    DELIVERY_LIMIT,
    FIRST_DEATH_HEADERS,
    LAST_DEATH_HEADERS,
    REJECTED,
    X_DEATH,
    X_OPT_DEATHS,
    Death,
    DeathPoint,
    seconds,
)
from dlx.value_kinds import value_kind

COUNT_MAX = 2**63 - 1
"""The largest integer that an AMQP table holds."""

# As in dlx.delivery_counts, which loads the release table.
X_DELIVERY_COUNT = "x-delivery-count"
X_ACQUIRED_COUNT = "x-acquired-count"
ATTEMPTS_HEADER = "x-failed-attempts"
"""Where a message that its consumer publishes again keeps its failed attempts (``dlx.republish_headers``)."""
_OWN_NAMES = frozenset({X_DEATH, X_OPT_DEATHS, X_DELIVERY_COUNT, X_ACQUIRED_COUNT, ATTEMPTS_HEADER})


# The basic properties of AMQP 0-9-1.
_PROPERTIES = frozenset(
    {"content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id", "reply_to"}
    | {"expiration", "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id"}
)


class HasHeaders(Protocol):
    """A message or its properties, of any client library."""

    @property
    def headers(self) -> Any: ...


class HasAnnotations(Protocol):
    """A message of AMQP 1.0, as Proton has it."""

    @property
    def annotations(self) -> Any: ...


MessageSource = HasHeaders | HasAnnotations | Mapping[Any, Any] | list[Any] | tuple[Any, ...] | None
"""Where ``death_history`` and ``republish_headers`` find headers."""


class DeathHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The deaths of one message. It is false if the message never died; ``str`` gives its ``path``.

    ``deaths`` are in the header's order. Only the first is sure to be the latest:
    until 3.12 RabbitMQ shuffles the others. ``first`` and ``last`` come from the
    headers of that name if the message has them, otherwise from ``x-death``.
    ``delivery_count`` and ``acquired_count`` are the headers that quorum queues
    add, ``None`` without them; ``attempts_before`` is what ``ATTEMPTS_HEADER`` says.
    ``malformed`` names the skipped parts, for a log line.
    """

    deaths: tuple[Death, ...] = ()
    first: DeathPoint | None = None
    last: DeathPoint | None = None
    delivery_count: int | None = None
    acquired_count: int | None = None
    attempts_before: int = 0
    malformed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.deaths)

    def __str__(self) -> str:
        return self.path

    @property
    def attempts(self) -> int:
        """How often the message was rejected in any queue: failed attempts, this delivery not included."""
        return self.count(reason=REJECTED)

    @property
    def total(self) -> int:
        """All deaths in all queues, for whatever reason."""
        return self.count()

    def rejected_in(self, queue: str) -> int:
        """Return how often the message was rejected in ``queue``."""
        return self.count(queue=queue, reason=REJECTED)

    def count(self, *, queue: str | None = None, reason: str | None = None) -> int:
        """Return the number of deaths; with ``queue`` or ``reason``, only of those that match."""
        return sum(
            death.count for death in self.deaths if queue in (None, death.queue) and reason in (None, death.reason)
        )

    @property
    def counts(self) -> dict[tuple[str, str], int]:
        """The number of deaths by queue and reason."""
        found: dict[tuple[str, str], int] = {}
        for death in self.deaths:
            found[death.key] = found.get(death.key, 0) + death.count
        return found

    def failures(self, queue: str | None = None, *, counts_carried: bool = True) -> int:
        """Return how many attempts are known to have failed before this delivery.

        Every release counts rejections, and a delivery limit that was exceeded is one
        failure at least. Only a quorum queue counts requeues and crashes of a consumer
        (``x-delivery-count``). From 4.0 a dead letter carries that count along,
        rejections included: then the greater of both counts holds, which misses some requeues, and the
        header is ignored once the message has failed in another queue, which may have written it.

        Args:
            queue: the queue whose attempts count; ``None``: all, as on a ladder with a queue for each attempt.
            counts_carried: whether ``x-delivery-count`` may hold rejections (``Release.delivery_count_carried``).
                Until 3.13 it holds the returns since the message last came to its queue, and is added.
        """
        failed = {key: count for key, count in self.counts.items() if key[1] in (REJECTED, DELIVERY_LIMIT)}
        here = sum(count for (where, _), count in failed.items() if queue in (None, where))
        returned = self.delivery_count or 0
        if not counts_carried:
            return self.attempts_before + here + returned
        failed_elsewhere = here < sum(failed.values())
        return self.attempts_before + (here if failed_elsewhere else max(here, returned))

    @property
    def first_death_at(self) -> datetime | None:
        """When the message first died, to the second, UTC; ``None`` when no entry says."""
        times = [death.time_s for death in self.deaths if death.time_s > 0]
        try:
            return datetime.fromtimestamp(min(times), UTC) if times else None
        except (OverflowError, OSError, ValueError):
            return None

    @property
    def path(self) -> str:
        """The deaths as text, oldest entry first: ``orders rejected x3 -> orders.wait expired x3``.

        An entry is as old as its latest death; ``first`` is where the message first died.
        """
        return " -> ".join(
            f"{death.queue} {death.reason}" + (f" x{death.count}" if death.count > 1 else "")
            for death in reversed(self.deaths)
        )


def death_history(source: MessageSource) -> DeathHistory:
    """Return the death history in ``source``, which may be anything that has headers.

    That is an object with a ``headers`` attribute (pika's ``BasicProperties``, an
    aio-pika or kombu message), a mapping with a ``headers`` entry, the headers
    themselves, or the list in ``x-death``. ``None`` means no headers. Names and texts
    may be ``str`` or ``bytes``. A client of AMQP 1.0 finds deaths in its message's annotations, and what was published
    with ``republish_headers`` in the application properties: pass the message (Proton's ``Message``, or that of
    rabbitmq-amqp-python-client), or the annotations alone.

    Raises:
        TypeError: ``source`` is something else, such as pika's ``method`` or ``{"headers": 3}``. The content of
            the headers never raises.
    """
    headers = headers_of(source)
    malformed: list[str] = []
    name = X_OPT_DEATHS if X_OPT_DEATHS in headers else X_DEATH
    deaths = tuple(_deaths_in(headers.get(name), name, malformed))
    return DeathHistory(
        deaths=deaths,
        first=_read_point(headers, FIRST_DEATH_HEADERS) or _oldest(deaths),
        last=_read_point(headers, LAST_DEATH_HEADERS) or _newest(deaths),
        delivery_count=_read_header_count(headers, X_DELIVERY_COUNT, malformed),
        acquired_count=_read_header_count(headers, X_ACQUIRED_COUNT, malformed),
        attempts_before=_read_header_count(headers, ATTEMPTS_HEADER, malformed) or 0,
        malformed=tuple(malformed),
    )


def attempts(source: MessageSource, queue: str | None = None) -> int:
    """Return how often the message in ``source`` was rejected: failed attempts, this delivery not included.

    It is the count in ``x-death``: ``attempts`` of its ``death_history``, or ``rejected_in`` one ``queue``.
    ``failures`` of the history also knows what a quorum queue and ``republish_headers`` count.

    Raises ``TypeError`` as ``death_history`` does.
    """
    history = death_history(source)
    return history.attempts if queue is None else history.rejected_in(queue)


def headers_of(source: MessageSource, *, own: bool = False) -> Mapping[str, Any]:
    """Return the headers in or of ``source``, their names as text. Raises as ``death_history`` does.

    Of a message of AMQP 1.0 they are its application properties and its annotations; with ``own``, the former alone,
    which its publisher gave.
    """
    try:
        headers = _headers_in(source, own)
    except Exception:  # a hostile mapping or property; a consumer must not fall over it
        return {}
    if headers is None:
        given = "a table without headers" if isinstance(source, Mapping) else value_kind(source)
        raise TypeError(f"source: expected a message's properties, or their headers, got {given}")
    return headers


def _headers_in(source: Any, own: bool) -> dict[str, Any] | None:
    """Return the headers; ``None`` for a value that has no headers and cannot be headers itself."""
    if isinstance(source, Mapping):
        return _unwrapped(_table(source))
    if hasattr(source, "headers"):
        return _table(source.headers)
    if hasattr(source, "annotations"):
        properties = _application_properties(source)
        return properties if own else {**properties, **_table(source.annotations)}
    if isinstance(source, (list, tuple)):
        return {X_DEATH: source}
    return {} if source is None else None


def _application_properties(message: Any) -> dict[str, Any]:
    """Return the application properties of a message of AMQP 1.0: ``properties`` of Proton's, which others rename."""
    return _table(getattr(message, "application_properties", None) or getattr(message, "properties", None))


def _unwrapped(table: dict[str, Any]) -> dict[str, Any] | None:
    """Return the headers in a mapping that is a message's properties, or is the headers itself.

    A publisher may have called a header ``headers``. So only a mapping that names nothing but
    properties is refused where its ``headers`` are not a table.
    """
    inner = table.get("headers")
    if isinstance(inner, Mapping) and not _OWN_NAMES.intersection(table):
        return _table(inner)
    if inner is not None and all(name.replace("-", "_") in _PROPERTIES for name in table):
        return None
    return table


def _table(value: Any) -> dict[str, Any]:
    """Return a mapping with its names as text, and an empty one for any other value."""
    return {_text(name): each for name, each in value.items()} if isinstance(value, Mapping) else {}


def _deaths_in(entries: Any, name: str, malformed: list[str]) -> list[Death]:
    if entries is None:
        return []
    listed = _elements(entries)
    if not isinstance(listed, (list, tuple)):
        malformed.append(f"{name} is {value_kind(entries)}, not an array")
        return []
    found = []
    for index, entry in enumerate(listed):
        try:
            death = _read_entry(entry, f"{name}[{index}]", malformed)
        except Exception as error:  # as above
            malformed.append(f"{name}[{index}] cannot be read: {type(error).__name__}")
            continue
        if death is not None:
            found.append(death)
    return found


def _elements(array: Any) -> Any:
    """Return the elements of an array of Proton's; any other value as it is."""
    return getattr(array, "elements", array)


def _entry_fields(entry: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the fields of an entry by their names in ``x-death``; in ``x-opt-deaths`` some have others."""
    fields = _table(entry)
    time_s, ttl_ms = _seconds(fields.get("first-time")), fields.get("ttl")
    if time_s is not None:
        fields.setdefault("time", time_s)
    if isinstance(ttl_ms, int):
        fields.setdefault("original-expiration", str(int(ttl_ms)))
    return fields


def _read_entry(entry: Any, where: str, malformed: list[str]) -> Death | None:
    if not isinstance(entry, Mapping):
        malformed.append(f"{where} is {value_kind(entry)}, not a table")
        return None
    fields = _entry_fields(entry)
    queue, reason = _string(fields.get("queue")), _string(fields.get("reason"))
    if queue is None or reason is None:
        malformed.append(f"{where} lacks a queue or a reason")
        return None
    count = _read_count(fields.get("count"), where, malformed)
    return Death(
        queue=queue,
        reason=reason,
        count=count,
        exchange=_string(fields.get("exchange")) or "",
        routing_keys=_read_keys(fields.get("routing-keys")),
        time_s=_read_time(fields.get("time"), where, malformed),
        original_expiration=_string(fields.get("original-expiration")),
        last_time_s=_seconds(fields.get("last-time")) if count > 1 else None,
    )


def _read_count(value: Any, where: str, malformed: list[str]) -> int:
    """Return the count; 1 where it is missing (very old brokers) or makes no sense."""
    if value is None:
        return 1
    if _is_count(value):
        return int(value)
    malformed.append(f"{where}.count is {_not_a_count(value)}, not a number of deaths")
    return 1


def _read_header_count(headers: Mapping[str, Any], name: str, malformed: list[str]) -> int | None:
    value = headers.get(name)
    if value is None or _is_count(value):
        return None if value is None else int(value)
    malformed.append(f"{name} is {_not_a_count(value)}, not a count")
    return None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= COUNT_MAX


def _not_a_count(value: Any) -> str:
    kind = value_kind(value)
    return f"{kind} out of range (0 to {COUNT_MAX})" if kind == "an integer" else kind


def _seconds(milliseconds: Any) -> int | None:
    return int(milliseconds) // 1_000 if _is_count(milliseconds) else None


def _read_keys(value: Any) -> tuple[str, ...]:
    value = _elements(value)
    if not isinstance(value, (list, tuple)):
        return ()
    return tuple(key for key in map(_string, value) if key is not None)


def _read_time(value: Any, where: str, malformed: list[str]) -> int:
    """Return the time in seconds since 1970; 0 where it is missing or makes no sense."""
    if value is None:
        return 0
    time_s = seconds(value)
    if time_s is not None and 0 <= time_s <= COUNT_MAX:
        return time_s
    malformed.append(f"{where}.time is {_not_a_count(value)}, not a time since 1970")
    return 0


def _read_point(headers: Mapping[str, Any], names: tuple[str, str, str]) -> DeathPoint | None:
    reason, queue, exchange = (_string(headers.get(name)) for name in names)
    if reason is None or queue is None:
        return None
    return DeathPoint(reason, queue, exchange or "")


def _oldest(deaths: tuple[Death, ...]) -> DeathPoint | None:
    """Return the entry with the earliest first death; among equals, or if no entry has a time, the list's last."""
    timed = [death for death in deaths if death.time_s > 0] or deaths
    return _point(min(reversed(timed), key=lambda death: death.time_s)) if timed else None


def _newest(deaths: tuple[Death, ...]) -> DeathPoint | None:
    return _point(deaths[0]) if deaths else None


def _point(death: Death) -> DeathPoint:
    return DeathPoint(death.reason, death.queue, death.exchange)


def _text(value: Any) -> str:
    if isinstance(value, (bytes, bytearray)):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else str(value)


def _string(value: Any) -> str | None:
    return _text(value) if isinstance(value, (str, bytes, bytearray)) else None
