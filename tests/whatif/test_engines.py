"""Both engines give the same answer, word for word, and the same rows: messages by themselves, and coupled ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from simulator.capture import convert
from simulator.cli.main import main
from simulator.definitions import read_definitions
from simulator.generate import Wish, generate
from simulator.whatif.sides import side_of
from tests.long import some_in_ci
from tests.whatif.test_second_side import definitions

OWN = Path(__file__).parent / "recorded" / "4.3" / "own"
EXAMPLE = Path(__file__).parents[2] / "examples" / "captured-3.10"
QUESTIONS = {
    "settings": [
        str(OWN / "trace.log.gz"),
        *("--definitions", str(OWN / "definitions.json"), "--release", "4.3", "--left", str(OWN / "left.parquet")),
        *("--set", "queue:burst.x-max-length=20", "--set", "queue:jobs.x-dead-letter-routing-key=nowhere"),
    ],
    "release": [
        str(EXAMPLE / "trace.log.gz"),
        *("--definitions", str(EXAMPLE / "definitions.json"), "--release", "3.10", "--against-release", "4.3"),
    ],
}
REROUTED = ["--set", "queue:payments.wait.3.x-dead-letter-routing-key=nowhere"]


def answered(capfd: pytest.CaptureFixture[str], question: list[str], engine: str, out: Path) -> dict[str, Any]:
    """Everything that comes of a question."""
    code = main(["whatif", *question, "--engine", engine, "--json", "--out", str(out)])
    said = capfd.readouterr()
    return {
        "code": code,
        "json": json.loads(said.out),
        "stderr": said.err,
        "page": (out / "report.html").read_text(encoding="utf-8"),
        "rows": sorted(map(repr, pq.read_table(out / "messages.parquet").to_pylist())),
    }


@pytest.mark.spark
@pytest.mark.parametrize("name", [*QUESTIONS])
def test_both_engines_answer_the_same(name: str, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    question = QUESTIONS[name]
    here, on_spark = (answered(capfd, question, engine, tmp_path / engine) for engine in ("local", "spark"))
    assert here["code"] == 1
    assert here == on_spark


@pytest.mark.spark
@pytest.mark.parametrize("other", some_in_ci([REROUTED, ["--against-release", "3.13"]], [REROUTED]))
def test_they_do_where_most_messages_are_played_by_themselves(
    other: list[str], capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Some end differently, most do not."""
    (tmp_path / "definitions.json").write_bytes(definitions().to_json())
    generate(Wish(definitions().to_json(), 3_000, "4.3", 1), tmp_path)
    log = pq.read_table(tmp_path / "log-00000.parquet")
    expiring = pc.unique(log.filter(pc.is_valid(log["expiration"]))["message"])  # which one queue or another couples
    pq.write_table(log.filter(pc.invert(pc.is_in(log["message"], expiring))), tmp_path / "log.parquet")
    question = [str(tmp_path / "log.parquet"), "--definitions", str(tmp_path / "definitions.json"), "--release", "4.3"]
    here, on_spark = (answered(capfd, [*question, *other], engine, tmp_path / engine) for engine in ("local", "spark"))
    assert here == on_spark


@pytest.mark.spark
def test_more_waiting_messages_than_a_task_can_hold_are_refused(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simulator.whatif.spark.HELD_MAX", 10)
    assert main(["whatif", *QUESTIONS["settings"], "--engine", "spark"]) == 65
    told = capfd.readouterr().err
    assert "of messages that depend on each other ('burst' has a length limit" in told
    assert "more than 10 wait at one time (" in told
    assert " in 'burst'" in told
    assert "all of them are held in memory: ask about a shorter part of the log" in told


@pytest.mark.spark
def test_spark_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from simulator.replay import spark_session
    from simulator.whatif.spark import what_if_on_spark

    monkeypatch.setattr("simulator.replay.engines.spark_sessions.LOOK_S", 0.01)
    convert([OWN / "trace.log.gz"], tmp_path / "log.parquet")
    side = side_of(read_definitions(OWN / "definitions.json"), "4.3")
    told: list[tuple[str, float]] = []
    spark = spark_session("local[2]", "how far it is")
    try:
        captured = spark.read.parquet(str(tmp_path / "log.parquet"))
        what_if_on_spark(captured, side, side, progress=lambda what, share: told.append((what, share)))
    finally:
        spark.stop()
    assert "reading messages" in dict(told)
    assert all(0 <= share <= 1 for _, share in told)
