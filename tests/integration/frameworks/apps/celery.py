"""Celery: retries, countdowns, rejected tasks and lost workers, from queues of the type ``TYPE``.

As a script it runs itself with the argument ``worker``, as a process of its own, and gives it one task after the other.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from celery import Celery
from celery.exceptions import Reject
from kombu import Exchange, Queue

TYPE = os.environ["TYPE"]
DEAD = {"x-dead-letter-exchange": "dead", "x-dead-letter-routing-key": "dead"}
LIMIT = {"x-delivery-limit": 2} if TYPE == "quorum" else {}


def queue(name, arguments, exchange=None):
    return Queue(name, exchange or Exchange(name, "topic"), name, queue_arguments={"x-queue-type": TYPE} | arguments)


orders, without, waiting = queue("orders", DEAD | LIMIT), queue("without", {}), queue("waiting", DEAD)
elsewhere = queue("elsewhere", {}, Exchange("elsewhere", "direct"))
dead = Queue("dead", Exchange("dead", "direct"), "dead")

app = Celery("celery", broker=os.environ["AMQP_URL"])
app.conf.update(
    task_queues=[orders, without],
    task_default_queue="orders",
    task_default_exchange_type="topic",
    worker_prefetch_multiplier=1,
    worker_detect_quorum_queues=True,
    broker_transport_options={"confirm_publish": True},
)


@app.task(name="works")
def works(number):
    pass


@app.task(name="retries", bind=True, max_retries=1, default_retry_delay=1)
def retries(self, number):
    """Fail to the end of its retries; the message is acknowledged before the task runs, and then it is gone."""
    if self.request.retries == self.max_retries:
        Path(os.environ["ENDED"]).touch()
    raise self.retry(exc=ValueError(number))


@app.task(name="rejects", acks_late=True)
def rejects(number):
    raise Reject(ValueError(number), requeue=False)


@app.task(name="fails", acks_late=True, acks_on_failure_or_timeout=False)
def fails(number):
    raise ValueError(number)


@app.task(name="dies", bind=True, acks_late=True, reject_on_worker_lost=True)
def dies(self, number, until_redelivered=TYPE == "classic"):
    """Kill its worker: without end, but for a delivery limit, which classic queues do not have."""
    if until_redelivered and self.request.delivery_info["redelivered"]:
        raise Reject(ValueError(number), requeue=False)
    os.kill(os.getpid(), signal.SIGKILL)


def wait_for(name, count):
    """Wait until so many messages are in the queue."""
    with app.connection_for_read() as connection:
        while connection.default_channel.queue_declare(name, passive=True).message_count < count:
            time.sleep(0.05)


def work():
    """Give the worker the tasks, in an order that does not hang on its speed."""
    with app.connection_for_write() as connection:
        for each in (dead, waiting, elsewhere, orders, without):
            each(connection).declare()
    for count, task in enumerate((rejects, fails, dies), 1):
        task.delay(count)
        wait_for("dead", count)
    rejects.apply_async((4,), queue="without")
    retries.delay(5)
    while not Path(os.environ["ENDED"]).exists():
        time.sleep(0.05)
    time.sleep(1)  # the worker acknowledges a task some time after it has begun, which no client can see


def leave_for_later():
    """Publish what no worker takes."""
    works.apply_async((6,), queue=orders, expires=60)
    works.apply_async((7,), queue=elsewhere, countdown=1)  # its exchange is direct
    works.apply_async((8,), queue=waiting, countdown=1)  # no worker has this queue, and so none bound it to the delays
    works.apply_async((9,), queue=orders, countdown=1)
    wait_for("orders", 2)


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ENDED"] = f"{folder}/ended"
        worker = subprocess.Popen([sys.executable, "-P", __file__, "worker"])
        try:
            work()
        finally:
            worker.terminate()
            worker.wait()
    leave_for_later()


if sys.argv[1:]:
    app.worker_main(["worker", "--concurrency", "1", "--loglevel", "WARNING"])
else:
    main()
