"""Replays column batches: rows in, the same rows with a verdict out.

The rows of a message must follow each other, in order, within one partition
(``simulator.replay.plan`` sees to it). Each row is reduced to one string, its
signature, of which a real log has few; a message is then a short sequence of
signature numbers, and messages with equal sequences have equal verdicts. So the
work per message is one dictionary look-up, and the rules run once per sequence.
Times are no part of it: ``simulator.replay.row_times`` judges those of all rows at once,
and where they refute a verdict, the sequence is looked up again without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dlx.releases import Release
from dlx.topology import Topology
from simulator.replay.assumptions import DEFAULT_ASSUMPTIONS, Assumptions
from simulator.replay.coverage.paths import Shown
from simulator.replay.lengths import NO_ARRIVALS, Arrivals
from simulator.replay.memory import NO_VERDICT, REMEMBERED_MAX, Memory
from simulator.replay.message_rows import Fits
from simulator.replay.open_message import OpenMessage
from simulator.replay.output import dead_end_column, shown_column, verdict_columns
from simulator.replay.row_codec import CONTENT, LINEAGE, SIGNATURE, looked_at
from simulator.replay.row_times import RowTimes
from simulator.replay.schema import OUTPUT
from simulator.replay.signatures import Ints
from simulator.replay.times import Facts

REMEMBERED_ROWS_MAX = 256
"""Messages with more rows are stepped, not remembered."""

_encode = msgspec.json.Encoder(order="deterministic").encode
_Columns = dict[str, Any]
_Refused = Mapping[int, int]
"""How many verdicts on a row of a message its times have refuted, by the row's place."""


