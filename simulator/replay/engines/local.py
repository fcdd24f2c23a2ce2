"""Replays without Spark, in this process: batches in memory, or Parquet files with bounded memory.

The kernel is the same, and so are the columns; only the sorting is done here, or by DuckDB.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dlx.deaths import MAXLEN
from dlx.releases import DEFAULT, release
from simulator.definitions import Definitions
from simulator.events import Event
from simulator.replay.checks.lengths import NO_ARRIVALS, Arrivals
from simulator.replay.kernel.arrivals import ARRIVALS, NUMBER, PUBLISHES, SIZE, ArrivalsCounter, collected, may_matter
from simulator.replay.kernel.batch_replay import Kernel
from simulator.replay.kernel.kernel_input import ORDER, in_order, kernel_rows, publishes, rows_with_verdicts
from simulator.replay.repair.repair_report import Repairs
from simulator.replay.repair.repairs import Repairing
from simulator.replay.repair.sequences import Gathered, chosen_messages
from simulator.replay.results.late_rows import lateness
from simulator.replay.rows.assumptions import (
    DEFAULT_ASSUMPTIONS,
    NO_LOST_ROWS,
    NOT_LATE,
    Assumptions,
    Lateness,
    LostRows,
    lost_rows,
)
from simulator.replay.rows.bodies import BODY, PAYLOAD, body_of
from simulator.replay.rows.row_codec import (
    CONTENT,
    LINEAGE,
    SIGNATURE,
    read_messages,
    write_content,
    write_lineage,
    write_signatures,
)
from simulator.replay.rows.schema import INPUT, OUTPUT
from simulator.replay.rows.tables import Database, LocalTable, rows, select, text
from simulator.replay.rows.topologies import exporting_release, topologies
from simulator.replay.rows.verdict_words import BAD

REPLAYED = pa.schema([field for field in OUTPUT if field.name != LINEAGE] + [("message", pa.string())])
"""The columns of ``replay_files``: ``OUTPUT``, with messages instead of lineages."""
_ORDER = [(name, "ascending") for name in ORDER]


def replay_table(
    captured: Iterable[pa.RecordBatch],
    definitions: Definitions,
    rules: str = DEFAULT,
    assumptions: Assumptions = DEFAULT_ASSUMPTIONS,
) -> pa.Table:
    """Replay captured batches (``simulator.capture.SCHEMA``); the columns are ``schema.OUTPUT``, sorted.

    If rows were written late, or some are lost, they are replayed once more, as ``dlx replay`` does (``late_rows``,
    ``lost_rows``).
    """
    batches = [batch for batch in captured if batch.num_rows]
    hosts, judge = topologies(definitions), release(rules)
    arrivals = _arrivals(batches, ArrivalsCounter(hosts, judge)) if may_matter(hosts, judge) else NO_ARRIVALS
    rows = arranged_table(batches)

    def replayed(assumptions: Assumptions) -> pa.Table:
        kernel = Kernel(hosts, judge, exporting_release(definitions), assumptions, arrivals)
        return pa.Table.from_batches(list(kernel.replay(iter(rows.to_batches()))), schema=OUTPUT)

    found = replayed(assumptions)
    late, lost = _late_and_lost(batches, found)
    if late.stretches or lost.found_us:
        found = replayed(msgspec.structs.replace(assumptions, lateness=late, lost_rows=lost))
    return found


def _late_and_lost(captured: list[pa.RecordBatch], replayed: pa.Table) -> tuple[Lateness, LostRows]:
    """Return how late rows in memory may be, and where they lack others."""
    if all(verdict not in BAD for verdict in pc.unique(replayed["verdict"]).to_pylist()):
        return NOT_LATE, NO_LOST_ROWS
    with tempfile.TemporaryDirectory() as work, Database(Path(work)) as database:
        messages = pa.Table.from_batches(map(_with_message, replayed.to_batches()))
        found = database.arrow("replayed", messages)
        given = database.arrow("captured", pa.Table.from_batches(captured))
        return lateness(given, found), lost_rows(found, given)


def repair_table(
    captured: Iterable[pa.RecordBatch],
    definitions: Definitions,
    rules: str = DEFAULT,
    assumptions: Assumptions = DEFAULT_ASSUMPTIONS,
) -> Repairs:
    """Replay captured batches, and return what may be behind the deliveries that are not as predicted."""
    batches = list(captured)
    rows, replayed = arranged_table(batches), replay_table(batches, definitions, rules, assumptions)
    for name in (SIGNATURE, CONTENT):
        replayed = replayed.append_column(name, rows.column(name))
    repairing = Repairing(definitions, rules)
    return repairing.repaired(repairing.gather(replayed.to_batches()))


def replay_files(
    captured: LocalTable,
    definitions: Definitions,
    rules: str = DEFAULT,
    assumptions: Assumptions = DEFAULT_ASSUMPTIONS,
    *,
    verdicts: Path,
    replayed: Callable[[int], object] = int,
    message: str | None = None,
) -> LocalTable:
    """Replay a capture of any size into the Parquet file ``verdicts``, as ``spark.replay`` does.

    ``replayed`` is called with the number of rows done. With ``message``, only its rows are: the rest is counted.
    """
    kernel = kernel_of(captured, definitions, rules, assumptions)
    if message is not None:
        captured = select(f"SELECT * FROM {{captured}} WHERE message = {text(message)}", captured=captured)
    done = 0
    with pq.ParquetWriter(verdicts, REPLAYED) as writer:
        for batch in kernel.replay(_in_order(captured)):
            writer.write_batch(_with_message(batch))
            done += batch.num_rows
            replayed(done)
    return captured.database.parquet([verdicts])


def kernel_of(
    captured: LocalTable,
    definitions: Definitions,
    rules: str,
    assumptions: Assumptions = DEFAULT_ASSUMPTIONS,
    *,
    details: bool = True,
) -> Kernel:
    """Return what replays the messages of a capture, of which it has counted what came into queues with a limit.

    ``details`` is that of ``Kernel``.
    """
    hosts, judge = topologies(definitions), release(rules)
    published = publishes(captured, hosts, judge)
    arrivals = NO_ARRIVALS if published is None else _counted(published.batches(), ArrivalsCounter(hosts, judge))
    exporting = exporting_release(definitions)
    return Kernel(hosts, judge, exporting, assumptions, arrivals, details=details)


def _in_order(captured: LocalTable) -> Iterator[pa.RecordBatch]:
    """Yield what the kernel takes."""
    for batch in in_order(kernel_rows(captured)).batches():
        yield batch.select(INPUT.names).cast(INPUT)


def _with_message(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with its messages instead of its lineages."""
    messages = read_messages(batch.column(LINEAGE), batch.column("vhost"))
    return batch.drop_columns([LINEAGE]).append_column("message", pa.array(messages, pa.string()))


