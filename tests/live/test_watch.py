"""``dlx watch`` reads what ``dlx capture`` writes from a real server, at the same time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pika

from simulator.capture import open_log
from simulator.definitions import read_definitions
from simulator.replay.engines.local import replay_table
from simulator.replay.watch.state import VERDICTS
from simulator.replay.watch.watcher import verdict_line
from tests.live.servers import LiveServer

ROOT = Path(__file__).parents[2]
DLX = [sys.executable, "-m", "simulator.cli.main"]
MESSAGES = 300


def test_a_watch_beside_a_capture_says_what_a_replay_says(
    live_server: LiveServer, live_vhost: str, tmp_path: Path
) -> None:
    log, definitions, folder = tmp_path / "log.jsonl", tmp_path / "definitions.json", tmp_path / "state"
    with pika.BlockingConnection(pika.URLParameters(live_server.vhost_url(live_vhost))) as connection:
        channel = connection.channel()
        channel.queue_declare("dead", durable=True)
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        channel.queue_declare("work", durable=True, arguments=arguments)
        definitions.write_text(json.dumps(live_server.api("GET", f"definitions/{live_vhost}")))
        url, api = live_server.vhost_url(live_vhost), live_server.management_url
        capture = [*DLX, "capture", "--url", url, "--management-url", api, "--out", os.fspath(log)]
        watch = [*DLX, "watch", os.fspath(log), "--definitions", os.fspath(definitions), "--state", os.fspath(folder)]
        watch += ["--release", live_server.release, "--settle", "0.5", "--json"]
        with (
            subprocess.Popen(capture, cwd=ROOT, stdout=subprocess.DEVNULL) as capturing,
            subprocess.Popen(watch, cwd=ROOT, stdout=subprocess.PIPE, text=True) as watching,
        ):
            try:
                _until_traced(live_server, live_vhost)
                for number in range(MESSAGES):
                    channel.basic_publish("", "work", b"body", pika.BasicProperties(message_id=f"m-{number}"))
                    method, _, _ = channel.basic_get("work")
                    channel.basic_reject(method.delivery_tag, requeue=False)
                    connection.process_data_events(0)
                seen = 0
                while seen < MESSAGES:
                    seen += channel.basic_get("dead", auto_ack=True)[0] is not None
                assert watching.stdout is not None
                lines = [watching.stdout.readline() for _ in range(2 * MESSAGES)]
            finally:
                for process in (capturing, watching):
                    process.send_signal(signal.SIGTERM)
            summary = json.loads(watching.stdout.read())["summary"]
    assert (capturing.returncode, watching.returncode) == (0, 0)
    assert (summary["agree"], summary["dead_letters"]) == (2 * MESSAGES, MESSAGES)
    table = replay_table(list(open_log(log)), read_definitions(definitions), live_server.release)
    expected = sorted(verdict_line(row) for row in table.to_pylist() if row["verdict"])
    assert sorted(line.encode() for line in lines) == expected
    assert sorted((folder / VERDICTS).read_bytes().splitlines(keepends=True)) == expected


def _until_traced(server: LiveServer, vhost: str) -> None:
    """Wait until the capture's queue is bound to the exchange of traces."""
    until = time.monotonic() + 30
    while not server.api("GET", f"exchanges/{vhost}/amq.rabbitmq.trace/bindings/source"):
        assert time.monotonic() < until, "the capture did not begin"
        time.sleep(0.1)
