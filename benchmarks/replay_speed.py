"""What the replay costs on Spark: the plan with it, against the same plan with an identity function.

    python benchmarks/replay_speed.py [--rows 2000000] [--rounds 3] [--master 'local[2]']
    python benchmarks/replay_speed.py cores [--rows 2000000] [--rounds 3]
    python benchmarks/replay_speed.py memory --rows 5000000 50000000 [--memory 4g]

Both plans read the same Parquet, bring the rows of a message together, sort them
and take the same columns through Python; only the function differs. There are two captures: the
captured example many times over, and generated messages of which hardly two are alike;
``--capture`` names folders of Parquet files to take instead. All sides run in turn; the ratios of
the medians are the figures. CPU time is that of Java and of all its Python workers.

``cores`` compares one core with two. ``memory`` shows how large the largest Python worker becomes,
while Java has no more than ``--memory``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from process_tree import cpu_seconds, largest_megabytes
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from simulator.capture import convert
from simulator.definitions import Definitions, read_definitions
from simulator.generate import Wish, generate
from simulator.replay import replay, scan, spark_session
from simulator.replay.plan import arranged

EXAMPLE = Path(__file__).parent.parent / "examples" / "captured-4.3"
WORKER = "pyspark.daemon"


class Cost(NamedTuple):
    """The seconds that a run took: elapsed, and of CPU time in Java and in the Python workers."""

    wall: float
    java: float
    python: float

    @property
    def cpu(self) -> float:
        """CPU time of all processes."""
        return self.java + self.python


Side = Callable[[], Cost]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", choices=("identity", "cores", "memory"), default="identity")
    parser.add_argument("--rows", type=int, nargs="+", default=[2_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--memory", default="4g", help="the heap of Spark's driver, which is all of it here")
    parser.add_argument("--capture", type=Path, action="append", default=[], help="a folder of Parquet files")
    options = parser.parse_args()
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-memory {options.memory} pyspark-shell"
    definitions = read_definitions(EXAMPLE / "definitions.json")
    with tempfile.TemporaryDirectory(prefix="dlx-benchmark-") as name:
        folder = Path(name)
        if options.what == "memory":
            memory(definitions, options.rows, options.master, folder)
            return
        (rows,) = options.rows
        for capture in options.capture or (many_rows(folder / "alike", rows), diverse_rows(folder / "diverse", rows)):
            print(f"{capture.name}: {rows_of(capture):,} rows", flush=True)
            if options.what == "identity":
                identity(capture, definitions, options.master, options.rounds)
            else:
                cores(capture, definitions, options.rounds)


def identity(capture: Path, definitions: Definitions, master: str, rounds: int) -> None:
    """Compare the replay with the identity plan."""
    with session(master) as spark:
        captured = scan(spark, [str(capture)])
        plain = arranged(captured)
        plans = {
            "scan and sort": plain,
            "identity": plain.mapInArrow(_identity, plain.schema),
            "replay": replay(captured, definitions, "4.3"),
        }
        costs = measured({name: _run(plan) for name, plan in plans.items()}, rounds)
    show("replay / identity", costs["replay"], costs["identity"])


def cores(capture: Path, definitions: Definitions, rounds: int) -> None:
    """Compare one core with two."""

    def side(master: str) -> Side:
        def run() -> Cost:
            with session(master) as spark:  # its workers end with it: they are looked at before
                return _run(replay(scan(spark, [str(capture)]), definitions, "4.3"))()

        return run

    costs = measured({master: side(master) for master in ("local[1]", "local[2]")}, rounds)
    show("one core / two", costs["local[1]"], costs["local[2]"])


def memory(definitions: Definitions, sizes: Sequence[int], master: str, folder: Path) -> None:
    """Show how large a worker becomes with logs of these sizes."""
    for rows in sizes:
        capture = many_rows(folder / str(rows), rows)
        with session(master) as spark:
            start = time.perf_counter()
            _run(replay(scan(spark, [str(capture)]), definitions, "4.3"))()
            took, largest = time.perf_counter() - start, largest_megabytes(WORKER)
        print(f"{rows:>11,} rows: {took:7.1f} s, largest worker {largest:,.0f} MB", flush=True)


@contextmanager
def session(master: str) -> Iterator[SparkSession]:
    """Yield a session of its own, with workers of its own."""
    spark = spark_session(master, "replay benchmark")
    try:
        yield spark
    finally:
        spark.stop()


def many_rows(folder: Path, rows: int) -> Path:
    """Write the example under other message identities and a second later, until there are enough rows."""
    example = folder.with_suffix(".parquet")
    convert([EXAMPLE / "trace.log.gz"], example)
    with session("local[2]") as spark:
        copies = spark.range(0, -(-rows // pq.read_metadata(example).num_rows), 1, 8).withColumnRenamed("id", "copy")
        several = copies.crossJoin(F.broadcast(spark.read.parquet(str(example)))).withColumns(
            {
                "message": F.concat("message", F.lit("-"), "copy"),
                "time_us": F.col("time_us") + F.col("copy") * 1_000_000,
                "x_death_times": F.transform("x_death_times", lambda time: time + F.col("copy")),
            }
        )
        several.drop("copy").write.parquet(str(folder))
    return folder


def diverse_rows(folder: Path, rows: int) -> Path:
    """Generate a log of messages of which hardly two are alike."""
    folder.mkdir()
    generate(Wish((EXAMPLE / "definitions.json").read_bytes(), rows, diversity="high"), folder)
    return folder


def rows_of(capture: Path) -> int:
    """Return how many rows there are in a folder of Parquet files."""
    return sum(pq.read_metadata(file).num_rows for file in capture.glob("*.parquet"))


def measured(sides: Mapping[str, Side], rounds: int) -> dict[str, Cost]:
    """Run all sides in turn, after once for nothing; print and return the medians."""
    costs: dict[str, list[Cost]] = {name: [] for name in sides}
    for turn in range(rounds + 1):
        for name, side in sides.items():
            cost = side()
            if turn:
                costs[name].append(cost)
    found = {name: Cost(*map(statistics.median, zip(*each, strict=True))) for name, each in costs.items()}
    for name, cost in found.items():
        print(f"{name:>15}: {cost.wall:6.1f} s, CPU {cost.cpu:6.1f} s (Java {cost.java:.1f}, Python {cost.python:.1f})")
    return found


def show(what: str, one: Cost, other: Cost) -> None:
    """Print the ratio of two sides."""
    load = os.getloadavg()[0]
    print(f"{what} = {one.wall / other.wall:.2f}, CPU {one.cpu / other.cpu:.2f} (load {load:.1f})", flush=True)


def _run(plan: DataFrame) -> Side:
    return lambda: _cost(lambda: plan.write.format("noop").mode("overwrite").save())


def _identity(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def _cost(work: Callable[[], None]) -> Cost:
    before, start = _cpu(), time.perf_counter()
    work()
    wall, after = time.perf_counter() - start, _cpu()
    return Cost(wall, *(now - then for now, then in zip(after, before, strict=True)))


def _cpu() -> tuple[float, float]:
    return cpu_seconds("java"), cpu_seconds(WORKER)


if __name__ == "__main__":
    main()