def arranged_table(captured: Iterable[pa.RecordBatch]) -> pa.Table:
    """Return what the kernel takes, as ``spark.arranged`` does: the rows of a message together and in order."""
    arranged = [_arranged(batch) for batch in captured if batch.num_rows]
    return pa.Table.from_batches(arranged, schema=INPUT).sort_by(_ORDER).combine_chunks()


def _arranged(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = {name: batch.column(name) for name in ("time_us", "file", "line", "x_death_times", "redelivered")}
    columns[BODY] = list(map(body_of, *(batch.column(name).to_pylist() for name in ("message_id", PAYLOAD))))
    columns[LINEAGE] = _written(batch, write_lineage, "vhost", "message")
    columns[SIGNATURE] = write_signatures(batch)
    columns[CONTENT] = _written(batch, write_content, "properties", "headers")
    return pa.RecordBatch.from_pydict({field.name: columns[field.name] for field in INPUT}, schema=INPUT)


def _written(batch: pa.RecordBatch, write: Callable[[str, str], str], one: str, other: str) -> list[str]:
    return list(map(write, batch.column(one).to_pylist(), batch.column(other).to_pylist()))


def _arrivals(batches: list[pa.RecordBatch], counter: ArrivalsCounter) -> Arrivals:
    """Return what can have come into queues with a length limit, if any message was dropped for that."""
    if not any(pc.any(pc.match_substring(batch.column("x_death"), MAXLEN)).as_py() for batch in batches):
        return NO_ARRIVALS
    return _counted(map(published_rows, batches), counter)


def _counted(published: Iterable[pa.RecordBatch], counter: ArrivalsCounter) -> Arrivals:
    counted = [counter.count(batch.cast(PUBLISHES)) for batch in published]
    return collected(pa.Table.from_batches(counted, schema=ARRIVALS))


def published_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return ``arrivals.PUBLISHES`` for a captured batch."""
    batch = batch.filter(pc.equal(batch.column("event"), Event.PUBLISHED.value))
    columns = {
        SIGNATURE: write_signatures(batch),
        CONTENT: _written(batch, write_content, "properties", "headers"),
        "time_us": batch.column("time_us"),
        NUMBER: np.ones(batch.num_rows, np.int64),
        SIZE: pc.binary_length(batch.column("payload")).cast(pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns, schema=PUBLISHES)


# Replays in this process: in bounded memory, and without Spark's start.


class LocalEngine:
    """What a replay asks of an engine (``simulator.replay.run.Engine``), in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, captures: Sequence[str]) -> LocalTable:
        """Return the rows of captures."""
        return self._database.parquet(captures)

    def replay(
        self,
        captured: LocalTable,
        definitions: Definitions,
        rules: str,
        assumptions: Assumptions,
        folder: Path,
        done: Callable[[float], object],
    ) -> LocalTable:
        """Replay into a folder of Parquet files; ``done`` is called with the share of the work done."""
        folder.mkdir()
        (counted,) = rows("SELECT count(*) AS rows FROM {captured}", captured=captured)

        def count(rows: int) -> None:
            done(rows / counted["rows"])

        file = folder / "part-0.parquet"
        return replay_files(captured, definitions, rules, assumptions, verdicts=file, replayed=count)

    def repair(self, captured: LocalTable, replayed: LocalTable, definitions: Definitions, rules: str) -> Repairs:
        """Return what may be behind the deliveries that are not as predicted."""
        chosen, passed_over = chosen_messages(replayed)
        repairing = Repairing(definitions, rules)
        found = repairing.gather(in_order(rows_with_verdicts(captured, replayed, chosen)).batches())
        return repairing.repaired(Gathered(found.sequences, found.left_out + passed_over))

    def write(self, table: LocalTable, folder: Path) -> LocalTable:
        """Write a table into a folder of Parquet files, and return it from there."""
        folder.mkdir()
        table.write(folder / "part-0.parquet")
        return self._database.parquet([folder / "part-0.parquet"])


@contextmanager
def local_engine(work: Path) -> Iterator[LocalEngine]:
    """Yield an engine that keeps in ``work`` what exceeds its memory."""
    with Database(work) as database:
        yield LocalEngine(database)
