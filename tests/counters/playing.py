"""Plays a workload on a server, real or simulated, captures it with its counters, and replays the capture."""

from __future__ import annotations

import json
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pika
import pyarrow as pa
from pika.exceptions import NackError

from dlx.releases import release
from simulator.capture import open_log
from simulator.capture.counters import CounterReadings, path_beside, read_counters
from simulator.capture.firehose import CaptureLimits
from simulator.capture.live import capture
from simulator.definitions import Definitions, read_definitions
from simulator.replay import replay_table
from simulator.replay.results.counters import Balance, balance, log_counts
from simulator.replay.rows.assumptions import Assumptions
from simulator.replay.rows.row_codec import LINEAGE, read_messages
from simulator.replay.rows.tables import Database
from simulator.replay.rows.topologies import topologies
from simulator.testing.brokers.servers import Server
from tests.counters.workloads import EXPIRATION_MS, SETTLE_MS, QueuePlan, Step, Workload

Result = TypeVar("Result")
TRIES = 20
WAIT_SECONDS = 5
QUIET_SECONDS = 0.6  # of a real server, which may be late with what it traces
CAPTURE_SECONDS = 120
HOUR_MS = 3_600_000
PROMETHEUS = "http/prometheus"


class DisturbedError(Exception):
    """Others used the server meanwhile, and the counters have counted them as well."""


@dataclass(frozen=True)
class Target:
    """A server to play on.

    Attributes:
        server: it.
        pass_time: lets so many milliseconds pass on its clock.
        quiet_s: when it has traced nothing for so long, nothing more comes.
    """

    server: Server
    pass_time: Callable[[int], None] = lambda milliseconds: time.sleep(milliseconds / 1_000)
    quiet_s: float = QUIET_SECONDS

    @property
    def metrics_url(self) -> str | None:
        """Where its metrics are, as its management API says; ``None`` without the Prometheus plugin."""
        for listener in self.server.api("GET", "overview")["listeners"]:
            if listener["protocol"] == PROMETHEUS:
                return f"http://{urlsplit(self.server.management_url).hostname}:{listener['port']}/metrics"
        return None


@dataclass(frozen=True)
class Played:
    """A workload that was played: what the broker counted, and the books of the replay."""

    workload: Workload
    readings: CounterReadings
    definitions: Definitions
    verdicts: dict[str, int]
    reconstructed: Mapping[tuple[str, str, str], int]
    balance: Balance


