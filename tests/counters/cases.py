"""Small cases of what counts and what does not; what servers counted in each is recorded in ``recorded/``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pika
from pika.exceptions import AMQPError, NackError

from simulator.capture.live import read_metrics
from tests.counters.playing import Target, alone, virtual_host

WAIT_MS = 400
MISSING = "dlx-misspelt"
FIRST = {"x-stream-offset": "first"}
AT_LEAST_ONCE = {"strategy": "at-least-once", "overflow": "reject-publish"}
_ARGUMENTS = {
    "kind": "x-queue-type", "ttl": "x-message-ttl", "most": "x-max-length", "overflow": "x-overflow",
    "limit": "x-delivery-limit", "dlx": "x-dead-letter-exchange", "key": "x-dead-letter-routing-key",
    "strategy": "x-dead-letter-strategy", "priorities": "x-max-priority",
}  # fmt: skip


class Bench:
    """A virtual host of one case, and a client in it."""

    def __init__(self, target: Target, vhost: str, channel: Any) -> None:
        self.target = target
        self.vhost = vhost
        self.channel = channel

    def queue(self, name: str, **settings: Any) -> None:
        """Declare a durable queue; settings go by the names of ``_ARGUMENTS``."""
        arguments = {_ARGUMENTS[setting]: value for setting, value in {"kind": "classic", **settings}.items()}
        self.channel.queue_declare(name, durable=True, arguments=arguments)

    def exchange(self, name: str, *bound: str) -> None:
        """Declare a fanout exchange with queues bound to it."""
        self.channel.exchange_declare(name, "fanout", durable=True)
        for queue in bound:
            self.channel.queue_bind(queue, name)

    def publish(self, queue: str, count: int = 1, *, exchange: str = "", **properties: Any) -> None:
        """Publish with confirms; a refusal is none of the case's business."""
        with self._channel() as channel:
            channel.confirm_delivery()
            for _ in range(count):
                with suppress(NackError):
                    channel.basic_publish(
                        exchange, queue, b"0123456789", pika.BasicProperties(delivery_mode=2, **properties)
                    )

    def take(self, queue: str, action: str, count: int = 1) -> None:
        """Get so many messages, one after the other, and ``ack``, ``reject`` or ``requeue`` each."""
        for _ in range(count):
            method, _, _ = self.channel.basic_get(queue)
            if method is not None and action == "ack":
                self.channel.basic_ack(method.delivery_tag)
            elif method is not None:
                self.channel.basic_reject(method.delivery_tag, requeue=action == "requeue")

    def wait(self) -> None:
        """Let what dies by itself die."""
        self.channel.connection.process_data_events(0)
        self.target.pass_time(WAIT_MS)

    @contextmanager
    def _channel(self) -> Iterator[Any]:
        channel = self.channel.connection.channel()
        yield channel
        if channel.is_open:
            channel.close()


Case = Callable[[Bench], None]
CASES: dict[str, Case] = {}


def case(act: Case) -> Case:
    """Add a case under the name of its function."""
    CASES[act.__name__.replace("_", "-")] = act
    return act


def counted(target: Target, name: str) -> dict[str, int]:
    """Return by how much each counter rose in a case: the counter as text, and how much."""
    alone(target.server, "")
    with virtual_host(target.server) as vhost:
        parameters = pika.URLParameters(target.server.vhost_url(vhost))
        with pika.BlockingConnection(parameters) as connection:
            before = read_metrics(str(target.metrics_url))
            bench = Bench(target, vhost, connection.channel())
            CASES[name](bench)
            bench.wait()
            risen = before.until(read_metrics(str(target.metrics_url))).counted()
            alone(target.server, vhost)
            with suppress(AMQPError):
                connection.process_data_events(0)
    return {str(series): count for series, count in sorted(risen.items()) if count}


# Where there is no dead-letter exchange


@case
def expired_without_exchange(bench: Bench) -> None:
    for kind in ("classic", "quorum"):
        bench.queue(kind, kind=kind, ttl=20)
        bench.publish(kind, 2)


