"""How fast ``dlx redrive`` moves messages on a live RabbitMQ, against a loop that only confirms and acknowledges.

    DLX_LIVE_SERVERS=4.3=AMQP_URL|MANAGEMENT_URL python benchmarks/redrive_speed.py [--messages 100000]

Messages of 100 bytes that died once wait in a dead-letter queue. The loop takes them with the same client library,
publishes each to the queue of its origin, and acknowledges what was confirmed: neither plan nor journal.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pika

sys.path.insert(0, str(Path(__file__).parent.parent))

from simulator.redrive.bring_back import Pace, bring_back, check_delivery_limit
from simulator.redrive.execute import Execution, RedriveSource
from simulator.redrive.journal import JournalTotals, RedriveJournal
from simulator.redrive.plan import Planned, RedriveOptions
from simulator.redrive.prediction import Kind, Prediction
from simulator.redrive.server import ServerAddress, queue_on, server_at
from simulator.redrive.waiting import Address, WaitingMessage
from tests.live.servers import LiveServer, fresh_vhost, given

DEAD, WORK = "dead", "work"
WAIT_S = 60


class NoJournal:
    """A journal that forgets."""

    ledger = JournalTotals()

    def begin(self, ready: int) -> None:
        """Write nothing."""

    def seen(self, mark: str, message_id: str) -> None:
        """Note nothing."""

    def write(self, step: str, messages: Any) -> None:
        """Write nothing."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--release", default="4.3")
    parser.add_argument("--type", choices=("classic", "quorum"), default="classic", help="of both queues")
    options = parser.parse_args()
    live = next((each for each in given() if each.release == options.release), None)
    if live is None:
        parser.error(f"name a {options.release} in DLX_LIVE_SERVERS")
    with fresh_vhost(live) as vhost:
        server = server_at(live.amqp_url, live.management_url, vhost)
        loop = timed(live, server, options, lambda: plain_loop(server))
        moved = timed(live, server, options, lambda: redrive(server))
    for name, took in (("loop", loop), ("dlx redrive", moved)):
        speed, each_us = options.messages / took.elapsed_s, took.processor_s / options.messages * 1e6
        print(f"{name}: {speed:,.0f} messages a second, {each_us:.0f} us of processor time each")
    worked = loop.processor_s / moved.processor_s
    print(f"of the loop: {loop.elapsed_s / moved.elapsed_s:.2f}; of processor time {worked:.2f}")


class Took(NamedTuple):
    """How long it took, and how much of that this process worked."""

    elapsed_s: float
    processor_s: float


def timed(live: LiveServer, server: ServerAddress, options: argparse.Namespace, move: Callable[[], None]) -> Took:
    """Return how long it takes to move the messages out of a new dead-letter queue."""
    count, kind = options.messages, {"x-queue-type": options.type}
    parameters = pika.URLParameters(live.amqp_url)
    parameters.virtual_host = server.vhost
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        for queue in (DEAD, WORK):
            channel.queue_delete(queue)
        channel.queue_declare(DEAD, durable=True, arguments=kind)
        dead_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD, "x-message-ttl": 0}
        channel.queue_declare(WORK, durable=True, arguments=dead_letters)
        for number in range(count):
            properties = pika.BasicProperties(message_id=f"m{number}", delivery_mode=2)
            channel.basic_publish("", WORK, b"." * 100, properties)
        until = time.monotonic() + WAIT_S
        while channel.queue_declare(DEAD, passive=True).method.message_count < count:
            assert time.monotonic() < until
            connection.sleep(0.1)
        channel.queue_delete(WORK)
        channel.queue_declare(WORK, durable=True, arguments=kind)
        began, worked = time.perf_counter(), time.process_time()
        move()
        took = Took(time.perf_counter() - began, time.process_time() - worked)
        assert channel.queue_declare(WORK, passive=True).method.message_count == count
        return took


def plain_loop(server: ServerAddress) -> None:
    """Publish each message to its queue, and acknowledge what was confirmed."""
    assert server.amqp_url is not None

    def planned(message: WaitingMessage) -> Planned:
        return Planned(message, Address("", WORK), {}, {}, Prediction(Kind.ARRIVES), True)

    Execution(RedriveSource(server.amqp_url, server.vhost, DEAD), NoJournal(), planned).run()  # type: ignore[arg-type]


def redrive(server: ServerAddress) -> None:
    """Do it as the command does."""
    with tempfile.TemporaryDirectory(prefix="dlx-benchmark-") as folder:
        wanted = RedriveOptions()
        on_server = queue_on(server, DEAD)
        with RedriveJournal(Path(folder) / "journal", wanted.asked(str(server), server.vhost, DEAD)) as journal:
            check_delivery_limit(server, on_server, Pace())
            bring_back(server, on_server, wanted, journal, Pace())


if __name__ == "__main__":
    main()
