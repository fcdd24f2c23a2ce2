"""A message that waits in a queue: its row, the deaths that it carries, where it goes back to, and its life so far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from dlx.consumer import DeathHistory, death_history
from dlx.deaths import DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED, X_DEATH, Death
from simulator.capture import Observation
from simulator.events import Event

if TYPE_CHECKING:
    import pyarrow as pa


LOOKED = "dlx inspect"
"""The connection of a row that a look wrote: each such row is a message of its own, whatever its id."""


class WaitingMessage(msgspec.Struct, frozen=True):
    """One message that waits in a queue.

    Attributes:
        row: the message as a delivery from that queue.
        headers: all its headers, those of the broker included, as JSON values.
        deaths: its death history.
    """

    row: Observation
    headers: Mapping[str, Any]
    deaths: DeathHistory

    @property
    def id(self) -> str:
        """Its ``message_id``, or a hash of its content where it has none."""
        return self.row.message

    @property
    def properties(self) -> dict[str, Any]:
        """Its properties that are set, as JSON values."""
        own = {"message_id": self.row.message_id, "expiration": self.row.expiration}
        rest: dict[str, Any] = msgspec.json.decode(self.row.properties)
        return {name: value for name, value in own.items() if value is not None} | rest

    @property
    def first_died_at(self) -> datetime | None:
        """When it first died."""
        return self.deaths.first_death_at

    @property
    def first_entry(self) -> Death | None:
        """The entry of its first death; ``None`` where the header has none for it."""
        first = self.deaths.first
        own = (death for death in self.deaths.deaths if first and death.key == (first.queue, first.reason))
        return next(own, None)


def waiting(row: Observation) -> WaitingMessage:
    """Return the message of a row."""
    headers = {**msgspec.json.decode(row.headers), **msgspec.json.decode(row.broker_headers)}
    if row.x_death is not None:
        headers[X_DEATH] = _with_times(msgspec.json.decode(row.x_death), row.x_death_times or ())
    return WaitingMessage(row, headers, death_history(headers))


def waiting_in(rows: Iterable[Observation], queue: str, vhost: str | None) -> Iterator[Observation]:
    """Yield, of the rows of a capture, the last delivery of each message from the queue; of a look, each row."""
    last: dict[tuple[str, str, int], Observation] = {}
    for row in rows:
        if row.event == Event.DELIVERED and row.queue == queue and vhost in (None, row.vhost):
            key = row.vhost, row.message, row.line if row.connection == LOOKED else 0
            last.pop(key, None)
            last[key] = row
    yield from last.values()


def _with_times(deaths: Any, times: Iterable[int | None]) -> Any:
    """Return an ``x-death`` with its times, which have a column of their own."""
    if not isinstance(deaths, list):
        return deaths
    return [
        entry if time is None or not isinstance(entry, dict) else {**entry, "time": time}
        for entry, time in zip(deaths, (*times, *(None for _ in deaths)), strict=False)
    ]


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Observation]:
    """Yield the rows of the batches of a capture."""
    for batch in batches:
        for row in batch.to_pylist():
            yield Observation(**row)


# Where a message goes that is brought back from a dead-letter queue.


Origin = Literal["origin", "published"]
"""``origin``: the queue in which it first died, through the default exchange, so that no other queue gets a copy.
``published``: the exchange and the first routing key that it was published with; whatever is bound there gets it."""


class Address(msgspec.Struct, frozen=True):
    """An exchange and a routing key; the default exchange is the empty text, whose keys are names of queues."""

    exchange: str
    routing_key: str

    def __str__(self) -> str:
        if not self.exchange:
            return f"the queue '{self.routing_key}'"
        return f"the exchange '{self.exchange}' with {self.routing_key!r}"


class OwnKeys(msgspec.Struct, frozen=True):
    """An exchange, to which each message is published with its routing key; with those in CC, too, if it keeps them."""

    exchange: str

    def __str__(self) -> str:
        return f"the exchange '{self.exchange}' with the keys of each message"


def address_of(message: WaitingMessage, to: Origin | Address | OwnKeys) -> Address | None:
    """Return where the message goes; ``None`` if no header says where it came from."""
    if isinstance(to, Address):
        return to
    if isinstance(to, OwnKeys):
        return Address(to.exchange, message.row.routing_keys[0]) if message.row.routing_keys else None
    first = message.deaths.first
    if to == "origin":
        return None if first is None else Address("", first.queue)
    entry = message.first_entry
    return None if entry is None or not entry.routing_keys else Address(entry.exchange, entry.routing_keys[0])


# Describes the life of a message that waits in a queue, as far as its headers show it.


_DEATHS = {
    REJECTED: "a consumer rejected it",
    EXPIRED: "its time to live ran out",
    MAXLEN: "the length limit pushed it out",
    DELIVERY_LIMIT: "it exceeded the delivery limit",
}
_TOO_LATE = "a time beyond the calendar"


def life_so_far(message: WaitingMessage) -> Iterator[str]:
    """Yield sentences: the publish, each kind of death in the order in which it first happened, and where it waits."""
    first = message.first_entry
    if first is not None:
        yield f"Published to {_exchange(first.exchange)} with {_keys(first)}."
    oldest_first = message.deaths.deaths[::-1]
    for death in sorted(oldest_first, key=lambda death: death.time_s):  # of one second, the last entry first
        yield _died(death)
    if not message.deaths:
        yield f"Published to {_exchange(message.row.exchange)} with {', '.join(map(repr, message.row.routing_keys))}."
        yield "No header records a death."
    yield _waits(message)
    for part in message.deaths.malformed:
        yield f"Not read: {part}."


def _died(death: Death) -> str:
    how = _DEATHS.get(death.reason, f"it died for the reason {death.reason!r}")
    when = f"{_time(death.time_s)}: " if death.time_s else ""
    times = f", {death.count:,} times in all" if death.count > 1 else ""
    again = f"; its expiration was {death.original_expiration} ms" if death.original_expiration else ""
    return f"{when}In '{death.queue}' {how}{times}{again}."


def _waits(message: WaitingMessage) -> str:
    row, deaths = message.row, message.deaths
    counts = (("x-delivery-count", deaths.delivery_count), ("x-acquired-count", deaths.acquired_count))
    shown = [f"{name} {count:,}" for name, count in counts if count is not None]
    shown += ["redelivered"] if row.redelivered else []
    came = f", where it came through {_exchange(row.exchange)} with {row.routing_keys[0]!r}" if row.routing_keys else ""
    return f"Now it waits in '{row.queue}'{came}{''.join(f'; {each}' for each in shown)}."


def _exchange(name: str) -> str:
    return f"the exchange '{name}'" if name else "the default exchange"


def _keys(death: Death) -> str:
    return ", ".join(map(repr, death.routing_keys)) or "no routing key"


def _time(time_s: int) -> str:
    try:
        return f"{datetime.fromtimestamp(time_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, OSError, ValueError):
        return _TOO_LATE