@case
def expired_at_once_without_exchange(bench: Bench) -> None:
    bench.queue("q", ttl=0)
    bench.publish("q", 2)


@case
def expired_by_the_message_without_exchange(bench: Bench) -> None:
    for kind in ("classic", "quorum"):
        bench.queue(kind, kind=kind)
        bench.publish(kind, 2, expiration="20")


@case
def rejected_without_exchange(bench: Bench) -> None:
    for kind in ("classic", "quorum"):
        bench.queue(kind, kind=kind)
        bench.publish(kind, 3)
        bench.take(kind, "reject", 2)


@case
def rejected_together_without_exchange(bench: Bench) -> None:
    for kind in ("classic", "quorum"):
        bench.queue(kind, kind=kind)
        bench.publish(kind, 3)
        for _ in range(3):
            method, _, _ = bench.channel.basic_get(kind)
        bench.channel.basic_nack(method.delivery_tag, multiple=True, requeue=False)


@case
def pushed_out_without_exchange(bench: Bench) -> None:
    for kind in ("classic", "quorum"):
        bench.queue(kind, kind=kind, most=1)
        bench.publish(kind, 3)


@case
def delivery_limit_without_exchange(bench: Bench) -> None:
    bench.queue("q", kind="quorum", limit=1)
    bench.publish("q", 1)
    bench.take("q", "requeue", 2)


@case
def priority_queue_without_exchange(bench: Bench) -> None:
    bench.queue("q", ttl=20, priorities=3)
    for priority in (1, 3, 2):
        bench.publish("q", 1, priority=priority)


@case
def misspelt_exchange(bench: Bench) -> None:
    for kind in ("classic", "quorum"):
        bench.queue(kind, kind=kind, ttl=20, dlx=MISSING)
        bench.publish(kind, 2)


@case
def misspelt_exchange_at_least_once(bench: Bench) -> None:
    bench.queue("q", kind="quorum", ttl=20, dlx=MISSING, **AT_LEAST_ONCE)
    bench.publish("q", 2)


# With a dead-letter exchange, at most once


@case
def each_reason_at_most_once(bench: Bench) -> None:
    bench.queue("dead")
    for kind in ("classic", "quorum"):
        bench.queue(f"{kind}.ttl", kind=kind, dlx="", key="dead", ttl=20)
        bench.queue(f"{kind}.most", kind=kind, dlx="", key="dead", most=1)
        bench.queue(f"{kind}.reject", kind=kind, dlx="", key="dead")
        bench.publish(f"{kind}.ttl")
        bench.publish(f"{kind}.most", 3)
        bench.publish(f"{kind}.reject")
        bench.take(f"{kind}.reject", "reject")
    bench.queue("limit", kind="quorum", dlx="", key="dead", limit=1)
    bench.publish("limit")
    bench.take("limit", "requeue", 2)


@case
def routed_nowhere(bench: Bench) -> None:
    bench.exchange("x")
    for kind in ("classic", "quorum"):
        bench.queue(kind, kind=kind, dlx="x", ttl=20)
        bench.publish(kind, 2)


@case
def dropped_as_a_cycle(bench: Bench) -> None:
    bench.queue("q", dlx="", key="q", ttl=20)
    bench.publish("q", 2)


@case
def a_death_with_two_copies(bench: Bench) -> None:
    bench.queue("one")
    bench.queue("two")
    bench.exchange("x", "one", "two")
    bench.queue("q", dlx="x", ttl=20)
    bench.publish("q", 2)


@case
def refused_by_a_full_target(bench: Bench) -> None:
    bench.queue("full", most=1, overflow="reject-publish")
    bench.publish("full")
    bench.queue("q", dlx="", key="full", ttl=20)
    bench.publish("q", 2)


@case
def into_a_stream(bench: Bench) -> None:
    bench.queue("s", kind="stream")
    bench.queue("q", dlx="", key="s", ttl=20)
    bench.publish("q", 2)


@case
def at_least_once_with_drop_head(bench: Bench) -> None:
    bench.queue("dead")
    bench.queue("q", kind="quorum", dlx="", key="dead", ttl=20, strategy="at-least-once", overflow="drop-head")
    bench.publish("q", 2)


