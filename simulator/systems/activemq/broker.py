"""ActiveMQ's broker in virtual time: what clients and operators ask of it, and how its parts are put together.

It counts a redelivery only where it learns of one: when a consumer goes away. It does
not see what a client rolls back.

Source: activemq-broker, Queue.addSubscription and removeSubscription, DurableTopicSubscription.deactivate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from simulator.events import Event
from simulator.systems.activemq.acknowledgements import Acknowledgements
from simulator.systems.activemq.arrivals import Arrivals
from simulator.systems.activemq.broker_state import BrokerState
from simulator.systems.activemq.dead_letters import DeadLetterMaker
from simulator.systems.activemq.destinations import Destination, matches, parts
from simulator.systems.activemq.dispatching import Dispatching, Expiry
from simulator.systems.activemq.messages import Message
from simulator.systems.activemq.scheduling import Scheduler, schedule_of
from simulator.systems.activemq.selectors import Selector
from simulator.systems.activemq.stores import Attached, HeldMessage, Receiver, Store, Window, join, leave
from simulator.systems.activemq.virtual_destinations import VirtualTopic

LAST_UNKNOWN = None
"""The consumer vanished: it is unknown what it delivered."""
LAST_NONE = -1
"""The consumer went away and had delivered nothing."""


class Broker:
    """One broker.

    Args:
        state: what it has, which is its own from then on.

    Attributes:
        acknowledgements: takes those of its consumers.
    """

    def __init__(self, state: BrokerState) -> None:
        self.settings, self.remarks, self._state = state.settings, state.remarks, state
        self._scheduler = Scheduler(self._state, self._arrive)
        self._dead_letters = DeadLetterMaker(self._state, self._scheduler, self._arrive)
        self._dispatching = Dispatching(self._state, self._dead_letters)
        self._expiry = Expiry(self._state, self._dispatching, self._dead_letters)
        self._arrivals = Arrivals(self._state, self._dispatching, self._expiry)
        self.acknowledgements = Acknowledgements(self._state, self._dispatching, self._dead_letters, self._arrivals)

    @property
    def queues(self) -> Mapping[Destination, Store]:
        """The queues."""
        return self._state.queues

    @property
    def subscriptions(self) -> Sequence[Store]:
        """The subscriptions to topics, durable or not."""
        return self._state.subscriptions

    def durable(self, key: str) -> Store | None:
        """Return the durable subscription with that key; ``None`` if it does not exist."""
        return self._state.durable(key)

    def announce(self, destination: Destination) -> None:
        """Record that a client is going to send there, as a transaction does: the queues are there from now on."""
        for part in parts(destination):
            if part.is_queue and not part.is_pattern:
                self._state.queue(part)

    def send(self, message: Message) -> None:
        """Take a message, now or as the schedule that it carries has it. Raises ``ScheduleError``."""
        settings = self._state.settings
        schedule = schedule_of(message.properties, settings.repeat_max) if settings.scheduler else None
        if schedule is None:
            self._arrivals.arrive(message)
            return
        self.announce(message.destination)
        self._state.trace.add(Event.HELD, message, detail="the scheduler has it")
        self._scheduler.send(message, schedule, message.producer)

    def attach(self, receiver: Receiver, durable_key: str | None = None) -> None:
        """Attach a consumer, and begin to give it the messages that are there for it."""
        window = self._state.windows[receiver] = Window(receiver.prefetch)
        for part in parts(receiver.destination):
            for virtual in self._state.settings.virtual_destinations:
                if isinstance(virtual, VirtualTopic) and virtual.has_consumers_like(part):
                    self._state.queue(part)
            for store in self._stores_of(part, durable_key, receiver.selector):
                if store.attachment(receiver) is None:
                    join(store, Attached(receiver, window))
                store.offline_ms = None
                self._dispatching.dispatch(store)

    def pull(self, receiver: Receiver, wanted: int) -> None:
        """Let a consumer of prefetch 0 have that many messages."""
        window = self._state.windows[receiver]
        asked = wanted > 0 and window.extension != wanted
        window.extension = wanted
        if asked:
            self._dispatching.pull(receiver)

    def got_nothing(self, receiver: Receiver) -> None:
        """Record that a consumer waited in vain."""
        self._dispatching.note_waiting(receiver)

    def detach(self, receivers: Sequence[Receiver], last_delivered: int | None) -> None:
        """Detach consumers that go away together; what they did not acknowledge goes back, and may be counted.

        Their transactions end after they are gone: only then others get what those had acknowledged.

        ``last_delivered``: the sequence of what was delivered last, or ``LAST_UNKNOWN``, or ``LAST_NONE``.
        """
        for receiver in receivers:
            self._state.windows.pop(receiver, None)
        for store in self._state.stores():
            leaving = [each for each in store.attached if each.receiver in receivers]
            leave(store, leaving)
            for attached in leaving:
                for held in _delivered(attached.dispatched, last_delivered, durable=store.topic_subscriber):
                    if held.gone:
                        continue
                    held.counter += 1
                    detail = f"the consumer {attached.receiver.name} went away"
                    self._state.trace.add(Event.REQUEUED, held.message, subscription=store.durable_key, detail=detail)
            returned = [held for attached in leaving for held in attached.dispatched if not held.gone]
            if store.topic_subscriber:
                store.waiting.extendleft(reversed(returned))
            else:
                self._remark_order(store, leaving)
                store.returned.extend(returned)
            if leaving and store.topic_subscriber and store.durable_key is None:
                self._state.subscriptions.remove(store)
            elif leaving:
                self._dispatching.give_back(store, turns=len(leaving))
                self._expiry.plan(store, returned)
                self._await_subscriber(store)
        self._end_transactions()

    def _remark_order(self, store: Store, leaving: Sequence[Attached]) -> None:
        """Say so where messages of several consumers come back at once: their order varies from run to run."""
        holding = [each for each in leaving if any(not held.gone for held in each.dispatched)]
        if len(holding) > 1:
            names = ", ".join(sorted(each.receiver.name for each in holding))
            whose = f"steps[{self._state.trace.step}]: what the consumers {names} had of {store.destination}"
            self._state.remarks[f"{whose} comes back in an order of the broker's own; here one after the other"] = None

    def _end_transactions(self) -> None:
        """Roll back the transactions of consumers that are gone."""
        for store in self._state.stores():
            held_back = [held for held in store.returned if held.acked]
            for held in held_back:
                held.acked = False
            if held_back:
                self._dispatching.dispatch(store, turns=len(held_back))

    def browse(self, destination: Destination) -> list[HeldMessage]:
        """Look at a queue as a browser does, which is when the broker finds what has expired in it."""
        return self._dispatching.browse(self._state.queue(destination))

    def retry(self, destination: Destination) -> int | None:
        """Send dead letters back to where they came from; the audit there forgets them. Return how many there were.

        Return ``None``, with nothing done, for a queue to which no dead letter was sent since the broker started.
        """
        if destination not in self._state.dead_letter_queues:
            return None
        store = self._state.queue(destination)
        moved = store.keep(lambda held: held.message.original_destination is None)
        for message in (held.message for held in moved):
            to = message.original_destination
            assert to is not None
            store.forget(message)
            self._dead_letters.retried(message, to)
            self._state.trace.add(Event.REQUEUED, message, detail="retry", to=str(to))
            self._arrivals.arrive(
                msgspec.structs.replace(
                    message, destination=to, original_destination=message.destination, redelivery_counter=0
                )
            )
        return len(moved)

    def restart(self) -> None:
        """Begin again with what is stored. All clients are gone by now.

        Counts, the audits and what is not persistent are forgotten. A scheduler has a store of its own, which
        outlives a deletion of all messages at the start.
        """
        settings = self._state.settings
        keeps = settings.persistent and not settings.forgets_at_start
        self._dead_letters.restart()
        if not settings.persistent:
            self._scheduler.forget()
        self._state.started_ms = self._state.trace.now_ms
        for store in self._state.stores():
            gone = store.keep(lambda held: held.message.persistent and keeps)
            for held in gone:
                self._state.trace.add(Event.PURGED, held.message, detail="the broker was stopped")
            self._state.begin(store)
            self._expiry.plan(store, store.held)
            self._await_subscriber(store)
        self._state.queues = {name: store for name, store in self._state.queues.items() if store.held}
        if not keeps:
            self._state.subscriptions.clear()

    def unsubscribe(self, durable_key: str) -> bool:
        """Forget a durable subscription and its messages. Return whether there was one."""
        found = self._state.durable(durable_key)
        if found is None:
            return False
        for held in found.held:
            self._state.trace.add(Event.PURGED, held.message, detail=f"subscription {durable_key} ended")
        self._state.subscriptions.remove(found)
        return True

    def _await_subscriber(self, store: Store) -> None:
        """Let a durable subscription that nobody has come back to end at the broker's next look after a while."""
        settings, now_ms = self._state.settings, self._state.trace.now_ms
        if store.durable_key is None or settings.offline_timeout_ms < 0 or settings.offline_period_ms <= 0:
            return
        store.offline_ms = now_ms
        passed = now_ms + settings.offline_timeout_ms - self._state.started_ms
        due_ms = self._state.started_ms + max(-(-passed // settings.offline_period_ms), 1) * settings.offline_period_ms
        self._state.deadlines.set(due_ms, partial(self._end_offline, store, now_ms))

    def _end_offline(self, store: Store, since_ms: int) -> None:
        if store.offline_ms == since_ms and store in self._state.subscriptions:
            self.unsubscribe(str(store.durable_key))

    def remove(self, destination: Destination) -> None:
        """Delete a queue with its messages, as a temporary one when its client goes."""
        store = self._state.queues.pop(destination, None)
        for held in () if store is None else store.held:
            self._state.trace.add(Event.PURGED, held.message, detail="its client has gone")

    def _arrive(self, message: Message) -> None:
        self._arrivals.arrive(message)

    def _stores_of(self, destination: Destination, durable_key: str | None, selector: Selector | None) -> list[Store]:
        """Return the stores from which a new consumer of a destination takes its messages."""
        state = self._state
        if destination.is_queue:
            if not destination.is_pattern:
                return [state.queue(destination)]
            return [store for name, store in state.queues.items() if matches(destination, name)]
        store = None if durable_key is None else state.durable(durable_key)
        if store is not None and (store.destination, store.selector) != (destination, selector):
            self.unsubscribe(str(durable_key))  # to another topic, or to other messages: the subscription begins again
            store = None
        return [store or state.subscribe(destination, durable_key, selector)]


def _delivered(dispatched: list[HeldMessage], last_delivered: int | None, *, durable: bool) -> list[HeldMessage]:
    """Return what a consumer that went away had delivered; for one that vanished, all that it had.

    A broker counts up to the last one, and on to the end where that one has died meanwhile: it does not come by it.
    """
    if last_delivered is LAST_UNKNOWN:
        return dispatched
    if durable:
        return [held for held in dispatched if held.sequence <= last_delivered]
    ends = [index for index, held in enumerate(dispatched) if held.sequence == last_delivered]
    if ends and dispatched[ends[0]].gone:
        return dispatched
    return dispatched[: ends[0] + 1] if ends else []
