"""Replays column batches: rows in, the same rows with a verdict out.

The rows of a message must follow each other, in order, within one partition
(``simulator.replay.engines.spark`` sees to it). Each row is reduced to one string, its
signature, of which a real log has few; a message is then a short sequence of
signature numbers, and messages with equal sequences have equal verdicts. So columns
show which messages of a batch are alike (``simulator.replay.rows.columns``), Python looks up one
of each kind, and the rules run once per sequence.
Times are not part of it: ``simulator.replay.checks.times`` judges those of all rows at once,
and where they refute a verdict, the sequence is looked up again without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dlx.releases import Release
from dlx.topology import Topology
from simulator.events import Event
from simulator.replay.checks.lengths import NO_ARRIVALS, Arrivals
from simulator.replay.checks.path_times import UNKNOWN, PathTimes
from simulator.replay.checks.times import FLAG_UNKNOWN, NO_FAULT, Facts, HopMarks, Judged, Refutation, RowTimes, Stays
from simulator.replay.coverage.shown import RuleAtQueue
from simulator.replay.kernel.message_verdicts import DISORDERED, LOST, Fits, RowVerdict, not_checked
from simulator.replay.kernel.output import dead_end_column, misfit_column, shown_column, verdict_columns
from simulator.replay.kernel.verdict_cache import NO_VERDICT, Found, Memory
from simulator.replay.rows.assumptions import DEFAULT_ASSUMPTIONS, Assumptions, Lateness
from simulator.replay.rows.bodies import BODY, Bodies
from simulator.replay.rows.columns import Ints, alike_rows, alike_sequences, alike_within, firsts, places_of
from simulator.replay.rows.row_codec import CONTENT, LINEAGE, SIGNATURE, looked_at
from simulator.replay.rows.schema import OUTPUT
from simulator.replay.rows.verdict_words import BAD

REMEMBERED_ROWS_MAX = 256
"""Messages with more rows are stepped, not remembered."""

_Columns = dict[str, Any]
TEMPLATE, HEADERS, REPEATS, REFUSED = range(4)
"""What the verdicts on a row depend on, by number (``_Batch._look``)."""


class Kernel:
    """Replays the batches of a log, partition by partition, and keeps what it has worked out.

    ``details``: whether it also finds which rules deliveries are the first to show, which behaviours explain what
    differs, and how copies may be lost. Where little repeats that takes longer than the verdicts.
    """

    def __init__(
        self,
        topologies: Mapping[str | None, Topology],
        rules: Release,
        captured_on: Release | None,
        assumptions: Assumptions = DEFAULT_ASSUMPTIONS,
        arrivals: Arrivals = NO_ARRIVALS,
        *,
        details: bool = True,
    ) -> None:
        self._memory = Memory(
            topologies,
            rules,
            captured_on,
            assumptions,
            arrivals,
            details=details,
        )
        self._open: OpenMessage | None = None

    def allow_for(self, lateness: Lateness) -> None:
        """Judge the next rows as ones that may be so late: at first as the assumptions say."""
        self._memory.lateness = lateness

    def replay(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one output batch for each input batch of a partition, when the next one has come.

        The batches are all rows of their messages: the first one does not go on with a message of an earlier call.
        """
        self._open = None
        self._memory.begin_rows()
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
        self._numbers = memory.signatures.of(batch.column(SIGNATURE))
        self._templates = memory.signatures.templates(self._numbers)
        self._starts = _starts(self._keys)
        self._lengths = np.diff(self._starts, append=batch.num_rows)
        self._continued = open_ is not None and open_.key == self._keys[0].as_py()
        self._looks = np.zeros((4, batch.num_rows), dtype=np.int32)
        self._verdicts = np.full(batch.num_rows, NO_VERDICT, dtype=np.int32)
        self._dead_ends = np.zeros(batch.num_rows, dtype=np.int32)
        self._deliveries = np.zeros(batch.num_rows, dtype=np.int32)
        self._misfits: dict[int, tuple[Refutation, str]] = {}
        late_us = memory.lateness.of(batch.column("file"), batch.column("time_us").to_numpy())
        facts = _facts(batch, late_us, memory.signatures.expirations_us(self._numbers))
        self._times = RowTimes(memory.clock, facts)
        self._replay()
        self._tell_lost_rows()
        self._tell_times()

    def _replay(self) -> None:
        """Find the verdict of each row, and hold it against the times."""
        whole = self._lengths <= REMEMBERED_ROWS_MAX
        whole[-1] = False
        if self._continued:
            whole[0] = False
        for group in np.flatnonzero(~whole).tolist():
            self._stepped(group)
        self._look(np.flatnonzero(whole))
        self._look_up(np.flatnonzero(whole))
        self._look_further()
        for group in np.flatnonzero(whole & self._vary(self._batch.column(BODY))).tolist():
            self._tell_bodies(self._rows(group), Bodies())

    def _vary(self, column: Any) -> npt.NDArray[np.bool_]:
        """Return which messages have several values in a column."""
        varied: npt.NDArray[np.bool_] = np.logical_or.reduceat(_changes(column, self._starts), self._starts)
        return varied

    def _tell_bodies(self, rows: slice, bodies: Bodies) -> None:
        """Put into the verdicts on rows of one message what their bodies say."""
        memory = self._memory
        found = self._batch.column(BODY)[rows].to_pylist()
        for row, body in enumerate(found, rows.start):
            example = memory.signatures.example(int(self._templates[row]))
            verdict = memory.verdict(int(self._verdicts[row]))
            self._verdicts[row] = memory.number(bodies.judged(example.event, body, example.queue or "", verdict))

    def _look(self, groups: Ints) -> None:
        """Note what the verdicts on whole messages depend on, row by row: messages alike in it have equal verdicts.

        That is the row's template, the user headers that exchanges compare, how the values that templates leave
        out and the contents repeat, and how many verdicts on the row its times have refuted.
        """
        signatures = self._memory.signatures
        self._several = self._vary(self._contents)
        self._varied = np.logical_or.reduceat(signatures.having_values(self._numbers), self._starts)
        self._looks[TEMPLATE] = self._templates
        self._look_at_headers()
        self._look_at_repeats(groups[self._several[groups] | self._varied[groups]])

    def _look_at_headers(self) -> None:
        memory, vhosts = self._memory, self._memory.signatures.vhosts()
        for vhost in set(vhosts):
            names = memory.headers_looked_at(vhost)
            if names:
                rows = np.flatnonzero(np.array([each == vhost for each in vhosts])[self._templates])
                contents = self._contents.take(pa.array(rows)).dictionary_encode()
                numbers = [memory.headers_number(looked_at(each, names)) for each in contents.dictionary.to_pylist()]
                self._looks[HEADERS, rows] = np.array(numbers, np.int32)[contents.indices.to_numpy()]

    def _look_at_repeats(self, groups: Ints) -> None:
        rows, place = places_of(self._starts[groups], self._lengths[groups])
        if not len(rows):
            return
        group = np.cumsum(place == 0)
        contents = self._contents.take(pa.array(rows)).dictionary_encode()
        values, counts = self._memory.signatures.numbered_values(self._numbers[rows])
        lengths = counts + 1
        repeats = np.empty(lengths.sum(), np.int64)
        of_content = np.cumsum(lengths) - lengths
        repeats[of_content] = alike_within(group, contents.indices.to_numpy().astype(np.int64))
        repeats[places_of(of_content + 1, counts)[0]] = alike_within(np.repeat(group, counts), values)
        self._looks[REPEATS, rows] = self._memory.repeats(repeats, lengths)

    def _look_up(self, groups: Ints) -> None:
        """Find the verdicts on whole messages, and hold them against the times of their rows."""
        if not len(groups):
            return
        lengths = self._lengths[groups]
        rows, place = places_of(self._starts[groups], lengths)
        found, which = self._found(groups, alike_sequences(alike_rows(*self._looks[:, rows]), lengths))
        sizes = np.array([each.shape[1] for each in found])
        taken = np.concatenate(found, axis=1)[:, np.repeat((np.cumsum(sizes) - sizes)[which], lengths) + place]
        self._verdicts[rows], asked, self._dead_ends[rows], self._deliveries[rows] = taken
        self._times.judge(rows, asked.astype(np.int64), place)

    def _found(self, groups: Ints, numbers: Ints) -> tuple[list[Found], Ints]:
        """Return what is found out about messages, and which of it belongs to each; equal numbers share it."""
        first = firsts(numbers)
        both = [self._sequence(group) for group in groups[first].tolist()]
        found = [each for each, _ in both]
        which = numbers.copy()
        alone = np.isin(numbers, [number for number, (_, shared) in enumerate(both) if not shared])
        alone[first] = False
        for place in np.flatnonzero(alone).tolist():
            which[place] = len(found)
            found.append(self._sequence(int(groups[place]))[0])
        return found, which

    def _look_further(self) -> None:
        """Take the next verdict where the times of a message refute one, until they refute no more."""
        while len(rows := self._times.refuted(finally_=False)):
            groups, first = np.unique(np.searchsorted(self._starts, rows, side="right") - 1, return_index=True)
            self._looks[REFUSED, rows[first]] += 1
            self._look_up(groups)

    def _rows(self, group: int) -> slice:
        start = int(self._starts[group])
        return slice(start, start + int(self._lengths[group]))

    def _sequence(self, group: int) -> tuple[Found, bool]:
        """Return the verdicts on a whole message, and whether those alike share them.

        They are the verdicts by number; below them what they ask of the times, dead ends, and deliveries.
        """
        memory, key = self._memory, self._looks[:, self._rows(group)].tobytes()
        known = memory.remembered.get(key)
        if known is not None:
            return known, True
        found = self._explained(group)
        shared = self._tells_nothing_of_its_own(group, found)
        if shared:
            memory.remembered[key] = found
        return found, shared

    def _explained(self, group: int) -> Found:
        """Apply the rules to a whole message."""
        memory, rows = self._memory, self._rows(group)
        numbers, contents = self._numbers[rows].tolist(), self._contents[rows].to_pylist()
        vhost = memory.signatures.example_of(numbers[0]).vhost
        names, lineage = memory.headers_looked_at(vhost), memory.lineage(vhost)
        steps = []
        for number, content, refused in zip(numbers, contents, self._looks[REFUSED, rows].tolist(), strict=True):
            step = memory.step(lineage, number, content, looked_at(content, names), _after(refused))
            steps.append(
                (
                    memory.number(step.verdict),
                    memory.clock.number(step.times),
                    memory.dead_ends.number(step.dead_ends),
                    memory.delivery_number(step.delivery),
                )
            )
        return np.array(steps, dtype=np.int32).T

    def _tells_nothing_of_its_own(self, group: int, found: Found) -> bool:
        """Return whether those alike share what was found out about a message."""
        verdicts, _, dead_ends, _ = found.tolist()
        varied, several = bool(self._varied[group]), bool(self._several[group])
        if any(self._tells_values(number, varied, several) for number in verdicts):
            return False
        return not (varied and self._names_values(group, set(dead_ends)))

    def _tells_values(self, number: int, varied: bool, several: bool) -> bool:
        """Return whether a verdict shows values that another message of the same pattern does not have."""
        verdict = self._memory.verdict(number)
        fields = [] if verdict is None else [difference.field for difference in verdict.differences]
        shows_content = any(field.startswith(("properties.", "headers.")) for field in fields)
        return bool(varied and fields) or (several and shows_content)

    def _names_values(self, group: int, dead_ends: set[int]) -> bool:
        """Return whether dead ends name keys that templates leave out."""
        why = {end.why for number in dead_ends for end in self._memory.dead_ends.values[number]}
        values = {value for each in self._memory.signatures.values(self._numbers[self._rows(group)]) for value in each}
        return any(value in text for text in why for value in values)

    def _stepped(self, group: int) -> None:
        """Find the verdicts on a message that is long, or may go on in the next batch."""
        start = int(self._starts[group])
        key = self._keys[start].as_py()
        vhost = self._memory.signatures.row(int(self._numbers[start])).vhost
        if self.open is None or self.open.key != key:
            self.open = OpenMessage(key, vhost, self._memory)
        names = self._memory.headers_looked_at(vhost)
        for row in range(start, start + int(self._lengths[group])):
            content = self._contents[row].as_py()
            headers = looked_at(content, names)
            step = self.open.step(self._times, row, int(self._numbers[row]), content, headers)
            self._verdicts[row] = self._memory.number(step.verdict)
            self._dead_ends[row] = self._memory.dead_ends.number(step.dead_ends)
            self._deliveries[row] = self._memory.delivery_number(step.delivery)
        self._tell_bodies(self._rows(group), self.open.bodies)

    def _tell_lost_rows(self) -> None:
        """Leave unchecked what is not as predicted, but not by time, where the log may lack rows of the message.

        So too where it has rows of the message in another order.
        """
        memory, marks = self._memory, self._times.marks
        lost = memory.lost_rows
        if not (lost.found_us or lost.disordered):
            return
        used, index = _used(self._verdicts)
        bad = np.array([(found := memory.verdict(each)) is not None and found.name in BAD for each in used])
        rows = np.flatnonzero(bad[index] & (marks.fault == NO_FAULT))
        first = self._starts[np.searchsorted(self._starts, rows, side="right") - 1]
        times_us = self._times.facts.time_us
        lacking = lost.between(times_us[first], times_us[rows])
        at_once = np.cumsum(np.diff(times_us, prepend=times_us[:1] - 1) == 0)
        told = lacking | ((at_once[rows] > at_once[first]) & lost.disordered)
        for row, why in zip(rows[told].tolist(), np.where(lacking, LOST, DISORDERED)[told].tolist(), strict=True):
            if memory.signatures.example(int(self._templates[row])).event == Event.DELIVERED:
                self._verdicts[row] = memory.number(not_checked("publish", self._queue(row), why))
                self._deliveries[row] = memory.delivery_number(None)
                self._times.numbers[row] = memory.clock.number(UNKNOWN)

    def _tell_times(self) -> None:
        """Put into the verdicts what times and lengths leave unchecked or refute."""
        memory, marks = self._memory, self._times.marks
        rows = marks.unchecked()
        if len(rows):
            told = (self._verdicts, self._templates, *marks[: len(HopMarks._fields)])
            numbers = alike_rows(*(each[rows] for each in told))
            marked = [
                memory.marked(int(self._verdicts[row]), self._vhost(row), self._queue(row), marks.unchecked_at(row))
                for row in rows[firsts(numbers)].tolist()
            ]
            self._verdicts[rows] = np.array(marked, np.int32)[numbers]
        for row in self._times.refuted(finally_=True).tolist():
            fault = marks.fault_at(row)
            number, queue = int(self._verdicts[row]), self._queue(row)
            self._misfits[row] = fault, memory.queue_of(fault, number, queue)
            self._verdicts[row] = memory.refuted(number, self._vhost(row), queue, fault)

    def _vhost(self, row: int) -> str:
        return self._memory.signatures.example(int(self._templates[row])).vhost

    def _queue(self, row: int) -> str:
        return self._memory.signatures.example(int(self._templates[row])).queue or ""

    def begins_with(self, key: str) -> bool:
        """Return whether the batch begins with rows of that message."""
        return bool(self._keys[0].as_py() == key)

    def columns(self) -> _Columns:
        """Return the rows with their verdicts; of the last row it is not known whether its message goes on."""
        memory, batch = self._memory, self._batch
        used_verdicts, verdict_index = _used(self._verdicts)
        used_templates, row_index = _used(self._templates)
        rows = [memory.signatures.example(template) for template in used_templates]
        columns = {name: batch.column(name) for name in (LINEAGE, "time_us", "file", "line")}
        columns["first"] = self._marked(self._starts[1 if self._continued else 0 :])
        columns["last"] = self._marked(self._starts[1:] - 1)
        for name in ("event", "vhost", "queue"):
            columns[name] = pa.array([getattr(row, name) for row in rows], pa.string()).take(pa.array(row_index))
        columns["exchange"] = pa.array([row.visible.exchange for row in rows]).take(pa.array(row_index))
        verdicts = [memory.verdict(number) for number in used_verdicts]
        columns |= verdict_columns(verdicts, verdict_index, self._times.bounds())
        columns["source"] = pa.array(self._times.sources(), pa.int32())
        columns["dead_ends"] = dead_end_column(memory.dead_ends.values, self._dead_ends)
        columns["misfit"] = misfit_column(self._misfits, batch.num_rows)
        columns["shown"] = shown_column(self._newly_shown(), batch.num_rows)
        return columns

    def _newly_shown(self) -> dict[int, list[RuleAtQueue]]:
        """Return by row the rules that a delivery which agrees is the first to show."""
        found: dict[int, list[RuleAtQueue]] = {}
        for row in firsts(alike_rows(self._verdicts, self._deliveries)).tolist():
            verdict = self._memory.verdict(int(self._verdicts[row]))
            if verdict is not None and verdict.name == "agree":
                found[row] = self._memory.newly_shown(self._vhost(row), int(self._deliveries[row]))
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
    """Return a function that takes the first explanation after that many."""
    return lambda number, _times: number >= refused


