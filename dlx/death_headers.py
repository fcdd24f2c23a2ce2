"""Record a death: in the message's own headers (until 3.12), or beside the message (from 3.13).

The header of older releases may be anything, a client's forgery included: entries are plain
mappings here, and a malformed entry has consequences. Two quirks are the point
here. A list of two or more entries is reversed by every further death,
so only entry 0 is reliably the newest. And the entry that goes to the front of
an existing list has its fields sorted by name; the others keep their order.

Source: rabbit_dead_letter.erl make_msg, update_x_death_header,
group_by_queue_and_reason (3.8.9, 3.10.8); live servers of both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from dlx.deaths import FIRST_DEATH_HEADERS, LAST_DEATH_HEADERS, X_DEATH, Death, DeathPoint, merged
from dlx.field_values import Long
from dlx.message import Message, recorded_routing_keys
from dlx.releases import Release

Table = Mapping[str, Any]


class QueueCrashError(Exception):
    """The header makes the queue's process crash; a transient message is lost with it."""


def record_in_headers(message: Message, release: Release, *, queue: str, reason: str, time_s: int) -> Message:
    """Return the message after one more death, its headers sorted by name.

    ``time_s`` is the time of death in seconds. Raises ``QueueCrashError`` for the
    malformed histories that crash a real queue.
    """
    headers = dict(message.headers or {})
    info = _death_info(message, release, queue=queue, reason=reason, time_s=time_s)
    point = DeathPoint(reason, queue, message.exchange)
    first = message.first_death
    if X_DEATH not in headers or not (release.client_deaths_continued or first):
        first = point
        headers.update(point.as_headers(FIRST_DEATH_HEADERS))
        headers[X_DEATH] = [{"count": Long(1), **info}]
    elif not _is_array(headers[X_DEATH]):
        headers[X_DEATH] = [{"count": Long(1), **info}]
    else:
        headers[X_DEATH] = _prepended(headers[X_DEATH], info, release)
    if release.last_death_headers:
        headers.update(point.as_headers(LAST_DEATH_HEADERS))
    return msgspec.structs.replace(message, headers=sorted_table(headers), first_death=first, headers_sent=None)


def sorted_table(table: Table) -> dict[str, Any]:
    """Return the table with its keys in the order of their bytes."""
    return {key: table[key] for key in sorted(table, key=_octets)}


def _octets(key: str) -> bytes:
    return key.encode(errors="surrogateescape")


def _death_info(message: Message, release: Release, *, queue: str, reason: str, time_s: int) -> dict[str, Any]:
    info: dict[str, Any] = {
        "reason": reason,
        "queue": queue,
        "time": datetime.fromtimestamp(time_s, UTC),
        "exchange": message.exchange,
        "routing-keys": list(recorded_routing_keys(message, release)),
    }
    if message.expiration is not None:
        info["original-expiration"] = message.expiration
    return info


def _prepended(entries: Sequence[Any], info: Table, release: Release) -> list[Any]:
    if not all(isinstance(entry, Mapping) for entry in entries):
        raise QueueCrashError("x-death holds an element that is not a table")
    prior = _grouped(entries)
    if release.death_order == "reversed on every death" and len(entries) > 1:
        prior.reverse()
    hit = next((entry for entry in prior if _key(entry) == _key(info)), None)
    head = {"count": Long(1), **info} if hit is None else _counted(hit)
    return [sorted_table(head), *(entry for entry in prior if entry is not hit)]


def _grouped(entries: Sequence[Table]) -> list[Table]:
    """Return one entry for each queue and reason; one without a count is given the number of entries like it."""
    if len(entries) <= 1:
        return list(entries)
    grouped: dict[str, Table] = {}
    for entry in entries:
        key = repr(_key(entry))  # a forged queue or reason may be a list or a table
        if key not in grouped:
            alike = sum(_key(other) == _key(entry) for other in entries)
            grouped[key] = entry if "count" in entry else {"count": Long(alike), **entry}
    return list(grouped.values())


def _counted(entry: Table) -> dict[str, Any]:
    count = entry.get("count", 0)
    if not isinstance(count, int) or isinstance(count, bool):
        raise QueueCrashError("x-death holds a count that is not an integer")
    if "count" in entry:
        return {**entry, "count": Long(count + 1)}
    return {"count": Long(1), **entry}


def _key(entry: Table) -> tuple[Any, Any]:
    return entry.get("queue"), entry.get("reason")


def _is_array(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


# Record a death where the history stands beside the message (3.13 and later).
#
# Headers are touched only when a delivery renders them: the broker's own values
# then cover a client's headers of the same name.
#
# Source: mc.erl record_death, mc_amqpl.erl protocol_state (3.13.7, 4.3.5); live
# servers of 4.0.5 and 4.3.6.


def record_in_annotations(message: Message, release: Release, *, queue: str, reason: str, time_s: int) -> Message:
    """Return the message after one more death. ``time_s`` is the time of death in seconds."""
    death = Death(
        queue=queue,
        reason=reason,
        count=1,
        exchange=message.exchange,
        routing_keys=recorded_routing_keys(message, release),
        time_s=time_s,
        original_expiration=message.expiration,
    )
    point = DeathPoint(reason, queue, message.exchange)
    return msgspec.structs.replace(
        message,
        deaths=merged(message.deaths or (), death, reverse=release.death_order != "recency"),
        first_death=point if message.deaths is None else message.first_death,
        last_death=point if release.last_death_headers else None,
    )


def annotated_headers(message: Message) -> dict[str, Any]:
    """Return the headers that the annotations add to a delivery."""
    added: dict[str, Any] = {}
    if message.deaths is not None:
        added[X_DEATH] = [death.as_table() for death in message.deaths]
    if message.first_death is not None:
        added.update(message.first_death.as_headers(FIRST_DEATH_HEADERS))
    if message.last_death is not None:
        added.update(message.last_death.as_headers(LAST_DEATH_HEADERS))
    return added


# Put together the headers of a delivery: those the message carries, and those the broker adds.


def stored_headers(message: Message) -> Mapping[str, Any]:
    """Return the headers with the death history in them; the broker's values cover the client's."""
    return {**(message.headers or {}), **annotated_headers(message)}


def _simple(annotations: Mapping[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in annotations.items() if not isinstance(each, list | Mapping)}


def delivered_headers(
    message: Message, release: Release, added: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    """Return the headers a consumer sees, in the order it sees them; ``None`` for a message without headers.

    ``added`` are the headers that belong to the delivery alone, such as
    ``x-delivery-count``; adding one sorts the table in every release. Of the annotations that a consumer of AMQP 1.0
    added, lists and maps are no headers. Source: mc_amqpl.erl protocol_state; live servers of 4.0 and 4.3.
    """
    stored = stored_headers(message) if added or message.headers_sent is None else message.headers_sent
    annotations = message.annotations and _simple(message.annotations)
    headers = {**stored, **(annotations or {}), **(added or {})}
    if not headers and not message.headers:
        return None if message.headers is None else {}
    return sorted_table(headers) if added or release.header_order == "sorted when delivered" else headers
