"""A broker without sockets, with publishers, consumers and time that do what a history says.

    trial = Trial("definitions.json", release="4.3", properties=["lossless"])
    trial.publish("", "orders")
    trial.crash("orders", times=21)         # raises PropertyBroken if that loses the message

The same definitions and steps give the same events. After every step the properties
look at what happened; the first that is broken ends the trial.

The methods that are called like steps refuse names that the definitions never had.
``do`` and ``play`` do not: there such a step does nothing, as one for a queue that is gone.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dlx.message import Message
from dlx.releases import DEFAULT
from dlx.topology import STREAM, Policy, Topology
from simulator.bootstrap import import_definitions
from simulator.broker import Broker
from simulator.broker import commands as amqp
from simulator.broker.copies import Copy
from simulator.broker.operator_errors import OperatorError
from simulator.broker.replies import ChannelClosed, ConnectionClosed, ConsumerCancelled, Delivered, Got
from simulator.broker.state import QueueState
from simulator.events import Happened
from simulator.scenario import steps
from simulator.scenario.properties.property import Property, PropertyBroken
from simulator.scenario.properties.property_registry import instances
from simulator.scenario.steps import AnyStep, History
from simulator.scenario.unknown_names import unknown_names

START_US = 1_767_225_600_000_000  # 2026-01-01: the same in every trial, so that trials repeat
ACTIONS_PER_PULSE = 1_000
USER = "the trial's clients"
_NOT_FOUND = 404
Definitions = Mapping[str, Any] | str | os.PathLike[str]
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


class Trial:
    """One run of a topology.

    Attributes:
        broker: the broker; read it, but give it commands through the steps.
        now_us: the time, microseconds since 1970.
        history: the steps so far, the one that broke a property included, without those that were refused.
        events: what happened in the last step.

    Args:
        definitions: an export of RabbitMQ's definitions, or the file that holds one.
        release: the RabbitMQ release.
        properties: what must hold after every step: names, or instances of ``Property``.
        pulse: called now and then during long steps; what it raises ends them.

    Raises:
        DefinitionsError: the definitions cannot be used.
        ValueError: there is no property of a name that was given, or a property has no name.
        TypeError: something is no property.
    """

    def __init__(
        self,
        definitions: Definitions,
        *,
        release: str = DEFAULT,
        properties: Iterable[str | Property] = (),
        pulse: Callable[[], None] = lambda: None,
    ) -> None:
        self.definitions, self.release = definitions, release
        self.properties = instances(properties)
        self._seen: list[tuple[Happened, Message]] = []
        self.broker = Broker(release, observer=self._observe)
        self.now_us = START_US
        self.history: list[AnyStep] = []
        self.events: list[tuple[Happened, Message]] = []
        self._consumers: dict[QueueKey, _Consumer] = {}
        self._by_connection: dict[Any, _Consumer] = {}
        self._publishers: dict[str, tuple[int, int]] = {}
        self._connections = 0
        self._pulse, self._looked = pulse, 0
        self._refusal = ""
        import_definitions(self.broker, definitions, self.now_us)
        self._let_in()

    def _let_in(self) -> None:
        """Whoever may do what in the definitions, the trial's clients may do everything."""
        self.broker.handle(amqp.AddUser(USER, ""), self.now_us)
        for vhost in self.broker.vhosts:
            self.broker.handle(amqp.SetPermissions(USER, vhost, ".*", ".*", ".*"), self.now_us)

    # Steps, one method each. All raise ``LookupError`` for a name that the definitions never had, and ``ValueError``
    # for a value that a step cannot have.

    def publish(self, exchange: str, routing_key: str, **how: Any) -> None:
        """Publish messages; ``how`` are the other fields of ``steps.Publish``. Raises ``ValueError`` if refused."""
        self._refusal = ""
        self._ask("publish", exchange=exchange, routing_key=routing_key, **how)
        if self._refusal:
            self.history.pop()
            raise ValueError(f"publish: {self._refusal}")

    def ack(self, queue: str, times: int = 1, *, vhost: str = "/") -> None:
        """The consumer of ``queue`` acknowledges its oldest delivery."""
        self._ask("ack", queue=queue, times=times, vhost=vhost)

    def reject(self, queue: str, times: int = 1, *, vhost: str = "/") -> None:
        """The consumer of ``queue`` rejects its oldest delivery for good."""
        self._ask("reject", queue=queue, times=times, vhost=vhost)

    def requeue(self, queue: str, times: int = 1, *, method: str = "reject", vhost: str = "/") -> None:
        """The consumer of ``queue`` returns its oldest delivery to the queue, by ``reject`` or ``nack``."""
        self._ask("requeue", queue=queue, times=times, method=method, vhost=vhost)

    def crash(self, queue: str, times: int = 1, *, vhost: str = "/") -> None:
        """The consumer of ``queue`` dies with its delivery."""
        self._ask("crash", queue=queue, times=times, vhost=vhost)

    def hold(self, queue: str, times: int = 1, *, vhost: str = "/") -> None:
        """A consumer of ``queue`` takes up to ``times`` messages and keeps them."""
        self._ask("hold", queue=queue, times=times, vhost=vhost)

    def get(self, queue: str, times: int = 1, *, vhost: str = "/") -> None:
        """A client takes a message of ``queue`` by ``basic.get``, and keeps it."""
        self._ask("get", queue=queue, times=times, vhost=vhost)

    def leave(self, queue: str, *, vhost: str = "/") -> None:
        """The consumer of ``queue`` closes its connection."""
        self._ask("leave", queue=queue, vhost=vhost)

    def wait(self, ms: int) -> None:
        """Time passes."""
        self._ask("wait", ms=ms)

    def set_policy(self, policy: Policy, *, operator: bool = False, vhost: str = "/") -> None:
        """An operator sets a policy. Raises ``OperatorError`` for one that RabbitMQ refuses."""
        self._ask("set-policy", policy=policy, operator=operator, vhost=vhost)

    def clear_policy(self, name: str, *, operator: bool = False, vhost: str = "/") -> None:
        """An operator removes a policy. Raises ``OperatorError`` where there is none of that name."""
        self._ask("clear-policy", name=name, operator=operator, vhost=vhost)

    def repeat(self, times: int, *what: AnyStep) -> None:
        """Do the same steps ``times`` times."""
        self._ask("repeat", steps=tuple(map(steps.checked, what)), times=times)

    def _ask(self, do: str, **fields: Any) -> None:
        step = steps.made(do, **fields)
        if unknown_names([step], self.topologies()):
            self._refuse_unknown([step])
        self.do(step)

    def _refuse_unknown(self, history: Iterable[AnyStep]) -> None:
        """Raise ``LookupError`` for names that were not there at the beginning either."""
        unknown = unknown_names(history, Trial(self.definitions, release=self.release).topologies())
        if unknown:
            raise LookupError("; ".join(unknown))

    def play(self, history: Iterable[AnyStep]) -> None:
        """Do all the steps."""
        for step in history:
            self.do(step)

    def do(self, step: AnyStep) -> None:
        """Do one step, and look whether all properties hold. Raises ``PropertyBroken``."""
        self.history.append(steps.checked(step))
        self.events = []
        try:
            self._do(step)
        except PropertyBroken as broken:
            broken.history = tuple(self.history)
            raise
        except OperatorError:
            self.history.pop()  # a policy that RabbitMQ refuses
            raise

    # What is where

    def topologies(self) -> dict[str, Topology]:
        """The virtual hosts by name, as they are now."""
        return {name: vhost.topology for name, vhost in self.broker.vhosts.items()}

    def queues(self) -> Iterator[QueueState]:
        """The queues there are now."""
        for vhost in self.broker.vhosts.values():
            yield from vhost.queues.values()

    def queue(self, name: str, vhost: str = "/") -> QueueState | None:
        """One queue; ``None`` when it is gone."""
        host = self.broker.vhosts.get(vhost)
        return None if host is None else host.queues.get(name)

    def copies(self) -> Iterator[tuple[QueueState, Copy]]:
        """All the messages in queues: ready, waiting for a delayed retry, delivered, or held by at-least-once."""
        for queue in self.queues():
            for copy in queue.store.waiting():
                yield queue, copy
            for pending in (*queue.in_hand, *queue.discards):
                yield queue, pending.copy
        for channel in self.broker.channels.values():
            for _, unacked in (*channel.unacked.items(), *channel.uncommitted()):
                if not unacked.timed_out and not unacked.queue.deleted:
                    yield unacked.queue, unacked.copy

    def has_consumer(self, queue: str, vhost: str = "/") -> bool:
        """Whether the trial's consumer of that queue is there."""
        return (vhost, queue) in self._consumers

    # How steps are done

    def _do(self, step: AnyStep) -> None:
        if isinstance(step, steps.Repeat):
            for _ in range(step.times):
                for each in step.steps:
                    self._do(each)
            return
        for _ in range(getattr(step, "times", 1) if not isinstance(step, steps.Hold) else 1):
            _ACTIONS[type(step)](self, step)
            self._look()

    def _observe(self, happened: Happened, message: Message) -> None:
        """Note an event, with the message as it was then."""
        self._seen.append((happened, message))

    def _look(self) -> None:
        """Show the properties what happened."""
        self._looked += 1
        if self._looked % ACTIONS_PER_PULSE == 0:
            self._pulse()
        seen, self._seen = self._seen, []
        self.events += seen
        for each in self.properties:
            for happened, message in seen:
                each.observe(self, happened, message)
            each.check(self)

    def _tell(self, command: amqp.Command) -> None:
        """Give the broker a command, and take note of what its clients get."""
        for reply in self.broker.handle(command, self.now_us):
            if isinstance(reply, (Delivered, Got)):
                consumer = self._by_connection.get(reply.channel[0])
                if consumer is not None:
                    consumer.deliveries.append(reply.delivery_tag)
            elif isinstance(reply, (ChannelClosed, ConsumerCancelled)):
                self._note_refusal(reply)
                self._forget(reply.channel[0])
            elif isinstance(reply, ConnectionClosed):
                self._forget(reply.connection)

    def _note_refusal(self, reply: ChannelClosed | ConsumerCancelled) -> None:
        """Remember why a publish was refused, but for an exchange that is gone."""
        if isinstance(reply, ChannelClosed) and reply.code != _NOT_FOUND and reply.channel in self._publishers.values():
            self._refusal = reply.text

    def _forget(self, connection: Any) -> None:
        """The broker closed a channel: the client gives its connection up."""
        self._publishers = {vhost: each for vhost, each in self._publishers.items() if each[0] != connection}
        consumer = self._by_connection.pop(connection, None)
        if consumer is not None:
            self._consumers.pop(consumer.key, None)
        if connection in self.broker.connections:
            self._tell(amqp.CloseConnection(connection))

    def _connect(self, vhost: str) -> int:
        self._connections += 1
        self._tell(amqp.OpenConnection(self._connections, vhost, USER))
        self._tell(amqp.OpenChannel((self._connections, 1)))
        return self._connections

    def _publish(self, step: steps.Publish) -> None:
        channel = self._publishers.get(step.vhost)
        if channel is None:
            self._publishers[step.vhost] = channel = (self._connect(step.vhost), 1)
        properties: dict[str, Any] = {"delivery_mode": 2}
        if step.headers:
            properties["headers"] = dict(step.headers)
        if step.expiration_ms is not None:
            properties["expiration"] = str(step.expiration_ms)
        body = _body(step.body_bytes)
        self._tell(amqp.Publish(channel, step.exchange, step.routing_key, properties, body))

    def _consumer(self, step: Any, prefetch: int = 1) -> _Consumer | None:
        """The consumer of the step's queue; a new one where there is none. ``None``: it cannot be consumed."""
        key = (step.vhost, step.queue)
        queue = self.queue(step.queue, step.vhost)
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
            self._forget(consumer.connection)

    def _wait(self, step: steps.Wait) -> None:
        self.now_us += step.ms * 1_000
        self._tell(amqp.PassTime())

    def _set_policy(self, step: steps.SetPolicy) -> None:
        self._tell(amqp.SetPolicy(step.vhost, step.policy, step.operator))

    def _clear_policy(self, step: steps.ClearPolicy) -> None:
        self._tell(amqp.ClearPolicy(step.vhost, step.name, step.operator))


