"""Dramatiq: a task that runs, one that fails to the end of its retries, an unknown one, and a delay nobody waits out."""

import os

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.middleware import Retries

broker = RabbitmqBroker(url=os.environ["AMQP_URL"], confirm_delivery=True, middleware=[Retries()])
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name="orders")
def works(number):
    pass


@dramatiq.actor(queue_name="orders", max_retries=2, min_backoff=50, max_backoff=100)
def fails(number):
    raise ValueError(number)


@dramatiq.actor(queue_name="orders", throws=ValueError)
def gives_up(number):
    raise ValueError(number)


def unknown():
    return dramatiq.Message("orders", "removed", (3,), {}, {})


worker = dramatiq.Worker(broker, worker_threads=1)
worker.start()
for message in (works.message(1), fails.message(2), unknown(), gives_up.message(4), works.message(5)):
    broker.enqueue(message)
    broker.join("orders")
works.send_with_options(args=(6,), delay=200)
broker.join("orders")
worker.stop()
works.send_with_options(args=(7,), delay=1000)  # nobody takes it: it stays in orders.DQ, whatever its time
broker.close()
