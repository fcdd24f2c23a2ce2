"""The Spark plan of a repair: messages with deliveries that are not as predicted become sequences, and these a repair.

Spark brings the rows of a message together and counts those that look alike; what
remains is small, and is repaired in the driver.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from simulator.definitions import Definitions, parse_definitions
from simulator.replay.kernel.kernel_input import ORDER, rows_with_verdicts
from simulator.replay.repair.repair_report import Repairs
from simulator.replay.repair.repairs import Repairing
from simulator.replay.repair.sequences import Gathered, RowSequence, chosen_messages, gathered
from simulator.replay.rows.row_codec import LINEAGE

_OUTPUT = pa.schema([("sequence", pa.binary()), ("left_out", pa.int64())])


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
    chosen, passed_over = chosen_messages(replayed)
    rows = rows_with_verdicts(captured, replayed, chosen).repartition(LINEAGE).sortWithinPartitions(*ORDER)
    step = GatherStep(definitions, rules)
    parts = rows.mapInArrow(step, from_arrow_schema(_OUTPUT)).toLocalIterator()
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
