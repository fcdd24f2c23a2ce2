"""A message that waits in a queue: the row of a capture that shows it, and the deaths that it carries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from dlx.consumer import DeathHistory, death_history
from dlx.deaths import X_DEATH, Death
from simulator.capture import Observation
from simulator.events import Event

if TYPE_CHECKING:
    import pyarrow as pa


LOOKED = "dlx inspect"
"""The connection of a row that a look wrote: each such row is a message of its own, whatever its id."""


class Waiting(msgspec.Struct, frozen=True):
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
    def first_died_at(self) -> datetime | None:
        """When it first died."""
        return self.deaths.first_death_at

    @property
    def first_entry(self) -> Death | None:
        """The entry of its first death; ``None`` where the header has none for it."""
        first = self.deaths.first
        own = (death for death in self.deaths.deaths if first and death.key == (first.queue, first.reason))
        return next(own, None)


def waiting(row: Observation) -> Waiting:
    """Return the message of a row."""
    headers = {**msgspec.json.decode(row.headers), **msgspec.json.decode(row.broker_headers)}
    if row.x_death is not None:
        headers[X_DEATH] = _with_times(msgspec.json.decode(row.x_death), row.x_death_times or ())
    return Waiting(row, headers, death_history(headers))


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
    """Return an ``x-death`` as it was before its times went into a column of their own."""
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
