"""Length limits of queues, and how many messages can have been there when one was dropped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dlx.settings import MAX_LENGTH, MAX_LENGTH_BYTES, Settings
from dlx.topology import CLASSIC, QUORUM
from simulator.replay.rows.columns import Ints

Numbers = npt.NDArray[np.float64]
SECOND_US = 1_000_000


class LengthLimit(NamedTuple):
    """The length limit of a queue.

    Attributes:
        vhost, queue: which one.
        length, size_bytes: its limits, or ``None``.
        drops_oldest: whether it drops the message that came in first. Then all others came after that one.
        payloads: whether only payloads count, so that the log has the size of a message.
    """

    vhost: str
    queue: str
    length: int | None
    size_bytes: int | None
    drops_oldest: bool
    payloads: bool


class QueueArrivals(NamedTuple):
    """The messages that can have come into a queue, and their bytes, by the seconds in which some were published.

    ``at_once`` are those that came in then, ``later`` those that may come in at any time
    after that. Each is a running total that begins with 0, before the first second.
    """

    seconds: Ints
    at_once: Numbers
    later: Numbers
    bytes_at_once: Numbers
    bytes_later: Numbers


Arrivals = Mapping[tuple[str, str], QueueArrivals]
"""What can have come into each queue, by virtual host and name: small, and the same for all messages."""

NO_ARRIVALS: Arrivals = {}


class Arrived(NamedTuple):
    """The messages that can have been in a queue, and their bytes: the most of each, by death."""

    messages: Numbers
    size_bytes: Numbers

    def endless(self) -> npt.NDArray[np.bool_]:
        """Return by death whether there is no bound to their number."""
        return np.isinf(self.messages)

    def fill(self, limit: LengthLimit) -> npt.NDArray[np.bool_]:
        """Return by death whether they can have been more than the limit."""
        enough = np.zeros(len(self.messages), dtype=bool)
        if limit.length is not None:
            enough |= self.messages > limit.length
        if limit.size_bytes is not None:
            enough |= self.size_bytes > limit.size_bytes
        return enough


def length_limit(settings: Settings, vhost: str) -> LengthLimit:
    """Return the length limit of a queue."""
    queue = settings.queue
    drops_oldest = queue.type == CLASSIC and "x-max-priority" not in queue.arguments and not settings.refuses_when_full
    payloads = queue.type != QUORUM or settings.release.quorum_message_size == "body"
    return LengthLimit(vhost, queue.name, settings.max_length, settings.max_length_bytes, drops_oldest, payloads)


def limit_text(settings: Settings) -> str:
    """Return the settings that limit the length of the queue, with their origins."""
    found = (settings.values.get(key) for key in (MAX_LENGTH, MAX_LENGTH_BYTES))
    return " and ".join(str(setting) for setting in found if setting is not None)


def arrived(arrivals: Arrivals, limit: LengthLimit, from_us: Ints, until_us: Ints) -> Arrived:
    """Return what can have been in the queue at each ``until_us``; the message that died came in at ``from_us``."""
    found = arrivals.get((limit.vhost, limit.queue))
    if found is None:
        return Arrived(np.zeros(len(until_us)), np.zeros(len(until_us)))
    end = np.searchsorted(found.seconds, until_us // SECOND_US, side="right")
    gone = np.searchsorted(found.seconds, from_us // SECOND_US, side="left") if limit.drops_oldest else 0 * end
    return Arrived(
        found.at_once[end] - found.at_once[gone] + found.later[end],
        found.bytes_at_once[end] - found.bytes_at_once[gone] + found.bytes_later[end],
    )
