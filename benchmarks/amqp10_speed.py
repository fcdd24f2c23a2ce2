"""The life of a dead letter over AMQP 1.0, by the second: publish, reject, drain.

    python benchmarks/amqp10_speed.py --live amqp://guest:guest@127.0.0.1:5672/ [--messages 10000] [--rounds 3]

Messages of 100 bytes go through a quorum queue with a dead-letter exchange on a live server and on ``dlx serve`` in a
process of its own, by the same Proton client. The medians are printed, and their ratios to the live server; without
``--live``, ``dlx serve`` alone.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pika
from proton import Delivery, Event, Message
from proton.handlers import MessagingHandler
from proton.reactor import Container

sys.path.insert(0, str(Path(__file__).parent.parent))

from served import Served

PHASES = ("publish", "reject", "drain")
CREDIT = 200


class Client(MessagingHandler):  # type: ignore[misc]
    """A client of one link that stops after ``count`` messages."""

    def __init__(self, url: str, address: str, count: int) -> None:
        super().__init__(prefetch=CREDIT, auto_accept=False)
        self.url = url
        self.address = address
        self.count = count
        self.done = 0

    def connect(self, event: Event) -> Any:
        """Log in as guest."""
        return event.container.connect(self.url, user="guest", password="guest", allowed_mechs="PLAIN")

    def one_done(self, event: Event) -> None:
        """Stop when all messages are done."""
        self.done += 1
        if self.done == self.count:
            event.link.close()

    def on_link_closed(self, event: Event) -> None:
        """Close the connection once the server has all outcomes, which it needs not look at after a close."""
        event.connection.close()


class Publisher(Client):
    """Publishes messages as credit allows, and waits until all are accepted."""

    sent = 0

    def on_start(self, event: Event) -> None:
        """Attach a sender."""
        event.container.create_sender(self.connect(event), self.address)

    def on_sendable(self, event: Event) -> None:
        """Publish what credit allows."""
        while event.sender.credit and self.sent < self.count:
            event.sender.send(Message(body=b"x" * 100, inferred=True, durable=True))
            self.sent += 1

    def on_accepted(self, event: Event) -> None:
        """Count a confirm."""
        self.one_done(event)


class Settler(Client):
    """Takes messages and settles each with the same outcome."""

    outcome = Delivery.ACCEPTED

    def on_start(self, event: Event) -> None:
        """Attach a receiver."""
        event.container.create_receiver(self.connect(event), self.address)

    def on_message(self, event: Event) -> None:
        """Settle a message."""
        event.delivery.update(self.outcome)
        event.delivery.settle()
        self.one_done(event)


class Rejecter(Settler):
    """Rejects messages."""

    outcome = Delivery.REJECTED


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--live", metavar="AMQP_URL", help="a live server to compare with")
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--release", default="4.3", help="of the simulator (4.3)")
    options = parser.parse_args()
    with Served(options.release) as served:
        sides = {"dlx serve": served.amqp_url} | ({"live": options.live} if options.live else {})
        rounds = [{name: measure(url, options.messages) for name, url in sides.items()} for _ in range(options.rounds)]
    for phase in PHASES:
        rate = {name: options.messages / statistics.median(each[name][phase] for each in rounds) for name in sides}
        shown = ", ".join(f"{name} {value:,.0f} a second" for name, value in rate.items())
        print(
            f"{phase}: {shown}"
            + (f"; of the live server {rate['dlx serve'] / rate['live']:.2f}" if options.live else "")
        )


def measure(url: str, count: int) -> dict[str, float]:
    """Return how many seconds each phase takes on the server."""
    work, dead = f"bench.{uuid.uuid4().hex}", f"bench.{uuid.uuid4().hex}"
    quorum = {"x-queue-type": "quorum"}
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.queue_declare(dead, durable=True, arguments=quorum)
        channel.queue_declare(work, durable=True, arguments=quorum | letters)
        steps = {"publish": (Publisher, work), "reject": (Rejecter, work), "drain": (Settler, dead)}
        took = {}
        for phase, (client, queue) in steps.items():
            began = time.perf_counter()
            handler = client(url.rstrip("/"), f"/queues/{queue}", count)
            Container(handler).run()
            took[phase] = time.perf_counter() - began
            assert handler.done == count, f"{phase}: only {handler.done} messages"
            connection.process_data_events()
        channel.queue_delete(work)
        channel.queue_delete(dead)
    return took


if __name__ == "__main__":
    main()
