"""ActiveMQ's broker in virtual time: destinations, dispatch, acknowledgements, expiry and dead letters.

It counts a redelivery only where it learns of one: when a consumer goes away. It does
not see what a client rolls back.

Source: activemq-broker, Queue.removeSubscription, DurableTopicSubscription.deactivate,
PrefetchSubscription.acknowledge, RegionBroker.sendToDeadLetterQueue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count
from random import Random

import msgspec

from dlx.activemq import plugins
from dlx.activemq.dead_letter_strategies import Discarding, Individual, Strategy, refusal, target
from dlx.activemq.destinations import Destination, matches, parts
from dlx.activemq.messages import (
    SCHEDULED_DELAY,
    Message,
    copied,
    dead_letter,
    expiry_cause,
    rescheduled,
    sent_by_scheduler,
)
from dlx.activemq.profiles import Profile
from dlx.activemq.redelivery_policy import RedeliveryPolicy, delay_by_counter_ms
from dlx.activemq.selectors import Selector
from dlx.activemq.settings import DEFAULT_STRATEGY, BrokerSettings, DestinationPolicy
from dlx.activemq.virtual_destinations import VirtualTopic
from simulator.activemq.audit import Audit
from simulator.activemq.stores import Attached, Held, Receiver, Store, Window
from simulator.activemq.trace import Trace
from simulator.deadlines import Deadlines
from simulator.events import Event
from simulator.scenario.scenario_errors import ScenarioError

EXPIRED = "expired"
POISON = "poison"
LAST_UNKNOWN = None
"""The consumer vanished: nobody says what it delivered."""
LAST_NONE = -1
"""The consumer went away and had delivered nothing."""
COPIES_DEPTH_MAX = 100
"""How often a copy may be copied by virtual destinations; a server fails with a stack overflow."""


Action = Callable[[], None]
"""What happens at a deadline."""


class UncorrelatedError(Exception):
    """An acknowledgement of messages that the broker did not find where it looked."""


class Broker:
    """One broker.

    Args:
        settings: its configuration.
        profile: which ActiveMQ it is.
        deadlines: what will happen later, by milliseconds.
        trace: where it notes what happens; it has the time.
        random: for the collision avoidance of the redelivery plugin.
    """

    def __init__(
        self, settings: BrokerSettings, profile: Profile, deadlines: Deadlines[Action], trace: Trace, random: Random
    ) -> None:
        self.settings, self.profile = settings, profile
        self._deadlines, self._trace, self._random = deadlines, trace, random
        self.queues: dict[Destination, Store] = {}
        self.subscriptions: list[Store] = []
        self._windows: dict[Receiver, Window] = {}
        self._audits: dict[tuple[int, Destination | None], Audit] = {}
        self._sequences, self._jobs = count(1), count(1)

    # -- what clients do -------------------------------------------------------------------------------------------

    def send(self, message: Message) -> None:
        """Take a message, now or when the delay that it carries is over."""
        if self.settings.scheduler and SCHEDULED_DELAY in message.properties:
            job = f"{message.producer}:{next(self._jobs)}"
            self._trace.add(Event.HELD, message, detail="the scheduler has it")
            self._schedule(message, int(message.properties[SCHEDULED_DELAY]), job)
        else:
            self._arrive(message)

    def attach(self, receiver: Receiver, durable_key: str | None = None) -> None:
        """Attach a consumer, and begin to give it the messages that are there for it."""
        window = self._windows[receiver] = Window(receiver.prefetch)
        for part in parts(receiver.destination):
            for virtual in self.settings.virtual_destinations:
                if isinstance(virtual, VirtualTopic) and virtual.has_consumers_like(part):
                    self.queue(part)
            for store in self._stores_of(part, durable_key, receiver.selector):
                if store.attachment(receiver) is None:
                    store.attached.append(Attached(receiver, window))
                self._dispatch(store)

    def pull(self, receiver: Receiver, wanted: int) -> None:
        """Let a consumer of prefetch 0 have so many messages."""
        self._windows[receiver].extension = wanted
        self.room(receiver)

    def detach(self, receivers: Sequence[Receiver], last_delivered: int | None) -> None:
        """Detach consumers that go away together; what they did not acknowledge goes back, and may be counted.

        ``last_delivered``: the sequence of what was delivered last, or ``LAST_UNKNOWN``, or ``LAST_NONE``.
        """
        for receiver in receivers:
            self._windows.pop(receiver, None)
        for store in self._all_stores():
            leaving = [each for each in store.attached if each.receiver in receivers]
            store.attached = [each for each in store.attached if each not in leaving]
            for attached in leaving:
                for held in _delivered(attached.dispatched, last_delivered, durable=store.topic_subscriber):
                    held.counter += 1
                    detail = f"the consumer {attached.receiver.name} went away"
                    self._trace.add(Event.REQUEUED, held.message, subscription=store.durable_key, detail=detail)
            returned = [held for attached in leaving for held in attached.dispatched]
            if store.topic_subscriber:
                store.waiting.extendleft(reversed(returned))
            else:
                store.returned.extend(returned)
            if leaving and store.topic_subscriber and store.durable_key is None:
                self.subscriptions.remove(store)
            elif leaving:
                self._sweep_later(store, returned)
                self._dispatch(store)

    def acknowledge(self, receiver: Receiver, acked: Iterable[Held]) -> None:
        """Remove the messages that a consumer is done with."""
        done = {id(held) for held in acked}
        for _, attached in self._attachments(receiver):
            acknowledged = [held for held in attached.dispatched if id(held) in done]
            for held in acknowledged:
                self._trace.add(Event.ACKED, held.message, consumer=receiver.name)
            attached.dispatched = [held for held in attached.dispatched if id(held) not in done]
            attached.window.contract(len(acknowledged))
        self.room(receiver)

    def read_ack(self, receiver: Receiver, count: int) -> None:
        """Take note that a consumer has read so many more messages, and keeps them; it gets as many others."""
        self._windows[receiver].expand(count)
        self.room(receiver)

    def rolled_back(self, receiver: Receiver, count: int) -> None:
        """Take note that a transaction gave so many messages back to a consumer, which still has them."""
        if receiver in self._windows:
            self._windows[receiver].contract(count)
            self.room(receiver)

    def acked_in_transaction(self, receiver: Receiver, acked: Iterable[Held]) -> None:
        """Take note that a transaction acknowledges messages, which may yet be rolled back; every rollback starts so.

        A durable subscription forgets at once how often they were delivered again; a queue does not.
        """
        counted = {id(held) for held in acked}
        for store, attached in self._attachments(receiver):
            for held in attached.dispatched:
                if store.durable_key is not None and id(held) in counted:
                    held.counter = held.message.redelivery_counter

    def expired_ack(self, receiver: Receiver, held: Held) -> None:
        """Expire a message whose time is up, as a client found."""
        for store, attached in self._attachments(receiver):
            if held in attached.dispatched:
                attached.dispatched.remove(held)
                attached.window.contract(1)
                self._expire(held, store)
        self.room(receiver)

    def redelivered_ack(self, receiver: Receiver, first: Held, last: Held) -> None:
        """Check that the messages a client is going to deliver again lie in order; nothing changes here.

        Raises ``UncorrelatedError`` as ``poison_ack`` does.
        """
        self._between(receiver, first, last, lambda store, held: None)

    def poison_ack(self, receiver: Receiver, first: Held, last: Held, cause: str) -> None:
        """Dead-letter what lies between two messages, in the order in which the consumer was given them.

        Raises ``UncorrelatedError`` where that order does not lead from the first to the last; what was met is dead.
        A subscription that is not durable has no dead letters, and does not look at the order.
        """

        def die(store: Store, held: Held) -> None:
            self._trace.add(Event.REJECTED, held.message, consumer=receiver.name, reason=POISON, detail=cause)
            if not store.topic_subscriber or store.durable_key is not None:
                self._die(held, store, cause, POISON)
            store.forget(held.message)
            for _, attached in self._attachments(receiver):
                attached.dispatched = [each for each in attached.dispatched if each is not held]

        try:
            self._between(receiver, first, last, die)
            self._windows[receiver].contract(1)
        finally:
            self.room(receiver)

    def _between(self, receiver: Receiver, first: Held, last: Held, action: Callable[[Store, Held], None]) -> None:
        """Do something with each message from the first to the last, as far as the order leads there."""
        for store, attached in self._attachments(receiver):
            met = _range(attached.dispatched, first, last)
            for held in met:
                action(store, held)
            if met and met[-1] is last:
                return
            if store.topic_subscriber and store.durable_key is None:
                return
        raise UncorrelatedError

    def returned(self, receiver: Receiver, held: Held, policy: RedeliveryPolicy, cause: str) -> None:
        """Take a message back from a client, to deliver it again or give it up (profile ``document-3.x``)."""
        for store, attached in self._attachments(receiver):
            if held not in attached.dispatched:
                continue
            attached.dispatched.remove(held)
            held.counter += 1
            if policy.exceeded(held.counter):
                self._die(held, store, cause, POISON)
                return
            delay_ms = delay_by_counter_ms(policy, held.counter, self._shares(policy, held.counter))
            self._trace.add(Event.REQUEUED, held.message, delay_ms=delay_ms, consumer=receiver.name)
            self._deadlines.set(self._trace.now_ms + delay_ms, partial(self._wait, held, store))

    def browse(self, destination: Destination) -> list[Held]:
        """Look at a queue, which is when the broker finds what has expired in it."""
        store = self.queue(destination)
        self._sweep(store)
        return store.held

    def retry(self, destination: Destination) -> int:
        """Send dead letters back to where they came from; the audit there forgets them. Return how many there were."""
        store = self.queue(destination)
        moved = store.keep(lambda held: held.message.original_destination is None)
        for message in (held.message for held in moved):
            to = message.original_destination
            assert to is not None
            store.forget(message)
            audit = self._audit(self._policy(to).strategy or DEFAULT_STRATEGY, to)
            if audit is not None:
                audit.forget(message)
            self._trace.add(Event.REQUEUED, message, detail="retry", to=str(to))
            self._arrive(
                msgspec.structs.replace(
                    message, destination=to, original_destination=message.destination, redelivery_counter=0
                )
            )
        return len(moved)

    def restart(self) -> None:
        """Begin anew with what is stored. All clients are gone by now.

        Counts, the audits and what is not persistent are forgotten; a scheduler's messages are stored.
        """
        self._audits.clear()
        for store in self._all_stores():
            gone = store.keep(lambda held: held.message.persistent and self.settings.persistent)
            for held in gone:
                self._trace.add(Event.PURGED, held.message, detail="the broker was stopped")
            self._begin(store)
        self.queues = {name: store for name, store in self.queues.items() if store.held}

    def _begin(self, store: Store) -> None:
        """Make a store as it is where the broker starts."""
        policy = store.policy
        store.created_ms, store.sweep_due_ms = self._trace.now_ms, None
        depth = policy.max_audit_depth if store.topic_subscriber else policy.max_queue_audit_depth
        audited = policy.enable_audit and (store.durable_key is not None or not store.topic_subscriber)
        store.audit = Audit(depth, policy.max_producers_to_audit) if audited else None
        held = store.held
        store.returned.clear()
        store.waiting, store.unread, store.reads_persistent = deque(held), [], True
        store.looked_ms = store.created_ms
        for each in held:
            each.counter = each.message.redelivery_counter
            if store.audit is not None:
                store.audit.is_duplicate(each.message)
        self._sweep_later(store, held)

    def unsubscribe(self, durable_key: str) -> bool:
        """Forget a durable subscription and its messages. Return whether there was one."""
        found = self.durable(durable_key)
        if found is None:
            return False
        for held in found.held:
            self._trace.add(Event.PURGED, held.message, detail=f"subscription {durable_key} ended")
        self.subscriptions.remove(found)
        return True

    # -- where messages are ----------------------------------------------------------------------------------------

    def queue(self, destination: Destination) -> Store:
        """Return the queue of that name; create it if it does not exist."""
        store = self.queues.get(destination)
        if store is None:
            store = self.queues[destination] = Store(
                destination=destination, policy=self._policy(destination), created_ms=self._trace.now_ms
            )
            self._begin(store)
            for receiver, window in self._windows.items():
                if any(part.is_pattern and matches(part, destination) for part in parts(receiver.destination)):
                    store.attached.append(Attached(receiver, window))
        return store

    def durable(self, key: str) -> Store | None:
        """Return the durable subscription with that key; ``None`` if it does not exist."""
        return next((store for store in self.subscriptions if store.durable_key == key), None)

    def _stores_of(self, destination: Destination, durable_key: str | None, selector: Selector | None) -> list[Store]:
        """Return the stores from which a new consumer of a destination takes its messages."""
        if destination.is_queue:
            if not destination.is_pattern:
                return [self.queue(destination)]
            return [store for name, store in self.queues.items() if matches(destination, name)]
        store = None if durable_key is None else self.durable(durable_key)
        if store is not None and (store.destination, store.selector) != (destination, selector):
            self.unsubscribe(str(durable_key))  # to another topic, or to other messages: the subscription begins again
            store = None
        if store is None:
            store = Store(
                destination=destination,
                policy=self._policy(destination),
                created_ms=self._trace.now_ms,
                durable_key=durable_key,
                topic_subscriber=True,
                selector=selector,
            )
            self._begin(store)
            self.subscriptions.append(store)
        return [store]

    def _policy(self, destination: Destination) -> DestinationPolicy:
        return self.settings.policies.lookup(destination) or DestinationPolicy()

    def _all_stores(self) -> list[Store]:
        return [*self.queues.values(), *self.subscriptions]

    def _attachments(self, receiver: Receiver) -> list[tuple[Store, Attached]]:
        found = ((store, store.attachment(receiver)) for store in self._all_stores())
        return [(store, attached) for store, attached in found if attached is not None]

    # -- in and out ------------------------------------------------------------------------------------------------

    def _arrive(self, message: Message) -> None:
        """Take a message for its destination, or for each part of a composite one."""
        targets = parts(message.destination)
        if len(targets) == 1:
            self._arrive_at(message, depth=0)
            return
        for part in targets:
            copy = msgspec.structs.replace(message, destination=part, original_destination=message.destination)
            self._arrive_at(copy, depth=0)

    def _arrive_at(self, message: Message, depth: int) -> None:
        """Take a message for one destination, which may be virtual and copy it to others."""
        if depth > COPIES_DEPTH_MAX:
            raise ScenarioError("broker", f"expected virtual destinations that end; '{message.destination}' does not")
        virtual = [
            each for each in self.settings.virtual_destinations if matches(each.destination, message.destination)
        ]
        for each in virtual:
            if isinstance(each, VirtualTopic):
                copies, keeps = self._consumer_queues(each, message), True
            else:
                copies = each.copies(message)
                keeps = each.keeps(copies)
            for to in copies:
                self._arrive_at(copied(message, to), depth + 1)
            if keeps:
                self._enter(message, copied=bool(copies))
        if not virtual:
            self._enter(message)

    def _consumer_queues(self, virtual: VirtualTopic, message: Message) -> list[Destination]:
        found = virtual.queues(message.destination, list(self.queues))
        if not virtual.selector_aware:
            return found
        return [
            each for each in found if any(_takes(attached.receiver, message) for attached in self.queues[each].attached)
        ]

    def _enter(self, message: Message, *, copied: bool = False) -> None:
        """Put a message into its queue, or into the subscriptions to its topic.

        ``copied``: whether others have copies, so that a topic without subscribers loses nothing.
        """
        if message.destination.is_queue:
            stores = [self.queue(message.destination)]
        else:
            subscribed = (each for each in self.subscriptions if matches(each.destination, message.destination))
            stores = [store for store in subscribed if store.selects(message)]
        if not stores and not copied:
            self._trace.add(Event.UNROUTABLE, message, detail="nobody subscribes to the topic")
        for store in stores:
            if store.has_had(message):
                where = f"the subscription {store.durable_key}" if store.topic_subscriber else str(store.destination)
                self._trace.add(Event.DROPPED, message, detail=f"{where} has had a message of this identifier")
                continue
            held = Held(message, next(self._sequences), message.redelivery_counter)
            self._trace.add(Event.ROUTED, message, subscription=store.durable_key)
            self._wait(held, store)

    def _wait(self, held: Held, store: Store) -> None:
        if store.topic_subscriber:
            store.waiting.append(held)
        else:
            store.read_if_looked_at(self._trace.now_ms)
            store.unread.append(held)
        self._sweep_later(store, [held])
        self._dispatch(store)

    def _dispatch(self, store: Store) -> None:
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
            store.read()
        for waiting in (store.returned, store.waiting):
            for held in waiting:
                attached = self._next_with_room(store, held.message)
                if attached is None:
                    if all(each.window.full for each in store.attached):
                        return False
                    continue
                waiting.remove(held)
                if held.message.expired(self._trace.now_ms):
                    self._expire(held, store)
                    return True
                attached.dispatched.append(held)
                attached.window.given()
                attached.receiver.dispatched(held, store)
                return True
        return False

    def _next_with_room(self, store: Store, message: Message) -> Attached | None:
        for attached in store.attached:
            if not attached.window.full and _takes(attached.receiver, message):
                store.attached.remove(attached)
                store.attached.append(attached)
                return attached
        return None

    def room(self, receiver: Receiver) -> None:
        """Give a consumer more messages, if it may have more."""
        for store, _ in self._attachments(receiver):
            self._dispatch(store)

    # -- death -----------------------------------------------------------------------------------------------------

    def _sweep_later(self, store: Store, new: Iterable[Held]) -> None:
        """Plan a sweep for the first regular time after one of the new messages expires."""
        period_ms = store.policy.expire_period_ms
        ends = [held.message.expiration_ms for held in new if held.message.expiration_ms]
        if not ends or period_ms <= 0:
            return
        earliest_ms = max(min(ends), self._trace.now_ms)
        due_ms = store.created_ms + ((earliest_ms - store.created_ms) // period_ms + 1) * period_ms
        if store.sweep_due_ms is None or due_ms < store.sweep_due_ms:
            store.sweep_due_ms = due_ms
            self._deadlines.set(due_ms, partial(self._regular_sweep, store))

    def _regular_sweep(self, store: Store) -> None:
        store.sweep_due_ms = None
        self._sweep(store)
        self._sweep_later(store, [*store.returned, *store.waiting, *store.unread])

    def _sweep(self, store: Store) -> None:
        """Take out the messages that have expired and that no consumer has."""
        now_ms = self._trace.now_ms
        for held in store.keep(lambda held: not held.message.expired(now_ms)):
            self._expire(held, store)

    def _expire(self, held: Held, store: Store) -> None:
        self._trace.add(Event.EXPIRED, held.message)
        self._die(held, store, expiry_cause(held.message), EXPIRED)
        store.forget(held.message)

    def _die(self, held: Held, store: Store, cause: str, reason: str) -> None:
        """Dead-letter a message, unless a plugin or the strategy decides otherwise. The store no longer has it."""
        message = held.message
        counter = message.redelivery_counter if store.topic_subscriber else held.counter
        for plugin in reversed(self.settings.plugins):
            verdict = plugins.judge(plugin, message.destination, counter, expired=message.expired(self._trace.now_ms))
            if isinstance(verdict, plugins.Again):
                self._deliver_later(message, verdict)
                return
            if isinstance(verdict, plugins.Lost):
                self._trace.add(Event.DROPPED, message, reason=reason, detail=verdict.reason)
                return
        self._dead_letter(message, store, cause, reason)

    def _dead_letter(self, message: Message, store: Store, cause: str, reason: str) -> None:
        policy = self._policy(message.destination) if store.topic_subscriber else store.policy
        strategy: Strategy = DEFAULT_STRATEGY if policy.strategy is None else policy.strategy
        now_ms = self._trace.now_ms
        refused = refusal(strategy, message, now_ms, duplicate=self._audited(strategy, message))
        if refused is not None or isinstance(strategy, Discarding):
            self._trace.add(Event.DROPPED, message, reason=reason, detail=refused)
            return
        to = target(strategy, message.destination, store.durable_key)
        if to == message.destination:
            self._trace.add(Event.DROPPED, message, reason=reason, detail="its dead letter would go where it is")
            return
        self._trace.add(Event.DEAD_LETTERED, message, reason=reason, detail=cause, to=str(to))
        self._arrive(dead_letter(message, to, expiration_ms=strategy.expiration_ms, cause=cause, now_ms=now_ms))

    def _audited(self, strategy: Strategy, message: Message) -> bool:
        """Return whether the strategy's audit knows the message, which it does from now on."""
        audit = self._audit(strategy, message.destination)
        return audit is not None and audit.is_duplicate(message)

    def _audit(self, strategy: Strategy, destination: Destination) -> Audit | None:
        """Return the audit of a strategy for the messages of a destination; ``None`` if it keeps no audit."""
        if not strategy.enable_audit or isinstance(strategy, Discarding):
            return None
        each = self.profile.audit_per_destination and isinstance(strategy, Individual)
        key = (id(strategy), destination if each else None)
        if key not in self._audits:
            self._audits[key] = Audit(strategy.max_audit_depth, strategy.max_producers_to_audit)
        return self._audits[key]

    def _deliver_later(self, message: Message, again: plugins.Again) -> None:
        """Send a copy later, to the millisecond; the real scheduler keeps its times to half a second or so."""
        delay_ms = delay_by_counter_ms(again.policy, again.counter, self._shares(again.policy, again.counter))
        copy = rescheduled(message, counter=again.counter, delay_ms=delay_ms)
        self._trace.add(Event.REQUEUED, message, detail="redeliveryPlugin", delay_ms=delay_ms)
        self._schedule(copy, delay_ms, f"ID:broker-1:1:1:1:{next(self._jobs)}")

    def _schedule(self, message: Message, delay_ms: int, job: str) -> None:
        self._deadlines.set(self._trace.now_ms + delay_ms, partial(self._send_scheduled, message, job))

    def _send_scheduled(self, copy: Message, job: str) -> None:
        self._arrive(sent_by_scheduler(copy, job, self._trace.now_ms))

    def _shares(self, policy: RedeliveryPolicy, counter: int) -> tuple[float, ...]:
        drawn = counter - 1 if policy.use_collision_avoidance else 0
        return tuple(draw_share(self._random) for _ in range(drawn))


def _takes(receiver: Receiver, message: Message) -> bool:
    return receiver.selector is None or receiver.selector.selects(message)


def draw_share(random: Random) -> float:
    """Draw how far collision avoidance goes: a coin for the direction, then the distance."""
    sign = 1 if random.random() < 0.5 else -1
    return sign * random.random()


def _range(dispatched: list[Held], first: Held, last: Held) -> list[Held]:
    if first not in dispatched:
        return []
    begun = dispatched[dispatched.index(first) :]
    return begun[: begun.index(last) + 1] if last in begun else begun


def _delivered(dispatched: list[Held], last_delivered: int | None, *, durable: bool) -> list[Held]:
    """Return what a consumer that went away had delivered; for one that vanished, all that it had."""
    if last_delivered is LAST_UNKNOWN:
        return dispatched
    if durable:
        return [held for held in dispatched if held.sequence <= last_delivered]
    ends = [index for index, held in enumerate(dispatched) if held.sequence == last_delivered]
    return dispatched[: ends[0] + 1] if ends else []