_ACTIONS: dict[type, Callable[[Trial, Any], None]] = {
    steps.Publish: Trial._publish,
    steps.Ack: Trial._ack,
    steps.Reject: Trial._reject,
    steps.Requeue: Trial._requeue,
    steps.Crash: Trial._crash,
    steps.Hold: Trial._hold,
    steps.Get: Trial._get,
    steps.Leave: Trial._leave,
    steps.Wait: Trial._wait,
    steps.SetPolicy: Trial._set_policy,
    steps.ClearPolicy: Trial._clear_policy,
}

_BODIES: dict[int, bytes] = {}


def _body(size: int) -> bytes:
    """A body of that size; large ones of a size are one object, so that a full queue costs little memory."""
    if size not in _BODIES:
        if len(_BODIES) > 64:
            _BODIES.clear()
        _BODIES[size] = bytes(size)
    return _BODIES[size]


def replay(
    definitions: Definitions, history: History, *, release: str = DEFAULT, properties: Iterable[str | Property] = ()
) -> Trial:
    """Play a whole history; the trial afterwards.

    Raises:
        PropertyBroken: a property does not hold.
        LookupError: the history names a queue, an exchange or a virtual host that the definitions do not have.
    """
    trial = Trial(definitions, release=release, properties=properties)
    unknown = unknown_names(history, trial.topologies())
    if unknown:
        raise LookupError("; ".join(unknown))
    trial.play(history)
    return trial
