"""The verdict of a replay on one delivery, and the words for what is left unchecked."""

from __future__ import annotations

from typing import Literal

import msgspec

from dlx.message_flow import Hop

# The words for what a replay leaves unchecked.
#
# A verdict says ``agree`` only for what was checked. Where a log can neither confirm nor refute a part of the
# explanation, the verdict carries an ``Unchecked`` beside it.


What = Literal[
    "message-ttl",
    "delivery-limit",
    "delivery-count",
    "max-length",
    "expires",
    "rejection",
    "redelivered",
    "stream-offset",
    "payload",
    "routing",
    "search",
    "shared-rows",
    "queue",
    "publish",
    "definitions",
]
LACKING: tuple[What, ...] = ("queue", "publish")
"""What is unchecked altogether, for want of a beginning: nothing is known of how the delivery came about."""
IS_LACKING = f"size(filter(unchecked, one -> one.what IN ({', '.join(map(repr, LACKING))}))) > 0"
"""The same of a row, in Spark's SQL."""

MEANINGS: dict[What, str] = {
    "message-ttl": "a death by expiry whose TTL the times of the log do not test, or that came long after the TTL,"
    " or a delivery after the TTL that may still be right",
    "delivery-limit": "a death by the delivery limit before the log shows that limit reached",
    "delivery-count": "a count of returns to a quorum queue that the deliveries before it do not account for, or"
    " one where the log does not show which copy it belongs to",
    "max-length": "a death by the length limit with fewer messages in the log than the limit",
    "expires": "a death by expiry in a queue that RabbitMQ deletes earlier than that if it is unused",
    "rejection": "a rejection that no earlier delivery of the message shows: the log lacks that delivery",
    "redelivered": "a delivery flagged as a redelivery without a first one in the log, or flagged as first again"
    " where the log does not show how many copies came",
    "stream-offset": "a delivery from a stream: its offset, as the log does not show where the consumer began",
    "payload": "the body of a message that was published with several under one message_id",
    "routing": "a way through an exchange whose routing is not known: of a plugin's type, or not exported",
    "search": "a delivery with more possible paths than the search tries, where none of those tried fits the times",
    "queue": "a delivery from a queue that the definitions lack, or of a message that died there",
    "publish": "a delivery of a message whose publish is not in the log before it: it was published before the log"
    " began, in a gap of the log, or past the trace",
    "definitions": "a delivery or a routing of a message that was published before the definitions changed, which"
    " fits neither of them",
    "shared-rows": "equal rows of one moment in two of the logs: they may be the same rows, and count twice",
}
"""What each word means, in the order in which reports list them."""


class Unchecked(msgspec.Struct, frozen=True, order=True):
    """One thing that was not checked.

    Attributes:
        what: one of the words of ``MEANINGS``.
        name: the queue, or the exchange, that it is about.
        why: the setting that could not be held against the log, and what the log lacks.
    """

    what: What
    name: str
    why: str


# The verdict of a replay on one delivery.


Name = Literal["agree", "ambiguous", "differ", "unexplained"]
PATH = "path"
"""The field of a difference in the way to the queue, not in the delivered message."""
VERDICTS: tuple[Name, ...] = ("agree", "ambiguous", "differ", "unexplained")
"""The names of all verdicts, best first."""
BAD: tuple[Name, ...] = ("differ", "unexplained")
"""The verdicts on deliveries that are not as predicted."""


class Difference(msgspec.Struct, frozen=True):
    """One field of a delivery that is not as predicted.

    Attributes:
        field: its path, such as ``x-death[0].count``.
        expected, seen: its values as JSON; ``absent`` where the field is missing.
        behaviours: the rows of the release table that cause it, where another release explains it.
    """

    field: str
    expected: str
    seen: str
    behaviours: tuple[str, ...] = ()


class Verdict(msgspec.Struct, frozen=True):
    """The verdict on one delivery.

    Attributes:
        name: the verdict.
        why: why a delivery is unexplained.
        hops: the deaths since this copy was last observed.
        new_hops: how many of the last hops no other delivery's path has had.
        new_deaths: the same without a first hop that only puts another copy of a known death into another queue.
        alternatives: all sequences of hops that lead to an ambiguous delivery, as text.
        differences: the fields that are not as predicted.
        unchecked: what the log could neither confirm nor refute.
    """

    name: Name
    why: str = ""
    hops: tuple[Hop, ...] = ()
    new_hops: int = 0
    new_deaths: int = 0
    alternatives: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()
    unchecked: tuple[Unchecked, ...] = ()


def path_text(hops: tuple[Hop, ...]) -> str:
    """Return a sequence of hops as text: ``orders rejected -> orders.wait expired``."""
    return " -> ".join(f"{hop.queue} {hop.reason}" for hop in hops) or "no hop"
