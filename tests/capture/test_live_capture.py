"""``capture`` of a simulated server's firehose."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

import simulator
from simulator.capture import open_log
from simulator.capture.firehose import CaptureLimits
from simulator.capture.live import CaptureReport, capture

TRACED = 1_200  # more than a capture is given at once


def captured(out: Path, until: CaptureLimits) -> CaptureReport:
    """Capture a server on which ``TRACED`` messages are published before the capture reads the first trace."""
    with simulator.serve("4.3", management_port=0) as server:

        def publish() -> None:
            with pika.BlockingConnection(pika.URLParameters(server.amqp_url)) as connection:
                channel = connection.channel()
                channel.confirm_delivery()
                for _ in range(TRACED):
                    channel.basic_publish("amq.fanout", "", b"")

        return capture(server.amqp_url, out, management_url=server.management_url, until=until, on_ready=publish)


def test_a_capture_that_is_stopped_has_all_that_was_traced_until_then(tmp_path: Path) -> None:
    out = tmp_path / "live.parquet"
    report = captured(out, CaptureLimits(stop=lambda: True))
    assert (report.rows, report.lost) == (TRACED, None)
    assert sum(batch.num_rows for batch in open_log(out)) == TRACED


def test_a_pause_while_traces_are_on_their_way_does_not_end_the_capture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    consume = BlockingChannel.consume

    def with_a_pause(channel: BlockingChannel, *args: Any, **how: Any) -> Iterator[Any]:
        for number, each in enumerate(consume(channel, *args, **how)):
            yield each
            if number == 100:
                yield None, None, None  # as pika does when nothing came for a while

    monkeypatch.setattr(BlockingChannel, "consume", with_a_pause)
    report = captured(tmp_path / "live.parquet", CaptureLimits(rows=TRACED, seconds=60))
    assert (report.rows, report.lost) == (TRACED, None)


def test_a_capture_without_bodies_has_every_row_but_no_payload(tmp_path: Path) -> None:
    out = tmp_path / "live.parquet"
    with simulator.serve("4.3", management_port=0) as server:

        def publish() -> None:
            with pika.BlockingConnection(pika.URLParameters(server.amqp_url)) as connection:
                channel = connection.channel()
                channel.confirm_delivery()
                for body in (b"one", b"two"):
                    channel.basic_publish("amq.fanout", "", body)

        until = CaptureLimits(stop=lambda: True)
        capture(server.amqp_url, out, management_url=server.management_url, until=until, on_ready=publish, bodies=False)
    rows = [row for batch in open_log(out) for row in batch.to_pylist()]
    assert [row["payload"] for row in rows] == [b"", b""]
    assert len({row["message"] for row in rows}) == 2


def test_a_redacted_capture_has_every_row_and_says_who_is_the_same(tmp_path: Path) -> None:
    out = tmp_path / "live.jsonl"
    with simulator.serve("4.3", management_port=0) as server:

        def publish() -> None:
            with pika.BlockingConnection(pika.URLParameters(server.amqp_url)) as connection:
                channel = connection.channel()
                channel.confirm_delivery()
                for number in ("cus-1", "cus-1", "cus-2"):
                    properties = pika.BasicProperties(message_id=number, headers={"tier": "gold"})
                    channel.basic_publish("amq.fanout", "key", b"pay me", properties)

        until = CaptureLimits(stop=lambda: True)
        capture(server.amqp_url, out, management_url=server.management_url, until=until, on_ready=publish, redact=True)
    text = out.read_text()
    assert not [each for each in ("cus-", "gold", "guest", "cGF5") if each in text]
    rows = [row for batch in open_log(out) for row in batch.to_pylist()]
    assert [row["routing_keys"] for row in rows] == [["key"]] * 3
    first, same, other = [row["message"] for row in rows]
    assert first == same != other
