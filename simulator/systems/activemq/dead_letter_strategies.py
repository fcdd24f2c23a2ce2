"""Decides where the dead letters of a destination go, and which messages get no dead letter.

Source: activemq-broker, AbstractDeadLetterStrategy, SharedDeadLetterStrategy,
IndividualDeadLetterStrategy, DiscardingDeadLetterStrategy.
"""

from __future__ import annotations

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

    ``use_queue_for_...``: false makes the dead letter go to a topic, where it is lost if nobody listens.
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
    """Tell why a strategy makes no dead letters at all; return ``None`` if it makes some."""
    if isinstance(strategy, Discarding):
        return "the strategy discards all dead letters"
    if isinstance(strategy, Shared) and strategy.dead_letter_queue == NOWHERE:
        return "the dead letter queue of the strategy has no name"
    return None


def refusal(strategy: Strategy, message: Message, now_ms: int, *, duplicate: bool) -> str | None:
    """Tell why a message gets no dead letter; return ``None`` if it gets one.

    ``duplicate``: whether the audit knows the message. The audit is asked, and notes the
    message, before anything else is looked at.
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
