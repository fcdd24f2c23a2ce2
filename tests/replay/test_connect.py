"""The same plan over Spark Connect, where there is no RDD and no context to fall back to."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.replay.logs import EXAMPLES

PROGRAM = """
import sys
from pyspark.sql import SparkSession
from simulator.capture import convert
from simulator.definitions import read_definitions
from simulator.replay import hops, replay, scan, ship, summarize

example, parquet = sys.argv[1:]
convert([f"{example}/trace.log.gz"], parquet)
definitions = read_definitions(f"{example}/definitions.json")
spark = SparkSession.builder.remote("local[2]").getOrCreate()
assert "connect" in type(spark).__module__
ship(spark)
replayed = replay(scan(spark, [parquet]), definitions)
summary = summarize(replayed, definitions)
assert summary.agree == summary.deliveries > 2000, summary
assert hops(replayed).where("first_copy").count() == summary.dead_letters
"""


@pytest.mark.spark
def test_it_runs_over_spark_connect(tmp_path):
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(EXAMPLES / "captured-4.3"), str(tmp_path / "captured.parquet")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
