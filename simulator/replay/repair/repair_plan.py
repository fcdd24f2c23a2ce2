"""The Spark plan of a repair: messages with deliveries that are not as predicted become sequences, and these a repair.

Some of the other messages come along: they tell when definitions changed, and where publishes go.
Spark brings the rows of a message together and counts those that look alike; what
remains is small, and is repaired in the driver.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from simulator.definitions import Definitions, parse_definitions
from simulator.events import Event
from simulator.replay.repair.repairing import Repairing
from simulator.replay.repair.sequences import Gathered, Sequence, gathered
from simulator.replay.repair.told import Repairs
from simulator.replay.row_codec import (
    CONTENT,
    LINEAGE,
    SIGNATURE,
    content_column,
    lineage_column,
    signature_column,
)

BAD_MAX = 100_000
"""Messages with such deliveries that are looked at, about; of more, a sample."""
OTHERS_MAX = 20_000
"""Other messages that come along, about."""
_OUTPUT = pa.schema([("sequence", pa.binary()), ("left_out", pa.int64())])
_ROW = ["vhost", "message", "file", "line", "time_us"]


class GatherStep:
    """Gathers the sequences of a partition. Small to ship: it takes the definitions as JSON."""

    def __init__(self, definitions: Definitions, rules: str) -> None:
        self._definitions = definitions.to_json()
        self._rules = rules

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        repairing = Repairing(parse_definitions(self._definitions, "definitions"), self._rules)
        found = repairing.gather(batches)
        rows = [{"sequence": msgspec.msgpack.encode(sequence), "left_out": 0} for sequence in found.sequences]
        yield pa.RecordBatch.from_pylist([*rows, {"sequence": None, "left_out": found.left_out}], schema=_OUTPUT)


def repair(captured: DataFrame, replayed: DataFrame, definitions: Definitions, rules: str) -> Repairs:
    """Return what may be behind the deliveries that are not as predicted.

    ``captured`` are the captured rows, ``replayed`` is what ``plan.replay`` made of them.
    """
    chosen, passed_over = _chosen(replayed)
    verdicts = replayed.join(chosen, ["vhost", "message"]).select(*_ROW, "verdict", "differences")
    rows = (
        captured.join(verdicts, _ROW)
        .select(
            lineage_column().alias(LINEAGE),
            signature_column().alias(SIGNATURE),
            content_column().alias(CONTENT),
            *_ROW[2:],
            "verdict",
            "differences",
        )
        .repartition(LINEAGE)
        .sortWithinPartitions(LINEAGE, "time_us", "file", "line")
    )
    step = GatherStep(definitions, rules)
    parts = rows.mapInArrow(step, from_arrow_schema(_OUTPUT)).toLocalIterator()
    return Repairing(definitions, rules).repaired(_gathered(parts, passed_over))


def _chosen(replayed: DataFrame) -> tuple[DataFrame, int]:
    """Return the messages to look at, and how many others have deliveries that are not as predicted."""
    is_bad = (F.col("event") == Event.DELIVERED) & F.col("verdict").isin("differ", "unexplained")
    bad = F.max(is_bad).alias("bad")
    messages = replayed.groupBy("vhost", "message").agg(F.coalesce(bad, F.lit(False)).alias("bad"))
    counts = {row["bad"]: row["count"] for row in messages.groupBy("bad").count().toArrow().to_pylist()}
    every = {True: _every(counts.get(True, 0), BAD_MAX), False: _every(counts.get(False, 0), OTHERS_MAX)}
    place = F.xxhash64("vhost", "message")
    of_all = F.pmod(place, F.when(F.col("bad"), F.lit(every[True])).otherwise(F.lit(every[False])))
    chosen = messages.where(of_all == 0)
    passed_over = messages.where(F.col("bad") & (of_all != 0)).count() if every[True] > 1 else 0
    return chosen.select("vhost", "message"), passed_over


def _every(count: int, most: int) -> int:
    """Return that every so many-th is to be taken."""
    return max(1, -(-count // most))


def _gathered(parts: Iterator[object], passed_over: int) -> Gathered:
    left_out = passed_over

    def sequences() -> Iterator[Sequence]:
        nonlocal left_out
        for part in parts:
            left_out += part["left_out"]  # type: ignore[index]
            if part["sequence"] is not None:  # type: ignore[index]
                yield msgspec.msgpack.decode(part["sequence"], type=Sequence)  # type: ignore[index]

    found = gathered(sequences())
    return Gathered(found.sequences, found.left_out + left_out)
