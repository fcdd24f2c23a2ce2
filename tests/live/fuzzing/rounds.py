"""One round: a virtual host, a topology, traffic, its recording, and the replay of that."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pika
from pika.exceptions import ChannelClosedByBroker

from simulator.capture import open_log
from simulator.capture.firehose import CaptureLimits
from simulator.capture.live import capture
from simulator.definitions import read_definitions
from simulator.replay import replay_table
from simulator.replay.rows.assumptions import Assumptions
from simulator.testing.brokers.servers import ManagementError
from tests import real_servers
from tests.live.fuzzing.topology import ServerFault, declare, draw, without_automatic_deaths
from tests.live.fuzzing.traffic import Traffic
from tests.live.fuzzing.wire import all_numbers
from tests.live.servers import LiveServer

MESSAGES = 100
LOG_SECONDS = 20.0
READERS = ["json", "json", "json", "text", "firehose"]
EXPORTS = ["vhost", "vhost", "all"]


@dataclass
class Round:
    """What came of one round. ``findings``: the deliveries that the rules do not explain."""

    release: str
    seed: int
    reader: str
    folder: Path
    published: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    findings: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    replay_seconds: float = 0.0

    @property
    def log(self) -> Path:
        """The recording."""
        return self.folder / ("trace.parquet" if self.reader == "firehose" else "trace.log")

    def summary(self) -> dict[str, Any]:
        """The round as JSON values, findings apart."""
        return {
            "release": self.release, "seed": self.seed, "reader": self.reader, "published": self.published,
            "verdicts": dict(self.verdicts), "seconds": round(self.seconds, 1),
            "replay_seconds": round(self.replay_seconds, 1),
        }  # fmt: skip

    def line(self) -> str:
        """The round on one line."""
        counts = ", ".join(f"{name} {count}" for name, count in sorted(self.verdicts.items()))
        return (
            f"{self.release} seed {self.seed} ({self.reader}): published {self.published}, {counts}, "
            f"{self.seconds:.1f} s, replay {self.replay_seconds:.1f} s"
        )


def play(server: LiveServer, seed: int, folder: Path, messages: int = MESSAGES) -> Round:
    """Play and judge the round of one seed; log and definitions go to ``folder``. Raises ``ServerFault``."""
    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    rng = Random(f"{seed}")
    result = Round(server.release, seed, rng.choice(READERS), folder)
    export = rng.choice(EXPORTS)
    plan = draw(rng)
    # Until 3.12 a malformed x-death crashes the queue, and all of its transient messages are gone. And one
    # rejection lets a loop of automatic deaths spin for ever, through a fanout ever faster: a round has
    # rejections or automatic deaths there, not both.
    old = server.release in real_servers.until("3.12")
    rejects = not old or seed % 2 == 0
    if old and rejects:
        without_automatic_deaths(plan)
    with _vhost(server) as vhost, all_numbers():
        kinds = declare(plan, server, vhost)
        with _recorded(server, vhost, result):
            traffic = Traffic(f"{seed}", plan, server.vhost_url(vhost), kinds, crashing_deaths=not old, rejects=rejects)
            try:
                traffic.run(messages)
            except ChannelClosedByBroker as error:  # 404: a queue has lost its leader
                raise ServerFault(f"{error}") from error
            finally:
                traffic.close()
        result.published = traffic.published
        path = f"definitions/{vhost}" if export == "vhost" else "definitions"
        (folder / "definitions.json").write_text(json.dumps(server.api("GET", path)))
    judge(result)
    result.seconds = time.monotonic() - began
    return result


# The plugin notes when it sees a trace, which on a busy machine is seconds later.
SEEN_LATE = Assumptions(tolerance_ms=10_000)


def judge(result: Round) -> None:
    """Replay the recording under its own release."""
    began = time.monotonic()
    definitions = read_definitions(result.folder / "definitions.json")
    table = replay_table(open_log(result.log), definitions, result.release, SEEN_LATE)
    result.replay_seconds = time.monotonic() - began
    rows = [row for row in table.to_pylist() if row["verdict"] is not None]
    result.verdicts = Counter(row["verdict"] for row in rows)
    result.findings = [row for row in rows if row["verdict"] in ("differ", "unexplained")]


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a log of any format."""
    for batch in open_log(path):
        yield from batch.to_pylist()


@contextmanager
def _vhost(server: LiveServer) -> Iterator[str]:
    name = f"dlx-fuzz-{uuid.uuid4().hex[:10]}"
    server.api("PUT", f"vhosts/{name}", {})
    try:
        rights = {"configure": ".*", "write": ".*", "read": ".*"}
        server.api("PUT", f"permissions/{name}/guest", rights)
        yield name
    finally:
        server.api("DELETE", f"vhosts/{name}")


@contextmanager
def _recorded(server: LiveServer, vhost: str, result: Round) -> Iterator[None]:
    """Record all that happens inside; at the end the log is in the round's folder."""
    if result.reader == "firehose":
        with _firehose(server, vhost, result.log):
            yield
        return
    server.api("PUT", f"traces/{vhost}/{vhost}", {"format": result.reader, "pattern": "#"})
    try:
        yield
        log = _whole_log(server, vhost)
    finally:
        # Deleted before definitions are exported: they would hold the tracer's own binding.
        server.api("DELETE", f"traces/{vhost}/{vhost}")
        with suppress(ManagementError):
            server.api("DELETE", f"trace-files/{vhost}.log")
    result.log.write_bytes(log)


def _whole_log(server: LiveServer, vhost: str) -> bytes:
    """The log, once a last message is in it: the tracer writes in order."""
    last = f"last-{vhost}"
    with pika.BlockingConnection(pika.URLParameters(server.vhost_url(vhost))) as connection:
        connection.channel().basic_publish("", "nowhere", b"", pika.BasicProperties(message_id=last))
    deadline = time.monotonic() + LOG_SECONDS
    while time.monotonic() < deadline:
        log = _download(server, f"{vhost}.log")
        if last.encode() in log:
            return log
        time.sleep(0.1)
    raise ServerFault(f"{vhost}.log is not complete after {LOG_SECONDS} s")


def _download(server: LiveServer, name: str) -> bytes:
    request = urllib.request.Request(f"{server.management_url.rstrip('/')}/api/trace-files/{name}")
    request.add_header("Authorization", "Basic Z3Vlc3Q6Z3Vlc3Q=")
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return bytes(response.read())
    except urllib.error.HTTPError:  # not there yet
        return b""


@contextmanager
def _firehose(server: LiveServer, vhost: str, out: Path) -> Iterator[None]:
    ready, stop = threading.Event(), threading.Event()
    quiet = [0.0]

    def record() -> None:
        capture(
            server.vhost_url(vhost), out, vhost=vhost, management_url=server.management_url,
            until=CaptureLimits(stop=lambda: stop.is_set() and quiet[0] > 0.5, seconds=120),
            on_ready=ready.set, on_idle=lambda seconds: quiet.__setitem__(0, seconds),
        )  # fmt: skip

    thread = threading.Thread(target=record)
    thread.start()
    ready.wait(30)
    try:
        yield
    finally:
        stop.set()
        thread.join()
