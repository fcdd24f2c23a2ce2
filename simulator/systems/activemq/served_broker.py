"""A broker that goes on with a clock, for clients that come over the network."""

from __future__ import annotations

from itertools import count
from random import Random
from typing import Any

from msgspec.structs import replace

from simulator.deadlines import Deadlines
from simulator.systems.activemq.broker import Broker
from simulator.systems.activemq.broker_state import Action, BrokerState
from simulator.systems.activemq.destinations import Destination
from simulator.systems.activemq.profiles import PROFILES
from simulator.systems.activemq.settings import BrokerSettings
from simulator.systems.activemq.stores import Store
from simulator.systems.activemq.trace import Trace, described

VERSION = "5.17.2"
EVENTS_KEPT = 10_000
NAME = "dlx"
"""The broker's name, as refusals have it."""


class ServedBroker:
    """A broker with its time.

    Args:
        settings: its configuration. It sends no advisory messages, which STOMP would show as JSON of Java's objects.
        now_ms: the time at which it starts, milliseconds since 1970.

    Attributes:
        broker: takes what clients ask for.
        trace: its time, and the last of what happened.
        client_ids: of those who are connected, with their addresses.
        connections, acknowledgements: number the connections, and the deliveries that clients acknowledge.
    """

    def __init__(self, settings: BrokerSettings, now_ms: int) -> None:
        self.trace = Trace(now_ms, keeps=EVENTS_KEPT)
        deadlines, settings = Deadlines[Action](), replace(settings, advisories=False)
        self._state = BrokerState(settings, PROFILES[VERSION], deadlines, self.trace, Random(0))
        self.broker = Broker(self._state)
        self.client_ids: dict[str, str] = {}
        self.connections, self.acknowledgements = count(1), count(1)

    def pass_time(self, now_ms: int) -> None:
        """Do what falls due until now."""
        self._state.pass_time(now_ms)

    def next_due_ms(self) -> int | None:
        """Return when something falls due, milliseconds since 1970; ``None`` where nothing does."""
        return self._state.deadlines.next_due()

    def queues(self) -> list[dict[str, Any]]:
        """Return the queues and durable subscriptions as JSON values, by name."""
        stores = [*self.broker.queues.values(), *(each for each in self.broker.subscriptions if each.durable_key)]
        return sorted((self._shown(store) for store in stores), key=lambda each: str(each["name"]))

    def messages(self, name: str) -> list[dict[str, Any]] | None:
        """Return what is in a queue, the oldest first; ``None`` for a queue that does not exist."""
        store = self.broker.queues.get(Destination("queue", name))
        if store is None:
            return None
        return [described(held.message, held.counter, self.trace.now_ms) for held in store.held]

    def _shown(self, store: Store) -> dict[str, Any]:
        given = sum(not held.gone for attached in store.attached for held in attached.dispatched)
        dead_letters = store.destination in self._state.dead_letter_queues
        return {
            "name": str(store.destination) if store.durable_key is None else f"{store.destination} {store.durable_key}",
            "messages": len(store.held),
            "unacknowledged": given,
            "consumers": [attached.receiver.name for attached in store.attached],
            "dead_letter_queue": dead_letters,
        }
