"""Read the deaths behind a message as a broker of a release does: one reading for all who ask.

From 3.13 on they stand beside the message, and a client's ``x-death`` is a header like
any other unless the release takes it over at the publish. Until 3.12 they are the
message's own ``x-death``, whatever a client wrote there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from dlx.deaths import X_DEATH
from dlx.message import Message
from dlx.releases import Release


class RecordedDeath(NamedTuple):
    """One entry of the history: how often the message died in one queue for one reason.

    A client may have forged ``queue`` and ``reason``, which then have any type. An entry
    without a count counts once, one whose count is not a whole number counts 0.
    ``has_count`` is whether the entry has one.
    """

    queue: Any
    reason: Any
    times: int
    has_count: bool = True


def recorded_deaths(message: Message, release: Release) -> tuple[RecordedDeath | None, ...]:
    """Return the entries in the history's own order; ``None`` is an element that is not a table."""
    if message.deaths is not None:
        return tuple([RecordedDeath(death.queue, death.reason, death.count) for death in message.deaths])
    if release.client_deaths_continued or message.first_death is not None:
        return deaths_in_x_death((message.headers or {}).get(X_DEATH))
    return ()


def deaths_in_x_death(x_death: Any) -> tuple[RecordedDeath | None, ...]:
    """Read an ``x-death`` header in the same way; a value that is not an array holds no deaths."""
    return tuple(map(_entry, x_death)) if isinstance(x_death, list | tuple) else ()


def death_counts(deaths: tuple[RecordedDeath | None, ...]) -> dict[tuple[str, str], int]:
    """Return how often the message died, by queue and reason.

    Of a client's entries of one kind the first counts, as the next death keeps no other; or all of them do,
    once each, if the first has no count. Source: rabbit_dead_letter.erl group_by_queue_and_reason (3.8.9, 3.10.8).
    """
    counts: dict[tuple[str, str], int] = {}
    without: set[tuple[str, str]] = set()
    for death in deaths:
        if death is None:
            continue
        key = str(death.queue), str(death.reason)
        if key not in counts:
            counts[key] = death.times
            if not death.has_count:
                without.add(key)
        elif key in without:
            counts[key] += 1
    return counts


def _entry(entry: Any) -> RecordedDeath | None:
    if not isinstance(entry, Mapping):
        return None
    count = entry.get("count", 1)
    times = count if isinstance(count, int) else 0
    return RecordedDeath(entry.get("queue"), entry.get("reason"), times, has_count="count" in entry)
