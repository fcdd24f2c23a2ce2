"""Runs cases on a server, each in a virtual host of its own, in real time or by the server's virtual clock."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from threading import Condition
from typing import Any, Protocol
from urllib.parse import quote

import msgspec
import pika

from simulator.capture.connected import amqp_parameters
from simulator.extras import check_installed
from simulator.scenario import steps
from simulator.scenario.player import published_properties
from simulator.scenario.steps import AnyStep
from simulator.server.faults.fault import Fault, RaiseAlarm
from simulator.testing.brokers.broker_under_test import BrokerUnavailableError
from simulator.testing.brokers.running_server import RunningServer
from simulator.testing.brokers.servers import ManagementError, Server, hidden
from simulator.testing.cases.file_format import SetFaults
from simulator.testing.cases.given_case import GivenCase
from simulator.testing.cases.stage import FoundLoss, FoundMessage, StepRefusedError
from simulator.testing.fuzz.topology_under_test import OneTopology

# The publisher of a case on a server: it counts what was refused, reached no queue, or had no answer.


PATIENCE_S = 0.3
"""How long to wait for the answer to a publish where a fault may have taken it."""
_POLL_S = 0.02


class CasePublisher:
    """Publishes on a connection of its own, which a server that is short of memory reads no more.

    Attributes:
        unroutable: how many publishes reached no queue so far.
        refused: how many publishes were refused so far.
    """

    def __init__(self, amqp_url: str) -> None:
        self.unroutable = self.refused = 0
        self._published = 0
        self._waiting: set[int] = set()
        parameters = amqp_parameters(amqp_url)
        parameters.heartbeat = 0  # a server that reads no more would answer none
        self._connection = pika.BlockingConnection(parameters)
        self._channel = self._connection.channel()
        self._closed: Exception | None = None
        self._channel._impl.add_on_close_callback(self._closes)
        self._channel.add_on_return_callback(self._returned)
        self._select_confirms()

    def _select_confirms(self) -> None:
        """Ask for confirms; pika's own blocking channel would wait for each, and so for ever for a lost one."""
        selected: list[Any] = []
        self._channel._impl.confirm_delivery(ack_nack_callback=self._answered, callback=selected.append)
        while not selected:
            self._connection.process_data_events(_POLL_S)

    def publish(self, step: steps.Publish, *, under_faults: bool) -> None:
        """Publish, and wait for the answer; for a moment only where a fault may have taken it.

        Raises ``AMQPError`` if the server refuses it.
        """
        properties = pika.BasicProperties(**published_properties(step))
        self._published += 1
        self._waiting.add(self._published)
        self._channel.basic_publish(step.exchange, step.routing_key, bytes(step.body_bytes), properties, mandatory=True)
        until = time.monotonic() + PATIENCE_S
        while self._published in self._waiting and not (under_faults and time.monotonic() > until):
            self._connection.process_data_events(_POLL_S)
            if self._closed is not None:
                raise self._closed

    @property
    def unconfirmed(self) -> int:
        """How many publishes were neither confirmed nor refused so far."""
        self.hear()
        return len(self._waiting)

    def hear(self) -> None:
        """Take the answers that have come."""
        self._connection.process_data_events(0)

    def close(self) -> None:
        """Close the connection."""
        if self._connection.is_open:
            self._connection.close()

    def _returned(self, *_returned: Any) -> None:
        self.unroutable += 1

    def _closes(self, _channel: Any, why: Exception) -> None:
        self._closed = why

    def _answered(self, frame: Any) -> None:
        answer = frame.method
        first = 1 if answer.multiple else answer.delivery_tag
        numbers = self._waiting & set(range(first, answer.delivery_tag + 1))
        self._waiting -= numbers
        if isinstance(answer, pika.spec.Basic.Nack):
            self.refused += len(numbers)


LONGEST_MS = 10_000
AT_A_TIME = 16  # cases on a server mostly wait
DELIVERY_S = 2.0
"""How long a consumer waits for a message that is ready."""
EMPTY_S = 0.3
"""How long it waits while none is ready."""
QUIET_S = 0.06
"""Depths that stay the same for so long have come to rest."""
REST_S = 3.0
POLICY_S = 0.3
"""Queues learn of policies a little later."""
_NOT_FOUND = 404


