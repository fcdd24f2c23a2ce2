"""The two plugins of the broker that stand before the dead-letter queue.

Source: activemq-broker, RedeliveryPlugin, DiscardingDLQBroker and its plugin.
"""

from __future__ import annotations

import msgspec

from simulator.systems.activemq.destinations import Destination, DestinationMap
from simulator.systems.activemq.java_patterns import JavaPatternError, compiled
from simulator.systems.activemq.redelivery_policy import UNLIMITED, RedeliveryPolicy

MINIMUM_DELAY_MS = 1000


class Redelivery(msgspec.Struct, frozen=True, kw_only=True):
    """The redelivery plugin: instead of a dead letter, another attempt by way of the broker's scheduler.

    Attributes:
        policies: by destination of the message.
        fallback: whether a message without a policy is dead-lettered; else it is lost.
        dead_letter_when_exceeded: whether a message over the limit is; else it is lost.
    """

    policies: DestinationMap[RedeliveryPolicy] = DestinationMap()
    fallback: bool = True
    dead_letter_when_exceeded: bool = True

    def __post_init__(self) -> None:
        policies = [entry.value for entry in self.policies.entries]
        for policy in (*policies, *filter(None, [self.policies.default])):
            for name, delay_ms in (
                ("initialRedeliveryDelay", policy.initial_delay_ms),
                ("redeliveryDelay", policy.delay_ms),
            ):
                if delay_ms < MINIMUM_DELAY_MS:
                    raise ValueError(
                        f"expected {name} to be at least {MINIMUM_DELAY_MS} ms in the redelivery plugin, or the"
                        f" broker does not start; got {delay_ms}"
                    )


class Discarding(msgspec.Struct, frozen=True, kw_only=True):
    """The discarding plugin: no dead letter for some messages.

    ``drop_only`` are patterns of Java, separated by blanks, for the whole name of the message's destination.
    """

    drop_all: bool = True
    drop_temporary_topics: bool = True
    drop_temporary_queues: bool = True
    drop_only: str = ""

    def __post_init__(self) -> None:
        for pattern in self.drop_only.split():
            try:
                compiled(pattern)
            except JavaPatternError as error:
                raise ValueError(f"expected regular expressions as dropOnly, got '{pattern}': {error}") from error


Plugin = Redelivery | Discarding


class Again(msgspec.Struct, frozen=True):
    """Deliver again, with this count, after the delay that the policy has for it."""

    counter: int
    policy: RedeliveryPolicy


class Lost(msgspec.Struct, frozen=True):
    """No dead letter: the message is gone."""

    reason: str


Verdict = Again | Lost | None
"""What a plugin decides; ``None``: go on to the dead letter."""


def judge(plugin: Plugin, destination: Destination, counter: int, *, expired: bool) -> Verdict:
    """Decide what a plugin does with a message that is to be dead-lettered.

    Args:
        plugin: whose turn it is.
        destination: the message's.
        counter: how often the broker knows it to be delivered again.
        expired: whether its time is up; the redelivery plugin leaves such a message alone.
    """
    if isinstance(plugin, Discarding):
        reason = _discarded(plugin, destination)
        return None if reason is None else Lost(f"discardingDLQBrokerPlugin {reason}")
    if expired:
        return None
    policy = plugin.policies.lookup(destination)
    if policy is None:
        return None if plugin.fallback else Lost("redeliveryPlugin has no policy, fallbackToDeadLetter=false")
    if policy.maximum_redeliveries == UNLIMITED or counter < policy.maximum_redeliveries:
        return Again(counter + 1, policy)
    if plugin.dead_letter_when_exceeded:
        return None
    return Lost("redeliveryPlugin limit exceeded, sendToDlqIfMaxRetriesExceeded=false")


def _discarded(plugin: Discarding, destination: Destination) -> str | None:
    if plugin.drop_all:
        return "dropAll"
    if plugin.drop_temporary_topics and destination.kind == "temp-topic":
        return "dropTemporaryTopics"
    if plugin.drop_temporary_queues and destination.kind == "temp-queue":
        return "dropTemporaryQueues"
    if any(compiled(pattern).fullmatch(destination.name) for pattern in plugin.drop_only.split()):
        return "dropOnly"
    return None