def play(target: Target, workload: Workload, folder: Path) -> Played:
    """Play a workload in a virtual host of its own.

    Raises:
        DisturbedError: others used the server meanwhile.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log, definitions = folder / "log.parquet", folder / "definitions.json"
    with virtual_host(target.server) as vhost:
        alone(target.server, vhost)
        declare(target.server, vhost, workload)
        with captured(target, vhost, log):
            run(target, vhost, workload)
        alone(target.server, vhost)
        definitions.write_text(json.dumps(target.server.api("GET", f"definitions/{vhost}")))
    played = replayed(workload, log, definitions, target.server.release)
    if played.balance.received != played.balance.published:  # all publishes here are to queues that there are
        raise DisturbedError(f"received {played.balance.received} messages instead of {played.balance.published}")
    return played


def replayed(workload: Workload, log: Path, definitions_path: Path, rules: str) -> Played:
    """Replay a captured workload and balance the books."""
    definitions, readings = read_definitions(definitions_path), read_counters(path_beside(log))
    # The rows have the time of whoever captures; a simulator's clock has run ahead of it.
    table = replay_table(open_log(log), definitions, rules, Assumptions(tolerance_ms=HOUR_MS))
    messages = pa.array(read_messages(table.column(LINEAGE), table.column("vhost")), pa.string())
    with tempfile.TemporaryDirectory() as work, Database(Path(work)) as database:
        captured = database.arrow("captured", pa.Table.from_batches(open_log(log)))
        counts = log_counts(database.arrow("replayed", table.append_column("message", messages)), captured)
    books = balance(readings, counts, topologies(definitions), release(rules))
    verdicts = [verdict for verdict in table.column("verdict").to_pylist() if verdict is not None]
    return Played(workload, readings, definitions, Counter(verdicts), counts.deaths, books)


@contextmanager
def virtual_host(server: Server) -> Iterator[str]:
    name = f"dlx-books-{uuid.uuid4().hex[:10]}"
    server.api("PUT", f"vhosts/{name}", {})
    try:
        server.api("PUT", f"permissions/{name}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
        yield name
    finally:
        server.api("DELETE", f"vhosts/{name}")


def alone(server: Server, vhost: str) -> None:
    """Raise ``DisturbedError`` if anybody is connected to another virtual host.

    A server may go on to list connections that ended with their virtual host.
    """
    connected = {each["vhost"] for each in server.api("GET", "connections") if "vhost" in each}
    others = (connected - {vhost}) & {each["name"] for each in server.api("GET", "vhosts")}
    if others:
        raise DisturbedError(f"connections to {', '.join(sorted(others))}")


def undisturbed(played: Callable[[], Result], told: Callable[[DisturbedError], object] = bool) -> Result:
    """Return what was played; it is played again while others disturb it, which ``told`` hears.

    Raises ``DisturbedError`` if they never stop.
    """
    for _ in range(TRIES - 1):
        try:
            return played()
        except DisturbedError as error:
            told(error)
            time.sleep(WAIT_SECONDS)
    return played()


def declare(server: Server, vhost: str, workload: Workload) -> None:
    with pika.BlockingConnection(pika.URLParameters(server.vhost_url(vhost))) as connection:
        channel = connection.channel()
        for queue in workload.queues:
            channel.queue_declare(queue.name, durable=True, arguments=queue.arguments)
        for name, kind, bound in workload.exchanges:
            channel.exchange_declare(name, kind, durable=True)
            for queue_name in bound:
                channel.queue_bind(queue_name, name, "")


@contextmanager
def captured(target: Target, vhost: str, out: Path, *, counted: bool = True) -> Iterator[None]:
    """Capture all that happens inside, and with ``counted`` what the broker counts meanwhile."""
    ready, stop = threading.Event(), threading.Event()
    quiet = [0.0]
    failed: list[BaseException] = []

    def record() -> None:
        try:
            report = capture(
                target.server.vhost_url(vhost), out, vhost=vhost, management_url=target.server.management_url,
                metrics_urls=[str(target.metrics_url)] if counted else [], on_ready=ready.set,
                until=CaptureLimits(stop=lambda: stop.is_set() and quiet[0] >= target.quiet_s, seconds=CAPTURE_SECONDS),
                on_idle=lambda seconds: quiet.__setitem__(0, seconds),
            )  # fmt: skip
            assert report.counters or not counted, report
        except BaseException as error:
            failed.append(error)
            ready.set()

    thread = threading.Thread(target=record)
    thread.start()
    ready.wait(CAPTURE_SECONDS)
    try:
        yield
    finally:
        stop.set()
        thread.join()
    if failed:
        raise failed[0]


def run(target: Target, vhost: str, workload: Workload) -> None:
    plans = {queue.name: queue for queue in workload.queues}
    with pika.BlockingConnection(pika.URLParameters(target.server.vhost_url(vhost))) as connection:
        publisher, consumer = connection.channel(), connection.channel()
        publisher.confirm_delivery()
        for number, step in enumerate(workload.steps):
            if step.do == "publish":
                _publish(publisher, step, number)
            else:
                _take(consumer, step, plans[step.queue])
            connection.process_data_events(0)
            target.pass_time(SETTLE_MS)
        if workload.drained:
            _drain(target, consumer, [queue for queue in workload.queues if queue.kind != "stream"])


def _drain(target: Target, channel: Any, queues: list[QueuePlan]) -> None:
    """Take all that is left, so that a delivery shows how it came there; each queue when all is quiet."""
    for queue in queues:
        while channel.basic_get(queue.name, auto_ack=True)[0] is not None:
            pass
        channel.connection.process_data_events(0)
        target.pass_time(SETTLE_MS)


def _publish(channel: Any, step: Step, number: int) -> None:
    for each in range(step.count):
        properties = pika.BasicProperties(message_id=f"m{number}.{each}", delivery_mode=2)
        if step.expiring:
            properties.expiration = EXPIRATION_MS
        with suppress(NackError):  # the queue is full
            channel.basic_publish("", step.queue, b"x" * 10, properties)


def _take(channel: Any, step: Step, plan: QueuePlan) -> None:
    """Get messages and settle each before the next; one that comes back is got again until its queue gives it up."""
    again = 1 + plan.arguments.get("x-delivery-limit", 1) if step.action == "requeue" else 1
    for _ in range(step.count * again):
        method, _, _ = channel.basic_get(plan.name)
        if method is None:
            return
        if step.action == "ack":
            channel.basic_ack(method.delivery_tag)
        else:
            channel.basic_reject(method.delivery_tag, requeue=step.action == "requeue")