class _Consumer(Protocol):
    """The consumer of one queue, on a connection of its own.

    Attributes:
        prefetch: how many messages it may hold.
        deliveries: those that it holds, the oldest first.
    """

    prefetch: int
    deliveries: deque[Any]

    def subscribe(self, prefetch: int) -> None:
        """Subscribe, or subscribe again with a larger prefetch."""

    def settle(self, step: Any) -> None:
        """Settle the oldest delivery as the step says."""

    def get(self) -> None:
        """Take a message without subscribing."""

    def hear(self, seconds: float = 0) -> None:
        """Take what has come. Raises ``AMQPError`` if the server has closed the channel or the connection."""

    def close(self) -> None:
        """Close the connection, if the server has not done so."""


class _PikaConsumer:
    """A consumer that speaks AMQP 0-9-1."""

    def __init__(self, url: str, queue: str) -> None:
        self.connection = pika.BlockingConnection(amqp_parameters(url))
        self.channel = self.connection.channel()
        self.queue = queue
        self.prefetch = 0
        self.deliveries: deque[int] = deque()

    def subscribe(self, prefetch: int) -> None:
        """Subscribe, or subscribe again with a larger prefetch."""
        self.prefetch = prefetch
        self.channel.basic_qos(prefetch_count=prefetch - len(self.deliveries))
        self.channel.basic_consume(self.queue, self._deliver)

    def _deliver(self, _channel: Any, method: Any, _properties: Any, _body: bytes) -> None:
        self.deliveries.append(method.delivery_tag)

    def settle(self, step: Any) -> None:
        """Acknowledge, reject or requeue the oldest delivery."""
        tag = self.deliveries.popleft()
        match step:
            case steps.Ack():
                self.channel.basic_ack(tag)
            case steps.Reject():
                self.channel.basic_reject(tag, requeue=False)
            case steps.Requeue(method="nack"):
                self.channel.basic_nack(tag, requeue=True)
            case _:
                self.channel.basic_reject(tag, requeue=True)

    def get(self) -> None:
        """Take a message by ``basic.get``."""
        method, _, _ = self.channel.basic_get(self.queue)
        if method is not None:
            self.deliveries.append(method.delivery_tag)

    def close(self) -> None:
        """Close the connection, if the server has not done so."""
        if self.connection.is_open:
            self.connection.close()

    def hear(self, seconds: float = 0) -> None:
        """Take what has come. Raises ``AMQPError`` if the server has closed the channel or the connection."""
        self.connection.process_data_events(seconds)
        if not self.channel.is_open:
            raise pika.exceptions.ChannelWrongStateError("the server has closed the channel")


class VhostUnderTest(Protocol):
    """A virtual host, and how to reach it."""

    amqp_url: str
    vhost: str

    def api(self, method: str, path: str, body: object = None) -> Any:
        """Call the management API; return its answer. Raises ``ManagementError``."""