# Overflow


@case
def refused_publishes(bench: Bench) -> None:
    bench.queue("dead")
    bench.queue("classic", most=1, overflow="reject-publish", dlx="", key="dead")
    bench.queue("quorum", kind="quorum", most=1, overflow="reject-publish", dlx="", key="dead")
    for queue in ("classic", "quorum"):
        bench.publish(queue, 2)
        bench.wait()
        bench.publish(queue, 2)
        bench.wait()


@case
def refused_publishes_dead_lettered(bench: Bench) -> None:
    bench.queue("dead")
    bench.queue("with", most=1, overflow="reject-publish-dlx", dlx="", key="dead")
    bench.queue("without", most=1, overflow="reject-publish-dlx")
    bench.queue("misspelt", most=1, overflow="reject-publish-dlx", dlx=MISSING)
    for queue in ("with", "without", "misspelt"):
        bench.publish(queue, 3)


@case
def reject_publish_dlx_in_a_quorum_queue(bench: Bench) -> None:
    bench.queue("q", kind="quorum", most=1, overflow="reject-publish-dlx")
    bench.publish("q", 3)


# At least once


@case
def each_reason_at_least_once(bench: Bench) -> None:
    bench.queue("dead")
    settings = {"kind": "quorum", "dlx": "", "key": "dead", **AT_LEAST_ONCE}
    bench.queue("ttl", ttl=20, **settings)
    bench.queue("limit", limit=1, **settings)
    bench.queue("reject", **settings)
    for queue in ("ttl", "limit", "reject"):
        bench.publish(queue, 1)
    bench.take("reject", "reject")
    bench.take("limit", "requeue", 2)


@case
def at_least_once_with_two_copies(bench: Bench) -> None:
    bench.queue("one")
    bench.queue("two", kind="quorum")
    bench.exchange("x", "one", "two")
    bench.queue("q", kind="quorum", ttl=20, dlx="x", **AT_LEAST_ONCE)
    bench.publish("q", 2)


@case
def at_least_once_into_a_stream(bench: Bench) -> None:
    bench.queue("s", kind="stream")
    bench.queue("q", kind="quorum", ttl=20, dlx="", key="s", **AT_LEAST_ONCE)
    bench.publish("q", 2)


@case
def at_least_once_routed_nowhere(bench: Bench) -> None:
    bench.exchange("x")
    bench.queue("q", kind="quorum", ttl=20, dlx="x", **AT_LEAST_ONCE)
    bench.publish("q", 2)


@case
def at_least_once_into_the_queue_itself(bench: Bench) -> None:
    bench.queue("q", kind="quorum", dlx="", key="q", **AT_LEAST_ONCE)
    bench.publish("q", 2)
    bench.take("q", "reject", 2)


@case
def at_least_once_into_a_full_queue(bench: Bench) -> None:
    bench.queue("full", most=1, overflow="reject-publish")
    bench.queue("q", kind="quorum", ttl=20, dlx="", key="full", **AT_LEAST_ONCE)
    bench.publish("q", 3)


# What is no death


@case
def purged_and_deleted(bench: Bench) -> None:
    for kind in ("classic", "quorum"):
        bench.queue(kind, kind=kind)
        bench.publish(kind, 2)
        bench.channel.queue_purge(kind)
        bench.publish(kind, 1)
        bench.channel.queue_delete(kind)


@case
def read_and_acknowledged(bench: Bench) -> None:
    for kind in ("classic", "quorum"):
        bench.queue(kind, kind=kind)
        bench.publish(kind, 4)
        bench.take(kind, "ack")
        bench.take(kind, "requeue")
        bench.channel.basic_get(kind, auto_ack=True)
        bench.channel.basic_get(kind, auto_ack=True)
        bench.channel.basic_get(kind, auto_ack=True)
        bench.channel.basic_get(kind)


