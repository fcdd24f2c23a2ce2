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
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from replay_speed import cost, rows_of, session, write_often
from what_if_speed import ROWS, questions

from simulator.capture import SCHEMA
from simulator.replay import replay
from simulator.whatif.answer import WhatIfAnswer
from simulator.whatif.sides import side_of
from simulator.whatif.spark import what_if_on_spark

RELEASE = "4.3"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--memory", default="4g", help="the heap of Spark's driver, which is all of it here")
    options = parser.parse_args()
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-memory {options.memory} pyspark-shell"
    with closing(questions(ROWS)) as asked, tempfile.TemporaryDirectory(prefix="dlx-benchmark-") as name:
        asking = next(asked)
        once = pa.Table.from_pylist(asking.log.to_list(), SCHEMA).combine_chunks().to_batches()[0]
        times = once.column("time_us")
        seconds = (pc.max(times).as_py() - pc.min(times).as_py()) // 1_000_000 + 1
        log = write_often(Path(name) / "log", once, options.rows, seconds)
        print(f"{rows_of(log):,} rows", flush=True)
        with session(options.master) as spark:
            captured = spark.read.parquet(str(log))
            plan = replay(captured, asking.one, RELEASE)
            replayed = cost(lambda: plan.write.format("noop").mode("overwrite").save())
        with session(options.master) as spark:
            captured = spark.read.parquet(str(log))
            sides = [side_of(each, RELEASE) for each in (asking.one, asking.other)]
            answers: list[WhatIfAnswer] = []
            took = cost(lambda: answers.append(what_if_on_spark(captured, *sides).answer))
    print(f"replay:  {replayed}", f"what if: {took}", f"ratio of CPU time: {took.cpu / replayed.cpu:.1f}", sep="\n")
    (answer,) = answers
    print(f"{answer.messages:,} messages, {answer.reproduced:,} reproduced, {answer.changed:,} end differently")
    print(f"largest Python worker: {took.megabytes:,.0f} MB")


if __name__ == "__main__":
    main()
