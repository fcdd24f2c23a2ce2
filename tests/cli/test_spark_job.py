"""Ctrl-C while Spark works: the command ends quietly, and leaves nothing half-written."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event, current_thread, main_thread

import pytest

from simulator.cli import spark_job
from simulator.cli.main import main
from simulator.cli.spark_job import interruptible
from tests.replay.logs import EXAMPLES

LOG = EXAMPLES / "captured-4.3" / "trace.log.gz"
DEFINITIONS = EXAMPLES / "captured-4.3" / "definitions.json"


@pytest.fixture
def ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """Press Ctrl-C when the main thread waits for the first time."""
    waits: list[Callable[..., object]] = []

    def wait(*args: object) -> object:
        waits.append(real)
        if len(waits) == 1:
            raise KeyboardInterrupt
        return real(*args)

    real = spark_job.wait
    monkeypatch.setattr(spark_job, "wait", wait)


def test_work_runs_in_a_thread_that_signals_do_not_reach() -> None:
    assert interruptible(lambda: current_thread() is main_thread(), lambda: None) is False


def test_an_error_of_the_work_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 // 0, lambda: None)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_cancels_the_work_and_waits_for_its_end() -> None:
    cancelled, ended = Event(), Event()

    def work() -> None:
        assert cancelled.wait(60)
        ended.set()
        raise RuntimeError("cancelled")

    with pytest.raises(KeyboardInterrupt):
        interruptible(work, cancelled.set)
    assert ended.is_set()


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_during_a_command_is_130_and_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Spark:
        """A session that does nothing but stop."""

        stopped = Event()

        def stop(self) -> None:
            self.stopped.set()

    def endless(*args: object, **options: object) -> None:
        assert Spark.stopped.wait(60)
        raise RuntimeError("Job 1 cancelled because SparkContext was shut down")

    run = pytest.importorskip("simulator.replay.run")
    monkeypatch.setattr(spark_job, "_session", lambda master, app_name: Spark())
    monkeypatch.setattr(run, "run_replay", endless)
    out = tmp_path / "out"
    command = ["replay", str(LOG), "--definitions", str(DEFINITIONS), "--engine", "spark", "--out", str(out)]
    assert main(command) == 130
    assert capsys.readouterr() == ("", "dlx: interrupted\n")
    assert not out.exists()


INTERRUPTED = """
import os, signal, sys
from simulator.cli.main import main
from simulator.replay import run

def interrupted(verdicts, *others):
    os.kill(os.getpid(), signal.SIGINT)
    verdicts.sparkSession.range(10**13).selectExpr("max(hash(id))").collect()

run.summarize = interrupted
signal.signal(signal.SIGINT, signal.default_int_handler)  # not so in the background of a shell
sys.exit(main())
"""


@pytest.mark.spark
def test_ctrl_c_stops_spark_without_a_traceback(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-c", INTERRUPTED, "replay", LOG, "--definitions", DEFINITIONS]
    command += ["--engine", "spark", "--out", out]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "dlx: interrupted\n"
    assert not out.exists()
