"""aio-pika: what `message.process()` does with a message that fails, by its arguments, and the pattern Master."""

import asyncio
import os
from contextlib import suppress

import aio_pika
from aio_pika.patterns import JsonMaster, RejectMessage

DEAD = {"x-dead-letter-exchange": "dead", "x-dead-letter-routing-key": "orders"}


async def declare(channel):
    dead = await channel.declare_exchange("dead", aio_pika.ExchangeType.TOPIC, durable=True)
    queue = await channel.declare_queue("dead-orders", durable=True)
    await queue.bind(dead, "orders")
    names = ("rejects", "requeues", "once-more", "waits")
    limited = {"x-queue-type": "quorum", "x-delivery-limit": 2}
    arguments = {"requeues": DEAD | limited, "waits": DEAD | {"x-message-ttl": 200}, "without": {}}
    return {
        name: await channel.declare_queue(name, durable=True, arguments=arguments.get(name, DEAD))
        for name in (*names, "without")
    }


async def consume(queue, **how):
    """Fail every message of the queue until none came for a while."""
    came = asyncio.Event()

    async def handle(message):
        async with message.process(ignore_processed=True, **how):
            raise ValueError(message.body)

    async def quietly(message):
        came.set()
        with suppress(ValueError):
            await handle(message)

    tag = await queue.consume(quietly)
    with suppress(TimeoutError):
        while await asyncio.wait_for(came.wait(), 0.5):
            came.clear()
    await queue.cancel(tag)


async def work(channel):
    """Master: a worker that says which messages it does not want, and one that fails."""
    refused = asyncio.Event()
    master = JsonMaster(channel, requeue=False)

    async def refuse(*, number):
        refused.set()
        raise RejectMessage(requeue=False)

    worker = await master.create_worker("tasks", refuse, durable=True, arguments=DEAD)
    await master.create_task("tasks", {"number": 6})
    await refused.wait()
    await asyncio.sleep(0.2)
    await worker.close()


async def main():
    connection = await aio_pika.connect_robust(os.environ["AMQP_URL"])
    async with connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=1)
        queues = await declare(channel)
        how = {
            "rejects": {}, "requeues": {"requeue": True}, "without": {},
            "once-more": {"requeue": True, "reject_on_redelivered": True},
        }  # fmt: skip
        for number, (name, arguments) in enumerate(how.items(), 1):
            message = aio_pika.Message(b"%d" % number, headers={"number": number}, message_id=str(number))
            await channel.default_exchange.publish(message, name)
            await consume(queues[name], **arguments)
        await channel.default_exchange.publish(
            aio_pika.Message(b"5", delivery_mode=aio_pika.DeliveryMode.PERSISTENT, expiration=0.1), "waits"
        )
        await asyncio.sleep(0.5)
        await work(channel)


asyncio.run(main())
