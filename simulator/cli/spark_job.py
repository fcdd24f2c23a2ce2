"""Runs a job on Spark so that Ctrl-C ends the command quietly."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from tempfile import TemporaryFile
from threading import Event, Thread
from typing import TYPE_CHECKING, TypeVar

from simulator.cli.command_parts import Unavailable
from simulator.extras import check_installed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
REMARKS_MAX = 5
"""Lines of what Java wrote that are shown if it does not start."""


def run_on_spark(master: str, app_name: str, job: Callable[[SparkSession], T]) -> T:
    """Start a Spark session on ``master``, whose workers get this package, return what ``job`` makes, and stop it.

    Raises:
        ExtraMissingError: Spark is not installed.
        Unavailable: Spark did not start.
        KeyboardInterrupt: Ctrl-C was pressed; the job has ended.
    """
    check_installed("spark")
    started: list[SparkSession] = []
    interrupted = Event()

    def work() -> T:
        spark = _session(master, app_name)
        started.append(spark)
        try:
            if interrupted.is_set():
                raise InterruptedError
            _send_package(spark, master)
            return job(spark)
        finally:
            spark.stop()

    def cancel() -> None:
        interrupted.set()
        for spark in started:
            with suppress(Exception):  # the job is stopping it too
                spark.stop()

    return interruptible(work, cancel)


def interruptible(work: Callable[[], T], cancel: Callable[[], None]) -> T:
    """Return what ``work`` returns, or raise what it raises. On Ctrl-C call ``cancel``, wait for the end of ``work``,
    and raise ``KeyboardInterrupt``.

    The work runs in a thread of its own, for Python interrupts the main thread only: py4j, interrupted in the middle
    of a call, breaks its connection and prints tracebacks. A second Ctrl-C does not wait.
    """
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    Thread(target=run, name="spark job", daemon=True).start()
    try:
        wait([outcome])
    except KeyboardInterrupt:
        cancel()
        wait([outcome])
        raise
    return outcome.result()


def _send_package(spark: SparkSession, master: str) -> None:
    from simulator.replay.engines.spark import ship
    from simulator.replay.engines.spark_sessions import is_local

    if not is_local(master):
        ship(spark)


def _session(master: str, app_name: str) -> SparkSession:
    from pyspark.errors import PySparkRuntimeError

    from simulator.replay.engines.spark_sessions import spark_session

    # Java's remarks do not help a user who replays a log. If it does not start, they are the reason.
    with warnings.catch_warnings(), TemporaryFile() as remarks:
        warnings.simplefilter("ignore")
        try:
            return spark_session(master, app_name, jvm_stderr=remarks)
        except PySparkRuntimeError as error:
            remarks.seek(0)
            said = "".join(
                f"\n  {line}" for line in remarks.read().decode(errors="replace").splitlines()[-REMARKS_MAX:]
            )
            raise Unavailable(
                f"Spark did not start on {master}: {error}. It needs Java 17 or 21; `java -version` shows yours.{said}"
            ) from error
