"""The retry ladder with aio-pika: python -m examples.consumers.with_aio_pika amqp://guest:guest@localhost:5672/"""

from __future__ import annotations

import asyncio
from functools import partial

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

import dlx
from examples.consumers.arguments import broker_url
from examples.consumers.ladder import PLAN, TRY_QUEUES, parked_headers, queue_arguments, work

KEPT = (
    "content_type", "content_encoding", "delivery_mode", "priority", "correlation_id", "reply_to", "message_id",
    "timestamp", "type", "app_id",
)  # fmt: skip
"""The properties that a parked message keeps: not who published it first, which a server lets nobody else claim."""


async def consume(channel: AbstractChannel) -> None:
    """Declare the queues and subscribe to those with work."""
    queues = {
        queue: await channel.declare_queue(queue, durable=True, arguments=arguments)
        for queue, arguments in queue_arguments().items()
    }
    await channel.set_qos(prefetch_count=10)
    for queue in TRY_QUEUES:
        await queues[queue].consume(partial(on_message, channel))


async def on_message(channel: AbstractChannel, message: AbstractIncomingMessage) -> None:
    """One attempt."""
    try:
        work(message.body)
    except ValueError:
        match PLAN.decide(dlx.death_history(message)):
            case dlx.Retry():
                await message.reject(requeue=False)  # the queue dead-letters it
                return
            case dlx.Park() as decision:
                kept = {name: getattr(message, name) for name in KEPT}
                parked = aio_pika.Message(message.body, headers=parked_headers(message, decision), **kept)
                await channel.default_exchange.publish(parked, decision.to)  # returns when the broker has it
    await message.ack()


async def main(url: str) -> None:
    """Consume until it is interrupted."""
    async with await aio_pika.connect_robust(url) as connection:
        await consume(await connection.channel())
        await asyncio.Future()


if __name__ == "__main__":
    asyncio.run(main(broker_url()))
