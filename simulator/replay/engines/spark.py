"""Replays on Spark: the plan, what runs on each partition, and the engine."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

import dlx
import simulator
from dlx.releases import DEFAULT, release
from simulator.capture.codes import CODED, Codes, read_codes
from simulator.definitions import Definitions, parse_definitions
from simulator.replay.checks.lengths import NO_ARRIVALS, Arrivals
from simulator.replay.engines.spark_sessions import telling
from simulator.replay.kernel.arrivals import ARRIVALS, ARRIVED, ArrivalsCounter, collected
from simulator.replay.kernel.batch_replay import Kernel
from simulator.replay.kernel.kernel_input import (
    ORDER,
    Texts,
    decoded,
    kernel_rows,
    publishes,
    rows_with_verdicts,
    texts_of,
)
from simulator.replay.repair.repair_report import Repairs
from simulator.replay.repair.repairs import Repairing
from simulator.replay.repair.sequences import Gathered, RowSequence, chosen_messages, gathered
from simulator.replay.rows.assumptions import DEFAULT_ASSUMPTIONS, Assumptions
from simulator.replay.rows.row_codec import LINEAGE, MESSAGE_SQL
from simulator.replay.rows.schema import OUTPUT
from simulator.replay.rows.topologies import exporting_release, topologies

# The functions that Spark runs on each partition.


class ReplayStep:
    """Replays the batches of a partition. Small to ship: it takes the definitions as JSON.

    ``codes``: the batches have these, and not the texts that they encode, which are written here, once, and
    go along; as for ``ArrivalsStep``.
    """

    def __init__(
        self,
        definitions: Definitions,
        rules: str,
        assumptions: Assumptions,
        arrivals: Arrivals,
        codes: Codes | None,
        *,
        details: bool,
    ) -> None:
        self._definitions = definitions.to_json()
        self._details = details
        self._rules = rules
        self._assumptions = assumptions
        self._arrivals = arrivals
        self._texts = None if codes is None else texts_of(codes)
        self._id = uuid4()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kernel = _idle.pop(self._id, None) or self._kernel()
        yield from kernel.replay(_in_texts(batches, self._texts))
        _idle.clear()
        _idle[self._id] = kernel

    def _kernel(self) -> Kernel:
        definitions = parse_definitions(self._definitions, "definitions")
        hosts, captured_on = topologies(definitions), exporting_release(definitions)
        return Kernel(
            hosts, release(self._rules), captured_on, self._assumptions, self._arrivals, details=self._details
        )


_idle: dict[UUID, Kernel] = {}
"""The kernel of this worker, by the step that made it, while no partition is replayed: the next one goes on with it."""


class ArrivalsStep:
    """Counts what the publishes of a partition can have put into queues with a length limit."""

    def __init__(self, definitions: Definitions, rules: str, codes: Codes | None) -> None:
        self._definitions = definitions.to_json()
        self._rules = rules
        self._texts = None if codes is None else texts_of(codes)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        definitions = parse_definitions(self._definitions, "definitions")
        counter = ArrivalsCounter(topologies(definitions), release(self._rules))
        return map(counter.count, _in_texts(batches, self._texts))


def _in_texts(batches: Iterator[pa.RecordBatch], texts: Texts | None) -> Iterator[pa.RecordBatch]:
    return batches if texts is None else map(partial(decoded, texts=texts), batches)


# The Spark plan: a DataFrame of captured rows in, the same rows with verdicts out.
#
# Rows are brought together by message, sorted within their partition, and handed to the kernel as Arrow batches of
# seven columns; Python compares numbers and looks at few of the rows. Without RDDs, collects and groups per key, the
# plan runs locally, on a cluster and over Spark Connect.


_HASH = "hash"


def replay(
    captured: DataFrame,
    definitions: Definitions,
    rules: str = DEFAULT,
    assumptions: Assumptions = DEFAULT_ASSUMPTIONS,
    codes: Codes | None = None,
) -> DataFrame:
    """Replay captured rows (``simulator.capture.SCHEMA``) under the rules of a release.

    The result has every row, its columns are ``simulator.replay.rows.schema.OUTPUT``,
    plus ``message``; deliveries have a verdict, publishes only where the broker routed
    them elsewhere. Raises ``UnknownReleaseError``.

    ``codes`` are those of the captures (``simulator.capture.codes.read_codes``), if all of ``captured`` has them,
    and rows are as they were read: what was changed since is not seen.

    If messages died of a length limit, a first pass over the publishes runs at once, before
    the plan is returned: it counts what can have been in the queues.
    """
    step = replay_step(captured, definitions, rules, assumptions, codes)
    rows = kernel_rows(captured, coded=codes is not None)
    replayed = arranged(rows).mapInArrow(step, from_arrow_schema(OUTPUT))
    return replayed.withColumn("message", F.expr(MESSAGE_SQL)).drop(LINEAGE)


def replay_step(
    captured: DataFrame,
    definitions: Definitions,
    rules: str,
    assumptions: Assumptions = DEFAULT_ASSUMPTIONS,
    codes: Codes | None = None,
    *,
    details: bool = True,
) -> ReplayStep:
    """Return what replays the partitions of ``arranged`` rows; see ``replay`` for the arguments, and the first pass."""
    arrivals = _arrivals(captured, definitions, rules, codes)
    return ReplayStep(definitions, release(rules).name, assumptions, arrivals, codes, details=details)


def _arrivals(captured: DataFrame, definitions: Definitions, rules: str, codes: Codes | None) -> Arrivals:
    """Return what can have come into queues with a length limit, if any message was dropped for that."""
    published = publishes(captured, topologies(definitions), release(rules), codes)
    if published is None:
        return NO_ARRIVALS
    counted = published.mapInArrow(ArrivalsStep(definitions, rules, codes), from_arrow_schema(ARRIVALS))
    summed = counted.groupBy("vhost", "queue", "second").agg(*(F.sum(name).alias(name) for name in ARRIVED))
    return collected(summed.toArrow())


def arranged(rows: DataFrame) -> DataFrame:
    """Return rows of the kernel, those of a message together and in order, the messages in any order.

    Hashes first: Spark compares integers faster than texts that begin alike. The rest separates equal hashes.
    """
    hashed = rows.withColumn(_HASH, F.xxhash64(LINEAGE))
    return hashed.repartition(_HASH).sortWithinPartitions(_HASH, *ORDER).drop(_HASH)


def ship(spark: SparkSession) -> None:
    """Send this package to the session's workers, which need only its dependencies installed."""
    archive = Path(tempfile.mkdtemp(prefix="dlx-")) / "dlx_package.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for package in (dlx, simulator):
            root = Path(str(package.__file__)).parent
            for file in sorted(root.rglob("*")):
                if file.is_file() and "__pycache__" not in file.parts:
                    packed.write(file, file.relative_to(root.parent))
    spark.addArtifacts(str(archive), pyfile=True)


