"""The retry ladder with pika: python -m examples.consumers.with_pika amqp://guest:guest@localhost:5672/"""

from __future__ import annotations

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import Basic, BasicProperties

import dlx
from examples.consumers.arguments import broker_url
from examples.consumers.ladder import PLAN, TRY_QUEUES, parked_headers, queue_arguments, work


def consume(channel: BlockingChannel) -> None:
    """Declare the queues and subscribe to those with work."""
    for queue, arguments in queue_arguments().items():
        channel.queue_declare(queue, durable=True, arguments=arguments)
    channel.confirm_delivery()
    channel.basic_qos(prefetch_count=10)
    for queue in TRY_QUEUES:
        channel.basic_consume(queue, on_message)


def on_message(channel: BlockingChannel, method: Basic.Deliver, properties: BasicProperties, body: bytes) -> None:
    """One attempt."""
    try:
        work(body)
    except ValueError:
        match PLAN.decide(dlx.death_history(properties)):
            case dlx.Retry():
                channel.basic_reject(method.delivery_tag, requeue=False)  # the queue dead-letters it
                return
            case dlx.Park() as decision:
                properties.headers = parked_headers(properties, decision)
                properties.user_id = None  # of who published it first, which a server lets nobody else claim
                channel.basic_publish("", decision.to, body, properties)  # returns when the broker has it
    channel.basic_ack(method.delivery_tag)


if __name__ == "__main__":
    with pika.BlockingConnection(pika.URLParameters(broker_url())) as connection:
        orders = connection.channel()
        consume(orders)
        orders.start_consuming()
