"""Plays a history: gives its steps to a broker's clients, without I/O, and shows what happened.

    player = Player("definitions.json", release="4.3")
    player.do(Publish("", "orders"))
    player.events                           # what that step did to messages

The same definitions and steps give the same events.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec

from dlx.message import Message
from dlx.operator_errors import no_amqp_1_0
from dlx.releases import DEFAULT
from dlx.topology import STREAM, Topology
from simulator.bootstrap import DefinitionsSource, add_user, import_definitions
from simulator.broker import Broker, Copy, OperatorError, QueueState
from simulator.broker import commands as amqp
from simulator.broker.replies import ChannelClosed, ConnectionClosed, ConsumerCancelled, Delivered, Got
from simulator.events import Happened
from simulator.scenario import steps
from simulator.scenario.steps import AnyStep

START_US = 1_767_225_600_000_000  # 2026-01-01: the same for every player, so that histories repeat

Seen = tuple[Happened, Message]
"""An event, and the message as it was then."""


class Player:
    """Plays steps on one broker.

    Attributes:
        definitions, release: as given.
        broker: the broker; read it, but give it commands through the steps.
        history: the steps so far, without those that were refused.
        events: what happened in the last step.

    Args:
        definitions: an export of RabbitMQ's definitions, or the path of the file that holds one.
        release: the RabbitMQ release.
        start_us: when it begins, microseconds since 1970.

    Raises:
        DefinitionsError: the definitions cannot be used.
    """

    def __init__(self, definitions: DefinitionsSource, *, release: str = DEFAULT, start_us: int = START_US) -> None:
        self.definitions, self.release = definitions, release
        self._seen: list[Seen] = []
        self.broker = Broker(release, observer=self._observe)
        self.history: list[AnyStep] = []
        self.events: list[Seen] = []
        import_definitions(self.broker, definitions, start_us)
        self._clients = Clients(self.broker, start_us)

    @property
    def now_us(self) -> int:
        """The time, microseconds since 1970."""
        return self._clients.now_us

    @property
    def refusal(self) -> str:
        """Why the broker refused a publish in the last step; empty if it refused none."""
        return self._clients.refusal

    def play(self, history: Iterable[AnyStep]) -> None:
        """Do all the steps."""
        for step in history:
            self.do(step)

    def do(self, step: AnyStep) -> None:
        """Do one step. One that finds nothing to do, such as one for a queue that is gone, does nothing.

        Raises ``OperatorError`` for a policy that RabbitMQ refuses, and for ``Modify`` until 3.13.
        """
        self.history.append(steps.checked(step))
        self.events = []
        self._clients.refusal = ""
        try:
            self._do(step)
        except OperatorError:
            self.history.pop()
            raise

    def _do(self, step: AnyStep) -> None:
        if isinstance(step, steps.Repeat):
            for _ in range(step.times):
                for each in step.steps:
                    self._do(each)
            return
        for _ in range(getattr(step, "times", 1) if not isinstance(step, steps.Hold) else 1):
            self._clients.act(step)
            seen, self._seen = self._seen, []
            self.acted(seen)

    def _observe(self, happened: Happened, message: Message) -> None:
        self._seen.append((happened, message))

    def acted(self, seen: Sequence[Seen]) -> None:
        """Note what happened in one action: a step has as many of them as its ``times`` say."""
        self.events += seen

    # What is where

    def topologies(self) -> dict[str, Topology]:
        """Return the virtual hosts by name, as they are now."""
        return {name: vhost.topology for name, vhost in self.broker.vhosts.items()}

    def queues(self) -> Iterator[QueueState]:
        """Yield the queues that exist now."""
        for vhost in self.broker.vhosts.values():
            yield from vhost.queues.values()

    def queue(self, name: str, vhost: str = "/") -> QueueState | None:
        """Return one queue, or ``None`` when it is gone."""
        return self.broker.queue(name, vhost)

    def copies(self) -> Iterator[tuple[QueueState, Copy]]:
        """Yield all messages in queues, as ``Broker.copies`` does."""
        return self.broker.copies()

    def has_consumer(self, queue: str, vhost: str = "/") -> bool:
        """Return whether the queue has a consumer."""
        return self._clients.has_consumer(queue, vhost)


# The publishers and consumers of a scenario: they carry each action out by commands to a broker, without sockets.
#
# Each virtual host has one publisher, and each queue one consumer, on connections of
# their own. They connect when a step needs them, and again after the broker closed a
# channel of theirs.


USER = "the trial's clients"
_NOT_FOUND = 404
QueueKey = tuple[str, str]
"""The names of a virtual host and of a queue in it."""


@dataclass(slots=True)
class _Consumer:
    """The consumer of one queue, on a connection of its own."""

    key: QueueKey
    connection: int
    prefetch: int = 0
    deliveries: deque[int] = field(default_factory=deque)

    @property
    def channel(self) -> tuple[int, int]:
        return self.connection, 1


class Clients:
    """The clients of one broker, and the time that they see.

    Attributes:
        now_us: the time, microseconds since 1970.
        refusal: why the broker refused a publish since this was emptied; empty if it refused no publish.
        handle: carries their commands out, as ``Broker.handle`` does.
    """

    def __init__(self, broker: Broker, now_us: int) -> None:
        self.now_us = now_us
        self.refusal = ""
        self.handle = broker.handle
        self._broker = broker
        self._consumers: dict[QueueKey, _Consumer] = {}
        self._by_connection: dict[Any, _Consumer] = {}
        self._publishers: dict[str, tuple[int, int]] = {}
        self._connections = 0
        add_user(broker, USER, now_us)  # these clients may do everything, whatever permissions the definitions have

    def act(self, step: AnyStep) -> None:
        """Do a step once. A step that finds nothing to do does nothing.

        Raises ``OperatorError`` for a policy that RabbitMQ refuses, and for ``Modify`` until 3.13.
        """
        _ACTIONS[type(step)](self, step)

    def has_consumer(self, queue: str, vhost: str) -> bool:
        """Return whether the queue has a consumer."""
        return (vhost, queue) in self._consumers

    # What the broker answers

    def _tell(self, command: amqp.Command) -> None:
        """Give the broker a command, and note what its clients get."""
        for reply in self.handle(command, self.now_us):
            if isinstance(reply, (Delivered, Got)):
                consumer = self._by_connection.get(reply.channel[0])
                if consumer is not None:
                    consumer.deliveries.append(reply.delivery_tag)
            elif isinstance(reply, (ChannelClosed, ConsumerCancelled)):
                if isinstance(reply, ChannelClosed):
                    self._note_refusal(reply.channel, reply)
                self._disconnect(reply.channel[0])
            elif isinstance(reply, ConnectionClosed):
                self._note_refusal((reply.connection, reply.channel), reply)
                self._disconnect(reply.connection)

    def _note_refusal(self, channel: amqp.ChannelId, reply: ChannelClosed | ConnectionClosed) -> None:
        """Note why a publish was refused, unless the reason is that its exchange is gone."""
        if reply.code != _NOT_FOUND and channel in self._publishers.values():
            # JSON cannot hold a text that is cut inside a character.
            self.refusal = reply.text.encode(errors="surrogateescape").decode(errors="replace")

    # Connections

    def _connect(self, vhost: str) -> int:
        self._connections += 1
        self._tell(amqp.OpenConnection(self._connections, vhost, USER, limited=False))
        self._tell(amqp.OpenChannel((self._connections, 1)))
        return self._connections

    def _disconnect(self, connection: Any) -> None:
        """Close the connection of a client, unless the broker has closed it, and forget the client."""
        self._publishers = {vhost: each for vhost, each in self._publishers.items() if each[0] != connection}
        consumer = self._by_connection.pop(connection, None)
        if consumer is not None:
            self._consumers.pop(consumer.key, None)
        if connection in self._broker.connections:
            self._tell(amqp.CloseConnection(connection))

    def _consumer(self, step: Any, prefetch: int = 1) -> _Consumer | None:
        """Return the consumer of the step's queue, a new one if it has none; ``None`` if it cannot be consumed."""
        key = (step.vhost, step.queue)
        vhost = self._broker.vhosts.get(step.vhost)
        queue = None if vhost is None else vhost.queues.get(step.queue)
        if queue is None:
            return None
        found = self._consumers.get(key)
        if found is None:
            found = _Consumer(key, self._connect(step.vhost))
            self._consumers[key] = self._by_connection[found.connection] = found
        if found.prefetch < prefetch and not (found.deliveries and prefetch == 1):
            self._subscribe(found, queue, prefetch)
        return self._consumers.get(key)

    def _subscribe(self, consumer: _Consumer, queue: QueueState, prefetch: int) -> None:
        """Subscribe, or subscribe again with a larger prefetch."""
        arguments = {"x-stream-offset": "first"} if queue.definition.type == STREAM else {}
        consumer.prefetch = prefetch
        self._tell(amqp.Qos(consumer.channel, prefetch - len(consumer.deliveries)))
        self._tell(amqp.Consume(channel=consumer.channel, queue=queue.name, arguments=arguments))

    # Actions, one method for each kind of step

    def _publish(self, step: steps.Publish) -> None:
        channel = self._publishers.get(step.vhost)
        if channel is None:
            self._publishers[step.vhost] = channel = (self._connect(step.vhost), 1)
        properties = published_properties(step)
        body = _body(step.body_bytes)
        self._tell(amqp.Publish(channel, step.exchange, step.routing_key, properties, body))

    def _settle(self, step: Any, command: Callable[[Any, int], amqp.Command]) -> None:
        consumer = self._consumer(step)
        if consumer is not None and consumer.deliveries:
            self._tell(command(consumer.channel, consumer.deliveries.popleft()))

    def _ack(self, step: steps.Ack) -> None:
        self._settle(step, amqp.Ack)

    def _reject(self, step: steps.Reject) -> None:
        self._settle(step, lambda channel, tag: amqp.Reject(channel, tag, requeue=False))

    def _requeue(self, step: steps.Requeue) -> None:
        command = amqp.Reject if step.method == "reject" else amqp.Nack
        self._settle(step, lambda channel, tag: command(channel, tag, requeue=True))

    def _modify(self, step: steps.Modify) -> None:
        release = self._broker.release
        if not release.speaks_amqp_1_0:
            raise no_amqp_1_0(release.name)
        self._settle(
            step,
            lambda channel, tag: amqp.Settle(
                channel, (tag,), "modified", step.delivery_failed, step.undeliverable_here, step.annotations
            ),
        )

    def _hold(self, step: steps.Hold) -> None:
        self._consumer(step, step.times)

    def _get(self, step: steps.Get) -> None:
        consumer = self._consumer(step, 0)
        if consumer is not None:
            self._tell(amqp.Get(consumer.channel, step.queue))

    def _crash(self, step: steps.Crash) -> None:
        self._consumer(step)
        self._leave(step)

    def _leave(self, step: steps.Leave | steps.Crash) -> None:
        consumer = self._consumers.get((step.vhost, step.queue))
        if consumer is not None:
            self._disconnect(consumer.connection)

    def _wait(self, step: steps.Wait) -> None:
        self.now_us += step.ms * 1_000
        self._tell(amqp.PassTime())

    def _set_policy(self, step: steps.SetPolicy) -> None:
        self._tell(amqp.SetPolicy(step.vhost, step.policy, step.operator))

    def _clear_policy(self, step: steps.ClearPolicy) -> None:
        self._tell(amqp.ClearPolicy(step.vhost, step.name, step.operator))


_ACTIONS: dict[type, Callable[[Clients, Any], None]] = {
    steps.Publish: Clients._publish,
    steps.Ack: Clients._ack,
    steps.Reject: Clients._reject,
    steps.Requeue: Clients._requeue,
    steps.Modify: Clients._modify,
    steps.Crash: Clients._crash,
    steps.Hold: Clients._hold,
    steps.Get: Clients._get,
    steps.Leave: Clients._leave,
    steps.Wait: Clients._wait,
    steps.SetPolicy: Clients._set_policy,
    steps.ClearPolicy: Clients._clear_policy,
}


def published_properties(step: steps.Publish) -> dict[str, Any]:
    """Return the basic properties of what a step publishes, by their names in the protocol."""
    properties: dict[str, Any] = {"delivery_mode": step.properties.delivery_mode}
    properties |= msgspec.to_builtins(step.properties)
    if step.headers:
        properties["headers"] = dict(step.headers)
    if step.expiration_ms is not None:
        properties["expiration"] = str(step.expiration_ms)
    return properties


@lru_cache(maxsize=64)
def _body(size: int) -> bytes:
    """Return a body of that size. Bodies of one size are one object, so that a full queue costs little memory."""
    return bytes(size)
