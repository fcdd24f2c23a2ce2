"""A delivery has the body of its publish: no rule changes a body."""

from __future__ import annotations

import base64
from pathlib import Path

from simulator.capture import convert
from simulator.replay import Database, replay_files, summarize
from tests.replay.logs import Log, definitions_of, deliveries, write_log

WORK = definitions_of({"work": {}, "other": {}})


def with_bodies(log: Log, *bodies: str) -> Log:
    for record, body in zip(log.records, bodies, strict=True):
        record["payload"] = base64.b64encode(body.encode()).decode()
    return log


def told(tmp_path: Path, log: Log) -> list[tuple[str, list[str], list[str]]]:
    found = deliveries(write_log(tmp_path / "trace.log", log.records), WORK)
    return [
        (row["verdict"], [each["field"] for each in row["differences"]], [each["what"] for each in row["unchecked"]])
        for row in found
    ]


def delivered(times: int, message_id: str | None = "m1") -> Log:
    log = Log().publish("", "work", message_id=message_id)
    for _ in range(times):
        log.deliver("work", "", ["work"], message_id=message_id)
    return log


def test_another_body_than_that_of_the_publish_differs(tmp_path: Path) -> None:
    log = with_bodies(delivered(3), "one", "one", "two", "one")
    assert told(tmp_path, log) == [("agree", [], []), ("differ", ["payload"], []), ("agree", [], [])]


def test_without_a_publish_the_first_delivery_shows_the_body(tmp_path: Path) -> None:
    log = delivered(3)
    del log.records[0]
    assert told(tmp_path, with_bodies(log, "one", "two", "one"))[1][:2] == ("differ", ["payload"])


def test_a_message_without_an_id_is_another_message_then(tmp_path: Path) -> None:
    assert told(tmp_path, with_bodies(delivered(1, None), "one", "two")) == [("agree", [], ["publish"])]


def test_of_several_published_bodies_it_is_unchecked_which_one_a_copy_has(tmp_path: Path) -> None:
    log = Log().publish("", "work").publish("", "other").deliver("work", "", ["work"])
    assert told(tmp_path, with_bodies(log, "one", "two", "two")) == [("agree", [], ["payload"])]


def test_long_messages_too(tmp_path: Path) -> None:
    """Those with more rows than are remembered, which are taken row by row."""
    bodies = ["one"] * 300 + ["two"]
    verdicts = told(tmp_path, with_bodies(delivered(300), *bodies))
    assert [number for number, each in enumerate(verdicts) if each[1] == ["payload"]] == [299]


def test_in_the_files_of_a_replay_too(tmp_path: Path) -> None:
    log = write_log(tmp_path / "trace.log", with_bodies(delivered(2), "one", "one", "two").records)
    convert([log], tmp_path / "log.parquet")
    with Database(tmp_path) as database:
        captured = database.parquet([tmp_path / "log.parquet"])
        replayed = replay_files(captured, WORK, "4.3", verdicts=tmp_path / "verdicts.parquet")
        summary = summarize(replayed, WORK)
    assert (summary.agree, summary.differ) == (1, 1)
