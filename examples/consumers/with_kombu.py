"""The retry ladder with kombu: python -m examples.consumers.with_kombu amqp://guest:guest@localhost:5672/"""

from __future__ import annotations

from functools import partial
from typing import Any

from kombu import Connection, Consumer, Producer, Queue

import dlx
from examples.consumers.arguments import broker_url
from examples.consumers.ladder import PLAN, TRY_QUEUES, parked_headers, queue_arguments, work

CONFIRMED = {"confirm_publish": True}
"""The transport option with which a publish returns when the broker has the message."""
KEPT = ("message_id", "correlation_id", "reply_to", "type", "app_id", "timestamp", "priority")
"""The properties that a parked message keeps, beside the types of its content. It does not expire."""


def consume(connection: Connection) -> Consumer:
    """Declare the queues and subscribe to those with work; the consumer, to be used as a context manager."""
    channel = connection.channel()
    queues = {
        name: Queue(name, durable=True, queue_arguments=arguments, channel=channel)
        for name, arguments in queue_arguments().items()
    }
    for queue in queues.values():
        queue.queue_declare()
    producer = Producer(connection.channel())
    work_queues = [queues[name] for name in TRY_QUEUES]
    return Consumer(
        channel, work_queues, on_message=partial(on_message, producer), auto_declare=False, prefetch_count=10
    )


def on_message(producer: Producer, message: Any) -> None:
    """One attempt; ``message`` is a ``kombu.message.Message``."""
    try:
        work(message.body)
    except ValueError:
        match PLAN.decide(dlx.death_history(message)):
            case dlx.Retry():
                message.reject()  # the queue dead-letters it
                return
            case dlx.Park() as decision:
                kept = {name: value for name, value in message.properties.items() if name in KEPT}
                types = {"content_type": message.content_type, "content_encoding": message.content_encoding}
                producer.publish(message.body, decision.to, headers=parked_headers(message, decision), **kept, **types)
    message.ack()


if __name__ == "__main__":
    with Connection(broker_url(), transport_options=CONFIRMED) as connection, consume(connection):
        while True:
            connection.drain_events()