class ServerStage:
    """A virtual host with the definitions of a case. The clients are those of ``simulator.scenario.player``.

    Consumers of the queues ``over_amqp10`` speak AMQP 1.0.
    """

    real = True

    def __init__(
        self,
        broker: VhostUnderTest,
        queues: list[str],
        clock: TimeOnServer | None = None,
        *,
        over_amqp10: Collection[str] = (),
    ) -> None:
        self._broker, self._queues, self._over_amqp10 = broker, queues, over_amqp10
        self._clock = clock or RealTime()
        self._faults = FaultsOnServer(broker)
        self._consumers: dict[str, _Consumer] = {}
        self._control = pika.BlockingConnection(amqp_parameters(broker.amqp_url))
        self._counting = self._control.channel()
        self._publisher = CasePublisher(broker.amqp_url)
        self._began = self._clock.now_s()

    def close(self) -> None:
        """Clear the faults, and close the connections."""
        self._faults.clear()
        self._publisher.close()
        for consumer in self._consumers.values():
            consumer.close()
        if self._control.is_open:
            self._control.close()

    @property
    def unroutable(self) -> int:
        """How many publishes reached no queue so far."""
        return self._publisher.unroutable

    @property
    def refused(self) -> int:
        """How many publishes were refused so far."""
        return self._publisher.refused

    @property
    def unconfirmed(self) -> int:
        """How many publishes had no answer so far."""
        return self._publisher.unconfirmed

    # Steps

    def do(self, step: AnyStep) -> None:
        """Do one step. Raises ``StepRefusedError``."""
        if isinstance(step, steps.Repeat):
            for _ in range(step.times):
                for each in step.steps:
                    self.do(each)
            return
        try:
            for _ in range(getattr(step, "times", 1) if not isinstance(step, steps.Hold) else 1):
                _ACTIONS[type(step)](self, step)
            if not isinstance(step, steps.Wait):
                self._rest()
        except (pika.exceptions.AMQPError, ManagementError) as error:
            raise StepRefusedError(str(error)) from error

    def set_faults(self, step: SetFaults) -> None:
        """Have faults strike, or none any more. Raises ``StepRefusedError``."""
        try:
            self._faults.follow(step)
        except ManagementError as error:
            raise StepRefusedError(str(error)) from error

    def pass_until(self, ms: int) -> None:
        """Let time pass."""
        self._sleep(self._began + ms / 1_000 - self._clock.now_s())

    def _sleep(self, seconds: float) -> None:
        if seconds > 0:
            self._clock.wait(seconds)

    def _rest(self) -> None:
        """Wait until the depths of all queues stay the same."""
        until = time.monotonic() + REST_S
        depths, since = self.depths(), time.monotonic()
        while time.monotonic() - since < QUIET_S and time.monotonic() < until:
            self._hear(_POLL_S)
            now = self.depths()
            if now != depths:
                depths, since = now, time.monotonic()

    def _hear(self, seconds: float) -> None:
        """Let the clients receive what was sent to them."""
        for queue in list(self._consumers):
            with self._closed_by_faults(queue):
                self._consumers[queue].hear()
        self._publisher.hear()
        time.sleep(seconds)

    @contextlib.contextmanager
    def _closed_by_faults(self, queue: str) -> Iterator[None]:
        """Forget a consumer whose channel or connection is closed meanwhile: that is what faults are for."""
        try:
            yield
        except pika.exceptions.AMQPError:
            if not self._faults.ever:
                raise
            self._leave(steps.Leave(queue=queue))

    def _publish(self, step: steps.Publish) -> None:
        self._publisher.publish(step, under_faults=self._faults.ever)

    def _consumer(self, queue: str, prefetch: int = 1) -> _Consumer:
        found = self._consumers.get(queue)
        if found is None:
            found = self._consumers[queue] = self._connected(queue)
        if found.prefetch < prefetch and not (found.deliveries and prefetch == 1):
            found.subscribe(prefetch)
        return found

    def _connected(self, queue: str) -> _Consumer:
        if queue not in self._over_amqp10:
            return _PikaConsumer(self._broker.amqp_url, queue)
        check_installed("amqp10")
        from simulator.testing.brokers.amqp10_client import Amqp10Consumer

        return Amqp10Consumer(self._broker.amqp_url, self._broker.vhost, queue)

    def _delivered(self, queue: str) -> _Consumer | None:
        """Return the consumer of a queue once it has a delivery; ``None`` if it gets none.

        What closes an earlier consumer was over before this step, so a new one takes its place.
        """
        if queue in self._consumers:
            with self._closed_by_faults(queue):
                return self._waited(queue)
        return self._waited(queue)

    def _waited(self, queue: str) -> _Consumer | None:
        consumer = self._consumer(queue)
        began = time.monotonic()
        consumer.hear()
        while not consumer.deliveries:
            consumer.hear(_POLL_S)
            waited = time.monotonic() - began
            if waited > DELIVERY_S or (waited > EMPTY_S and not self.depths().get(queue)):
                return consumer if consumer.deliveries else None
        return consumer

    def _settle(self, step: steps.Ack | steps.Reject | steps.Requeue | steps.Modify) -> None:
        with self._closed_by_faults(step.queue):
            consumer = self._delivered(step.queue)
            if consumer is not None:
                consumer.settle(step)
                consumer.hear()

    def _crash(self, step: steps.Crash) -> None:
        with self._closed_by_faults(step.queue):
            self._delivered(step.queue)
        self._leave(step)

    def _leave(self, step: steps.Leave | steps.Crash) -> None:
        consumer = self._consumers.pop(step.queue, None)
        if consumer is not None:
            consumer.close()

    def _hold(self, step: steps.Hold) -> None:
        with self._closed_by_faults(step.queue):
            self._consumer(step.queue, step.times)

    def _get(self, step: steps.Get) -> None:
        if step.queue in self._consumers:
            with self._closed_by_faults(step.queue):
                self._consumers[step.queue].hear(_POLL_S)
        with self._closed_by_faults(step.queue):
            self._consumer(step.queue, 0).get()

    def _wait(self, step: steps.Wait) -> None:
        self._sleep(step.ms / 1_000)

    def _set_policy(self, step: steps.SetPolicy) -> None:
        policy = step.policy
        body = {"pattern": policy.pattern, "definition": dict(policy.definition), "priority": policy.priority}
        self._broker.api("PUT", self._policy(step.operator, policy.name), body | {"apply-to": policy.apply_to})
        time.sleep(POLICY_S)

    def _clear_policy(self, step: steps.ClearPolicy) -> None:
        self._broker.api("DELETE", self._policy(step.operator, step.name))
        time.sleep(POLICY_S)

    def _policy(self, operator: bool, name: str) -> str:
        kind = "operator-policies" if operator else "policies"
        return f"{kind}/{quote(self._broker.vhost, safe='')}/{quote(name, safe='')}"

    # What is there

    def depths(self) -> dict[str, int]:
        """Return how many messages are ready in each queue that there is."""
        found = {}
        for queue in self._queues:
            try:
                found[queue] = self._counting.queue_declare(queue, passive=True).method.message_count
            except pika.exceptions.ChannelClosedByBroker as error:
                if error.reply_code != _NOT_FOUND:
                    raise
                self._counting = self._control.channel()
        return found

    def messages(self, queue: str) -> list[FoundMessage]:
        """Take the ready messages out of a queue; no fault strikes who looks.

        Raises ``StepRefusedError`` where the server lets nobody, as with a quorum queue of a single active consumer.
        """
        self._faults.clear(alarms=False)
        found: list[FoundMessage] = []
        while True:
            try:
                method, properties, _ = self._counting.basic_get(queue, auto_ack=True)
            except pika.exceptions.ChannelClosedByBroker as error:
                self._counting = self._control.channel()
                raise StepRefusedError(error.reply_text) from error
            if method is None:
                return found
            named = {name: value for name, value in vars(properties).items() if value is not None}
            found.append(FoundMessage(method.exchange, method.routing_key, method.redelivered, named))

    def losses(self) -> list[FoundLoss]:
        """Return nothing: a server does not say."""
        return []

    def stories(self, queues: list[str]) -> list[str]:
        """Return no lives of messages: a server does not say what happened to them."""
        return ["A server does not say what became of messages; the simulator does (dlx test --release)."]


