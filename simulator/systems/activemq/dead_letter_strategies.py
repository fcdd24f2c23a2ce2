"""Decides where the dead letters of a destination go, and which messages get no dead letter.

An audit remembers which messages already had one: by producer, the last used ones, and of
each a window of sequence numbers that goes forward in steps of 64. A number behind the
window counts as never seen.

Source: activemq-broker, AbstractDeadLetterStrategy, SharedDeadLetterStrategy,
IndividualDeadLetterStrategy, DiscardingDeadLetterStrategy; activemq-client, ActiveMQMessageAuditNoSync, BitArrayBin.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from simulator.systems.activemq.destinations import Destination, parse_destination
from simulator.systems.activemq.messages import Message

SHARED_QUEUE = "ActiveMQ.DLQ"
NOWHERE = ""
"""The dead letter queue of a strategy whose queue has no name: its dead letters are lost."""
_NAMES = {
    "process_expired": "processExpired",
    "process_non_persistent": "processNonPersistent",
    "enable_audit": "enableAudit",
    "expiration_ms": "expiration",
    "max_audit_depth": "maxAuditDepth",
    "max_producers_to_audit": "maxProducersToAudit",
}


class _Strategy(
    msgspec.Struct, frozen=True, kw_only=True, rename=_NAMES, tag_field="strategy", forbid_unknown_fields=True
):
    """The settings that all strategies share.

    Attributes:
        process_expired: whether expired messages have a dead letter.
        process_non_persistent: whether those have one that the broker keeps in memory only.
        enable_audit: whether a message that has had a dead letter gets no other.
        expiration_ms: how long a dead letter lives; 0 for ever.
        max_audit_depth: how far back the audit remembers one producer, in messages.
        max_producers_to_audit: how many producers it remembers.
    """

    process_expired: bool = True
    process_non_persistent: bool = False
    enable_audit: bool = True
    expiration_ms: int = 0
    max_audit_depth: int = 2048
    max_producers_to_audit: int = 64


class Shared(_Strategy, frozen=True, kw_only=True, tag="shared", rename="camel"):
    """One destination for all; a bare name is a queue, and an empty one loses all dead letters."""

    dead_letter_queue: str = SHARED_QUEUE

    def __post_init__(self) -> None:
        if self.dead_letter_queue != NOWHERE:
            parse_destination(self.dead_letter_queue)


class Individual(_Strategy, frozen=True, kw_only=True, tag="individual", rename="camel"):
    """A destination for each: its name between a prefix and a suffix.

    ``use_queue_for_...``: false makes the dead letter go to a topic, where it is lost without a subscriber.
    ``destination_per_durable_subscriber`` puts ``.clientId:subscription`` before the suffix.
    """

    queue_prefix: str = "ActiveMQ.DLQ.Queue."
    topic_prefix: str = "ActiveMQ.DLQ.Topic."
    queue_suffix: str = ""
    topic_suffix: str = ""
    use_queue_for_queue_messages: bool = True
    use_queue_for_topic_messages: bool = True
    destination_per_durable_subscriber: bool = False


class Discarding(_Strategy, frozen=True, kw_only=True, tag="discarding"):
    """No dead letters at all."""


Strategy = Shared | Individual | Discarding


def keeps_nothing(strategy: Strategy) -> str | None:
    """Return why a strategy makes no dead letters at all; return ``None`` if it makes some."""
    if isinstance(strategy, Discarding):
        return "the strategy discards all dead letters"
    if isinstance(strategy, Shared) and strategy.dead_letter_queue == NOWHERE:
        return "the dead letter queue of the strategy has no name"
    return None


def refusal(strategy: Strategy, message: Message, now_ms: int, *, duplicate: bool) -> str | None:
    """Return why a message gets no dead letter; return ``None`` if it gets one.

    ``duplicate``: whether the audit knows the message. The audit is asked, and notes the
    message, before anything else is checked.
    """
    nothing = keeps_nothing(strategy)
    if nothing is not None:
        return nothing
    if strategy.enable_audit and duplicate:
        return "the audit has seen a dead letter of this message"
    if not message.persistent and not strategy.process_non_persistent:
        return "it is not persistent, and processNonPersistent is false"
    if message.expired(now_ms) and not strategy.process_expired:
        return "it has expired, and processExpired is false"
    return None


def target(strategy: Shared | Individual, source: Destination, durable_key: str | None = None) -> Destination:
    """Return the destination for the dead letter of a message in ``source``.

    ``durable_key`` is ``clientId:subscription`` where a durable subscription was to have the message.
    """
    if isinstance(strategy, Shared):
        return parse_destination(strategy.dead_letter_queue)
    prefix, suffix, use_queue = (
        (strategy.queue_prefix, strategy.queue_suffix, strategy.use_queue_for_queue_messages)
        if source.is_queue
        else (strategy.topic_prefix, strategy.topic_suffix, strategy.use_queue_for_topic_messages)
    )
    subscriber = f".{durable_key}" if durable_key and strategy.destination_per_durable_subscriber else ""
    return Destination("queue" if use_queue else "topic", f"{prefix}{source.name}{subscriber}{suffix}")


_STEP = 64


class Audit:
    """The memory of one strategy.

    Args:
        depth: the window of one producer, in messages.
        producers: of how many producers a window is kept.
    """

    def __init__(self, depth: int, producers: int) -> None:
        self._depth, self._producers = depth, producers
        self._windows: OrderedDict[str, _Window] = OrderedDict()

    def is_duplicate(self, message: Message) -> bool:
        """Return whether the audit has seen the message, and remember it from now on."""
        window = self._windows.get(message.producer)
        if window is None:
            window = self._windows[message.producer] = _Window(self._depth)
            if len(self._windows) > self._producers:
                self._windows.popitem(last=False)
        else:
            self._windows.move_to_end(message.producer)
        return window.note(message.sequence)

    def forget(self, message: Message) -> None:
        """Forget the message, as if it had never been seen."""
        window = self._windows.get(message.producer)
        if window is not None:
            window.seen.discard(message.sequence)


class _Window:
    def __init__(self, depth: int) -> None:
        self._size = max((depth + 1) // _STEP + 1, 1) * _STEP
        self._first: int | None = None
        self.seen: set[int] = set()

    def note(self, number: int) -> bool:
        """Note the number, and return whether it was noted before; a number behind the window never was."""
        if self._first is None:
            self._first = number - number % _STEP
        beyond = number - (self._first + self._size)
        if beyond >= 0:
            self._first += (beyond // _STEP + 1) * _STEP
            self.seen = {each for each in self.seen if each >= self._first}
        if number < self._first:
            return False
        known = number in self.seen
        self.seen.add(number)
        return known
