"""The way of a message that comes to a broker, by composite and virtual destinations, into queues and subscriptions.

Source: activemq-broker, CompositeDestinationBroker, VirtualTopicInterceptor, CompositeDestinationFilter, Queue.send.
"""

from __future__ import annotations

import msgspec

from simulator.events import Event
from simulator.scenario.scenario_errors import ScenarioError
from simulator.systems.activemq.broker_state import BrokerState
from simulator.systems.activemq.destinations import COMPOSITE, Destination, matches, parts
from simulator.systems.activemq.dispatching import Dispatching, Expiry
from simulator.systems.activemq.messages import Message, copied
from simulator.systems.activemq.stores import HeldMessage, Store, takes
from simulator.systems.activemq.virtual_destinations import VirtualTopic

COPIES_DEPTH_MAX = 100
"""How often a copy may be copied by virtual destinations; a server fails with a stack overflow."""


class Arrivals:
    """Takes the messages that come to a broker."""

    def __init__(self, state: BrokerState, dispatching: Dispatching, expiry: Expiry) -> None:
        self._state, self._dispatching, self._expiry = state, dispatching, expiry

    def arrive(self, message: Message) -> None:
        """Take a message for its destination, or for each part of a composite one."""
        if COMPOSITE not in message.destination.name:
            self._arrive_at(message, depth=0)
            return
        for part in parts(message.destination):
            copy = msgspec.structs.replace(message, destination=part, original_destination=message.destination)
            self._arrive_at(copy, depth=0)

    def wait(self, held: HeldMessage, store: Store) -> None:
        """Let a message wait in a store for a consumer."""
        if store.topic_subscriber:
            store.waiting.append(held)
        else:
            store.unread.add(held)
        self._dispatching.dispatch(store)
        self._expiry.plan(store, [held])

    def _arrive_at(self, message: Message, depth: int) -> None:
        """Take a message for one destination, which may be virtual and copy it to others.

        Of one for a topic that has expired the first copy to die is its own.
        """
        if depth > COPIES_DEPTH_MAX:
            raise ScenarioError("broker", f"expected virtual destinations that end; '{message.destination}' does not")
        settings = self._state.settings
        virtual = [each for each in settings.virtual_destinations if matches(each.destination, message.destination)]
        for each in virtual:
            if isinstance(each, VirtualTopic):
                copies, keeps = self._consumer_queues(each, message), True
            else:
                copies = each.copies(message)
                keeps = each.keeps(copies)
            expired = keeps and self._expiry.at_arrival(message)
            for to in copies:
                self._arrive_at(copied(message, to), depth + 1)
            if keeps and not expired:
                self._enter(message, copied=bool(copies))
        if not virtual and not self._expiry.at_arrival(message):
            self._enter(message)

    def _consumer_queues(self, virtual: VirtualTopic, message: Message) -> list[Destination]:
        queues = self._state.queues
        found = virtual.queues(message.destination, list(queues))
        if not virtual.selector_aware:
            return found
        return [each for each in found if any(takes(attached.receiver, message) for attached in queues[each].attached)]

    def _enter(self, message: Message, *, copied: bool = False) -> None:
        """Put a message into its queue, or into the subscriptions to its topic.

        ``copied``: whether others have copies, so that a topic without subscribers loses nothing.
        """
        trace = self._state.trace
        if message.destination.is_queue:
            stores = [self._state.queue(message.destination)]
        else:
            subscribed = (each for each in self._state.subscriptions if matches(each.destination, message.destination))
            stores = [store for store in subscribed if store.selects(message)]
        if not stores and not copied:
            trace.add(Event.UNROUTABLE, message, detail="the topic has no subscribers")
        for store in stores:
            if store.has_had(message):
                where = f"the subscription {store.durable_key}" if store.topic_subscriber else str(store.destination)
                trace.add(Event.DROPPED, message, detail=f"{where} has had a message of this identifier")
                continue
            held = HeldMessage(message, next(self._state.sequences), message.redelivery_counter)
            trace.add(Event.ROUTED, message, subscription=store.durable_key)
            self.wait(held, store)
