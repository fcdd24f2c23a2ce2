"""How late a capture reads its rows: it measures that, keeps it in the log, and a replay takes it for its tolerance."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pika
import pytest

import simulator
from simulator.capture import convert, firehose, open_log
from simulator.capture.firehose import CaptureLimits
from simulator.capture.live import CaptureReport, capture
from simulator.capture.merge_captures import merge_captures
from simulator.capture.parquet import stored_late_us, write_capture
from simulator.cli.main import main
from simulator.server.in_process import Server
from tests.replay.logs import Log, death, definitions_of, died, write_log

HELD_UP_S = 1.4
ROWS = 6


class Clock:
    """The capture's clock, which a test moves on as if the machine had been busy."""

    def __init__(self) -> None:
        self.added_s = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.added_s

    def time_ns(self) -> int:
        return time.time_ns() + round(self.added_s * 1e9)


def publish(url: str) -> None:
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for number in range(ROWS):
            channel.basic_publish("amq.fanout", "", b"", pika.BasicProperties(message_id=f"m-{number}"))


def held_up_capture(
    out: Path, monkeypatch: pytest.MonkeyPatch, prepare: Callable[[Server], str] = lambda server: server.amqp_url
) -> CaptureReport:
    """Capture a few publishes on a machine that does something else for a while after the second."""
    clock = Clock()
    monkeypatch.setattr(firehose, "time", clock)

    def on_row(rows: int) -> None:
        clock.added_s += HELD_UP_S if rows == 2 else 0

    with simulator.serve("4.3", management_port=0) as server:
        return capture(
            prepare(server),
            out,
            management_url=f"http://guest:guest@{urlsplit(str(server.management_url)).netloc}",
            until=CaptureLimits(stop=lambda: True),
            on_ready=lambda: publish(server.amqp_url),
            on_row=on_row,
        )


def late_us(log: Path) -> int:
    found = [0]
    for _ in open_log(log, on_late=found.append):
        pass
    return max(found)


@pytest.mark.parametrize("name", ["live.parquet", "live.jsonl"])
def test_the_lag_is_in_the_log_and_the_probes_are_not(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / name
    report = held_up_capture(out, monkeypatch)
    assert report.unmeasured is None
    assert (report.late_us or 0) >= 1_200_000
    assert late_us(out) == report.late_us
    rows = [row for batch in open_log(out) for row in batch.to_pylist()]
    assert [row["message_id"] for row in rows] == [f"m-{number}" for number in range(ROWS)]
    assert [row["line"] for row in rows] == list(range(1, ROWS + 1))
    convert([out], tmp_path / "converted.parquet")
    merge_captures(tmp_path / "converted.parquet", [out], tmp_path / "merged.parquet")
    assert stored_late_us(tmp_path / "converted.parquet") == report.late_us
    assert stored_late_us(tmp_path / "merged.parquet") == report.late_us


def test_a_capture_goes_on_where_its_user_may_not_publish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def restricted(server: Server) -> str:
        user = {"password": "reader", "tags": ""}
        own = {"configure": "^amq\\.gen", "write": "^amq\\.gen", "read": ".*"}
        for path, body in (("users/reader", user), ("permissions/%2F/reader", own)):
            api(server, path, body)
        return server.amqp_url.replace("//", "//reader:reader@")

    report = held_up_capture(tmp_path / "live.parquet", monkeypatch, restricted)
    assert (report.rows, report.late_us) == (ROWS, None)
    assert "needs write permission on amq.default" in (report.unmeasured or "")
    assert stored_late_us(tmp_path / "live.parquet") is None


def api(server: Server, path: str, body: dict[str, Any]) -> None:
    from simulator.capture.management_api import call

    call(str(server.management_url), path, method="PUT", body=body)


def test_lines_about_the_lag_are_no_rows_of_a_watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from simulator.replay.watch.growing import GrowingFile, Position

    out = tmp_path / "live.jsonl"
    held_up_capture(out, monkeypatch)
    assert any("late_us" in json.loads(line) for line in out.read_text().splitlines())
    added = GrowingFile(str(out), Position("live.jsonl")).added()
    assert added is not None
    assert (sum(batch.num_rows for batch in added.batches), added.broken) == (ROWS, ())


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.long])])
def test_a_replay_takes_the_lag_for_its_tolerance(
    engine: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    wait = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "late", "x-message-ttl": 1900}
    (tmp_path / "definitions.json").write_bytes(definitions_of({"wait": wait, "late": {}}).to_json())
    log = Log().publish("", "wait", message_id="m")
    log.deliver("late", "", ["late"], message_id="m", headers=died(death("wait", "expired", keys=["wait"])))
    trace = write_log(tmp_path / "trace.log", log.records)
    with write_capture(tmp_path / "log.parquet") as writer:
        writer.note_late(1_400_000)
        for batch in open_log(trace):
            writer.write(batch)
    told = "Rows arrived up to 1.4 s late, as the capture measured: deliveries within that are not called different"
    command = ["replay", "--definitions", str(tmp_path / "definitions.json"), "--engine", engine]
    assert main([*command, str(trace)]) == 1
    assert told not in capfd.readouterr().out
    assert main([*command, str(tmp_path / "log.parquet")]) == 0
    assert told in capfd.readouterr().out
    assert main([*command, str(tmp_path / "log.parquet"), "--tolerance-ms", "100"]) == 1
    assert told not in capfd.readouterr().out


def test_a_broker_that_takes_no_publishes_does_not_hold_up_the_capture(tmp_path: Path) -> None:
    with simulator.serve("4.3", management_port=0) as server:

        def publish_and_block() -> None:
            publish(server.amqp_url)
            server.faults.add("alarm", resource="memory")

        until = CaptureLimits(seconds=0.5)
        out, api_url = tmp_path / "live.parquet", server.management_url
        report = capture(server.amqp_url, out, management_url=api_url, until=until, on_ready=publish_and_block)
    assert (report.rows, report.lost) == (ROWS, None)
    assert stored_late_us(out) == report.late_us
