"""What an ActiveMQ broker has: its queues and subscriptions, and the consumers attached to them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count
from random import Random

from simulator.deadlines import Deadlines
from simulator.systems.activemq.dead_letter_strategies import Audit
from simulator.systems.activemq.destinations import Destination, matches, parts
from simulator.systems.activemq.profiles import Profile
from simulator.systems.activemq.selectors import Selector
from simulator.systems.activemq.settings import BrokerSettings, DestinationPolicy
from simulator.systems.activemq.stores import Attached, Receiver, Store, Unread, Window, join
from simulator.systems.activemq.trace import Trace

Action = Callable[[], None]
"""What happens at a deadline."""


class BrokerState:
    """What one broker has.

    Args:
        settings: its configuration.
        profile: which ActiveMQ it is.
        deadlines: what will happen later, by milliseconds.
        trace: where it notes what happens; it has the time.
        random: for the collision avoidance of the redelivery plugin.

    Attributes:
        windows: how much each consumer may have.
        dead_letter_queues: where dead letters were sent since the broker started.
        sequences: the numbers of messages in the order in which they came into a store.
        reads: the numbers of messages in the order in which they were read into memory.
        dispatches: the numbers of their dispatches.
        started_ms: when the broker started.
        remarks: in words, what lies behind a page and whom it is for, and what a broker does either way.
    """

    def __init__(
        self, settings: BrokerSettings, profile: Profile, deadlines: Deadlines[Action], trace: Trace, random: Random
    ) -> None:
        self.settings, self.profile = settings, profile
        self.deadlines, self.trace, self.random = deadlines, trace, random
        self.queues: dict[Destination, Store] = {}
        self.subscriptions: list[Store] = []
        self.windows: dict[Receiver, Window] = {}
        self.dead_letter_queues: set[Destination] = set()
        self.sequences, self.reads, self.dispatches = count(1), count(1), count(1)
        self.started_ms = trace.now_ms
        self.remarks: dict[str, None] = {}

    def pass_time(self, until_ms: int) -> None:
        """Let time pass until ``until_ms``, and do what falls due on the way."""
        while (deadline := self.deadlines.pop(until_ms)) is not None:
            due_ms, _, act, _ = deadline
            self.trace.now_ms = max(self.trace.now_ms, due_ms)
            act()
        self.trace.now_ms = max(self.trace.now_ms, until_ms)

    def queue(self, destination: Destination) -> Store:
        """Return the queue of that name; create it if it does not exist."""
        store = self.queues.get(destination)
        if store is None:
            store = self.queues[destination] = Store(
                destination=destination, policy=self.policy(destination), created_ms=self.trace.now_ms
            )
            self.begin(store)
            for receiver, window in self.windows.items():
                if any(part.is_pattern and matches(part, destination) for part in parts(receiver.destination)):
                    join(store, Attached(receiver, window))
        return store

    def durable(self, key: str) -> Store | None:
        """Return the durable subscription with that key; ``None`` if it does not exist."""
        return next((store for store in self.subscriptions if store.durable_key == key), None)

    def subscribe(self, destination: Destination, durable_key: str | None, selector: Selector | None) -> Store:
        """Make a subscription to a topic."""
        store = Store(
            destination=destination,
            policy=self.policy(destination),
            created_ms=self.trace.now_ms,
            durable_key=durable_key,
            topic_subscriber=True,
            selector=selector,
        )
        self.begin(store)
        self.subscriptions.append(store)
        return store

    def begin(self, store: Store) -> None:
        """Make a store as it is where the broker starts: what was counted and audited is forgotten."""
        policy = store.policy
        store.created_ms, store.sweep_due_ms = self.trace.now_ms, None
        depth = policy.max_audit_depth if store.topic_subscriber else policy.max_queue_audit_depth
        audited = policy.enable_audit and (store.durable_key is not None or not store.topic_subscriber)
        store.audit = Audit(depth, policy.max_producers_to_audit) if audited else None
        held = store.held
        store.returned.clear()
        waiting, stored = (held, ()) if store.topic_subscriber else ((), held)
        store.waiting, store.unread = deque(waiting), Unread(stored)
        for each in held:
            each.counter = each.message.redelivery_counter
            if store.audit is not None:
                store.audit.is_duplicate(each.message)

    def policy(self, destination: Destination) -> DestinationPolicy:
        """Return the policy of a destination."""
        return self.settings.policies.lookup(destination) or DestinationPolicy()

    def stores(self) -> list[Store]:
        """Return all queues and subscriptions."""
        return [*self.queues.values(), *self.subscriptions]

    def attachments(self, receiver: Receiver) -> list[tuple[Store, Attached]]:
        """Return the stores to which a consumer is attached, and what it has of each."""
        found = ((store, store.attachment(receiver)) for store in self.stores())
        return [(store, attached) for store, attached in found if attached is not None]
