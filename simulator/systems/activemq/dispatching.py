"""When consumers get messages, and when a broker looks for those that have expired and takes them out.

A broker reads a queue in pages. It takes a turn at a queue with each message that comes, each acknowledgement, and
each consumer that comes or goes; in a turn it reads one page at most, and gives out what it has read. A page that comes
to messages that wait in memory is given out in a turn of its own. Whatever asks for one within a turn, as such a page
does, brings one more after all others.

Source: activemq-broker, Queue.iterate, Queue.doPageInForDispatch, Queue.doDispatch, Queue.doActualDispatch,
Queue.doBrowse, PrefetchSubscription.dispatchPending, pullMessage, Topic.doBrowse; activemq-client,
PooledTaskRunner.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from simulator.systems.activemq.broker_state import BrokerState
from simulator.systems.activemq.dead_letters import DeadLetterMaker
from simulator.systems.activemq.messages import Message
from simulator.systems.activemq.stores import HeldMessage, Receiver, Store, choose, takers, visit

TURNS_OF_ACK = 2
"""How often the broker takes a turn at a queue for an acknowledgement."""


class Dispatching:
    """Gives the messages of a broker to consumers; those that have expired become dead letters."""

    def __init__(self, state: BrokerState, dead_letters: DeadLetterMaker) -> None:
        self._state, self._dead_letters = state, dead_letters

    def room(self, receiver: Receiver, turns: int = TURNS_OF_ACK) -> None:
        """Give a consumer more messages, if it may have more."""
        for store, _ in self._state.attachments(receiver):
            self.dispatch(store, turns)

    def pull(self, receiver: Receiver) -> None:
        """Look once for what a consumer asks for."""
        for store, _ in self._state.attachments(receiver):
            with self._turns(store, 0):
                store.again = True

    def dispatch(self, store: Store, turns: int = 1) -> None:
        """Take turns at a store. A consumer that acts at once comes back here, and its turns are taken afterwards."""
        with self._turns(store, turns):
            pass

    def give_back(self, store: Store, turns: int) -> None:
        """Give out what came back to a store, and take turns at it."""
        with self._turns(store, turns):
            if store.returned:
                self._give(store)

    def browse(self, store: Store) -> list[HeldMessage]:
        """Return what a browser is shown: what is in memory, and page by page what is not, until it has seen enough.

        It lets the messages die that have expired, also those that a consumer has. What a transaction has acknowledged
        is not shown.
        """
        seen: dict[int, HeldMessage] = {}
        limit = store.policy.max_browse_page_size
        with self._turns(store, 1):  # as it goes
            while self._show(store, seen, limit):
                store.again = True
            store.turns += TURNS_OF_ACK * len(seen)
            visit(store)
        return [held for held in seen.values() if not held.message.expired(self._state.trace.now_ms)]

    def read_for_sweep(self, store: Store) -> None:
        """Read pages of a queue until as much is in memory as the broker looks at for what has expired."""
        limit = store.policy.max_expire_page_size
        if limit <= 0:
            return
        with self._turns(store, 1):
            for _ in range(1 + len(store.unread) // limit):
                if len(store.in_memory) < limit:
                    store.turns += self._page(store, limit, force=True)

    def note_waiting(self, receiver: Receiver) -> None:
        """Note where a consumer that got nothing would get more, if it acknowledged what it has."""
        for store, attached in self._state.attachments(receiver):
            if store.unread and attached.dispatched and receiver in takers(store, store.unread.last):
                what = f"the broker reads {store.policy.max_page_size} messages at a time (maxPageSize)"
                self.note(store, f"the consumer '{receiver.name}' gets no more before it acknowledges some: {what}")

    @contextmanager
    def _turns(self, store: Store, turns: int) -> Iterator[None]:
        """Do something at a store, then take this number of turns at it, and as many as what is done asks for."""
        store.turns += turns
        if store.dispatching:
            yield
            return
        store.dispatching = True
        try:
            yield
            while store.turns > 0 or store.again:
                self._turn(store)
        finally:
            store.dispatching, store.turns, store.again = False, 0, False
        self._note_starving(store)

    def _turn(self, store: Store) -> None:
        """Take a turn at a store; the one that comes after all others is not counted."""
        counted = store.turns > 0
        if counted:
            store.turns -= 1
        else:
            store.again = False
        if self._page(store, store.policy.max_page_size):
            store.turns += counted
            store.again = True

    def _page(self, store: Store, count: int, *, force: bool = False) -> bool:
        """Give out what is in memory, and a page of ``count`` that is read if consumers have left fewer there.

        Return whether the page is to be given out in another turn.
        """
        if store.topic_subscriber:
            self._give(store)
            return False
        page = self._read(store, count) if force or (store.attached and store.ready < count) else []
        if store.ready:
            self._give(store)
        first = not store.ready
        store.waiting.extend(page)
        if page and first:
            self._give(store)
        return bool(page) and not first

    def _read(self, store: Store, count: int) -> list[HeldMessage]:
        """Read ``count`` messages of a queue; what has expired dies, and does not count."""
        page: list[HeldMessage] = []
        count = min(count, len(store.unread))
        if count <= 0:
            return page
        for held in store.unread.read(count):
            if held.message.expired(self._state.trace.now_ms):
                self._dead_letters.expire(held, store)
            else:
                held.read = next(self._state.reads)
                page.append(held)
            if len(page) == count:
                break
        return page

    def _give(self, store: Store) -> None:
        """Give out what is in memory, one after the other, each to the first consumer that may have it and has room."""
        for held in (*store.returned, *store.waiting):
            if all(each.window.full for each in store.attached):
                return
            attached = choose(store, held)
            if attached is None:
                continue
            store.remove(held)
            if held.message.expired(self._state.trace.now_ms):
                self._dead_letters.expire(held, store)
                continue
            held.given = next(self._state.dispatches)
            attached.dispatched.append(held)
            attached.window.given()
            attached.receiver.dispatched(held, store)

    def _show(self, store: Store, seen: dict[int, HeldMessage], limit: int) -> bool:
        """Show a browser what it has not seen yet. Return whether there may be more."""
        if self._page(store, store.policy.max_page_size, force=limit > 0):
            store.turns += 1
            store.again = True
        fresh = [held for held in store.in_memory if not held.acked and held.sequence not in seen]
        if limit > 0:
            fresh = fresh[: limit - len(seen)]
        for held in fresh:
            seen[held.sequence] = held
            if held.message.expired(self._state.trace.now_ms):
                self._let_die(store, held)
        left = store.unread or any(held.sequence not in seen for held in store.in_memory)
        if 0 < limit <= len(seen) and left:
            self.note(store, f"a browser sees {limit} messages, and none of the others (maxBrowsePageSize)")
        return bool(fresh) and not 0 < limit <= len(seen)

    def _let_die(self, store: Store, held: HeldMessage) -> None:
        if held in store.returned or held in store.waiting:
            store.remove(held)
        else:
            held.gone = True
        self._dead_letters.expire(held, store)

    def _note_starving(self, store: Store) -> None:
        """Note whom the last message would be for, if the broker read it."""
        page = store.policy.max_page_size
        if not store.unread or store.ready < page:
            return
        for receiver in takers(store, store.unread.last):
            what = f"the {store.ready} messages before are not for it, and the broker reads no more (maxPageSize)"
            self.note(store, f"the consumer '{receiver.name}' gets nothing: {what}")

    def note(self, store: Store, what: str) -> None:
        """Note what lies behind a page of a store."""
        self._state.remarks[f"{store.destination}: {what}"] = None


class Expiry:
    """Looks at the stores of a broker from time to time; those that die become dead letters."""

    def __init__(self, state: BrokerState, dispatching: Dispatching, dead_letters: DeadLetterMaker) -> None:
        self._state, self._dispatching, self._dead_letters = state, dispatching, dead_letters

    def at_arrival(self, message: Message) -> bool:
        """Let a message die that has expired before it came to a topic, as one whose transaction took long.

        Return whether it did. A queue takes it, and finds out when it is read.
        """
        if message.destination.is_queue or not message.expired(self._state.trace.now_ms):
            return False
        self._dead_letters.expire_at_arrival(message)
        return True

    def plan(self, store: Store, new: Iterable[HeldMessage]) -> None:
        """Plan to look at the first regular time after one of the new messages expires.

        What the broker has not read it reads when it looks.
        """
        period_ms, now_ms = store.policy.expire_period_ms, self._state.trace.now_ms
        ends = [max(held.message.expiration_ms, now_ms) for held in new if held.message.expiration_ms]
        if store.unread:
            ends.append(now_ms)
        if not ends or period_ms <= 0:
            return
        due_ms = store.created_ms + ((min(ends) - store.created_ms) // period_ms + 1) * period_ms
        if store.sweep_due_ms is None or due_ms < store.sweep_due_ms:
            store.sweep_due_ms = due_ms
            self._state.deadlines.set(due_ms, partial(self._regularly, store, due_ms))

    def sweep(self, store: Store) -> None:
        """Take out the messages that have expired and that no consumer has, as far as the broker looks.

        It looks at a subscription only while this has no consumer.
        """
        if store.topic_subscriber and store.attached:
            return
        self._dispatching.read_for_sweep(store)
        now_ms = self._state.trace.now_ms
        expired, living = [], 0
        for held in (*store.returned, *store.waiting):
            if living >= store.policy.max_expire_page_size:
                break
            if held.message.expired(now_ms):
                expired.append(held)
            else:
                living += not held.acked
        for held in expired:
            store.remove(held)
            self._dead_letters.expire(held, store)
        behind = sum(held.message.expired(now_ms) for held in (*store.returned, *store.waiting, *store.unread))
        if behind:
            looked = f"the broker looks at {store.policy.max_expire_page_size} messages for what has expired"
            self._dispatching.note(store, f"{looked}, and {behind} are behind (maxExpirePageSize)")

    def _regularly(self, store: Store, due_ms: int) -> None:
        if store.sweep_due_ms != due_ms:
            return  # planned again, as by a broker that started again
        store.sweep_due_ms = None
        self.sweep(store)
        self.plan(store, [*store.returned, *store.waiting, *store.unread])