_ACTIONS: dict[type, Callable[[ServerStage, Any], None]] = {
    steps.Publish: ServerStage._publish,
    steps.Ack: ServerStage._settle,
    steps.Reject: ServerStage._settle,
    steps.Requeue: ServerStage._settle,
    steps.Modify: ServerStage._settle,
    steps.Crash: ServerStage._crash,
    steps.Hold: ServerStage._hold,
    steps.Get: ServerStage._get,
    steps.Leave: ServerStage._leave,
    steps.Wait: ServerStage._wait,
    steps.SetPolicy: ServerStage._set_policy,
    steps.ClearPolicy: ServerStage._clear_policy,
}


class OnServer:
    """Runs cases on one server.

    Attributes:
        release: its release.
        name: what it is called in answers.
        at_a_time: how many cases may run at once.
    """

    at_a_time = AT_A_TIME

    def __init__(self, server: Server, name: str = "") -> None:
        self.release = server.release
        self.name = name or f"server {server.version}"
        self._server = server
        self._turns = Turns()

    def why_not(self, case: GivenCase) -> str:
        """Return why a case cannot be run here: it has faults, and the server none. Raises ``OSError``."""
        return "" if not case.faults or self._has_faults else need_faults(case.faults)

    @property
    def longest_ms(self) -> int | None:
        """How much time may pass in a case; ``None`` for any, where a clock is moved. Raises ``OSError``."""
        return None if self._has_clock else LONGEST_MS

    @cached_property
    def _has_clock(self) -> bool:
        return has_virtual_clock(self._server)

    @cached_property
    def _has_faults(self) -> bool:
        return has_faults(self._server)

    @contextlib.contextmanager
    def stage(self, case: GivenCase) -> Iterator[ServerStage]:
        """Yield a virtual host with the definitions of the case.

        Raises ``DefinitionsError`` if they are refused, and ``BrokerUnavailableError`` if the server goes away.
        """
        document = {name: value for name, value in case.document.items() if name != "original_vhost_name"}
        topology = OneTopology(case.source, case.topology, document)
        clock = VirtualTime(self._server) if self._has_clock else RealTime()
        alone = case.raises_alarm or self._has_clock  # the clock is that of all cases
        with self._turns.turn(alone=alone), RunningServer(self._server).broker(None, topology) as broker:
            queues, over_amqp10 = list(case.topology.queues), case.modified_queues
            try:
                with contextlib.closing(ServerStage(broker, queues, clock, over_amqp10=over_amqp10)) as stage:
                    yield stage
            except pika.exceptions.AMQPError as error:
                why = str(error) or type(error).__name__
                raise BrokerUnavailableError(f"the server at {hidden(self._server.amqp_url)} is gone: {why}") from error


