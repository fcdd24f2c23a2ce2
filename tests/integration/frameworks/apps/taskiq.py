"""taskiq-aio-pika: a task that fails to the end of its retries, and delays, of which a longer one comes first."""

import asyncio
import os

from taskiq import SmartRetryMiddleware
from taskiq.api import run_receiver_task
from taskiq_aio_pika import AioPikaBroker
from taskiq_aio_pika.queue import Queue, QueueType

TRIES = 3

broker = AioPikaBroker(
    os.environ["AMQP_URL"], qos=1, delay_queue=Queue(name="taskiq.delay", type=QueueType.CLASSIC)
).with_middlewares(SmartRetryMiddleware(default_retry_count=TRIES, default_delay=0.2))
failed = []


@broker.task("works")
async def works(number):
    pass


@broker.task("fails", retry_on_error=True)
async def fails(number):
    failed.append(number)
    raise ValueError(number)


async def waiting():
    """How many messages are in the queue; a channel remembers what it declared, so it is a new one each time."""
    async with broker.write_conn.channel() as channel:
        return (await channel.declare_queue("taskiq", passive=True)).declaration_result.message_count


async def main():
    broker.is_worker_process = True
    await broker.startup()
    worker = asyncio.create_task(run_receiver_task(broker, max_async_tasks=1))
    await works.kiq(1)
    await fails.kiq(2)
    while len(failed) < TRIES:
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.3)
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)
    await broker.shutdown()
    broker.is_worker_process = False
    await broker.startup()
    await works.kicker().with_labels(delay=1).kiq(3)
    await works.kicker().with_labels(delay=0.2).kiq(4)  # it waits for the one before it
    await works.kicker().with_labels(delay=60).kiq(5)
    while await waiting() < 2:
        await asyncio.sleep(0.05)
    await broker.shutdown()


asyncio.run(main())
