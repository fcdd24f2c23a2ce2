"""What the worker runs. $DLX_CLIENTS_URL is its broker, $DLX_CELERY_RUN names its queues, $DLX_CELERY_TYPE their type.

Both queues dead-letter into ``DEAD``: a task that is rejected, that fails, or that expires, lands there. The worker
consumes from ``TASKS`` alone until it is told to take ``WAITING`` too.
"""

from __future__ import annotations

import os
from itertools import count
from typing import Any

from celery import Celery
from celery.exceptions import Reject
from kombu import Exchange, Queue

RUN, TYPE = os.environ["DLX_CELERY_RUN"], os.environ["DLX_CELERY_TYPE"]
TASKS, WAITING, DEAD = (f"{RUN}.{name}" for name in ("tasks", "waiting", "dead"))
DEAD_LETTER = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD}
PRIORITIES = {"x-max-priority": 9} if TYPE == "classic" else {}


def _queue(name: str, arguments: dict[str, Any]) -> Queue:
    # Celery's own countdown on quorum queues needs a topic exchange.
    exchange = Exchange(name, "topic")
    return Queue(name, exchange, routing_key=name, queue_arguments={"x-queue-type": TYPE, **arguments})


app = Celery("tasks", broker=os.environ["DLX_CLIENTS_URL"], backend="rpc://")
app.conf.update(
    task_acks_late=True,
    task_acks_on_failure_or_timeout=False,  # a task that fails is rejected, and not requeued
    task_default_queue=TASKS,
    task_queues=[_queue(TASKS, DEAD_LETTER), _queue(WAITING, DEAD_LETTER | PRIORITIES | {"x-max-length": 3})],
    task_default_exchange_type="topic",
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
)
dead = Queue(DEAD, routing_key=DEAD, queue_arguments={"x-queue-type": "classic"})
_started = count(1)


@app.task
def add(x: int, y: int) -> int:
    return x + y


@app.task(bind=True, max_retries=3)
def succeeds_at_last(self: Any, failures: int, countdown_s: float) -> int:
    """Is retried so many times, each after a countdown; then returns how often it was."""
    if self.request.retries < failures:
        raise self.retry(countdown=countdown_s)
    return self.request.retries


@app.task
def rejected() -> None:
    raise Reject("nobody can do this", requeue=False)


@app.task
def fails() -> None:
    raise ValueError("this task fails")


@app.task
def turn() -> int:
    """Which one in this worker's life it is."""
    return next(_started)


@app.task(bind=True)
def deaths(self: Any) -> list[dict[str, Any]]:
    """What dead-lettering wrote on the way here."""
    return [{key: death[key] for key in ("queue", "reason", "count")} for death in self.request.get("x-death") or []]
