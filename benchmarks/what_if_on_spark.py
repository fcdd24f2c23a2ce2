"""What asking "what if" costs on Spark, beside one replay there: long logs, and how large a Python worker becomes.

    python benchmarks/what_if_on_spark.py [--rows 1000000] [--master 'local[2]'] [--memory 4g]

The log is that of ``what_if_speed.py`` whose messages are played by themselves, many times over: other messages,
each time behind the last one. It is replayed, and asked about another waiting time. CPU time is that of Java and
of all its Python workers.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from process_tree import largest_megabytes
from replay_speed import WORKER, copied, cost, rows_of, session
from what_if_speed import ROWS, questions

from simulator.capture import SCHEMA
from simulator.replay import replay
from simulator.replay.whatif.answer import Answer
from simulator.replay.whatif.spark import what_if_on_spark
from simulator.replay.whatif.what_if import side_of

RELEASE = "4.3"
FILES = 8
COPIES_IN_GROUP = 8


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--memory", default="4g", help="the heap of Spark's driver, which is all of it here")
    options = parser.parse_args()
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-memory {options.memory} pyspark-shell"
    asked = questions(ROWS)
    asking = next(asked)  # the first one; the log is there as long as others could be asked for
    with tempfile.TemporaryDirectory(prefix="dlx-benchmark-") as name:
        log = Path(name) / "log"
        once = pa.Table.from_pylist(asking.log.to_list(), SCHEMA).combine_chunks().to_batches()[0]
        write_copies(log, once, -(-options.rows // once.num_rows))
        print(f"{rows_of(log):,} rows", flush=True)
        with session(options.master) as spark:
            captured = spark.read.parquet(str(log))
            plan = replay(captured, asking.one, RELEASE)
            replayed = cost(lambda: plan.write.format("noop").mode("overwrite").save())
        with session(options.master) as spark:
            captured = spark.read.parquet(str(log))
            sides = [side_of(each, RELEASE) for each in (asking.one, asking.other)]
            answers: list[Answer] = []
            took = cost(lambda: answers.append(what_if_on_spark(captured, *sides).answer))
            largest = largest_megabytes(WORKER)
    print(f"replay:  {replayed}", f"what if: {took}", f"ratio of CPU time: {took.cpu / replayed.cpu:.1f}", sep="\n")
    (answer,) = answers
    print(f"{answer.messages:,} messages, {answer.reproduced:,} reproduced, {answer.changed:,} end differently")
    print(f"largest Python worker: {largest:,.0f} MB")
    asked.close()


def write_copies(folder: Path, once: pa.RecordBatch, copies: int) -> None:
    """Write a log so many times, as other messages, one time behind the other."""
    times = once.column("time_us")
    seconds = (pc.max(times).as_py() - pc.min(times).as_py()) // 1_000_000 + 1
    folder.mkdir()
    for file in range(FILES):
        some = range(copies)[file::FILES]
        with pq.ParquetWriter(folder / f"{file}.parquet", SCHEMA, compression="zstd") as writer:
            for start in range(0, len(some), COPIES_IN_GROUP):
                group = [copied(once, copy, seconds) for copy in some[start : start + COPIES_IN_GROUP]]
                writer.write_table(pa.Table.from_batches(group, SCHEMA), row_group_size=COPIES_IN_GROUP * once.num_rows)


if __name__ == "__main__":
    main()
