"""A JMS client of ActiveMQ: connections, sessions and consumers, and how they deliver again.

A consumer keeps what it was given until it is acknowledged. Rolled back, it counts
for itself, waits, and delivers the same messages again; the broker learns of it only
when the limit is exceeded (a poison acknowledgement) or the consumer goes away.

Source: activemq-client, ActiveMQMessageConsumer, ActiveMQSession, ActiveMQConnection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Literal

import msgspec

from simulator.deadlines import Deadlines
from simulator.events import Event
from simulator.systems.activemq.acknowledgements import UncorrelatedError
from simulator.systems.activemq.broker import LAST_NONE, LAST_UNKNOWN, Broker
from simulator.systems.activemq.broker_state import Action
from simulator.systems.activemq.dead_letters import draw_share, redelivery_delay_ms
from simulator.systems.activemq.destinations import Destination, DestinationMap
from simulator.systems.activemq.messages import REDELIVERY_DELAY, Message
from simulator.systems.activemq.profiles import Profile
from simulator.systems.activemq.redelivery_policy import (
    RedeliveryPolicy,
    delivery_exceeds,
    dispatch_exceeds,
    next_delay_ms,
)
from simulator.systems.activemq.selectors import Selector
from simulator.systems.activemq.stores import HeldMessage, Store
from simulator.systems.activemq.trace import Trace

Mode = Literal["transacted", "auto", "client", "dups_ok", "individual"]
Listener = Callable[["Delivery"], "str | None"]
"""What an application does with a message; what it throws, or ``None``."""


class Delivery(msgspec.Struct, eq=False):
    """A message as a client has it.

    ``counter`` is the client's own count, ``broker_counter`` the broker's when it gave the message;
    ``thrown`` is what a listener threw at it.
    """

    held: HeldMessage
    counter: int
    broker_counter: int
    thrown: str | None = None

    @property
    def message(self) -> Message:
        """The message."""
        return self.held.message


class World(msgspec.Struct, frozen=True):
    """The parts of the simulation that all clients share."""

    broker: Broker
    profile: Profile
    deadlines: Deadlines[Action]
    trace: Trace
    random: Random


class Connection:
    """One connection.

    Args:
        world: what it shares with others.
        name: as the scenario calls it.
        number: part of the identifiers of its consumers.
        policies: redelivery policies; a consumer takes its own when it is made.
        client_id: for durable subscriptions.
        non_blocking: whether others overtake a message that waits for its redelivery.
        prefetch: how many unread messages a consumer is given.
    """

    def __init__(
        self,
        world: World,
        name: str,
        number: int,
        policies: DestinationMap[RedeliveryPolicy],
        *,
        client_id: str | None = None,
        non_blocking: bool = False,
        prefetch: int = 1000,
    ) -> None:
        self.world, self.name, self.number, self.policies = world, name, number, policies
        self.client_id, self.non_blocking, self.prefetch = client_id, non_blocking, prefetch
        self.sessions: list[Session] = []
        self.closed = False

    def close(self) -> None:
        """Close the sessions, and tell the broker once what was delivered last."""
        last = LAST_NONE
        consumers = [consumer for session in self.sessions for consumer in session.consumers]
        for session in self.sessions:
            last = max(last, session.dispose())
        self._gone(consumers, last)

    def drop(self) -> None:
        """Vanish, as with a broken socket: the broker does not know what was delivered."""
        consumers = [consumer for session in self.sessions for consumer in session.consumers]
        for session in self.sessions:
            session.forget_unsent()
            session.closed = True
        self._gone(consumers, LAST_UNKNOWN)

    def _gone(self, consumers: list[Consumer], last_delivered: int | None) -> None:
        self.closed = True
        for consumer in consumers:
            consumer.closed = True
        self.world.broker.detach(consumers, last_delivered)


class Session:
    """One session, with its way to acknowledge."""

    def __init__(self, connection: Connection, number: int, mode: Mode) -> None:
        self.connection, self.number, self.mode = connection, number, mode
        self.consumers: list[Consumer] = []
        self.unsent: list[Message] = []
        self.closed = False
        connection.sessions.append(self)

    @property
    def transacted(self) -> bool:
        """Whether it has transactions."""
        return self.mode == "transacted"

    def send(self, message: Message) -> None:
        """Send a message: at once, or with the transaction."""
        if self.transacted:
            self.connection.world.broker.announce(message.destination)
            self.unsent.append(message)
        else:
            self.connection.world.broker.send(message)

    def commit(self) -> None:
        """Send what is to be sent, and acknowledge all that was delivered since the last commit or rollback."""
        unsent, self.unsent = self.unsent, []
        for message in unsent:
            self.connection.world.broker.send(message)
        self._acknowledge_all()
        self._close_those_waiting()

    def acknowledge(self, delivery: Delivery | None = None) -> None:
        """Acknowledge all that was delivered (``client``), or one message (``individual``)."""
        for consumer in self.consumers:
            if self.mode == "individual" and delivery is not None:
                consumer.acknowledge([each for each in consumer.delivered if each is delivery])
        if self.mode == "client":
            self._acknowledge_all()

    def rollback(self) -> None:
        """Deliver again what was delivered since the last commit or rollback; with ``client``, recover."""
        self.forget_unsent()
        for consumer in list(self.consumers):
            consumer.rollback()
        self._close_those_waiting()

    def close(self) -> None:
        """Close the session; an open transaction is rolled back first."""
        consumers = list(self.consumers)
        last = self.dispose()
        self.connection.world.broker.detach(consumers, last)

    def dispose(self) -> int:
        """Roll back and close the consumers. Return the sequence of what was delivered last."""
        if self.closed:
            return LAST_NONE
        last = max((consumer.last_delivered for consumer in self.consumers), default=LAST_NONE)
        if self.transacted:
            self.forget_unsent()
            for consumer in self.consumers:
                consumer.rollback()
        for consumer in self.consumers:
            consumer.closed = True
        self.closed = True
        return last

    def forget_unsent(self) -> None:
        """Let go of what a transaction was to send."""
        unsent, self.unsent = self.unsent, []
        for message in unsent:
            self.connection.world.trace.add(Event.PURGED, message, detail="its transaction was rolled back")

    def _acknowledge_all(self) -> None:
        for consumer in self.consumers:
            consumer.acknowledge(list(consumer.delivered))
            consumer.delay_ms = 0

    def _close_those_waiting(self) -> None:
        for consumer in [each for each in self.consumers if each.closes_with_transaction]:
            consumer.close_now()


class Consumer:
    """One consumer, and what it was given.

    Attributes:
        unread_messages: given by the broker and not delivered yet.
        delivered: delivered and not acknowledged, the oldest first.
        last_read: what was delivered last, acknowledged or not.
        untold: how many messages were read that the broker was not told of. A rollback counts them down, below 0 too:
            what is read again was told.
        delay_ms: the delay before the last redelivery, in profiles where the consumer keeps it; 0 none.
        last_delivered: the broker's sequence of what was delivered last.
        stopped: whether it waits before it delivers again, and delivers nothing else.
    """

    def __init__(
        self,
        session: Session,
        name: str,
        identifier: str,
        destination: Destination,
        *,
        durable_name: str | None = None,
        prefetch: int | None = None,
        exclusive: bool = False,
        priority: int = 0,
        selector: Selector | None = None,
        listener: Listener | None = None,
    ) -> None:
        connection = session.connection
        self.session, self.name, self.identifier, self.destination = session, name, identifier, destination
        self.world, self.listener = connection.world, listener
        self.prefetch = connection.prefetch if prefetch is None else prefetch
        self.exclusive, self.priority, self.selector = exclusive, priority, selector
        self.policy = connection.policies.lookup(destination) or RedeliveryPolicy()
        self.unread_messages: deque[Delivery] = deque()
        self.delivered: list[Delivery] = []
        self.last_read: Delivery | None = None
        self.delay_ms = self.untold = 0
        self.last_delivered = LAST_NONE
        self.stopped = self.closed = self.closes_with_transaction = False
        session.consumers.append(self)
        durable_key = None if durable_name is None else f"{connection.client_id}:{durable_name}"
        self.world.broker.attach(self, durable_key)

    # -- in --------------------------------------------------------------------------------------------------------

    def dispatched(self, held: HeldMessage, store: Store) -> None:
        """Take a message from the broker."""
        self.unread_messages.append(Delivery(held, held.counter, held.counter))
        self._feed_listener()

    def take(self) -> Delivery | None:
        """Deliver the next message to a receive; return ``None`` if no message has come yet."""
        delivery = self._next()
        while delivery is None and self.prefetch == 0 and not self.unread_messages:
            self.world.broker.pull(self, 1)
            if not self.unread_messages:
                break
            delivery = self._next()
        if delivery is not None:
            self._deliver(delivery)
            if self.session.mode in ("auto", "dups_ok"):
                self.acknowledge([delivery])
        return delivery

    def give_up(self) -> None:
        """End a receive that got nothing: a consumer of prefetch 0 no longer asks for a message."""
        if self.closed:
            return
        self.world.broker.got_nothing(self)
        if self.prefetch == 0:
            self.world.broker.pull(self, 0)

    def _next(self) -> Delivery | None:
        """Return the next message that is neither expired nor known to the broker as beyond the limit."""
        while self.unread_messages and not self.stopped and not self.closed:
            delivery = self.unread_messages.popleft()
            if self._lets_die(delivery):
                continue
            if self._exceeded_before(delivery):
                cause = dispatch_exceeds(
                    self.policy, delivery.broker_counter, self.identifier, to_listener=self.listener is not None
                )
                self._poison([delivery], cause)
            else:
                return delivery
        return None

    def _lets_die(self, delivery: Delivery) -> bool:
        """Tell the broker of a message that has expired; return whether it has."""
        if not delivery.message.expired(self.world.trace.now_ms):
            return False
        told = self._read(delivery, expired=True)
        self.world.broker.acknowledgements.expired_ack(self, delivery.held, told)
        return True

    def _exceeded_before(self, delivery: Delivery) -> bool:
        return (
            self.session.transacted
            and self.policy.pre_dispatch_check
            and self.policy.exceeded(delivery.broker_counter)
            and REDELIVERY_DELAY not in delivery.message.properties
        )

    def _deliver(self, delivery: Delivery) -> None:
        self.delivered.append(delivery)
        self.last_read = delivery
        if told := self._read(delivery):
            self.world.broker.acknowledgements.read_ack(self, told)
        self.world.trace.add(
            Event.DELIVERED,
            delivery.message,
            consumer=self.name,
            delivery_count=delivery.counter + 1,
            redelivered=delivery.counter > 0,
        )

    def _read(self, delivery: Delivery, *, expired: bool = False) -> int:
        """Count a message as read. Return how many read messages the client reports to the broker now; mostly 0.

        It waits until they are half of the prefetch. An expired message counts in a transaction alone.
        """
        self.last_delivered = delivery.held.sequence
        told = 0
        if self.session.transacted and self.session.connection.non_blocking:
            self.world.broker.acknowledgements.acked_in_transaction(self, [delivery.held])
            told = 1
        elif self.session.transacted or (self.session.mode not in ("auto", "dups_ok") and not expired):
            self.untold += 1
            if 2 * self.untold >= self.prefetch:
                told, self.untold = self.untold, 0
        return told

    def _feed_listener(self) -> None:
        while self.listener is not None and (delivery := self._next()) is not None:
            self._deliver(delivery)
            delivery.thrown = self.listener(delivery)
            if delivery.thrown is None:
                if self.session.mode in ("auto", "dups_ok"):
                    self.acknowledge([delivery])
            elif self.session.mode == "dups_ok" and not self.destination.is_queue:
                self.delivered.remove(delivery)  # the client keeps nothing that it could deliver again
            elif self.session.mode not in ("transacted", "client"):
                self.rollback()

    # -- out -------------------------------------------------------------------------------------------------------

    def acknowledge(self, deliveries: list[Delivery]) -> None:
        """Acknowledge messages that were delivered."""
        done = {id(each) for each in deliveries}
        self.delivered = [each for each in self.delivered if id(each) not in done]
        if self.session.mode != "individual":
            self.untold = max(self.untold - len(deliveries), 0)
        transacted = self.session.transacted
        self.world.broker.acknowledgements.acknowledge(self, [each.held for each in deliveries], transacted=transacted)

    def reject(self, delivery: Delivery) -> None:
        """Let a message die at once, which JMS has no call for and STOMP has: NACK."""
        self.delivered.remove(delivery)
        if self.session.mode != "individual":
            self.untold = max(self.untold - 1, 0)
        self.world.broker.acknowledgements.poison_ack(self, delivery.held, delivery.held, None)

    def rollback(self) -> None:
        """Deliver again what was delivered, or give it up."""
        batch, self.delivered = self.delivered, []
        if not batch:
            return
        if self.session.transacted:
            self.world.broker.acknowledgements.acked_in_transaction(self, [each.held for each in batch])
            self.world.broker.acknowledgements.rolled_back(self, [each.held for each in batch])
            if not self.session.connection.non_blocking:
                self.untold = max(self.untold - len(batch), 0)
        self.untold -= len(batch)
        profile = self.world.profile
        if profile.redelivered_by == "broker":
            for delivery in batch:
                cause = delivery_exceeds(self.policy, delivery.counter + 1, delivery.thrown)
                self.world.broker.acknowledgements.returned(self, delivery.held, self.policy, cause)
        elif profile.judged == "last":
            self._roll_back_together(batch)
        else:
            self._roll_back_each(batch)

    def _roll_back_together(self, batch: list[Delivery]) -> None:
        """Roll the whole batch back as its last message decides."""
        last = batch[-1]
        delay_ms = self._delay(last)
        for delivery in batch:
            delivery.counter += 1
        if self.policy.exceeded(last.counter):
            self.delay_ms = 0
            self._poison(batch, delivery_exceeds(self.policy, last.counter, last.thrown))
            return
        if last.counter > 1 or self.world.profile.delays_from == "message":
            self._tell_of_redelivery(batch)
        self._redeliver(batch, delay_ms)

    def _roll_back_each(self, batch: list[Delivery]) -> None:
        """Roll back each message by its own count; those that live wait as long as the last of them."""
        delays = {id(delivery): self._delay(delivery) for delivery in batch}
        for delivery in batch:
            delivery.counter += 1
        for delivery in [each for each in batch if self.policy.exceeded(each.counter)]:
            self._poison([delivery], delivery_exceeds(self.policy, delivery.counter, delivery.thrown))
        living = [delivery for delivery in batch if not self.policy.exceeded(delivery.counter)]
        if living:
            self._redeliver(living, delays[id(living[-1])])

    def _delay(self, delivery: Delivery) -> int:
        """Return how long to wait before the next redelivery; the message is not counted yet."""
        random, policy = self.world.random, self.policy
        if self.world.profile.delays_from == "message":
            return redelivery_delay_ms(policy, delivery.counter + 1, random)
        if delivery.counter > 0:
            share = draw_share(random) if policy.use_collision_avoidance else 0.0
            self.delay_ms = next_delay_ms(policy, self.delay_ms, share)
        else:
            self.delay_ms = policy.initial_delay_ms
        return self.delay_ms

    def _redeliver(self, batch: list[Delivery], delay_ms: int) -> None:
        for delivery in batch:
            self.world.trace.add(Event.REQUEUED, delivery.message, consumer=self.name, delay_ms=delay_ms)
        blocking = not self.session.connection.non_blocking
        self.stopped = blocking
        if blocking and delay_ms <= 0 and self.listener is None:
            self._deliver_again(batch)
        else:
            self.world.deadlines.set(self.world.trace.now_ms + max(delay_ms, 0), partial(self._deliver_again, batch))

    def _deliver_again(self, batch: list[Delivery]) -> None:
        """Put the messages back: first and in their order if redelivery blocks, else behind what came meanwhile.

        If it does not block, they come as new ones do: what has expired meanwhile dies now.
        """
        if self.closed:
            return
        if self.session.connection.non_blocking:
            self.unread_messages.extend(each for each in batch if not self._lets_die(each))
        else:
            self.stopped = False
            self.unread_messages.extendleft(reversed(batch))
        self._feed_listener()

    def _tell_of_redelivery(self, batch: list[Delivery]) -> None:
        try:
            self.world.broker.acknowledgements.redelivered_ack(self, batch[0].held, batch[-1].held)
        except UncorrelatedError:
            self._uncorrelated(batch, ack_type=3, cause="null")

    def _poison(self, batch: list[Delivery], cause: str) -> None:
        try:
            self.world.broker.acknowledgements.poison_ack(self, batch[0].held, batch[-1].held, cause)
        except UncorrelatedError:
            self._uncorrelated(batch, ack_type=1, cause=f"java.lang.Throwable: {cause}")

    def _uncorrelated(self, batch: list[Delivery], *, ack_type: int, cause: str) -> None:
        """Tell the exception listener that the broker did not find the batch in the order of the acknowledgement."""
        self.world.trace.exception(
            self.session.connection.name,
            "javax.jms.JMSException: Could not correlate acknowledgment with dispatched message: MessageAck {"
            f"responseRequired = false, ackType = {ack_type}, consumerId = {self.identifier}, "
            f"firstMessageId = {batch[0].message.message_id}, lastMessageId = {batch[-1].message.message_id}, "
            f"destination = {self.destination}, transactionId = null, messageCount = {len(batch)}, "
            f"poisonCause = {cause}}}",
        )

    def close(self) -> None:
        """Close the consumer; if it holds messages of an open transaction, only when that ends."""
        if self.session.transacted and self.delivered:
            self.closes_with_transaction = True
        else:
            self.close_now()

    def close_now(self) -> None:
        """Close the consumer now, and tell the broker what was delivered last."""
        if not self.closed:
            self.closed = True
            self.session.consumers.remove(self)
            self.world.broker.detach([self], self.last_delivered)