def scan(spark: SparkSession, paths: list[str], *, coded: bool = False) -> DataFrame:
    """Read captured Parquet files as a DataFrame with only the columns that a replay needs.

    ``coded``: with their codes, which all of them have.
    """
    wanted: list[Any] = [
        *("time_us", "file", "line", "event", "vhost", "exchange", "queue", "routing_keys", "message", "message_id"),
        *("expiration", "properties", "headers", "broker_headers", "x_death", "x_death_times", "redelivered"),
        *("routed_queues", "payload"),
    ]
    if coded:
        wanted += CODED
    return spark.read.parquet(*paths).select(*wanted)


# Repairs on Spark: messages with deliveries that are not as predicted become sequences, and these a repair.
#
# Spark brings the rows of a message together and counts those that look alike. What remains is small, and is repaired
# in the driver.


_GATHERED = pa.schema([("sequence", pa.binary()), ("left_out", pa.int64())])


class GatherStep:
    """Gathers the sequences of a partition. Small to ship: it takes the definitions as JSON."""

    def __init__(self, definitions: Definitions, rules: str) -> None:
        self._definitions = definitions.to_json()
        self._rules = rules

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        repairing = Repairing(parse_definitions(self._definitions, "definitions"), self._rules)
        found = repairing.gather(batches)
        rows = [{"sequence": msgspec.msgpack.encode(sequence), "left_out": 0} for sequence in found.sequences]
        yield pa.RecordBatch.from_pylist([*rows, {"sequence": None, "left_out": found.left_out}], schema=_GATHERED)


def repair(captured: DataFrame, replayed: DataFrame, definitions: Definitions, rules: str) -> Repairs:
    """Return what may be behind the deliveries that are not as predicted.

    ``captured`` are the captured rows, ``replayed`` is what ``replay`` made of them.
    """
    chosen, passed_over = chosen_messages(replayed)
    rows = rows_with_verdicts(captured, replayed, chosen).repartition(LINEAGE).sortWithinPartitions(*ORDER)
    step = GatherStep(definitions, rules)
    parts = rows.mapInArrow(step, from_arrow_schema(_GATHERED)).toLocalIterator()
    return Repairing(definitions, rules).repaired(_gathered(parts, passed_over))


def _gathered(parts: Iterator[object], passed_over: int) -> Gathered:
    left_out = passed_over

    def sequences() -> Iterator[RowSequence]:
        nonlocal left_out
        for part in parts:
            left_out += part["left_out"]  # type: ignore[index]
            if part["sequence"] is not None:  # type: ignore[index]
                yield msgspec.msgpack.decode(part["sequence"], type=RowSequence)  # type: ignore[index]

    found = gathered(sequences())
    return Gathered(found.sequences, found.left_out + left_out)


# Replays on Spark: for logs of any size, on one machine or many.


STAGES = 2
"""Stages of a replay: rows are read and brought together, and then replayed."""


class SparkEngine:
    """What a replay asks of an engine (``simulator.replay.run.Engine``), on a Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._codes: Codes | None = None

    def read(self, captures: Sequence[str]) -> DataFrame:
        """Return the rows of captures, which are those that are replayed next."""
        self._codes = read_codes(captures)
        return scan(self._spark, list(captures), coded=self._codes is not None)

    def replay(
        self,
        captured: DataFrame,
        definitions: Definitions,
        rules: str,
        assumptions: Assumptions,
        folder: Path,
        done: Callable[[float], object],
    ) -> DataFrame:
        """Replay into a folder of Parquet files; ``done`` is called with the share of the work done."""
        with telling(self._spark, STAGES, done):
            replay(captured, definitions, rules, assumptions, self._codes).write.parquet(str(folder))
        return self._spark.read.parquet(str(folder))

    def repair(self, captured: DataFrame, replayed: DataFrame, definitions: Definitions, rules: str) -> Repairs:
        """Return what may be behind the deliveries that are not as predicted."""
        return repair(captured, replayed, definitions, rules)

    def write(self, table: DataFrame, folder: Path) -> DataFrame:
        """Write a table into a folder of Parquet files, and return it from there."""
        table.write.parquet(str(folder))
        return self._spark.read.parquet(str(folder))
