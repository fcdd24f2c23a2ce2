"""Plays a history of ``simulator.scenario.steps`` on a real RabbitMQ, with real connections that really break.

A real server has no clock to move, so definitions and history are made quicker
together: the longest time in them becomes a second or so, and the others shrink with it.
"""

from __future__ import annotations

import contextlib
import math
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pika
from pika.exceptions import AMQPError, ChannelClosedByBroker, NackError

from simulator.scenario import steps
from simulator.scenario.steps import AnyStep, History

LONGEST_MS = 1_500
LATE_MS = 250  # so much later than said may a server be
DELIVERY_S = 5.0
SETTLED_S = 5.0

_TIMES = ("message-ttl", "expires", "delayed-retry-min", "delayed-retry-max")
_TIME_KEYS = frozenset({*_TIMES, *(f"x-{name}" for name in _TIMES)})


# Quicker


def quicker(definitions: Any, factor: float, least_ms: int = 1) -> Any:
    """The definitions with all times in arguments and policies divided by ``factor``, to ``least_ms`` or more."""
    if isinstance(definitions, list):
        return [quicker(each, factor, least_ms) for each in definitions]
    if not isinstance(definitions, dict):
        return definitions
    return {
        key: _quicker_ms(value, factor, least_ms) if key in _TIME_KEYS else quicker(value, factor, least_ms)
        for key, value in definitions.items()
    }


def _quicker_ms(ms: int, factor: float, least_ms: int) -> int:
    """None at all stays none."""
    return max(least_ms, round(ms / factor)) if ms else 0


def factor_for(definitions: Any, history: History = (), longest_ms: int = LONGEST_MS) -> float:
    """What to divide all times by, so that none is longer than ``longest_ms``; 1 where all are short."""
    expirations = (step.expiration_ms or 0 for step in history if isinstance(step, steps.Publish))
    return max(1.0, max((*_times(definitions), *expirations), default=0) / longest_ms)


def _times(definitions: Any) -> Iterator[int]:
    if isinstance(definitions, list):
        for each in definitions:
            yield from _times(each)
    elif isinstance(definitions, dict):
        for key, value in definitions.items():
            if key in _TIME_KEYS:
                yield value
            else:
                yield from _times(value)


def quicker_history(history: Iterable[AnyStep], factor: float) -> History:
    """The history with all times divided by ``factor``; waits are a little longer, for a server is not on the dot."""
    return tuple(_quicker_step(step, factor) for step in history)


def _quicker_step(step: AnyStep, factor: float) -> AnyStep:
    match step:
        case steps.Repeat():
            changed: AnyStep = steps.changed(step, steps=quicker_history(step.steps, factor))
        case steps.Wait():
            changed = steps.Wait(math.ceil(step.ms / factor) + LATE_MS)
        case steps.Publish() if step.expiration_ms is not None:
            changed = steps.changed(step, expiration_ms=_quicker_ms(step.expiration_ms, factor, 1))
        case _:
            changed = step
    return changed


# On the server


class _Consumer:
    """The consumer of one queue, on a connection of its own."""

    def __init__(self, url: str, queue: str) -> None:
        self.connection = pika.BlockingConnection(pika.URLParameters(url))
        self.queue = queue
        self.deliveries: deque[int] = deque()
        self.prefetch = 0  # not subscribed
        self.channel = self.connection.channel()

    def subscribe(self, prefetch: int) -> None:
        """Subscribe for so many more deliveries at once."""
        self.prefetch = prefetch
        self.channel.basic_qos(prefetch_count=prefetch)
        self.channel.basic_consume(self.queue, lambda _, method, *__: self.deliveries.append(method.delivery_tag))

    def get(self) -> bool:
        """Take a message by ``basic.get``, if there is one."""
        method, _, _ = self.channel.basic_get(self.queue)
        if method is not None:
            self.deliveries.append(method.delivery_tag)
        return method is not None

    def wait(self, count: int) -> bool:
        """Whether so many deliveries are there, soon."""
        end = time.monotonic() + DELIVERY_S
        while len(self.deliveries) < count and time.monotonic() < end:
            self.connection.process_data_events(0.05)
        return len(self.deliveries) >= count

    def sync(self) -> None:
        """Whatever was sent has arrived when this is answered."""
        self.channel.queue_declare(self.queue, passive=True)

    def crash(self) -> None:
        """The connection dies: the peer learns it from TCP alone."""
        transport: Any = self.connection._impl._transport
        transport._sock.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(AMQPError, OSError):
            self.connection.process_data_events(0)
            self.connection.close()

    def close(self) -> None:
        """Close in order; it may be closed already."""
        with contextlib.suppress(AMQPError, OSError):
            self.connection.close()


