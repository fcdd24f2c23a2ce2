"""Replays on Spark: for logs of any size, on one machine or many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from simulator.capture.codes import Codes, read_codes
from simulator.definitions import Definitions
from simulator.replay.assumptions import Assumptions
from simulator.replay.plan import replay, scan
from simulator.replay.repair.repair_plan import repair
from simulator.replay.repair.told import Repairs
from simulator.replay.spark_progress import telling

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
        """Replay into a folder of Parquet files; ``done`` is told which share of the work is done."""
        with telling(self._spark, STAGES, done):
            replay(captured, definitions, rules, assumptions, self._codes).write.parquet(str(folder))
        return self._spark.read.parquet(str(folder))

    def repair(self, captured: DataFrame, replayed: DataFrame, definitions: Definitions, rules: str) -> Repairs:
        """Return what may be behind the deliveries that are not as predicted."""
        return repair(captured, replayed, definitions, rules)

    def write(self, table: DataFrame, folder: Path) -> None:
        """Write a table into a folder of Parquet files."""
        table.write.parquet(str(folder))
