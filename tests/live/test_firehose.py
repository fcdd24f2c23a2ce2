"""``dlx capture`` against a real server."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pika
import pytest

from simulator.capture import NothingReadable, open_log
from simulator.capture.firehose import CaptureLimits
from simulator.capture.live import capture
from simulator.cli.main import main
from tests.live.servers import LiveServer


class Publisher:
    """Publishes messages to the default exchange and reads them back, from a thread, once started."""

    def __init__(self, server: LiveServer, vhost: str, count: int) -> None:
        self._url = server.vhost_url(vhost)
        self._count = count
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        with pika.BlockingConnection(pika.URLParameters(self._url)) as connection:
            channel = connection.channel()
            channel.queue_declare("work", durable=True)
            for number in range(self._count):
                properties = pika.BasicProperties(message_id=f"m-{number}", headers={"number": number})
                channel.basic_publish("", "work", b"body", properties)
            for _ in range(self._count):
                channel.basic_get("work", auto_ack=True)


def read(path: Path) -> list[dict[str, Any]]:
    return [row for batch in open_log(path) for row in batch.to_pylist()]


def tracing(server: LiveServer, vhost: str) -> bool:
    return bool(server.api("GET", f"vhosts/{vhost}")["tracing"])


def test_a_live_capture_has_every_publish_and_delivery(
    live_server: LiveServer, live_vhost: str, tmp_path: Path
) -> None:
    """Tracing is switched on for it, and off again."""
    publisher = Publisher(live_server, live_vhost, 700)
    out = tmp_path / "live.parquet"
    before_us = time.time_ns() // 1000
    report = capture(
        live_server.vhost_url(live_vhost),
        out,
        until=CaptureLimits(rows=1400, seconds=60),
        management_url=live_server.management_url,
        on_ready=publisher.start,
    )
    publisher.join()
    assert (report.rows, report.lost) == (1400, None)
    rows = read(out)
    for event in ("published", "delivered"):
        assert [row["message"] for row in rows if row["event"] == event] == [f"m-{n}" for n in range(700)]
    assert [row["line"] for row in rows] == list(range(1, 1401))
    assert before_us <= rows[0]["time_us"] <= rows[-1]["time_us"] <= time.time_ns() // 1000
    delivered = [row for row in rows if row["event"] == "delivered"][-1]
    assert (delivered["vhost"], delivered["queue"], delivered["redelivered"]) == (live_vhost, "work", False)
    assert delivered["headers"] == '{"number":699}'
    assert not tracing(live_server, live_vhost)
    assert report.unmeasured is None
    assert report.late_us is not None


def test_how_late_rows_arrive_is_measured_without_a_row_of_it(
    live_server: LiveServer, live_vhost: str, tmp_path: Path
) -> None:
    publisher = Publisher(live_server, live_vhost, 3)
    out = tmp_path / "live.jsonl"
    began_s = time.monotonic()
    report = capture(
        live_server.vhost_url(live_vhost),
        out,
        until=CaptureLimits(idle_seconds=1.5),
        management_url=live_server.management_url,
        on_ready=publisher.start,
        on_row=lambda rows: time.sleep(0.5 if rows == 2 else 0),
    )
    took_us = (time.monotonic() - began_s) * 1e6
    publisher.join()
    assert report.unmeasured is None
    assert 300_000 <= (report.late_us or 0) < took_us
    assert {row["message"] for row in read(out)} == {"m-0", "m-1", "m-2"}


def test_a_pattern_chooses_what_is_captured(live_server: LiveServer, live_vhost: str, tmp_path: Path) -> None:
    publisher = Publisher(live_server, live_vhost, 3)
    out = tmp_path / "live.parquet"
    capture(
        live_server.vhost_url(live_vhost),
        out,
        pattern="deliver.#",
        until=CaptureLimits(rows=3, seconds=60),
        management_url=live_server.management_url,
        on_ready=publisher.start,
    )
    publisher.join()
    assert {row["event"] for row in read(out)} == {"delivered"}


def test_ctrl_c_finishes_the_file(
    live_server: LiveServer, live_vhost: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    live_server.api("PUT", f"vhosts/{live_vhost}", {"tracing": True})
    publisher = Publisher(live_server, live_vhost, 2)
    stop = threading.Event()

    def publish_and_interrupt() -> None:
        publisher.start()
        publisher.join()
        stop.wait(2)  # for the traces to arrive
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(1, publish_and_interrupt)
    timer.start()
    out = tmp_path / "live.parquet"
    command = ["capture", "--url", live_server.amqp_url, "--vhost", live_vhost, "--out", str(out)]
    assert main([*command, "--seconds", "60"]) == 0
    timer.join()
    assert capsys.readouterr().out == f"4 rows in {out}\n"
    assert len(read(out)) == 4
    assert tracing(live_server, live_vhost)


def test_without_tracing_it_says_what_to_do(live_server: LiveServer, live_vhost: str, tmp_path: Path) -> None:
    url, out = live_server.vhost_url(live_vhost), tmp_path / "live.parquet"
    with pytest.raises(NothingReadable, match=r"rabbitmqctl trace_on -p .*--management-url"):
        capture(url, out, until=CaptureLimits(idle_seconds=0.1))
    assert not list(tmp_path.iterdir())


def test_a_lost_connection_keeps_what_came_before(live_server: LiveServer, live_vhost: str, tmp_path: Path) -> None:
    publisher = Publisher(live_server, live_vhost, 2)

    def on_row(rows: int) -> None:
        if rows == 4:  # the virtual host goes, and every connection to it
            publisher.join()
            live_server.api("DELETE", f"vhosts/{live_vhost}")
            live_server.api("PUT", f"vhosts/{live_vhost}", {})

    out = tmp_path / "live.parquet"
    live_server.api("PUT", f"vhosts/{live_vhost}", {"tracing": True})
    url = live_server.vhost_url(live_vhost)
    report = capture(url, out, until=CaptureLimits(seconds=60), on_ready=publisher.start, on_row=on_row)
    assert report.rows == 4
    assert "it was lost" in (report.lost or "")
    assert len(read(out)) == 4