@case
def published_in_every_way(bench: Bench) -> None:
    bench.queue("q")
    bench.queue("also")
    bench.exchange("both", "q", "also")
    bench.channel.basic_publish("", "q", b"")
    bench.channel.basic_publish("both", "", b"")
    bench.channel.basic_publish("", "nowhere", b"")
    bench.channel.basic_publish("", "nowhere", b"", mandatory=True)
    bench.publish("q")
    bench.publish("nowhere")
    transactional = bench.channel.connection.channel()
    transactional.tx_select()
    transactional.basic_publish("", "q", b"")
    transactional.tx_commit()
    transactional.basic_publish("", "q", b"")
    transactional.tx_rollback()


@case
def published_to_no_exchange(bench: Bench) -> None:
    channel = bench.channel.connection.channel()
    with suppress(AMQPError):
        channel.basic_publish("nope", "q", b"")
        channel.queue_declare("q", passive=True)


@case
def consumed(bench: Bench) -> None:
    for kind in ("classic", "quorum"):
        bench.queue(kind, kind=kind)
        bench.publish(kind, 2)
        seen: list[int] = []
        tag = bench.channel.basic_consume(kind, lambda _, method, *__: seen.append(method.delivery_tag))  # noqa: B023
        while len(seen) < 2:
            bench.channel.connection.process_data_events(0.05)
        bench.channel.basic_cancel(tag)
        bench.channel.basic_ack(seen[0])
        bench.channel.basic_nack(seen[1])
        bench.wait()
        bench.channel.basic_get(kind, auto_ack=True)


@case
def published_by_management(bench: Bench) -> None:
    bench.queue("q", ttl=20)
    body = {"properties": {}, "routing_key": "q", "payload": "", "payload_encoding": "string"}
    bench.target.server.api("POST", f"exchanges/{bench.vhost}/amq.default/publish", body)
    bench.wait()
    bench.queue("kept")
    bench.target.server.api("POST", f"exchanges/{bench.vhost}/amq.default/publish", {**body, "routing_key": "kept"})
    body = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    bench.target.server.api("POST", f"queues/{bench.vhost}/kept/get", body)


@case
def answered_by_direct_reply_to(bench: Bench) -> None:
    bench.queue("q")
    seen: list[bytes] = []
    bench.channel.basic_consume("amq.rabbitmq.reply-to", lambda *got: seen.append(got[3]), auto_ack=True)
    bench.channel.basic_publish("", "q", b"", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))
    bench.wait()
    _, properties, _ = bench.channel.basic_get("q", auto_ack=True)
    bench.channel.basic_publish("", properties.reply_to, b"answer")
    bench.channel.connection.process_data_events(0.2)
    assert seen == [b"answer"]


@case
def held_and_purged(bench: Bench) -> None:
    bench.exchange("x")
    bench.queue("q", kind="quorum", ttl=20, dlx="x", **AT_LEAST_ONCE)
    bench.publish("q", 2)
    bench.wait()
    bench.channel.queue_purge("q")


@case
def held_and_let_go_by_a_policy(bench: Bench) -> None:
    policy = {"dead-letter-exchange": "x", "dead-letter-strategy": "at-least-once", "overflow": "reject-publish"}
    bench.exchange("x")
    _set_policy(bench, policy)
    bench.queue("q", kind="quorum", ttl=20)
    bench.publish("q", 2)
    bench.wait()
    _set_policy(bench, {**policy, "dead-letter-strategy": "at-most-once"})
    bench.wait()
    bench.publish("q", 1)


def _set_policy(bench: Bench, definition: dict[str, str]) -> None:
    body = {"pattern": "^q$", "definition": definition, "apply-to": "queues"}
    bench.target.server.api("PUT", f"policies/{bench.vhost}/p", body)
    bench.wait()


@case
def read_from_a_stream(bench: Bench) -> None:
    bench.queue("s", kind="stream")
    bench.publish("s", 2)
    with bench._channel() as channel:
        channel.basic_qos(prefetch_count=10)
        seen: list[int] = []
        channel.basic_consume("s", lambda _, method, *__: seen.append(method.delivery_tag), arguments=FIRST)
        while len(seen) < 2:
            bench.channel.connection.process_data_events(0.05)
        channel.basic_ack(seen[-1], multiple=True)
        bench.wait()
