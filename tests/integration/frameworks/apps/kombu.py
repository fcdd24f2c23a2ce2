"""Kombu: a consumer that rejects and requeues, a message it cannot decode, one that expires, and SimpleQueue."""

import os
import time
from contextlib import suppress

from kombu import Connection, Consumer, Exchange, Producer, Queue

events = Exchange("events", type="topic", durable=True)
dead = Queue("dead", Exchange("dead", type="fanout", durable=True), durable=True)
DEAD = {"x-dead-letter-exchange": "dead"}
orders = Queue("orders", events, routing_key="orders.#", queue_arguments=DEAD)
short = Queue("short", events, routing_key="short", message_ttl=1, max_length=2, queue_arguments=DEAD)
urgent = Queue("urgent", events, routing_key="urgent", max_priority=3)


def rest(connection, seconds):
    """Take what comes until nothing came for so many seconds."""
    with suppress(TimeoutError):
        while True:
            connection.drain_events(timeout=seconds)


def consume(connection, queue, act, errors=None):
    """Give every message of the queue to ``act`` until none is left."""
    with Consumer(connection.default_channel, [queue], callbacks=[lambda body, message: act(message)],
                  on_decode_error=errors, accept=["json"], prefetch_count=1):  # fmt: skip
        rest(connection, 0.5)


def refuse(message):
    """Return it once, and then reject it."""
    if message.delivery_info["redelivered"]:
        message.reject()
    else:
        message.requeue()


with Connection(os.environ["AMQP_URL"]) as connection:
    producer = Producer(connection, exchange=events)
    publish = {"declare": [dead, orders, short, urgent], "retry": True}
    producer.publish({"number": 1}, routing_key="orders.new", headers={"number": 1}, **publish)
    consume(connection, orders, refuse)
    producer.publish("number: 2", routing_key="orders.old", content_type="application/x-yaml", **publish)
    consume(connection, orders, refuse, errors=lambda message, error: message.reject())
    for number in (3, 4, 5):
        producer.publish({"number": number}, routing_key="short", **publish)
    producer.publish({"number": 6}, routing_key="short", expiration=0.5, **publish)
    with Consumer(connection.default_channel, [urgent], callbacks=[lambda body, message: message.reject()]):
        producer.publish({"number": 7}, routing_key="urgent", priority=9, **publish)
        rest(connection, 0.5)  # rejected where there is no dead-letter exchange
    while dead(connection).queue_declare(passive=True).message_count < 6:
        time.sleep(0.05)
    with connection.SimpleQueue("simple") as simple:
        simple.put({"number": 8})
        simple.put({"number": 9})
        simple.get(timeout=1).reject()
