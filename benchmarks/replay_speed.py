"""How much the replay step costs: the Spark plan with it, against the same plan with an identity function.

    python benchmarks/replay_speed.py [--rows 2000000] [--rounds 3] [--master 'local[*]']

Both plans read the same Parquet, bring the rows of a message together, sort them
and take the same columns through Python; only the function differs. They run in
turn in one process; the ratio of the medians is the figure.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from simulator.capture import convert
from simulator.definitions import Definitions, read_definitions
from simulator.replay import replay, scan, spark_session
from simulator.replay.plan import arranged

EXAMPLE = Path(__file__).parent.parent / "examples" / "captured-4.3"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--master", default="local[*]")
    options = parser.parse_args()
    definitions = read_definitions(EXAMPLE / "definitions.json")
    spark = spark_session(options.master, "replay benchmark")
    with tempfile.TemporaryDirectory(prefix="dlx-benchmark-") as folder:
        captured = scan(spark, [str(many_rows(spark, Path(folder), options.rows))])
        measure(captured, definitions, options.rounds)
    spark.stop()


def many_rows(spark: SparkSession, folder: Path, rows: int) -> Path:
    """The example, copied under other message identities until there are enough rows, shuffled by time."""
    convert([EXAMPLE / "trace.log.gz"], folder / "example.parquet")
    have = pq.read_metadata(folder / "example.parquet").num_rows
    copies = spark.range(-(-rows // have)).withColumnRenamed("id", "copy")
    one = spark.read.parquet(str(folder / "example.parquet"))
    several = one.crossJoin(F.broadcast(copies)).withColumns(
        {
            "message": F.concat("message", F.lit("-"), "copy"),
            "time_us": F.col("time_us") + F.col("copy") * 1000,
        }
    )
    several.drop("copy").limit(rows).write.parquet(str(folder / "rows.parquet"))
    return folder / "rows.parquet"


def measure(captured: DataFrame, definitions: Definitions, rounds: int) -> None:
    """Print the times of both plans and their ratio."""
    rows = captured.count()
    plain = arranged(captured)
    plans: dict[str, DataFrame] = {
        "scan and sort": plain,
        "identity": plain.mapInArrow(_identity, plain.schema),
        "replay": replay(captured, definitions, "4.3"),
    }
    times: dict[str, list[float]] = {name: [] for name in plans}
    for _ in range(rounds):
        for name, plan in plans.items():
            times[name].append(_seconds(lambda plan=plan: plan.write.format("noop").mode("overwrite").save()))
    for name, seconds in times.items():
        middle = statistics.median(seconds)
        shown = " ".join(f"{each:.1f}" for each in seconds)
        print(f"{name:>14}: {middle:6.1f} s  {rows / middle:>11,.0f} rows/s  ({shown})")
    ratio = statistics.median(times["replay"]) / statistics.median(times["identity"])
    print(f"replay / identity = {ratio:.2f}  ({rows:,} rows, {rounds} rounds)")


def _identity(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def _seconds(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
