"""Runs a scenario: the steps one after the other, and between them what falls due."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from simulator.deadlines import Deadlines
from simulator.events import Event
from simulator.scenario.scenario_errors import ScenarioError
from simulator.systems.activemq import activemq_scenario as form
from simulator.systems.activemq.broker import Broker
from simulator.systems.activemq.broker_state import Action, BrokerState
from simulator.systems.activemq.client import Connection, Consumer, Delivery, Listener, Session, World
from simulator.systems.activemq.destinations import ADVISORY, Destination, DestinationMap, UndefinedError, parts
from simulator.systems.activemq.messages import SCHEDULED_DELAY, Message, without_expiration
from simulator.systems.activemq.profiles import PROFILES
from simulator.systems.activemq.scheduling import ScheduleError, as_set, is_scheduled, schedule_of
from simulator.systems.activemq.selectors import UnknownSelectionError
from simulator.systems.activemq.trace import Trace, described

NO_DEAD_LETTERS = "Retry of message is only possible on Dead Letter Queues!"
"""What a broker answers to a retry on a queue to which no dead letter was sent since it started."""
NO_DURABLE_CONSUMERS = "Durable Consumers are not allowed"
"""What a broker with rejectDurableConsumers answers to a durable subscriber."""
NO_DURABLE_ADVISORIES = "Cannot create a durable subscription for an advisory Topic"
"""What a broker answers to a durable subscriber of an advisory topic."""

_SIMULATED = (f"{ADVISORY}MessageDLQd.", f"{ADVISORY}Expired.")


class Run:
    """One run of a scenario.

    Args:
        scenario: what is done.
        random: for collision avoidance; by default from the scenario's seed.
    """

    def __init__(self, scenario: form.Scenario, random: Random | None = None) -> None:
        self._scenario = scenario
        self._trace, self._deadlines = Trace(scenario.start_ms), Deadlines[Action]()
        random = random or Random(scenario.seed)
        profile, settings = PROFILES[scenario.profile], form.settings(scenario.broker)
        self._state = BrokerState(settings, profile, self._deadlines, self._trace, random)
        self._broker = Broker(self._state)
        self._world = World(self._broker, profile, self._deadlines, self._trace, random)
        self._connections: dict[str, Connection] = {}
        self._sessions: dict[str, Session] = {}
        self._consumers: dict[str, Consumer] = {}
        self._outcomes: list[dict[str, Any]] = []
        self._warnings: dict[str, None] = {}
        self._sent = self._connected = 0

    def result(self) -> dict[str, Any]:
        """Run the scenario, and tell what happened."""
        for number, step in enumerate(self._scenario.steps):
            self._trace.step = number
            try:
                self._run(step, f"steps[{number}]")
            except (UndefinedError, UnknownSelectionError) as error:
                raise ScenarioError(f"steps[{number}]", str(error)) from error
        return {
            "system": "activemq",
            "profile": self._scenario.profile,
            "events": self._trace.told(),
            "outcomes": self._outcomes,
            "exceptions": self._trace.exceptions,
            "queues": self._contents(),
            "warnings": [*self._broker.settings.not_simulated, *self._warnings, *self._broker.remarks],
        }

    def _run(self, step: form.Step, where: str) -> None:
        if step.at_ms is not None:
            self._state.pass_time(self._trace.start_ms + step.at_ms)
        self._do(step, where)
        self._state.pass_time(self._trace.now_ms)  # what falls due at once

    # -- time ------------------------------------------------------------------------------------------------------

    def _wait_for(self, consumer: Consumer, timeout_ms: int) -> Delivery | None:
        """Return the next message of a consumer if it comes in time, else ``None``."""
        deadline_ms = self._trace.now_ms + timeout_ms
        while (delivery := consumer.take()) is None:
            due_ms = self._deadlines.next_due()
            if due_ms is None or due_ms > deadline_ms:
                self._state.pass_time(deadline_ms)
                delivery = consumer.take()
                if delivery is None:
                    consumer.give_up()
                return delivery
            self._state.pass_time(due_ms)
        return delivery

    # -- steps -----------------------------------------------------------------------------------------------------

    def _do(self, step: form.Step, where: str) -> None:
        match step:
            case form.Connect():
                self._connect(step, where)
            case form.OpenSession():
                connection = self._connection(step.connection, where)
                self._free(step.session, self._sessions, f"{where}.session")
                self._sessions[step.session] = Session(connection, len(connection.sessions) + 1, step.acknowledge)
            case form.Consume():
                self._consume(step, where)
            case form.Send():
                self._send(step, where)
            case form.Receive():
                self._receive(step, where)
            case form.Process():
                self._process(step, where)
            case form.Commit():
                self._session(step.session, where, transacted=True).commit()
            case form.Rollback():
                self._session(step.session, where, transacted=True).rollback()
            case form.Recover():
                self._session(step.session, where, transacted=False).rollback()
            case form.Acknowledge():
                self._acknowledge(step, where)
            case form.Nack():
                self._nack(step, where)
            case form.Close():
                self._close(step, where)
            case form.Disconnect():
                self._connection(step.connection, where).drop()
            case form.Restart():
                self._restart()
            case form.Unsubscribe():
                self._unsubscribe(step, where)
            case form.Browse():
                self._outcome(browsed=str(step.queue), count=len(self._broker.browse(self._queue(step.queue, where))))
            case form.Drain():
                self._drain(self._queue(step.queue, where))
            case form.Retry():
                self._retry(step, where)
            case form.Wait():
                self._state.pass_time(self._trace.now_ms + step.ms)

    def _connect(self, step: form.Connect, where: str) -> None:
        self._free(step.connection, self._connections, f"{where}.connection")
        taken = (each.client_id for each in self._connections.values() if not each.closed)
        if step.client_id is not None and step.client_id in taken:
            raise ScenarioError(f"{where}.client_id", f"expected an unused one, '{step.client_id}' is connected")
        policies = form.client_policies(step, where, self._broker.settings.redelivery_policy)
        self._connected += 1
        self._connections[step.connection] = Connection(
            self._world,
            step.connection,
            self._connected,
            policies,
            client_id=step.client_id,
            non_blocking=step.non_blocking_redelivery,
            prefetch=step.prefetch,
        )

    def _consume(self, step: form.Consume, where: str) -> None:
        session = self._session(step.session, where)
        connection = session.connection
        destination = form.destination(step.destination, f"{where}.destination")
        self._free(step.consumer, self._consumers, f"{where}.consumer")
        if step.subscription is not None and (destination.is_queue or connection.client_id is None):
            raise ScenarioError(
                f"{where}.subscription", "expected a topic, and a connection with a client_id, for a subscription"
            )
        durable = (
            None if step.subscription is None else self._broker.durable(f"{connection.client_id}:{step.subscription}")
        )
        if durable is not None and durable.attached:
            raise ScenarioError(
                f"{where}.subscription", f"expected one without consumer, '{step.subscription}' has one"
            )
        if step.subscription is not None and not self._broker.settings.durable_consumers:
            raise ScenarioError(f"{where}.subscription", f"the broker refuses it: {NO_DURABLE_CONSUMERS}")
        self._check_advisories(step, destination, where)
        number = sum(len(each.consumers) for each in connection.sessions) + 1
        options = form.consumer_options(step.destination, f"{where}.destination")
        self._consumers[step.consumer] = Consumer(
            session,
            step.consumer,
            f"ID:client-{connection.number}:1:{session.number}:{number}",
            destination,
            durable_name=step.subscription,
            prefetch=options.prefetch,
            exclusive=options.exclusive,
            priority=options.priority,
            selector=form.selector(step.selector, f"{where}.selector"),
            listener=None if step.listener is None else _listener(step.listener),
        )

    def _check_advisories(self, step: form.Consume, destination: Destination, where: str) -> None:
        """Refuse a durable subscriber of advisory messages; warn of a consumer of some that are not simulated."""
        topics = [part.name for part in parts(destination) if part.name.startswith(ADVISORY)]
        if topics and step.subscription is not None:
            raise ScenarioError(f"{where}.subscription", f"the broker refuses it: {NO_DURABLE_ADVISORIES}")
        if self._broker.settings.advisories and not all(name.startswith(_SIMULATED) for name in topics):
            which = "of the advisory messages only MessageDLQd and Expired are simulated"
            self._warnings[f"{where}: {which}: '{step.consumer}' gets no others"] = None

    def _send(self, step: form.Send, where: str) -> None:
        self._sent += 1
        now_ms = self._trace.now_ms
        properties = self._properties(step.properties, where)
        if step.delay_ms is not None:
            properties[SCHEDULED_DELAY] = step.delay_ms
        message = Message(
            message_id=step.message or f"ID:producer-1:1:1:1:{self._sent}",
            destination=form.destination(step.to, f"{where}.to"),
            body=step.body,
            persistent=step.persistent,
            timestamp_ms=now_ms,
            expiration_ms=now_ms + step.ttl_ms if step.ttl_ms else 0,
            priority=step.priority,
            properties=properties,
        )
        self._warnings |= dict.fromkeys(f"{where}: {each}" for each in _not_simulated(message))
        if is_scheduled(properties) and not self._broker.settings.scheduler:
            self._warnings[
                f"{where}: the broker has no scheduler (schedulerSupport), and sends the message at once"
            ] = None
        self._trace.add(Event.PUBLISHED, message)
        if step.session is None:
            self._broker.send(message)
        else:
            self._session(step.session, where).send(message)

    def _properties(self, given: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Return the properties of a message as a client sets them, those for the scheduler checked."""
        settings = self._broker.settings
        try:
            properties = as_set(without_expiration(given))
            if settings.scheduler:
                schedule_of(properties, settings.repeat_max)
        except ScheduleError as error:
            raise ScenarioError(f"{where}.properties", str(error)) from error
        return properties

    def _receive(self, step: form.Receive, where: str) -> None:
        delivery = self._wait_for(self._reader(step.consumer, where), step.timeout_ms)
        self._outcome(received=None if delivery is None else self._described(delivery))

    def _process(self, step: form.Process, where: str) -> None:
        """Receive and fail, until nothing comes any more."""
        consumer = self._reader(step.consumer, where)
        session, seen = consumer.session, Counter[str]()
        if session.mode not in ("transacted", "client", "individual"):
            raise ScenarioError(
                f"{where}.consumer", f'expected a session that can deliver again, "{session.mode}" cannot'
            )
        received = 0
        while received < step.attempts and (delivery := self._wait_for(consumer, step.idle_ms)) is not None:
            received += 1
            seen[delivery.message.message_id] += 1
            if step.fails != "always" and seen[delivery.message.message_id] > step.fails:
                session.commit() if session.transacted else session.acknowledge(delivery)
            else:
                session.rollback()
        self._outcome(processed=received)

    def _acknowledge(self, step: form.Acknowledge, where: str) -> None:
        consumer = self._consumer(step.consumer, where)
        if consumer.session.mode not in ("client", "individual"):
            raise ScenarioError(where, 'expected a session that acknowledges "client" or "individual"')
        if consumer.last_read is None:
            raise ScenarioError(where, f"the consumer '{step.consumer}' has received nothing to acknowledge")
        consumer.session.acknowledge(consumer.last_read)

    def _nack(self, step: form.Nack, where: str) -> None:
        consumer = self._consumer(step.consumer, where)
        if consumer.session.mode not in ("client", "individual"):
            raise ScenarioError(where, 'expected a session that acknowledges "client" or "individual"')
        if consumer.last_read is None or consumer.last_read not in consumer.delivered:
            raise ScenarioError(where, f"the consumer '{step.consumer}' has no message that it could reject")
        consumer.reject(consumer.last_read)

    def _close(self, step: form.Close, where: str) -> None:
        if sum(each is not None for each in (step.consumer, step.session, step.connection)) != 1:
            raise ScenarioError(where, "expected one of consumer, session and connection")
        if step.consumer is not None:
            self._consumer(step.consumer, where).close()
        elif step.session is not None:
            self._session(step.session, where).close()
        elif step.connection is not None:
            self._connection(step.connection, where).close()

    def _restart(self) -> None:
        """Stop the broker and start it again; no client finds its way back."""
        for connection in self._connections.values():
            if not connection.closed:
                connection.drop()
        self._broker.restart()

    def _retry(self, step: form.Retry, where: str) -> None:
        count = self._broker.retry(self._queue(step.queue, where))
        refused = {"refused": NO_DEAD_LETTERS} if count is None else {}
        self._outcome(retried=str(step.queue), count=count or 0, **refused)

    def _unsubscribe(self, step: form.Unsubscribe, where: str) -> None:
        key = f"{step.client_id}:{step.subscription}"
        store = self._broker.durable(key)
        if store is None or store.attached:
            problem = "it does not exist" if store is None else "its consumer is still open"
            raise ScenarioError(f"{where}.subscription", f"expected a durable subscription without consumer: {problem}")
        self._broker.unsubscribe(key)

    def _drain(self, queue: Destination) -> None:
        """Read a queue empty, as a client that acknowledges at once."""
        connection = Connection(self._world, "drain", 0, DestinationMap())
        session = Session(connection, 1, "auto")
        consumer = Consumer(session, "drain", "ID:drain", queue)
        taken = []
        while (delivery := consumer.take()) is not None:
            taken.append(self._described(delivery))
        connection.close()
        self._outcome(drained=str(queue), count=len(taken), messages=taken)

    # -- names -----------------------------------------------------------------------------------------------------

    def _connection(self, name: str, where: str) -> Connection:
        found = self._connections.get(name)
        if found is None or found.closed:
            raise ScenarioError(f"{where}.connection", _unknown("connection", name, found is not None))
        return found

    def _session(self, name: str, where: str, *, transacted: bool | None = None) -> Session:
        found = self._sessions.get(name)
        if found is None or found.closed:
            raise ScenarioError(f"{where}.session", _unknown("session", name, found is not None))
        if transacted is not None and found.transacted != transacted:
            kind = "transacted" if transacted else "not transacted"
            raise ScenarioError(f"{where}.session", f"expected a session that is {kind}; '{name}' is not")
        return found

    def _consumer(self, name: str, where: str) -> Consumer:
        found = self._consumers.get(name)
        if found is None or found.closed:
            raise ScenarioError(f"{where}.consumer", _unknown("consumer", name, found is not None))
        return found

    def _reader(self, name: str, where: str) -> Consumer:
        """Return a consumer that receives, and has no listener."""
        found = self._consumer(name, where)
        if found.listener is not None:
            raise ScenarioError(f"{where}.consumer", f"expected a consumer without listener, '{name}' has one")
        return found

    def _queue(self, text: str, where: str) -> Destination:
        found = form.destination(text, f"{where}.queue")
        if not found.is_queue or found.is_pattern:
            raise ScenarioError(f"{where}.queue", f"expected the name of one queue, got '{text}'")
        return found

    def _free(self, name: str, taken: dict[str, Any], where: str) -> None:
        if name in taken and not taken[name].closed:
            raise ScenarioError(where, f"expected a new name, '{name}' is open")

    # -- results ---------------------------------------------------------------------------------------------------

    def _outcome(self, **found: Any) -> None:
        self._outcomes.append({"step": self._trace.step, "time_ms": self._trace.time_ms, **found})

    def _described(self, delivery: Delivery) -> dict[str, Any]:
        return described(delivery.message, delivery.counter, self._trace.now_ms)

    def _contents(self) -> dict[str, list[dict[str, Any]]]:
        """Return what is left, by queue and by durable subscription."""
        stores = {str(store.destination): store for store in self._broker.queues.values()}
        stores |= {
            f"{store.destination} {store.durable_key}": store
            for store in self._broker.subscriptions
            if store.durable_key is not None
        }
        return {
            name: [described(held.message, held.counter, self._trace.now_ms) for held in store.held]
            for name, store in stores.items()
        }


def _not_simulated(message: Message) -> Iterator[str]:
    """Yield what a message asks for that the simulator does not do."""
    if any(part.is_pattern for part in parts(message.destination)):
        yield f"sends to the pattern {message.destination} are not simulated: it is taken as the name of a destination"


def _listener(part: form.ListenerPart) -> Listener:
    seen, calls = Counter[str](), Counter[str]()

    def listen(delivery: Delivery) -> str | None:
        calls["all"] += 1
        seen[delivery.message.message_id] += 1
        fails = part.fails == "always" or seen[delivery.message.message_id] <= part.fails
        return part.exception.replace("{n}", str(calls["all"])) if fails else None

    return listen


def _unknown(kind: str, name: str, closed: bool) -> str:
    if closed:
        return f"the {kind} '{name}' is closed; expected an open one"
    return f"expected a {kind} that an earlier step made, got '{name}'"