class LivePlayer:
    """Publishers and consumers on a real server that do what a history says.

    Args:
        url: the AMQP URL of the virtual host.

    Attributes:
        published: how many publishes were confirmed.
        refused: how many were nacked.
        deliveries: how many a step took from each queue.
        idle: the steps that found nothing to do.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.published = self.refused = 0
        self.deliveries: Counter[str] = Counter()
        self.idle: list[AnyStep] = []
        self._consumers: dict[str, _Consumer] = {}
        self._connection = pika.BlockingConnection(pika.URLParameters(url))
        self._publisher = self._connection.channel()
        self._publisher.confirm_delivery()

    def __enter__(self) -> LivePlayer:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()
        self._connection.close()

    def leave(self) -> None:
        """All consumers close their connections; what they have goes back."""
        for queue in list(self._consumers):
            self._consumers.pop(queue).close()

    def play(self, history: Iterable[AnyStep]) -> None:
        """Do all the steps."""
        for step in history:
            self.do(step)

    def do(self, step: AnyStep) -> None:
        """Do one step. Raises ``TypeError`` for one of operators."""
        if isinstance(step, steps.Repeat):
            for _ in range(step.times):
                self.play(step.steps)
            return
        action = _ACTIONS.get(type(step))
        if action is None:
            raise TypeError(f"no step of publishers, consumers or time: {step!r}")
        for _ in range(getattr(step, "times", 1) if not isinstance(step, steps.Hold) else 1):
            action(self, step)

    def depths(self, queues: Iterable[str]) -> dict[str, int]:
        """How many messages are ready in each of these queues; those that are gone are left out."""
        found = {}
        for queue in queues:
            channel = self._connection.channel()
            try:
                found[queue] = channel.queue_declare(queue, passive=True).method.message_count
                channel.close()
            except ChannelClosedByBroker as error:
                if error.reply_code != 404:
                    raise
        return found

    def settled(self, queues: Iterable[str], wanted: Callable[[Mapping[str, int]], bool]) -> dict[str, int]:
        """The depths, as soon as they are as ``wanted`` and stay so; at last, as they are."""
        queues, end = list(queues), time.monotonic() + SETTLED_S
        while time.monotonic() < end:
            if wanted(self.depths(queues)):
                time.sleep(0.2)
                if wanted(found := self.depths(queues)):
                    return found
            time.sleep(0.05)
        return self.depths(queues)

    # How steps are done

    def _publish(self, step: steps.Publish) -> None:
        properties = pika.BasicProperties(
            delivery_mode=2,
            headers=dict(step.headers) or None,
            expiration=None if step.expiration_ms is None else str(step.expiration_ms),
        )
        try:
            self._publisher.basic_publish(step.exchange, step.routing_key, bytes(step.body_bytes), properties)
            self.published += 1
        except NackError:
            self.refused += 1

    def _consumer(self, queue: str, prefetch: int) -> _Consumer:
        found = self._consumers.get(queue)
        if found is None:
            found = self._consumers[queue] = _Consumer(self.url, queue)
        if found.prefetch < prefetch and len(found.deliveries) < prefetch:
            found.subscribe(prefetch - len(found.deliveries))
        return found

    def _taken(self, step: Any) -> _Consumer | None:
        """The consumer of the step's queue, when it has a delivery."""
        consumer = self._consumer(step.queue, 1)
        if consumer.wait(1):
            self.deliveries[step.queue] += 1
            return consumer
        self.idle.append(step)
        return None

    def _ack(self, step: steps.Ack) -> None:
        if consumer := self._taken(step):
            consumer.channel.basic_ack(consumer.deliveries.popleft())
            consumer.sync()

    def _reject(self, step: steps.Reject) -> None:
        if consumer := self._taken(step):
            consumer.channel.basic_reject(consumer.deliveries.popleft(), requeue=False)
            consumer.sync()

    def _requeue(self, step: steps.Requeue) -> None:
        if consumer := self._taken(step):
            settle = consumer.channel.basic_reject if step.method == "reject" else consumer.channel.basic_nack
            settle(consumer.deliveries.popleft(), requeue=True)
            consumer.sync()

    def _hold(self, step: steps.Hold) -> None:
        if not self._consumer(step.queue, step.times).wait(step.times):
            self.idle.append(step)

    def _get(self, step: steps.Get) -> None:
        if not self._consumer(step.queue, 0).get():
            self.idle.append(step)

    def _crash(self, step: steps.Crash) -> None:
        self._taken(step)
        self._consumers.pop(step.queue).crash()

    def _leave(self, step: steps.Leave) -> None:
        if consumer := self._consumers.pop(step.queue, None):
            consumer.close()

    def _wait(self, step: steps.Wait) -> None:
        time.sleep(step.ms / 1_000)


_ACTIONS: dict[type, Callable[[LivePlayer, Any], None]] = {
    steps.Publish: LivePlayer._publish,
    steps.Ack: LivePlayer._ack,
    steps.Reject: LivePlayer._reject,
    steps.Requeue: LivePlayer._requeue,
    steps.Get: LivePlayer._get,
    steps.Hold: LivePlayer._hold,
    steps.Crash: LivePlayer._crash,
    steps.Leave: LivePlayer._leave,
    steps.Wait: LivePlayer._wait,
}