def _used(numbers: npt.NDArray[np.int32]) -> tuple[list[int], Ints]:
    """Return the numbers that there are, once each, and which of them stands in each place."""
    which = alike_rows(numbers)
    return numbers[firsts(which)].tolist(), which


def _facts(batch: pa.RecordBatch, late_us: Ints, expirations_us: npt.NDArray[np.int64]) -> Facts:
    times = batch.column("x_death_times")
    offsets = times.offsets.to_numpy().astype(np.int64)
    known = times.values.fill_null(-1).to_numpy(zero_copy_only=False)
    flags = batch.column("redelivered").cast(pa.int8()).fill_null(FLAG_UNKNOWN).to_numpy(zero_copy_only=False)
    times_us = batch.column("time_us").to_numpy()
    return Facts(times_us, late_us, expirations_us, offsets[:-1], np.diff(offsets), known, flags)


def _starts(keys: Any) -> Ints:
    """Return the index at which the rows of each message start."""
    changed = pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1)).to_numpy(zero_copy_only=False)
    return np.concatenate(([0], np.flatnonzero(changed) + 1))


def _changes(contents: Any, starts: Ints) -> npt.NDArray[np.bool_]:
    """Return which rows have another content than the row of the same message before them."""
    changed = np.zeros(len(contents), dtype=bool)
    if pa.types.is_dictionary(contents.type):
        contents = contents.indices
    if len(contents) > 1:
        other = pc.not_equal(contents.slice(1), contents.slice(0, len(contents) - 1))
        changed[1:] = other.to_numpy(zero_copy_only=False)
    changed[starts] = False
    return changed


