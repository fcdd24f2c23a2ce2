"""Generated logs of some size: Spark gives the rows of the local engine, however they are spread, and after a crash.

``DLX_GENERATED_EVENTS=100000 pytest tests/replay/test_spark_generated.py`` takes so many events in all tests.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from simulator.capture.codes import Codes, read_codes
from simulator.generate import Wish, generate
from simulator.generate.traffic import Diversity
from simulator.replay import replay, scan, spark_session
from simulator.replay.engines import spark as plan
from simulator.replay.engines.local import REPLAYED, replay_files
from simulator.replay.engines.spark import ReplayStep
from simulator.replay.rows.tables import Database
from tests.long import some_in_ci
from tests.replay.logs import example_definitions

pytestmark = pytest.mark.spark

DEFINITIONS = example_definitions("4.3")
EVENTS = os.environ.get("DLX_GENERATED_EVENTS")
BATCH_ROWS = 500


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = spark_session("local[2,2]")  # a task may fail once
    session.conf.set("spark.sql.adaptive.enabled", "false")  # it would join small partitions
    yield session
    session.stop()


def generated(folder: Path, events: int, diversity: Diversity) -> list[str]:
    """Write a log with some faults, and return its files."""
    generate(Wish(DEFINITIONS.to_json(), int(EVENTS or events), diversity=diversity, faults=20), folder)
    return [str(file) for file in folder.glob("log-*.parquet")]


def here(files: list[str], work: Path) -> pa.Table:
    """What the local engine says."""
    with Database(work) as database:
        replay_files(database.parquet(files), DEFINITIONS, verdicts=work / "verdicts.parquet")
    return in_order(pa.parquet.read_table(work / "verdicts.parquet"))


def on_spark(spark: SparkSession, files: list[str], partitions: int, codes: Codes | None = None) -> pa.Table:
    """What Spark says of the rows in another order, from so many partitions."""
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    captured = scan(spark, files, coded=codes is not None).orderBy(F.xxhash64("line"))
    replayed = replay(captured, DEFINITIONS, codes=codes)
    found = replayed.withColumn("partition", F.spark_partition_id()).toArrow()
    assert len(set(found.column("partition").to_pylist())) == partitions
    return in_order(found)


def in_order(table: pa.Table) -> pa.Table:
    """All columns, without ``shown``: which row is the first to show a rule depends on the partitions."""
    found = table.select(REPLAYED.names).cast(REPLAYED).drop_columns(["shown"])
    return found.sort_by([("file", "ascending"), ("line", "ascending")]).combine_chunks()


def test_100_000_events_are_replayed_alike(spark: SparkSession, tmp_path: Path) -> None:
    files = generated(tmp_path, 100_000, "low")
    expected = here(files, tmp_path)
    assert {"agree", "differ"} <= set(expected.column("verdict").to_pylist())
    assert on_spark(spark, files, 2).equals(expected)
    codes = read_codes(files)
    assert codes is not None
    assert on_spark(spark, files, 2, codes).equals(expected)


@pytest.fixture(scope="module")
def diverse(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], pa.Table]:
    """A log in which hardly two messages are alike, and what the local engine says of it."""
    folder = tmp_path_factory.mktemp("diverse")
    files = generated(folder, 4_000, "high")
    return files, here(files, folder)


@pytest.fixture(scope="module", params=["texts", "codes"])
def codes(diverse: tuple[list[str], pa.Table], request: pytest.FixtureRequest) -> Codes | None:
    """None, or the codes of the log, whose files share few of them."""
    found = read_codes(diverse[0])
    assert found is not None
    return found if request.param == "codes" else None


@pytest.mark.parametrize("partitions", some_in_ci([1, 2, 7, 64], [7]))
def test_partitions_change_nothing(
    spark: SparkSession, diverse: tuple[list[str], pa.Table], partitions: int, codes: Codes | None
) -> None:
    files, expected = diverse
    assert on_spark(spark, files, partitions, codes).equals(expected)


def test_a_task_whose_worker_is_killed_gives_the_same_rows(
    spark: SparkSession,
    diverse: tuple[list[str], pa.Table],
    codes: Codes | None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    class Killed(ReplayStep):
        """Gives Spark two batches, and is killed; the next attempt is not."""

        def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for number, batch in enumerate(ReplayStep.__call__(self, batches)):
                task: Any = TaskContext.get()
                if number == 2 and task.attemptNumber() == 0:
                    (tmp_path / str(task.partitionId())).touch()
                    os.kill(os.getpid(), signal.SIGKILL)
                yield batch

    files, expected = diverse
    monkeypatch.setattr(plan, "ReplayStep", Killed)
    usual = spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(BATCH_ROWS))
    try:
        found = on_spark(spark, files, 2, codes)
    finally:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(usual))
    assert len(list(tmp_path.iterdir())) == 2  # both were killed
    assert found.equals(expected)
