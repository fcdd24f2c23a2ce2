"""When consumers get messages, and when a broker looks for those that have expired and takes them out.

Source: activemq-broker, Queue.doActualDispatch, Queue.doPageInForDispatch, PrefetchSubscription.dispatchPending,
Queue.expireMessages, Topic's expireMessagesWork.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import islice

from simulator.systems.activemq.broker_state import BrokerState
from simulator.systems.activemq.dead_letters import DeadLetterMaker
from simulator.systems.activemq.messages import Message
from simulator.systems.activemq.stores import HeldMessage, Receiver, Store, choose, takers


class Dispatching:
    """Gives the messages of a broker to consumers; those that have expired become dead letters."""

    def __init__(self, state: BrokerState, dead_letters: DeadLetterMaker) -> None:
        self._state, self._dead_letters = state, dead_letters

    def room(self, receiver: Receiver) -> None:
        """Give a consumer more messages, if it may have more."""
        for store, _ in self._state.attachments(receiver):
            self.dispatch(store)

    def dispatch(self, store: Store) -> None:
        """Give waiting messages to consumers with room. A consumer that acts at once comes back here to no effect."""
        if store.dispatching:
            return
        store.dispatching = True
        try:
            while self._dispatch_one(store):
                pass
        finally:
            store.dispatching = False

    def _dispatch_one(self, store: Store) -> bool:
        """Give out the first message for which a consumer has room. Return whether there was one.

        Of the messages that wait in a queue, the broker looks at a page.
        """
        if store.attached:
            self._read(store)
        page = None if store.topic_subscriber else store.policy.max_page_size
        for waiting in (store.returned, store.waiting):
            for held in islice(waiting, page if waiting is store.waiting else None):
                attached = choose(store, held)
                if attached is None:
                    if all(each.window.full for each in store.attached):
                        return False
                    continue
                waiting.remove(held)
                if held.message.expired(self._state.trace.now_ms):
                    self._dead_letters.expire(held, store)
                    return True
                held.given = next(self._state.dispatches)
                attached.dispatched.append(held)
                attached.window.given()
                attached.receiver.dispatched(held, store)
                return True
        if page is not None and len(store.waiting) > page:
            self._note_starving(store, page)
        return False

    def _note_starving(self, store: Store, page: int) -> None:
        """Note whom the last message would be for, if the broker looked at it."""
        for receiver in takers(store, store.waiting[-1]):
            what = f"none of the first {page} messages there is for it, and the broker looks at no more (maxPageSize)"
            self._state.starving[f"the consumer '{receiver.name}' gets nothing from {store.destination}: {what}"] = None

    def _read(self, store: Store) -> None:
        """Read a queue for its consumers; what has expired dies now, also behind what they have room for."""
        for held in store.read():
            if held.message.expired(self._state.trace.now_ms):
                store.waiting.remove(held)
                self._dead_letters.expire(held, store)


class Expiry:
    """Looks at the stores of a broker from time to time; those that die become dead letters."""

    def __init__(self, state: BrokerState, dead_letters: DeadLetterMaker) -> None:
        self._state, self._dead_letters = state, dead_letters

    def at_arrival(self, message: Message) -> bool:
        """Let a message die that has expired before it came to a topic, as one whose transaction took long.

        Return whether it did. A queue takes it, and finds out when it is read.
        """
        if message.destination.is_queue or not message.expired(self._state.trace.now_ms):
            return False
        self._dead_letters.expire_at_arrival(message)
        return True

    def plan(self, store: Store, new: Iterable[HeldMessage]) -> None:
        """Plan to look at the first regular time after one of the new messages expires."""
        period_ms = store.policy.expire_period_ms
        ends = [held.message.expiration_ms for held in new if held.message.expiration_ms]
        if not ends or period_ms <= 0:
            return
        earliest_ms = max(min(ends), self._state.trace.now_ms)
        due_ms = store.created_ms + ((earliest_ms - store.created_ms) // period_ms + 1) * period_ms
        if store.sweep_due_ms is None or due_ms < store.sweep_due_ms:
            store.sweep_due_ms = due_ms
            self._state.deadlines.set(due_ms, partial(self._regularly, store, due_ms))

    def sweep(self, store: Store) -> None:
        """Take out the messages that have expired and that no consumer has."""
        now_ms = self._state.trace.now_ms
        for held in store.keep(lambda held: not held.message.expired(now_ms)):
            self._dead_letters.expire(held, store)

    def sweep_all(self, store: Store) -> None:
        """Take out the messages that have expired, also those that a consumer has, as a browser does."""
        now_ms = self._state.trace.now_ms
        expired = store.keep(lambda held: not held.message.expired(now_ms))
        for attached in store.attached:
            for held in attached.dispatched:
                if held.message.expired(now_ms) and not held.gone:
                    held.gone = True
                    expired.append(held)
        for held in sorted(expired, key=lambda each: each.sequence):
            self._dead_letters.expire(held, store)

    def _regularly(self, store: Store, due_ms: int) -> None:
        if store.sweep_due_ms != due_ms:
            return  # planned again, as by a broker that started again
        store.sweep_due_ms = None
        self.sweep(store)
        self.plan(store, [*store.returned, *store.waiting, *store.unread])