# A message whose rows are taken one by one: its next ones may come in another batch, or it has very many.


class OpenMessage:
    """A message and what its rows so far have shown.

    Attributes:
        key: the lineage that its rows have.
        bodies: what its bodies have been so far.
    """

    def __init__(self, key: str, vhost: str, memory: Memory) -> None:
        self.key = key
        self.bodies = Bodies()
        self._memory = memory
        self._lineage = memory.lineage(vhost)
        self._stays: list[tuple[int, ...]] = []
        self._facts: list[tuple[int, int, tuple[int, ...]]] = []  # small: there may be very many

    def step(self, times: RowTimes, row: int, number: int, content: str, headers: Mapping[str, Any]) -> RowVerdict:
        """Take a row of a batch, and put what its times say into ``times``."""
        memory = self._memory

        def fits(_number: int, asked: PathTimes) -> bool:
            return bool(self._judged(times, row, asked).marks.fault[0] == NO_FAULT)

        step = memory.step(self._lineage, number, content, headers, fits)
        judged = self._judged(times, row, step.times)
        times.put(np.array([row]), judged)
        times.numbers[row] = memory.clock.number(step.times)
        self._stays.append(tuple(int(each[0]) for each in judged.stays))
        self._facts.append(times.facts.kept(row))
        return step

    def _judged(self, times: RowTimes, row: int, asked: PathTimes) -> Judged:
        rows, clock = np.array([row]), self._memory.clock
        numbers = np.array([clock.number(asked)])
        source, earlier = self._stay(asked.source), self._stay(asked.earlier)
        of_source = Facts.of_kept(*(self._facts[-asked.source] if asked.source else times.facts.kept(row)))
        return clock.judge(rows, numbers, times.facts.at(rows), source, of_source, earlier)

    def _stay(self, back: int) -> Stays:
        """Return the stay that a row showed, counted backwards from this one; any if ``back`` is 0."""
        stay = self._stays[-back] if back else (0,) * len(Stays._fields)
        return Stays(*(np.array([moment]) for moment in stay))
