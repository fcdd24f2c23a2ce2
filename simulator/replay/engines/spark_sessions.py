"""Starts a Spark session for a replay: quiet, and on loopback where it is local."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import IO

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

BATCH_ROWS = 65_536
_LOGGING = Path(__file__).with_name("log4j2.properties")


def spark_session(
    master: str = "local[*]", app_name: str = "dlx replay", *, jvm_stderr: IO[bytes] | None = None
) -> SparkSession:
    """Return a session on ``master``: ``local[N]``, ``spark://``, ``yarn``, ``k8s://``, or ``sc://`` for Connect.

    ``jvm_stderr`` takes what Java writes to its standard error, by default that of this process.
    ``simulator.replay.ship`` sends this package to the workers of a cluster, which must have its
    dependencies installed.
    """
    if master.startswith("sc://"):
        session = SparkSession.builder.appName(app_name).remote(master).getOrCreate()
    else:
        session = _classic(master, app_name, jvm_stderr)
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(BATCH_ROWS))
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


def _classic(master: str, app_name: str, jvm_stderr: IO[bytes] | None) -> SparkSession:
    local = master.startswith("local")
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
    }
    if local:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        options["spark.sql.shuffle.partitions"] = str(2 * (os.cpu_count() or 1))
    if local or "://127.0.0.1" in master or "://localhost" in master:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        options |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if jvm_stderr is not None and SparkContext._gateway is None:
        conf = SparkConf().setAll([("spark.master", master), *options.items()])
        gateway = launch_gateway(conf, popen_kwargs={"stderr": jvm_stderr})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway, conf=conf)
    builder = SparkSession.builder.master(master).appName(app_name)
    for name, value in options.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def is_local(master: str) -> bool:
    """Return whether the workers share this process's machine and environment."""
    return master.startswith("local")


# How far a job of Spark is, for whoever waits for it.


LOOK_S = 0.5
"""How often Spark is asked how far it is."""


@contextmanager
def telling(spark: SparkSession, stages: int, done: Callable[[float], object]) -> Iterator[None]:
    """Report now and then, until the block ends, the share of the work done: of that many stages, or of more."""
    ended = Event()

    def look() -> None:
        tracker = spark.sparkContext.statusTracker()
        shares: dict[int, float] = {}
        while not ended.wait(LOOK_S):
            for number in tracker.getActiveStageIds():
                stage = tracker.getStageInfo(number)
                if stage is not None:
                    shares[number] = stage.numCompletedTasks / stage.numTasks
            done(sum(shares.values()) / max(stages, len(shares)))

    def look_while_it_runs() -> None:
        with suppress(Exception):  # Spark was stopped, by Ctrl-C perhaps: who waits for the job hears of it
            look()

    if not hasattr(spark, "_jsparkSession"):  # Spark Connect does not report it
        yield
        return
    looking = Thread(target=look_while_it_runs, name="progress", daemon=True)
    looking.start()
    try:
        yield
    finally:
        ended.set()
        looking.join()