# The time of a case on a server: real, or that of a virtual clock (``dlx serve --clock virtual``).


class TimeOnServer(Protocol):
    """The time that passes in a case."""

    def now_s(self) -> float:
        """Return the time in seconds, since whenever."""

    def wait(self, seconds: float) -> None:
        """Let time pass. Raises ``ManagementError`` if the server refuses."""


class RealTime:
    """Time as it passes."""

    now_s = staticmethod(time.monotonic)
    wait = staticmethod(time.sleep)


class VirtualTime:
    """The time of a server's virtual clock. It is that of all virtual hosts."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def now_s(self) -> float:
        """Return the server's time in seconds."""
        now_us: int = self._server.api("GET", "clock")["now_us"]
        return now_us / 1_000_000

    def wait(self, seconds: float) -> None:
        """Move the clock on; the server does what is due meanwhile."""
        self._server.api("POST", "clock/advance", {"milliseconds": seconds * 1_000})


def has_virtual_clock(server: Server) -> bool:
    """Return whether a server has a clock that can be moved, as RabbitMQ has not. Raises ``OSError``."""
    try:
        found = server.api("GET", "clock")
    except (ManagementError, ValueError):
        return False
    return isinstance(found, dict) and found.get("virtual") is True


# Lets cases run at the same time on one server, and those alone that would disturb the others.


_ALONE = -1


class Turns:
    """The turns of the cases on one server."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._running = 0

    @contextlib.contextmanager
    def turn(self, *, alone: bool) -> Iterator[None]:
        """Wait until a case may run, and let others wait or run beside it."""
        with self._changed:
            self._changed.wait_for(lambda: self._running == 0 if alone else self._running != _ALONE)
            self._running = _ALONE if alone else self._running + 1
        try:
            yield
        finally:
            with self._changed:
                self._running = 0 if alone else self._running - 1
                self._changed.notify_all()


# Faults on request (docs/how-to/faults.md) in the virtual host of a case on a server, which must be simulated.


_VHOST_OF_A_CASE = (None, "/")


def has_faults(server: Server) -> bool:
    """Return whether a server has faults on request, as RabbitMQ has not. Raises ``OSError`` if it does not answer."""
    try:
        return isinstance(server.api("GET", "faults"), list)
    except (ManagementError, ValueError):
        return False


def need_faults(asked: Sequence[str]) -> str:
    """Return why a case with these faults cannot be run on a server that has none."""
    return f"it asks for the fault {' and '.join(asked)}; faults need dlx serve"


class FaultsOnServer:
    """The faults that a case has set. They strike in its virtual host alone, but an alarm stops every publisher.

    Attributes:
        ever: whether any was set so far.
    """

    def __init__(self, broker: VhostUnderTest) -> None:
        self.ever = False
        self._broker = broker
        self._set: list[tuple[int, Fault]] = []

    def follow(self, step: SetFaults) -> None:
        """Have faults strike, or none any more. Raises ``ManagementError`` if the server refuses."""
        if step.clear:
            self.clear()
        for fault in step.set:
            asked = msgspec.to_builtins(fault)
            if not isinstance(fault, RaiseAlarm) and asked["vhost"] in _VHOST_OF_A_CASE:
                asked["vhost"] = self._broker.vhost
            self.ever = True
            self._set.append((self._broker.api("POST", "faults", asked)["id"], fault))

    def clear(self, *, alarms: bool = True) -> None:
        """Forget the faults; without ``alarms`` only those of deliveries and confirms."""
        for number, fault in list(self._set):
            if alarms or not isinstance(fault, RaiseAlarm):
                self._set.remove((number, fault))
                with contextlib.suppress(ManagementError):  # another client may have cleared it
                    self._broker.api("DELETE", f"faults/{number}")
