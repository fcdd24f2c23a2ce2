"""What the replay costs on Spark: the plan with it, against the same plan with an identity function.

    python benchmarks/replay_speed.py [--rows 2000000] [--rounds 3] [--master 'local[2]']
    python benchmarks/replay_speed.py cores [--rows 2000000] [--rounds 3]
    python benchmarks/replay_speed.py memory --rows 5000000 50000000 [--memory 4g]

All plans read the same Parquet, bring the rows of a message together and sort them. The identity plan does so
by the message's name, and its function gets the same columns as the replay. "moved alone" is the identity on rows
that are arranged as the replay arranges them. The replay is measured without the codes that a capture may have,
and with them, their digest included. There are two captures: the captured example many times over, and generated
messages of which hardly two are alike; ``--capture`` names folders of Parquet files to take instead. All sides
run in turn; the ratios of the medians are the figures. CPU time is that of Java and of all its Python workers.

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
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from process_tree import Usage
from pyspark.sql import DataFrame, SparkSession

from simulator.capture import convert, read_capture
from simulator.capture.codes import Coder, DigestingFile, read_codes
from simulator.capture.parquet import FILE_SCHEMA
from simulator.definitions import Definitions, read_definitions
from simulator.generate import Wish, generate
from simulator.replay import replay, scan, spark_session
from simulator.replay.engines.spark import arranged
from simulator.replay.kernel.kernel_input import ORDER, kernel_rows
from simulator.replay.rows.row_codec import LINEAGE

EXAMPLE = Path(__file__).parent.parent / "examples" / "captured-4.3"
WORKER = "pyspark.daemon"
FILES = 8
COPIES_IN_GROUP = 16  # 66,000 rows


class Cost(NamedTuple):
    """The seconds that a run took: elapsed, and of CPU time in Java and in the Python workers; the largest worker."""

    wall: float
    java: float
    python: float
    megabytes: float

    @property
    def cpu(self) -> float:
        """CPU time of all processes."""
        return self.java + self.python

    def __str__(self) -> str:
        """Return the figures in words."""
        return f"{self.wall:6.1f} s, CPU {self.cpu:6.1f} s (Java {self.java:.1f}, Python {self.python:.1f})"


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
        rows = kernel_rows(captured)
        plain = rows.repartition(LINEAGE).sortWithinPartitions(*ORDER)
        plans: dict[str, Callable[[], DataFrame]] = {
            "identity": lambda: plain.mapInArrow(_identity, rows.schema),
            "moved alone": lambda: arranged(rows).mapInArrow(_identity, rows.schema),
            "replay": lambda: replay(captured, definitions, "4.3"),
        }
        if read_codes([capture]) is not None:
            plans["with codes"] = lambda: replay_with_codes(spark, capture, definitions)
        costs = measured({name: _run(plan) for name, plan in plans.items()}, rounds)
    show("replay / identity", costs["replay"], costs["identity"])
    if "with codes" in costs:
        show("replay with codes / identity", costs["with codes"], costs["identity"])


def replay_with_codes(spark: SparkSession, capture: Path, definitions: Definitions) -> DataFrame:
    """Plan the replay of a capture, all of whose files have codes."""
    captured = scan(spark, [str(capture)], coded=True)
    return replay(captured, definitions, "4.3", codes=read_codes([capture]))


def cores(capture: Path, definitions: Definitions, rounds: int) -> None:
    """Compare one core with two."""

    def side(master: str) -> Side:
        def run() -> Cost:
            with session(master) as spark:  # its workers end with it: they are looked at before
                return _run(lambda: replay(scan(spark, [str(capture)]), definitions, "4.3"))()

        return run

    costs = measured({master: side(master) for master in ("local[1]", "local[2]")}, rounds)
    show("one core / two", costs["local[1]"], costs["local[2]"])


def memory(definitions: Definitions, sizes: Sequence[int], master: str, folder: Path) -> None:
    """Show how large a worker becomes with logs of these sizes."""
    for rows in sizes:
        capture = many_rows(folder / str(rows), rows)
        with session(master) as spark:
            captured = scan(spark, [str(capture)])
            took = _run(partial(replay, captured, definitions, "4.3"))()
        print(f"{rows:>11,} rows: {took.wall:7.1f} s, largest worker {took.megabytes:,.0f} MB", flush=True)


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
    once = pa.Table.from_batches(read_capture(example)).combine_chunks().to_batches()[0]
    return write_often(folder, once, rows)


def write_often(folder: Path, once: pa.RecordBatch, rows: int, seconds: int = 1) -> Path:
    """Write these rows as those of other messages, each time so many seconds later, until there are enough."""
    copies = range(-(-rows // once.num_rows))
    folder.mkdir()
    for file in range(FILES):
        write_copies(folder / f"{file}.parquet", once, copies[file::FILES], seconds)
    return folder


def write_copies(path: Path, once: pa.RecordBatch, copies: range, seconds: int) -> None:
    """Write a capture of copies, whose codes are looked up once: neither identity nor time is in them."""
    coder, file = Coder(), DigestingFile(path)
    coded = coder.coded(once)
    with closing(file), pq.ParquetWriter(file, FILE_SCHEMA, compression="zstd") as writer:
        for some in range(0, len(copies), COPIES_IN_GROUP):
            group = [copied(coded, copy, seconds) for copy in copies[some : some + COPIES_IN_GROUP]]
            table = pa.Table.from_batches(group, FILE_SCHEMA)
            writer.write_table(table, row_group_size=table.num_rows)
        writer.add_key_value_metadata(coder.footer(file))


def copied(rows: pa.RecordBatch, copy: int, seconds: int) -> pa.RecordBatch:
    """Return the rows as those of other messages, so many seconds later for each copy."""
    times = rows.column("x_death_times")
    later = {
        "message": pc.binary_join_element_wise(rows.column("message"), str(copy), "-"),
        "time_us": pc.add(rows.column("time_us"), copy * seconds * 1_000_000),
        "x_death_times": pa.ListArray.from_arrays(
            times.offsets, pc.add(times.values, copy * seconds), type=times.type, mask=times.is_null()
        ),
    }
    for name, column in later.items():
        rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), column)
    return rows


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
            took = side()
            if turn:
                costs[name].append(took)
    found = {name: Cost(*map(statistics.median, zip(*each, strict=True))) for name, each in costs.items()}
    for name, median in found.items():
        print(f"{name:>15}: {median}", flush=True)
    return found


def show(what: str, one: Cost, other: Cost) -> None:
    """Print the ratio of two sides."""
    load = os.getloadavg()[0]
    print(f"{what} = {one.wall / other.wall:.2f}, CPU {one.cpu / other.cpu:.2f} (load {load:.1f})", flush=True)


def _run(plan: Callable[[], DataFrame]) -> Side:
    return lambda: cost(lambda: plan().write.format("noop").mode("overwrite").save())


def _identity(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def cost(work: Callable[[], object]) -> Cost:
    """Return what work takes."""
    start = time.perf_counter()
    with Usage() as used:
        work()
        wall = time.perf_counter() - start
    return Cost(wall, used.cpu_seconds("java"), used.cpu_seconds(WORKER), used.largest_megabytes(WORKER))


if __name__ == "__main__":
    main()
