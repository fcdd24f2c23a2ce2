"""When consumers get messages.

Source: activemq-broker, Queue.doActualDispatch, Queue.doPageInForDispatch, PrefetchSubscription.dispatchPending.
"""

from __future__ import annotations

from simulator.systems.activemq.broker_state import BrokerState
from simulator.systems.activemq.choosing import choose
from simulator.systems.activemq.dead_letters import DeadLetters
from simulator.systems.activemq.stores import Receiver, Store


class Dispatching:
    """Gives the messages of a broker to consumers; those that have expired become dead letters."""

    def __init__(self, state: BrokerState, dead_letters: DeadLetters) -> None:
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
        """Give out the first message for which a consumer has room. Return whether there was one."""
        if store.attached:
            self._read(store)
        for waiting in (store.returned, store.waiting):
            for held in waiting:
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
        return False

    def _read(self, store: Store) -> None:
        """Read a queue for its consumers; what has expired dies now, also behind what they have room for."""
        for held in store.read():
            if held.message.expired(self._state.trace.now_ms):
                store.waiting.remove(held)
                self._dead_letters.expire(held, store)
