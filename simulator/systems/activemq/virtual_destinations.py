"""Virtual topics and composite destinations: what comes to them is copied to other destinations.

Source: activemq-broker, VirtualTopic, VirtualTopicInterceptor, CompositeDestinationFilter, FilteredDestination.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from simulator.systems.activemq.destinations import ANY_DESCENDANT, Destination, Kind, matches, meets
from simulator.systems.activemq.messages import Message
from simulator.systems.activemq.selectors import Selector


class VirtualTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic, each of whose messages is copied to the queues between ``prefix`` and ``postfix`` that there are.

    ``selector_aware``: only to those with a consumer that would take it.
    """

    name: str = ">"
    prefix: str = "Consumer.*."
    postfix: str = ""
    selector_aware: bool = False

    @property
    def destination(self) -> Destination:
        """The topics that it is for."""
        return Destination("topic", self.name)

    def has_consumers_like(self, queue: Destination) -> bool:
        """Return whether consumers of this pattern make a queue of that very name, which gets the copies."""
        pattern = Destination("queue", self.prefix + ANY_DESCENDANT)
        return queue.is_queue and queue.is_pattern and matches(pattern, queue)

    def queues(self, topic: Destination, existing: Iterable[Destination]) -> list[Destination]:
        """Return the queues that get a copy, of those that exist."""
        wanted = Destination("queue", f"{self.prefix}{topic.name}{self.postfix}")
        begin = self.prefix.partition(".*")[0] if ".*" in self.prefix and not self.prefix.startswith("*") else ""
        return [each for each in existing if each.name.startswith(begin) and meets(wanted, each)]


class Forward(msgspec.Struct, frozen=True):
    """Where a composite destination copies to; with a selector, only what it selects."""

    destination: Destination
    selector: Selector | None = None


class CompositeDestination(msgspec.Struct, frozen=True, kw_only=True):
    """A queue or topic whose messages are copied to others.

    Attributes:
        kind: ``queue`` or ``topic``.
        name: the name, which may be a pattern.
        forward_to: where the copies go.
        forward_only: whether the destination itself gets nothing.
        send_when_not_matched: whether it gets what goes nowhere else, and only that.
    """

    name: str
    kind: Kind = "queue"
    forward_to: tuple[Forward, ...] = ()
    forward_only: bool = True
    send_when_not_matched: bool = False

    @property
    def destination(self) -> Destination:
        """What it is for."""
        return Destination(self.kind, self.name)

    def copies(self, message: Message) -> list[Destination]:
        """Return where the copies of a message go."""
        return [each.destination for each in self.forward_to if each.selector is None or each.selector.selects(message)]

    def keeps(self, copies: list[Destination]) -> bool:
        """Return whether the destination itself gets a message with these copies."""
        return not copies if self.send_when_not_matched else not self.forward_only


Virtual = VirtualTopic | CompositeDestination
BY_DEFAULT: tuple[Virtual, ...] = (VirtualTopic(name="VirtualTopic.>"),)
"""What a broker has whose configuration names none."""
