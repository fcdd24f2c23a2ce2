"""The global counters of a node: which it has, and under which of them a dead letter is counted.

RabbitMQ counts a death once, when the message leaves its queue, by reason, queue type
and dead-letter strategy, wherever the dead letter goes then. Deaths that no dead letter
comes of are counted as well: under the strategy ``disabled``.

Source: rabbit_global_counters.erl; rabbit_amqqueue_process.erl with_dlx; rabbit_quorum_queue.erl
dead_letter_publish; rabbit_fifo_dlx.erl discard (3.10.8 to 4.3.5).
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Literal, NamedTuple

from dlx.deaths import DELIVERY_LIMIT, EXPIRED, MAXLEN, REASONS, REJECTED
from dlx.releases import Release
from dlx.settings import AT_LEAST_ONCE, Settings
from dlx.topology import CLASSIC, QUORUM, STREAM

Strategy = Literal["disabled", "at_most_once", "at_least_once"]
DISABLED: Strategy = "disabled"
COUNTED_AT_MOST_ONCE: Strategy = "at_most_once"
COUNTED_AT_LEAST_ONCE: Strategy = "at_least_once"

VOLATILE = "volatile"
"""The type of the queues that direct reply-to has in some releases."""
PREFIX = "rabbitmq_global_"
"""Begins the names of the global counters in Prometheus' text."""
_DEAD_LETTERED = "messages_dead_lettered_"
_MOST_REASONS = (MAXLEN, EXPIRED, REJECTED)
_BY_PROTOCOL = (
    "received", "received_confirm", "routed", "unroutable_dropped", "unroutable_returned", "confirmed",
)  # fmt: skip
_BY_QUEUE_TYPE = (
    "delivered", "delivered_consume_manual_ack", "delivered_consume_auto_ack", "delivered_get_manual_ack",
    "delivered_get_auto_ack", "get_empty", "redelivered", "acknowledged",
)  # fmt: skip

COUNTER_TEXTS = {
    "messages_acknowledged": "Total number of messages acknowledged by consumers",
    "messages_confirmed": "Total number of messages confirmed to publishers",
    "messages_dead_lettered_confirmed": "Total number of messages dead-lettered and confirmed by target queues",
    "messages_dead_lettered_delivery_limit": "Total number of messages dead-lettered due to delivery-limit exceeded",
    "messages_dead_lettered_expired": "Total number of messages dead-lettered due to message TTL exceeded",
    "messages_dead_lettered_maxlen":
        "Total number of messages dead-lettered due to overflow drop-head or reject-publish-dlx",
    "messages_dead_lettered_rejected": "Total number of messages dead-lettered due to basic.reject or basic.nack",
    "messages_delivered": "Total number of messages delivered to consumers",
    "messages_delivered_consume_auto_ack":
        "Total number of messages delivered to consumers using basic.consume with automatic acknowledgment",
    "messages_delivered_consume_manual_ack":
        "Total number of messages delivered to consumers using basic.consume with manual acknowledgment",
    "messages_delivered_get_auto_ack":
        "Total number of messages delivered to consumers using basic.get with automatic acknowledgment",
    "messages_delivered_get_manual_ack":
        "Total number of messages delivered to consumers using basic.get with manual acknowledgment",
    "messages_get_empty": "Total number of times basic.get operations fetched no message",
    "messages_received": "Total number of messages received from publishers",
    "messages_received_confirm": "Total number of messages received from publishers expecting confirmations",
    "messages_redelivered": "Total number of messages redelivered to consumers",
    "messages_routed": "Total number of messages routed to queues or streams",
    "messages_unroutable_dropped":
        "Total number of messages published as non-mandatory into an exchange and dropped as unroutable",
    "messages_unroutable_returned":
        "Total number of messages published as mandatory into an exchange and returned to the publisher as unroutable",
}  # fmt: skip
"""What RabbitMQ says of each counter in Prometheus' text, by name as in ``Series``."""