class Kernel:
    """Replays the batches of one partition, and keeps what it has worked out from batch to batch."""

    def __init__(
        self,
        topologies: Mapping[str | None, Topology],
        rules: Release,
        captured_on: Release | None,
        assumptions: Assumptions = DEFAULT_ASSUMPTIONS,
        arrivals: Arrivals = NO_ARRIVALS,
    ) -> None:
        self._memory = Memory(topologies, rules, captured_on, assumptions, arrivals)
        self._open: OpenMessage | None = None

    def replay(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one output batch for each input batch, when the next one has come."""
        before: tuple[str, _Columns] | None = None
        for batch in batches:
            if batch.num_rows:
                self._memory.forget()
                replayed = _Batch(self._memory, batch, self._open)
                self._open = replayed.open
                if before is not None:
                    yield _finished(before[1], goes_on=replayed.begins_with(before[0]))
                before = batch.column(LINEAGE)[-1].as_py(), replayed.columns()
        if before is not None:
            yield _finished(before[1], goes_on=False)


class _Batch:
    """One batch and its verdicts. ``open`` is the message that may go on in the next one."""

    def __init__(self, memory: Memory, batch: pa.RecordBatch, open_: OpenMessage | None) -> None:
        self._memory = memory
        self._batch = batch
        self.open = open_
        self._keys, self._contents = batch.column(LINEAGE), batch.column(CONTENT)
        self._numbers = _numbers(memory, batch.column(SIGNATURE))
        self._templates = memory.signatures.templates(self._numbers)
        self._starts = _starts(self._keys)
        self._ends = np.append(self._starts[1:], batch.num_rows)
        self._uniform = _uniform(self._contents, self._starts)
        having = memory.signatures.having_expirations(self._numbers)
        self._varied = np.logical_or.reduceat(having, self._starts)
        self._continued = open_ is not None and open_.key == self._keys[0].as_py()
        self._verdicts = np.full(batch.num_rows, NO_VERDICT, dtype=np.int32)
        self._dead_ends = np.zeros(batch.num_rows, dtype=np.int32)
        self._deliveries = np.zeros(batch.num_rows, dtype=np.int32)
        self._times = RowTimes(memory.clock, _facts(batch, memory.signatures.expirations_us(self._numbers)))
        self._replay()
        self._tell_times()

    def _replay(self) -> None:
        """Find the verdict of each row, and hold it against the times."""
        looked_up = np.zeros(len(self._verdicts), dtype=bool)
        asked = np.zeros(len(self._verdicts), dtype=np.int64)
        last = len(self._starts) - 1
        for group, (start, end) in enumerate(zip(self._starts.tolist(), self._ends.tolist(), strict=True)):
            whole = group != last and not (group == 0 and self._continued)
            if whole and end - start <= REMEMBERED_ROWS_MAX:
                asked[start:end] = self._take(start, end, self._sequence(group, {}))
                looked_up[start:end] = True
            else:
                self._stepped(start, end)
        rows = np.flatnonzero(looked_up)
        self._judge(rows, asked[rows])
        self._look_further()

    def _take(self, start: int, end: int, found: Ints) -> Ints:
        """Take what was found out about the rows of a message, and return what their verdicts ask of the times."""
        times: Ints
        self._verdicts[start:end], times, self._dead_ends[start:end], self._deliveries[start:end] = found
        return times

    def _judge(self, rows: npt.NDArray[np.int64], asked: npt.NDArray[np.int64]) -> None:
        group = np.searchsorted(self._starts, rows, side="right") - 1
        self._times.judge(rows, asked, rows - self._starts[group])

    def _look_further(self) -> None:
        """Take the next verdict where the times of a message refute one, until they refute no more."""
        refused: dict[int, dict[int, int]] = {}
        while len(rows := self._times.refuted(finally_=False)):
            groups, first = np.unique(np.searchsorted(self._starts, rows, side="right") - 1, return_index=True)
            again, asked = [], []
            for group, row in zip(groups.tolist(), rows[first].tolist(), strict=True):
                start, end = int(self._starts[group]), int(self._ends[group])
                places = refused.setdefault(group, {})
                places[row - start] = places.get(row - start, 0) + 1
                asked.append(self._take(start, end, self._sequence(group, places)))
                again.append(np.arange(start, end))
            self._judge(np.concatenate(again), np.concatenate(asked).astype(np.int64))

    def _sequence(self, group: int, refused: _Refused) -> Ints:
        """Return the verdicts on a whole message by number; below them what they ask of the times, dead ends, and
        deliveries."""
        start, end = int(self._starts[group]), int(self._ends[group])
        memory, numbers, varied = self._memory, self._numbers[start:end], bool(self._varied[group])
        # A single content stands for all rows.
        contents = self._contents[start : (start + 1 if self._uniform[group] else end)].to_pylist()
        key = self._templates[start:end].tobytes()
        if varied:
            key += b"|" + memory.signatures.pattern(numbers)
        vhost = memory.signatures.example_of(int(numbers[0])).vhost
        names = memory.headers_looked_at(vhost)
        if len(contents) > 1:
            order: dict[str, int] = {}
            key += b"|" + bytes(order.setdefault(content, len(order)) for content in contents)
        headers = [looked_at(content, names) for content in contents]
        if any(headers):
            key += b"|" + _encode(headers)
        if refused:
            key += b"|refused" + _encode(sorted(refused.items()))
        known = memory.remembered.get(key)
        if known is not None:
            return known
        lineage = memory.lineage(vhost)
        steps = []
        for place, number in enumerate(numbers.tolist()):
            at = place if len(contents) > 1 else 0
            fits = _after(refused.get(place, 0))
            step = memory.step(lineage, number, contents[at], headers[at], fits)
            steps.append(
                (
                    memory.number(step.verdict),
                    memory.clock.number(step.times),
                    memory.dead_ends.number(step.dead_ends),
                    memory.delivery_number(step.delivery),
                )
            )
        found = np.array(steps, dtype=np.int32).T
        tells_values = any(self._tells_values(n, varied, len(contents) > 1) for n, *_ in steps if n >= 0)
        if len(memory.remembered) < REMEMBERED_MAX and not tells_values:
            memory.remembered[key] = found
        return found

    def _tells_values(self, number: int, varied: bool, several: bool) -> bool:
        """Tell whether a verdict shows values that another message of the same pattern does not have."""
        verdict = self._memory.verdict(number)
        fields = [] if verdict is None else [difference.field for difference in verdict.differences]
        shows_content = any(field.startswith(("properties.", "headers.")) for field in fields)
        return bool(varied and fields) or (several and shows_content)

    def _stepped(self, start: int, end: int) -> None:
        """Find the verdicts on a message that is long, or may go on in the next batch."""
        key = self._keys[start].as_py()
        vhost = self._memory.signatures.row(int(self._numbers[start])).vhost
        if self.open is None or self.open.key != key:
            self.open = OpenMessage(key, vhost, self._memory)
        names = self._memory.headers_looked_at(vhost)
        for row in range(start, end):
            content = self._contents[row].as_py()
            headers = looked_at(content, names)
            step = self.open.step(self._times, row, int(self._numbers[row]), content, headers)
            self._verdicts[row] = self._memory.number(step.verdict)
            self._dead_ends[row] = self._memory.dead_ends.number(step.dead_ends)
            self._deliveries[row] = self._memory.delivery_number(step.delivery)

    def _tell_times(self) -> None:
        """Put into the verdicts what times and lengths leave unchecked or refute."""
        memory, marks = self._memory, self._times.marks
        for row in marks.unchecked().tolist():
            self._verdicts[row] = memory.marked(int(self._verdicts[row]), self._vhost(row), marks.unchecked_at(row))
        for row in self._times.refuted(finally_=True).tolist():
            queue = memory.signatures.example(int(self._templates[row])).queue or ""
            self._verdicts[row] = memory.refuted(int(self._verdicts[row]), self._vhost(row), queue, marks.fault_at(row))

    def _vhost(self, row: int) -> str:
        return self._memory.signatures.example(int(self._templates[row])).vhost

    def begins_with(self, key: str) -> bool:
        """Tell whether the batch begins with rows of that message."""
        return bool(self._keys[0].as_py() == key)

    def columns(self) -> _Columns:
        """Return the rows with their verdicts; of the last row it is not known whether its message goes on."""
        memory, batch = self._memory, self._batch
        used_verdicts, verdict_index = np.unique(self._verdicts, return_inverse=True)
        used_templates, row_index = np.unique(self._templates, return_inverse=True)
        rows = [memory.signatures.example(template) for template in used_templates.tolist()]
        columns = {name: batch.column(name) for name in (LINEAGE, "time_us", "file", "line")}
        columns["first"] = self._marked(self._starts[1 if self._continued else 0 :])
        columns["last"] = self._marked(self._ends[:-1] - 1)
        for name in ("event", "vhost", "queue"):
            columns[name] = pa.array([getattr(row, name) for row in rows], pa.string()).take(pa.array(row_index))
        columns["exchange"] = pa.array([row.visible.exchange for row in rows]).take(pa.array(row_index))
        verdicts = [memory.verdict(number) for number in used_verdicts.tolist()]
        columns |= verdict_columns(verdicts, verdict_index, self._times.bounds())
        columns["dead_ends"] = dead_end_column(memory.dead_ends.values, self._dead_ends)
        columns["shown"] = shown_column(self._newly_shown(), batch.num_rows)
        return columns

    def _newly_shown(self) -> dict[int, list[Shown]]:
        """Return by row the rules that a delivery which agrees is the first to show."""
        both = self._verdicts.astype(np.int64) << 32 | self._deliveries
        found: dict[int, list[Shown]] = {}
        for row in np.sort(np.unique(both, return_index=True)[1]).tolist():
            verdict = self._memory.verdict(int(self._verdicts[row]))
            if verdict is not None and verdict.name == "agree":
                found[row] = self._memory.newly_shown(int(self._deliveries[row]))
        return found

    def _marked(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        marked = np.zeros(len(self._verdicts), dtype=bool)
        marked[rows] = True
        return marked


def _finished(columns: _Columns, *, goes_on: bool) -> pa.RecordBatch:
    """Return the output batch. ``goes_on``: its last message has more rows in the next one."""
    columns["last"][-1] = not goes_on
    columns |= {name: pa.array(columns[name]) for name in ("first", "last")}
    return pa.RecordBatch.from_arrays([columns[field.name] for field in OUTPUT], schema=OUTPUT)


def _after(refused: int) -> Fits:
    """Return what takes the first explanation after so many."""
    return lambda number, _times: number >= refused


def _numbers(memory: Memory, column: Any) -> Ints:
    """Return a number for the signature of each row."""
    encoded = pc.dictionary_encode(column)
    known = memory.signatures.numbers(encoded.dictionary.to_pylist())
    numbers: Ints = known[encoded.indices.to_numpy(zero_copy_only=False)]
    return numbers


def _facts(batch: pa.RecordBatch, expirations_us: npt.NDArray[np.int64]) -> Facts:
    times = batch.column("x_death_times")
    offsets = times.offsets.to_numpy().astype(np.int64)
    known = times.values.fill_null(-1).to_numpy(zero_copy_only=False)
    return Facts(batch.column("time_us").to_numpy(), expirations_us, offsets[:-1], np.diff(offsets), known)


def _starts(keys: Any) -> npt.NDArray[np.int64]:
    """Return the index at which the rows of each message start."""
    changed = pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1)).to_numpy(zero_copy_only=False)
    return np.concatenate(([0], np.flatnonzero(changed) + 1))


def _uniform(contents: Any, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Tell for each message whether all its rows have the same content."""
    changed = np.zeros(len(contents), dtype=bool)
    if len(contents) > 1:
        other = pc.not_equal(contents.slice(1), contents.slice(0, len(contents) - 1))
        changed[1:] = other.to_numpy(zero_copy_only=False)
    changed[starts] = False
    return ~np.logical_or.reduceat(changed, starts)
