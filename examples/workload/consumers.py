"""Consumers: what they do with a delivery, and the worker that does it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import pika


class Verdict(Enum):
    """What a consumer does with a delivery."""

    ACK = auto()
    REJECT = auto()  # basic.reject, requeue=false
    NACK = auto()  # basic.nack, requeue=false
    REQUEUE = auto()  # basic.reject, requeue=true
    NACK_REQUEUE = auto()  # basic.nack, requeue=true
    CLOSE_CHANNEL = auto()  # leave it unacknowledged, with all else the channel holds
    CLOSE_CONNECTION = auto()


ACK, REJECT, NACK = Verdict.ACK, Verdict.REJECT, Verdict.NACK
REQUEUE, NACK_REQUEUE = Verdict.REQUEUE, Verdict.NACK_REQUEUE
CLOSE_CHANNEL, CLOSE_CONNECTION = Verdict.CLOSE_CHANNEL, Verdict.CLOSE_CONNECTION


@dataclass(frozen=True)
class Delivery:
    """One delivery, as a handler sees it."""

    queue: str
    routing_key: str
    properties: pika.BasicProperties
    body: bytes

    def header(self, name: str, default: Any = 0) -> Any:
        return (self.properties.headers or {}).get(name, default)

    def rejections(self) -> int:
        """How often this queue's consumer has rejected the message, by its x-death."""
        deaths = self.header("x-death", [])
        return sum(d["count"] for d in deaths if d["queue"] == self.queue and d["reason"] == "rejected")


Handler = Callable[[Delivery], Verdict]


def accept(_: Delivery) -> Verdict:
    return ACK


def refuse(_: Delivery) -> Verdict:
    return REJECT


def obey(delivery: Delivery) -> Verdict:
    """Accept unless the message says that its consumer refuses it, by basic.reject or basic.nack."""
    return {"reject": REJECT, "nack": NACK}.get(delivery.header("refused"), ACK)


class Worker:
    """A consumer of one or more queues, on a connection of its own."""

    def __init__(self, parameters: pika.URLParameters, handlers: dict[str, Handler], prefetch: int) -> None:
        self.parameters, self.handlers, self.prefetch = parameters, handlers, prefetch
        self.received = 0
        self.closing: Verdict | None = None
        self.connection = pika.BlockingConnection(parameters)
        self.subscribe()

    def subscribe(self) -> None:
        self.channel = self.connection.channel()
        self.channel.basic_qos(prefetch_count=self.prefetch)
        for queue, handler in self.handlers.items():
            self.channel.basic_consume(queue, self.callback(queue, handler))

    def callback(self, queue: str, handler: Handler) -> Callable[..., None]:
        def on_message(channel: Any, method: Any, properties: pika.BasicProperties, body: bytes) -> None:
            self.received += 1
            if self.closing:  # what a crashing consumer holds stays unacknowledged
                return
            verdict = handler(Delivery(queue, method.routing_key, properties, body))
            if verdict in (CLOSE_CHANNEL, CLOSE_CONNECTION):
                self.closing = verdict
            else:
                answer(channel, method.delivery_tag, verdict)

        return on_message

    def pump(self, seconds: float) -> None:
        """Handle what arrives within that time, and crash where a handler asked for it."""
        self.connection.process_data_events(time_limit=seconds)
        if self.closing:
            (self.channel if self.closing is CLOSE_CHANNEL else self.connection).close()
            if self.closing is CLOSE_CONNECTION:
                self.connection = pika.BlockingConnection(self.parameters)
            self.closing = None
            self.subscribe()


def answer(channel: Any, tag: int, verdict: Verdict) -> None:
    if verdict is ACK:
        channel.basic_ack(tag)
    elif verdict in (REJECT, REQUEUE):
        channel.basic_reject(tag, requeue=verdict is REQUEUE)
    else:
        channel.basic_nack(tag, requeue=verdict is NACK_REQUEUE)