class Series(NamedTuple):
    """One counter: its name without ``rabbitmq_global_`` and ``_total``, and its labels, sorted by name."""

    name: str
    labels: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"{self.name}{{{', '.join(f'{name}={value}' for name, value in self.labels)}}}"


class Account(NamedTuple):
    """What the dead letters are counted by: the reason of death, the queue's type and the strategy."""

    reason: str
    queue_type: str
    strategy: str

    @property
    def series(self) -> Series:
        """The counter of this account."""
        return _dead_lettered(self.reason, self.queue_type, self.strategy)


CONFIRMED = "confirmed"
"""Stands in place of a reason: at-least-once dead letters that all their queues have taken."""


def counted_strategy(settings: Settings, exchanges: Container[str]) -> Strategy:
    """Return the strategy under which a death in the queue of ``settings`` is counted.

    ``exchanges`` are those that exist when the message dies. A dead-letter exchange that
    does not counts as none, but not at least once: then the queue holds the message.
    """
    exchange = settings.dead_letter_exchange
    if exchange is None:
        return DISABLED
    if settings.dead_letter_strategy == AT_LEAST_ONCE:
        return COUNTED_AT_LEAST_ONCE
    return COUNTED_AT_MOST_ONCE if exchange in exchanges else DISABLED


def accounts(release: Release) -> Iterator[Account]:
    """Yield what dead letters are counted by in a release; these counters exist from the start, at 0.

    Streams do not dead-letter. ``CONFIRMED`` has an account as well.
    """
    if not release.dead_letters_counted:
        return
    for strategy in (DISABLED, COUNTED_AT_MOST_ONCE):
        for reason in _MOST_REASONS:
            yield Account(reason, CLASSIC, strategy)
        for reason in (*_MOST_REASONS, DELIVERY_LIMIT):
            yield Account(reason, QUORUM, strategy)
    for reason in (EXPIRED, REJECTED, DELIVERY_LIMIT, CONFIRMED):
        yield Account(reason, QUORUM, COUNTED_AT_LEAST_ONCE)
    if _volatile(release):
        yield Account(MAXLEN, VOLATILE, DISABLED)


def account_of(series: Series) -> Account | None:
    """Return what a counter counts dead letters by; ``None`` for one of something else."""
    labels, reason = dict(series.labels), series.name.removeprefix(_DEAD_LETTERED)
    if reason not in (*REASONS, CONFIRMED) or labels.keys() != {"queue_type", "dead_letter_strategy"}:
        return None
    kind = labels["queue_type"].removeprefix("rabbit_").removesuffix("_queue")
    return Account(reason, kind, labels["dead_letter_strategy"])


def by_protocol(release: Release) -> Iterator[Series]:
    """Yield the counters of publishes and deliveries, which a node has for each protocol."""
    kinds = (CLASSIC, QUORUM, STREAM, *([VOLATILE] if _volatile(release) else []))
    for protocol in sorted(release.counted_protocols):
        for name in _BY_PROTOCOL:
            yield Series(f"messages_{name}", (("protocol", protocol),))
        for name in _BY_QUEUE_TYPE:
            for kind in kinds:
                yield of_queues(name, kind, protocol)


def of_queues(name: str, queue_type: str, protocol: str) -> Series:
    """Return the counter of deliveries and the like from queues of a type."""
    return Series(f"messages_{name}", (("protocol", protocol), ("queue_type", _label(queue_type))))


def _dead_lettered(reason: str, queue_type: str, strategy: str) -> Series:
    labels = (("dead_letter_strategy", strategy), ("queue_type", _label(queue_type)))
    return Series(f"{_DEAD_LETTERED}{reason}", labels)


def _label(queue_type: str) -> str:
    return f"rabbit_{queue_type}_queue"


def _volatile(release: Release) -> bool:
    return release.direct_replies_taken_by == "volatile queue"
