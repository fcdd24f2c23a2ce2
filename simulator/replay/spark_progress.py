"""How far a job of Spark is, for whoever waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

from pyspark.sql import SparkSession

LOOK_S = 0.5
"""How often Spark is asked how far it is."""


@contextmanager
def telling(spark: SparkSession, stages: int, done: Callable[[float], object]) -> Iterator[None]:
    """Tell until the block ends, now and then, which share of the work is done: of so many stages, or of more."""
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

    if not hasattr(spark, "_jsparkSession"):  # over Spark Connect nobody tells
        yield
        return
    looking = Thread(target=look_while_it_runs, name="progress", daemon=True)
    looking.start()
    try:
        yield
    finally:
        ended.set()
        looking.join()
