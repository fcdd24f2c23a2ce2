"""What a broker does at the acknowledgements of its clients: those of messages that were taken, read, or are poison.

Source: activemq-broker, PrefetchSubscription.acknowledge, TopicSubscription.acknowledge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from simulator.events import Event
from simulator.systems.activemq.arrivals import Arrivals
from simulator.systems.activemq.broker_state import BrokerState
from simulator.systems.activemq.dead_letters import POISON, DeadLetterMaker, redelivery_delay_ms
from simulator.systems.activemq.dispatching import TURNS_OF_ACK, Dispatching
from simulator.systems.activemq.redelivery_policy import RedeliveryPolicy
from simulator.systems.activemq.stores import HeldMessage, Receiver, Store


class UncorrelatedError(Exception):
    """An acknowledgement of messages that the broker did not find where it looked."""


class Acknowledgements:
    """Takes the acknowledgements of a broker's consumers."""

    def __init__(
        self, state: BrokerState, dispatching: Dispatching, dead_letters: DeadLetterMaker, arrivals: Arrivals
    ) -> None:
        self._state, self._dispatching, self._dead_letters = state, dispatching, dead_letters
        self._arrivals = arrivals

    def acknowledge(self, receiver: Receiver, acked: Sequence[HeldMessage], *, transacted: bool) -> None:
        """Remove the messages that a consumer is done with. The end of a transaction takes turns for each of them."""
        if not acked:
            return
        done = {id(held) for held in acked}
        for _, attached in self._state.attachments(receiver):
            acknowledged = [held for held in attached.dispatched if id(held) in done]
            for held in [each for each in acknowledged if not each.gone]:
                self._state.trace.add(Event.ACKED, held.message, consumer=receiver.name)
            attached.dispatched = [held for held in attached.dispatched if id(held) not in done]
            attached.window.contract(len(acknowledged))
        self._dispatching.room(receiver, TURNS_OF_ACK * (1 + transacted * len(acked)))

    def read_ack(self, receiver: Receiver, count: int) -> None:
        """Record that a consumer has read that many more messages, and keeps them; it gets as many others."""
        self._state.windows[receiver].expand(count)
        self._dispatching.room(receiver)

    def rolled_back(self, receiver: Receiver, given_back: Sequence[HeldMessage]) -> None:
        """Record that a transaction gave messages back to a consumer, which still has them."""
        for held in given_back:
            held.acked = False
        if receiver in self._state.windows:
            self._state.windows[receiver].contract(len(given_back))
            self._dispatching.room(receiver, TURNS_OF_ACK + len(given_back))

    def acked_in_transaction(self, receiver: Receiver, acked: Iterable[HeldMessage]) -> None:
        """Record that a transaction acknowledges messages, which may yet be rolled back; every rollback starts so.

        A durable subscription forgets at once how often they were delivered again; a queue does not, and gives them to
        no other consumer until the transaction ends.
        """
        counted = {id(held) for held in acked}
        for store, attached in self._state.attachments(receiver):
            for held in [each for each in attached.dispatched if id(each) in counted]:
                if store.durable_key is not None:
                    held.counter = held.message.redelivery_counter
                held.acked = not store.topic_subscriber

    def expired_ack(self, receiver: Receiver, held: HeldMessage, read: int) -> None:
        """Expire a message whose time is up, as a client found.

        ``read``: how many messages the client reports as read just before, 0 for no report. A subscription to a topic
        gives out others at this report; a queue does so later, in another thread (``docs/reference/activemq.md``).
        """
        if read:
            self._state.windows[receiver].expand(read)
        for store, attached in self._state.attachments(receiver):
            if read and store.topic_subscriber:
                self._dispatching.dispatch(store)
            if held in attached.dispatched:
                attached.dispatched.remove(held)
                attached.window.contract(1)
                if not held.gone:
                    self._dead_letters.expire(held, store)
        self._dispatching.room(receiver, TURNS_OF_ACK * (2 if read else 1))

    def redelivered_ack(self, receiver: Receiver, first: HeldMessage, last: HeldMessage) -> None:
        """Check that the messages a client is going to deliver again lie in order; nothing else changes here.

        Raises ``UncorrelatedError`` as ``poison_ack`` does.
        """
        self._between(receiver, first, last, lambda store, held: None)
        self._dispatching.room(receiver)

    def poison_ack(self, receiver: Receiver, first: HeldMessage, last: HeldMessage, cause: str | None) -> None:
        """Dead-letter what lies between two messages, in the order in which the consumer was given them.

        Raises ``UncorrelatedError`` where that order does not lead from the first to the last; what was met is dead.
        A subscription that is not durable has no dead letters, and does not look at the order.
        """

        def die(store: Store, held: HeldMessage) -> None:
            self._state.trace.add(Event.REJECTED, held.message, consumer=receiver.name, reason=POISON, detail=cause)
            if not store.topic_subscriber or store.durable_key is not None:
                self._dead_letters.die(held, store, cause, POISON)
            store.forget(held.message)
            for _, attached in self._state.attachments(receiver):
                attached.dispatched = [each for each in attached.dispatched if each is not held]

        try:
            self._between(receiver, first, last, die)
            self._state.windows[receiver].contract(1)
        finally:
            self._dispatching.room(receiver)

    def returned(self, receiver: Receiver, held: HeldMessage, policy: RedeliveryPolicy, cause: str) -> None:
        """Take a message back from a client, to deliver it again or give it up (profile ``document-3.x``)."""
        for store, attached in self._state.attachments(receiver):
            if held not in attached.dispatched:
                continue
            attached.dispatched.remove(held)
            held.counter += 1
            if policy.exceeded(held.counter):
                self._dead_letters.die(held, store, cause, POISON)
                return
            delay_ms = redelivery_delay_ms(policy, held.counter, self._state.random)
            self._state.trace.add(Event.REQUEUED, held.message, delay_ms=delay_ms, consumer=receiver.name)
            self._state.deadlines.set(self._state.trace.now_ms + delay_ms, partial(self._arrivals.wait, held, store))

    def _between(
        self, receiver: Receiver, first: HeldMessage, last: HeldMessage, action: Callable[[Store, HeldMessage], None]
    ) -> None:
        """Do something with each message from the first to the last, as far as the order leads there.

        A consumer of several queues has the messages of all of them in one order, that of their dispatches.
        """
        attachments = self._state.attachments(receiver)
        store_of = {id(held): store for store, attached in attachments for held in attached.dispatched}
        given = sorted(
            (held for _, attached in attachments for held in attached.dispatched), key=lambda each: each.given
        )
        met = _range(given, first, last)
        for held in met:
            action(store_of[id(held)], held)
        if met and met[-1] is last:
            return
        if not any(store.topic_subscriber and store.durable_key is None for store, _ in attachments):
            raise UncorrelatedError


def _range(dispatched: list[HeldMessage], first: HeldMessage, last: HeldMessage) -> list[HeldMessage]:
    if first not in dispatched:
        return []
    begun = dispatched[dispatched.index(first) :]
    return begun[: begun.index(last) + 1] if last in begun else begun
