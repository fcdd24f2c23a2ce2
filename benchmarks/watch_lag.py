"""How far behind ``dlx watch`` is beside a live RabbitMQ: the p95 of the time from a row to its verdict.

    DLX_LIVE_SERVERS=4.3=AMQP_URL|MANAGEMENT_URL python benchmarks/watch_lag.py [--rate 2000] [--seconds 120]

A publisher sends messages at the rate into a queue with a dead-letter queue behind it; a consumer rejects one in ten,
acknowledges the others, and takes the dead letters. ``dlx capture`` writes what the server traces, and ``dlx watch``
reads what it writes. Each message has two rows at least, each dead letter one more. The processor time is that of all
processes but the server's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path

import pika

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.live.servers import LiveServer, given

DLX = (sys.executable, "-m", "simulator.cli.main")
SETTLE_SECONDS = 2
TOLERANCE_MS = 10_000
"""A capture on a busy machine is late, and its rows have the times at which it read them."""
TICK_SECONDS = 0.05
REJECTED_EACH = 10


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=int, default=2000, help="messages a second")
    parser.add_argument("--seconds", type=int, default=120)
    options = parser.parse_args()
    server = next((each for each in given() if each.release == "4.3"), None)
    if server is None:
        parser.error("name a 4.3 in DLX_LIVE_SERVERS")
    vhost = f"dlx-benchmark-{uuid.uuid4().hex[:12]}"
    server.api("PUT", f"vhosts/{vhost}", {})
    server.api("PUT", f"permissions/{vhost}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    try:
        with tempfile.TemporaryDirectory(prefix="dlx-benchmark-") as name:
            measure(server, vhost, Path(name), options.rate, options.seconds)
    finally:
        server.api("DELETE", f"vhosts/{vhost}")


def measure(server: LiveServer, vhost: str, folder: Path, rate: int, seconds: int) -> None:
    """Play the traffic beside a capture and a watch, and print what the watch says."""
    url = server.vhost_url(vhost)
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.queue_declare("dead")
        dead_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        channel.queue_declare("work", arguments=dead_letters)
    (folder / "definitions.json").write_text(json.dumps(server.api("GET", f"definitions/{vhost}")))
    log = folder / "log.jsonl"
    capture = [*DLX, "capture", "--url", url, "--management-url", server.management_url, "--out", os.fspath(log)]
    watch = [*DLX, "watch", os.fspath(log), "--definitions", os.fspath(folder / "definitions.json"), "--release", "4.3"]
    watch += ["--state", os.fspath(folder / "state"), "--settle", str(SETTLE_SECONDS), "--json"]
    watch += ["--tolerance-ms", str(TOLERANCE_MS)]
    lags: list[float] = []
    with (
        subprocess.Popen(capture, stdout=subprocess.DEVNULL) as capturing,
        subprocess.Popen(watch, stdout=subprocess.PIPE) as watching,
    ):
        assert watching.stdout is not None
        summary: list[bytes] = []
        others: list[str] = []
        reading = threading.Thread(target=read_lags, args=(watching.stdout, lags, summary, others))
        reading.start()
        time.sleep(5)  # until both have begun
        sent, took = play(url, rate, seconds)
        time.sleep(SETTLE_SECONDS + 5)
        for process in (capturing, watching):
            process.terminate()
        reading.join()
    found = json.loads(summary[0])["summary"]
    lags.sort()
    p50, p95, most = (lags[min(len(lags) - 1, int(share * len(lags)))] for share in (0.5, 0.95, 1))
    cpu = os.times()
    other = found["differ"] + found["unexplained"]
    print(f"{sent:,} messages in {took:.0f} s ({sent / took:,.0f} a second), {found['rows']:,} rows")
    print(f"{found['agree']:,} agree, {other:,} do not, {found['corrections']:,} corrected")
    print(f"lag, {SETTLE_SECONDS} s of settling included: p50 {p50:.1f} s, p95 {p95:.1f} s, at most {most:.1f} s")
    print(*others[:3], sep="\n")
    print(f"processor time of capture and watch: {cpu.children_user + cpu.children_system:.0f} s")


def read_lags(stdout: object, lags: list[float], summary: list[bytes], others: list[str]) -> None:
    """Note how old each row is when its verdict comes out, and keep the summary and what does not agree."""
    for line in stdout:  # type: ignore[attr-defined]
        if line.startswith(b'{"summary"'):
            summary.append(line)
        else:
            at = line.index(b'"time_us":') + 10
            if b'"verdict":"agree"' not in line:
                others.append(line.decode())
            lags.append(time.time() - int(line[at : line.index(b",", at)]) / 1e6)


def play(url: str, rate: int, seconds: int) -> tuple[int, float]:
    """Publish and consume on one connection each; return how many messages, and how long it took."""
    stopped = threading.Event()
    consuming = threading.Thread(target=consume, args=(url, stopped))
    consuming.start()
    sent = 0
    began = time.monotonic()
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        while (now := time.monotonic() - began) < seconds:
            while sent < now * rate:
                channel.basic_publish("", "work", b"body", pika.BasicProperties(message_id=f"m-{sent}"))
                sent += 1
            connection.process_data_events(TICK_SECONDS)
    took = time.monotonic() - began
    time.sleep(3)
    stopped.set()
    consuming.join()
    return sent, took


def consume(url: str, stopped: threading.Event) -> None:
    """Reject one message in ten, and acknowledge the others and the dead letters."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=500)

        def on_work(_: object, method: object, *rest: object) -> None:
            tag = method.delivery_tag  # type: ignore[attr-defined]
            if tag % REJECTED_EACH:
                channel.basic_ack(tag)
            else:
                channel.basic_reject(tag, requeue=False)

        channel.basic_consume("work", on_work)
        channel.basic_consume("dead", lambda *_: None, auto_ack=True)
        while not stopped.is_set():
            connection.process_data_events(TICK_SECONDS)


if __name__ == "__main__":
    main()
