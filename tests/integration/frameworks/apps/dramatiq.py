"""Dramatiq: tasks that run, fail to the end of their retries, or are unknown, and a delay that nobody waits out."""

import os
import queue
import time

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.middleware import Retries

broker = RabbitmqBroker(url=os.environ["AMQP_URL"], confirm_delivery=True, middleware=[Retries()])
dramatiq.set_broker(broker)
done = queue.Queue()


@dramatiq.actor(queue_name="orders")
def works(number):
    done.put(number)


@dramatiq.actor(queue_name="orders", max_retries=2, min_backoff=50, max_backoff=100)
def fails(number):
    raise ValueError(number)


@dramatiq.actor(queue_name="orders", throws=ValueError)
def gives_up(number):
    raise ValueError(number)


def unknown():
    return dramatiq.Message("orders", "removed", (3,), {}, {})


def wait_until_dead(count):
    while broker.get_queue_message_counts("orders")[2] < count:
        time.sleep(0.05)


worker = dramatiq.Worker(broker, worker_threads=1, worker_timeout=100)
worker.start()
works.send(1)
for dead, message in enumerate((fails.message(2), unknown(), gives_up.message(4)), 1):
    broker.enqueue(message)
    wait_until_dead(dead)
works.send_with_options(args=(5,), delay=200)
assert [done.get(), done.get()] == [1, 5]
time.sleep(0.2)  # the acknowledgement is on its way
worker.stop()
works.send_with_options(args=(6,), delay=1000)  # nobody takes it: it stays in orders.DQ, whatever its time
broker.close()
