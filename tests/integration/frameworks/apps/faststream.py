"""FastStream: its policies of acknowledgement, and the exceptions by which a handler says what becomes of a message."""

import asyncio
import os

from faststream import AckPolicy
from faststream.exceptions import RejectMessage
from faststream.rabbit import Channel, ExchangeType, RabbitBroker, RabbitExchange, RabbitMessage, RabbitQueue

broker = RabbitBroker(os.environ["AMQP_URL"], default_channel=Channel(prefetch_count=1))
DEAD = {"x-dead-letter-exchange": "dead"}
dead = RabbitExchange("dead", type=ExchangeType.FANOUT, durable=True)
dead_orders = RabbitQueue("dead-orders", durable=True)
handled = asyncio.Queue()  # the queues whose message has come to its end
nacked = []
events = RabbitExchange("events", type=ExchangeType.TOPIC, durable=True)


def queue(name, arguments=DEAD, **more):
    return RabbitQueue(name, durable=True, routing_key=f"{name}.#", arguments=arguments, **more)


@broker.subscriber(queue("by-default"), events)
async def by_default(number: int) -> None:
    handled.put_nowait("by-default")
    raise ValueError(number)


@broker.subscriber(queue("nacks", DEAD | {"x-queue-type": "quorum", "x-delivery-limit": 2}), events,
                   ack_policy=AckPolicy.NACK_ON_ERROR)  # fmt: skip
async def nacks(number: int) -> None:
    """Fail three times, which does not come near a delivery limit: since 4.3, what is nacked does not count."""
    nacked.append(number)
    if len(nacked) <= 3:
        raise ValueError(number)
    handled.put_nowait("nacks")
    raise RejectMessage


@broker.subscriber(queue("acks"), events, ack_policy=AckPolicy.ACK)
async def acks(number: int) -> None:
    handled.put_nowait("acks")
    raise ValueError(number)


@broker.subscriber(queue("once-more"), events, ack_policy=AckPolicy.MANUAL)
async def once_more(number: int, message: RabbitMessage) -> None:
    again = not message.raw_message.redelivered
    await message.reject(requeue=again)
    if not again:
        handled.put_nowait("once-more")


@broker.subscriber(queue("without", {}), events)
async def without(number: int) -> None:
    handled.put_nowait("without")
    raise RejectMessage


@broker.subscriber(queue("answers"), events)
@broker.publisher("answered", events)
async def answers(number: int) -> int:
    handled.put_nowait("answers")
    return number + 1


async def main() -> None:
    await broker.connect()
    await (await broker.declare_queue(dead_orders)).bind(await broker.declare_exchange(dead))
    answered = await broker.declare_queue(RabbitQueue("answered", durable=True))
    await answered.bind(await broker.declare_exchange(events), "answered")
    await broker.start()
    for number, name in enumerate(("by-default", "nacks", "acks", "once-more", "without", "answers"), 1):
        await broker.publish(number, f"{name}.new", exchange=events, headers={"number": number},
                             message_id=str(number), correlation_id=str(number))  # fmt: skip
        assert await handled.get() == name
        await asyncio.sleep(0.2)  # what is returned of it is on its way
    await broker.stop()
    await broker.connect()
    # Two that nobody handles any more; one of them not for long.
    await broker.publish("not a number", "answers.new", exchange=events, persist=True, correlation_id="7")
    await broker.publish(8, "by-default.new", exchange=events, expiration=0.1, correlation_id="8")
    await asyncio.sleep(0.3)
    await broker.stop()


asyncio.run(main())
