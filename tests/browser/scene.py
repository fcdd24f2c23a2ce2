"""What is looked at: a shop's broker on which something has gone wrong, and the report on a captured log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError

import simulator
from simulator.cli.main import main
from simulator.server.in_process import Server
from tests.replay.logs import EXAMPLES

START_US = 1_767_603_600_000_000  # 2026-01-05 09:00:00 UTC


@dataclass
class Scene:
    """A running server, and a channel of a client of it."""

    server: Server
    channel: BlockingChannel

    @property
    def url(self) -> str:
        """Where the page is."""
        assert self.server.management_url is not None
        return self.server.management_url

    def declare(self, name: str, **arguments: object) -> None:
        given = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        self.channel.queue_declare(name, durable=True, arguments=given)

    def publish(self, exchange: str, key: str, body: str, message_id: str | None = None, **headers: object) -> None:
        properties = pika.BasicProperties(message_id=message_id, headers=headers or None)
        self.channel.basic_publish(exchange, key, body.encode(), properties)
        self.settle()

    def reject(self, queue: str) -> None:
        """Get a message, and reject it for good."""
        method, _, _ = self.channel.basic_get(queue)
        assert method is not None
        self.channel.basic_reject(method.delivery_tag, requeue=False)
        self.settle()

    def settle(self) -> None:
        """Return when the server has done what was sent."""
        self.channel.exchange_declare("amq.topic", passive=True)


@contextmanager
def shop() -> Iterator[Scene]:
    """Serve the shop: bills go to a misspelt exchange, orders are retried, odd messages wait for a human."""
    with _served() as scene:
        yield _set_up(scene)


@contextmanager
def mistakes() -> Iterator[Scene]:
    """Serve a broker on which each message is lost by another mistake: ``bill`` by the first, and so on."""
    with _served() as scene:
        yield _make_mistakes(scene)


@contextmanager
def _served() -> Iterator[Scene]:
    with simulator.serve("4.3", management_port=0, start_us=START_US) as server:
        connection = pika.BlockingConnection(pika.URLParameters(server.amqp_url))
        try:
            yield Scene(server, connection.channel())
        finally:
            with suppress(AMQPError):  # a test may have stopped the server
                connection.close()


def _set_up(scene: Scene) -> Scene:
    _declare(scene)
    _publish(scene)
    scene.server.clock.advance(milliseconds=250)
    for _ in range(2):
        scene.reject("orders")
        scene.server.clock.advance(seconds=31)
    scene.channel.basic_get("orders")  # somebody works on it
    scene.settle()
    return scene


def _make_mistakes(scene: Scene) -> Scene:
    scene.channel.exchange_declare("shop", "topic", durable=True)
    scene.declare("bills", dead_letter_exchange="biils.dlx")
    scene.channel.queue_bind("bills", "shop", "bill.#")
    scene.declare("first", message_ttl=1_000, dead_letter_exchange="", dead_letter_routing_key="second")
    scene.declare("second", message_ttl=1_000, dead_letter_exchange="", dead_letter_routing_key="first")
    scene.declare("jobs", queue_type="quorum", delivery_limit=1)
    scene.declare("codes", message_ttl=5_000)
    scene.declare("pictures", max_length=2)
    scene.publish("shop", "bill.eu", "", "bill")
    scene.reject("bills")
    scene.publish("shop", "bil.eu", "", "misspelt")
    scene.publish("", "job", "", "nowhere")
    scene.publish("", "first", "", "round")
    scene.publish("", "jobs", "", "poison")
    for _ in range(2):
        with scene.channel.connection.channel() as consumer:
            consumer.basic_get("jobs")
    scene.publish("", "codes", "", "late")
    for name in ("pushed-out", "kept-1", "kept-2"):
        scene.publish("", "pictures", "", name)
    scene.server.clock.advance(seconds=6)
    return scene


def _declare(scene: Scene) -> None:
    for name, kind in (("shop", "topic"), ("retry", "direct")):
        scene.channel.exchange_declare(name, kind, durable=True)
    scene.declare("bills", message_ttl=60_000, dead_letter_exchange="biils.dlx")
    scene.declare(
        "orders",
        queue_type="quorum",
        delivery_limit=3,
        dead_letter_exchange="retry",
        dead_letter_routing_key="wait",
    )
    scene.declare("orders.wait", message_ttl=30_000, dead_letter_exchange="", dead_letter_routing_key="orders")
    scene.declare("parking")
    scene.declare("thumbnails", max_length=5)
    for queue, exchange, key in (
        ("orders", "shop", "order.#"),
        ("bills", "shop", "bill.#"),
        ("orders.wait", "retry", "wait"),
    ):
        scene.channel.queue_bind(queue, exchange, key)


def _publish(scene: Scene) -> None:
    for number in (1, 2, 3):
        scene.publish("shop", "bill.eu", f'{{"bill": {number}, "amount": 12}}', f"bill-{number}")
    for number in (1, 2, 3, 4):
        scene.publish("shop", "order.new", f'{{"order": {number}}}', f"order-{number}", tenant="acme")
    for _ in range(6):
        scene.publish("", "thumbnails", "a picture")
    for number in range(1, 13):
        scene.publish("", "parking", "look at me", f"odd-{number}")


def report_of_the_example(out: Path) -> Path:
    """Replay the captured example of 4.3 into the folder; return its report."""
    example = EXAMPLES / "captured-4.3"
    logs = [str(example / "trace.log.gz"), "--definitions", str(example / "definitions.json")]
    assert main(["replay", *logs, "--release", "4.3", "--out", str(out)]) == 0
    return out / "report.html"
