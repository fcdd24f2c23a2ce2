"""How fast ``dlx inspect`` reads a queue of a live RabbitMQ, against a consumer that only takes and returns messages.

    DLX_LIVE_SERVERS=4.3=AMQP_URL|MANAGEMENT_URL python benchmarks/inspect_speed.py [--messages 5000] [--release 4.3]

The consumer uses the same client library: it takes all messages by one prefetch, and returns them by one basic.nack.
Both wait until the queue has them again. Each reads a new queue twice: a message that has come back before is nearer to
the delivery limit, so ``dlx inspect`` may have to take it more carefully.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pika
from pika.adapters.blocking_connection import BlockingChannel

sys.path.insert(0, str(Path(__file__).parent.parent))

from simulator.cli.main import main as dlx
from tests.live.servers import LiveServer, fresh_vhost, given

QUEUE = "dead"
WAIT_S = 60


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=5_000)
    parser.add_argument("--release", default="4.3")
    parser.add_argument("--type", choices=("classic", "quorum"), default="quorum")
    options = parser.parse_args()
    live = next((each for each in given() if each.release == options.release), None)
    if live is None:
        parser.error(f"name a {options.release} in DLX_LIVE_SERVERS")
    with fresh_vhost(live) as vhost:
        parameters = pika.URLParameters(live.amqp_url)
        parameters.virtual_host = vhost
        bare = timed(parameters, options, lambda: take_and_return(parameters, options.messages))
        inspect(live, vhost, "--max", "1")  # it imports what it needs
        inspected = timed(parameters, options, lambda: inspect(live, vhost))
    for reading, (one, other) in enumerate(zip(bare, inspected, strict=True), 1):
        print(f"reading {reading}: consumer {one:.2f} s, dlx inspect {other:.2f} s, {other / one:.1f} times as long")


def timed(parameters: pika.URLParameters, options: argparse.Namespace, read: Callable[[], None]) -> list[float]:
    """Return how many seconds each of two readings of a new queue takes."""
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.queue_delete(QUEUE)
        channel.queue_declare(QUEUE, durable=True, arguments={"x-queue-type": options.type})
        for number in range(options.messages):
            properties = pika.BasicProperties(message_id=f"m{number}", delivery_mode=2)
            channel.basic_publish("", QUEUE, b"." * 100, properties)
        wait_for(channel, options.messages)
        took = []
        for _ in range(2):
            began = time.perf_counter()
            read()
            took.append(time.perf_counter() - began)
            assert ready(channel) == options.messages
        return took


def ready(channel: BlockingChannel) -> int:
    """Return how many messages are ready."""
    count: int = channel.queue_declare(QUEUE, passive=True).method.message_count
    return count


def wait_for(channel: BlockingChannel, count: int) -> None:
    """Wait until that number of messages is ready."""
    until = time.monotonic() + WAIT_S
    while ready(channel) < count:
        assert time.monotonic() < until
        channel.connection.sleep(0.005)


def take_and_return(parameters: pika.URLParameters, count: int) -> None:
    """Take all messages, and give them back together."""
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=count)
        for method, _, _ in channel.consume(QUEUE):
            if method.delivery_tag == count:
                break
        channel.basic_nack(count, multiple=True, requeue=True)
        channel.basic_cancel(next(iter(channel.consumer_tags)))
        wait_for(channel, count)


def inspect(live: LiveServer, vhost: str, *options: str) -> None:
    """Read the queue as the command does."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        asked = [live.amqp_url, QUEUE, "--vhost", vhost, "--management-url", live.management_url, *options]
        status = dlx(["inspect", *asked, "--json"])
    assert status == 0


if __name__ == "__main__":
    main()
