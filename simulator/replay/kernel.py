"""Replays column batches: rows in, the same rows with a verdict out.

The rows of a message must follow each other, in order, within one partition
(``simulator.replay.plan`` sees to it). Each row is reduced to one string, its
signature, of which a real log has few; a message is then a short sequence of
signature numbers, and messages with equal sequences have equal verdicts. So the
work per message is one dictionary look-up, and the rules run once per sequence.
Messages whose properties or user headers change on the way are stepped one by one.
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
from simulator.events import Event
from simulator.replay.attribution import AttributingLineage
from simulator.replay.explain import Explainer
from simulator.replay.message_rows import Lineage
from simulator.replay.row_codec import CONTENT, LINEAGE, SIGNATURE, read_content
from simulator.replay.schema import OUTPUT, verdict_array
from simulator.replay.signatures import Ints, Signatures
from simulator.replay.verdicts import Verdict

REMEMBERED_ROWS_MAX = 256
"""Messages with more rows are stepped, not remembered."""
REMEMBERED_MAX = 200_000
"""How many sequences, templates and states are kept; beyond that they are worked out again."""

_encode = msgspec.json.Encoder(order="deterministic").encode


class Kernel:
    """Replays the batches of one partition, and keeps what it has worked out from batch to batch."""

    def __init__(self, topologies: Mapping[str | None, Topology], rules: Release, captured_on: Release | None) -> None:
        self._topologies = topologies
        self._rules = rules
        self._captured_on = captured_on
        self._open: tuple[str, Lineage] | None = None
        self._begin()

    def _begin(self) -> None:
        self._explainers: dict[str, Explainer] = {}
        self._signatures = Signatures()
        self._verdicts: list[Verdict] = []
        self._verdict_numbers: dict[Verdict, int] = {}
        self._remembered: dict[bytes, Ints] = {}

    def replay(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one output batch for each input batch."""
        for batch in batches:
            if batch.num_rows:
                self._forget()
                yield self._batch(batch)

    def _forget(self) -> None:
        """Keep memory bounded on logs in which little repeats."""
        states = sum(explainer.size for explainer in self._explainers.values())
        if max(states, len(self._verdicts), self._signatures.template_count) > REMEMBERED_MAX:
            self._begin()
        self._signatures.forget()

    def _batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        numbers = self._numbers(batch.column(SIGNATURE))
        templates = self._signatures.templates(numbers)
        keys, contents = batch.column(LINEAGE), batch.column(CONTENT)
        starts = _starts(keys)
        ends = np.append(starts[1:], batch.num_rows)
        uniform = _uniform(contents, starts)
        varied = np.logical_or.reduceat(self._signatures.having_expirations(numbers), starts)
        verdicts = np.full(batch.num_rows, -1, dtype=np.int32)
        continued = self._open is not None and self._open[0] == keys[0].as_py()
        last = len(starts) - 1
        for group, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            whole = group != last and not (group == 0 and continued)
            if whole and end - start <= REMEMBERED_ROWS_MAX:
                key = templates[start:end].tobytes()
                if varied[group]:
                    key += b"|" + self._signatures.pattern(numbers[start:end])
                several = contents[start : (start + 1 if uniform[group] else end)].to_pylist()
                verdicts[start:end] = self._sequence(key, numbers[start:end], several, bool(varied[group]))
            else:
                verdicts[start:end] = self._stepped(numbers, keys, contents, start, end)
        is_first = np.zeros(batch.num_rows, dtype=bool)
        is_first[starts[1 if continued else 0 :]] = True
        return self._output(batch, templates, verdicts, is_first)

    def _numbers(self, column: Any) -> Ints:
        """Return a number for the signature of each row."""
        encoded = pc.dictionary_encode(column)
        known = self._signatures.numbers(encoded.dictionary.to_pylist())
        numbers: Ints = known[encoded.indices.to_numpy(zero_copy_only=False)]
        return numbers

    def _sequence(self, key: bytes, numbers: Ints, contents: list[str], varied: bool) -> Ints:
        """Return the verdicts on a whole message; a single content stands for all of its rows."""
        explainer = self._explainer(self._signatures.example_of(int(numbers[0])).vhost)
        if len(contents) > 1:
            order: dict[str, int] = {}
            key += b"|" + bytes(order.setdefault(content, len(order)) for content in contents)
        headers = [_looked_at(content, explainer) for content in contents]
        if any(headers):
            key += b"|" + _encode(headers)
        known = self._remembered.get(key)
        if known is not None:
            return known
        lineage = None if explainer is None else self._lineage(explainer)
        steps = []
        for index, number in enumerate(numbers.tolist()):
            at = index if len(contents) > 1 else 0
            steps.append(self._step(lineage, number, contents[at], headers[at]))
        found = np.array(steps, dtype=np.int32)
        tells_values = any(self._tells_values(n, varied, len(contents) > 1) for n in steps if n >= 0)
        if len(self._remembered) < REMEMBERED_MAX and not tells_values:
            self._remembered[key] = found
        return found

    def _tells_values(self, number: int, varied: bool, several: bool) -> bool:
        """Tell whether a verdict shows values that another message of the same pattern does not have."""
        fields = [difference.field for difference in self._verdicts[number].differences]
        shows_content = any(field.startswith(("properties.", "headers.")) for field in fields)
        return bool(varied and fields) or (several and shows_content)

    def _stepped(self, numbers: Ints, keys: Any, contents: Any, start: int, end: int) -> list[int]:
        """Return the verdicts on a message that is long, changes its content, or may go on in the next batch."""
        key = keys[start].as_py()
        explainer = self._explainer(self._signatures.row(int(numbers[start])).vhost)
        if self._open is None or self._open[0] != key:
            self._open = None if explainer is None else (key, self._lineage(explainer))
        lineage = None if self._open is None else self._open[1]
        found = []
        for index in range(start, end):
            content = contents[index].as_py()
            headers = _looked_at(content, explainer)
            found.append(self._step(lineage, int(numbers[index]), content, headers))
        return found

    def _step(self, lineage: Lineage | None, number: int, content: str, headers: Mapping[str, Any]) -> int:
        row = self._signatures.row(number)
        if lineage is None:
            if row.event != Event.DELIVERED:
                return -1
            return self._number(Verdict("unexplained", f"virtual host '{row.vhost}' is not in the definitions"))
        verdict = lineage.step(row, content, headers)
        return -1 if verdict is None else self._number(verdict)

    def _number(self, verdict: Verdict) -> int:
        number = self._verdict_numbers.get(verdict)
        if number is None:
            number = self._verdict_numbers[verdict] = len(self._verdicts)
            self._verdicts.append(verdict)
        return number

    def _explainer(self, vhost: str) -> Explainer | None:
        if vhost not in self._explainers:
            topology = self._topologies.get(vhost, self._topologies.get(None))
            if topology is None:
                return None
            self._explainers[vhost] = Explainer(topology, self._rules)
        return self._explainers[vhost]

    def _lineage(self, explainer: Explainer) -> Lineage:
        return AttributingLineage(explainer, self._captured_on)

    def _output(self, batch: pa.RecordBatch, templates: Ints, verdicts: Ints, is_first: Any) -> pa.RecordBatch:
        used_verdicts, verdict_index = np.unique(verdicts, return_inverse=True)
        used_templates, row_index = np.unique(templates, return_inverse=True)
        rows = [self._signatures.example(template) for template in used_templates.tolist()]
        columns = {name: batch.column(name) for name in (LINEAGE, "time_us", "file", "line")}
        columns["first"] = pa.array(is_first)
        for name in ("event", "vhost", "queue"):
            columns[name] = pa.array([getattr(row, name) for row in rows], pa.string()).take(pa.array(row_index))
        columns["exchange"] = pa.array([row.visible.exchange for row in rows]).take(pa.array(row_index))
        found = verdict_array([None if n < 0 else self._verdicts[n] for n in used_verdicts.tolist()])
        taken = found.take(pa.array(verdict_index))
        # flatten, not field: a row without a verdict has null in all of its columns.
        columns |= dict(zip((field.name for field in found.type), taken.flatten(), strict=True))
        return pa.RecordBatch.from_arrays([columns[field.name] for field in OUTPUT], schema=OUTPUT)


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


def _looked_at(content: str, explainer: Explainer | None) -> dict[str, Any]:
    """Return the user headers that the topology's headers exchanges compare."""
    if explainer is None or not explainer.headers_looked_at:
        return {}
    headers = msgspec.json.decode(read_content(content)[1])
    return {name: headers[name] for name in explainer.headers_looked_at if name in headers}
