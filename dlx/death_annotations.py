"""Record a death where the history stands beside the message (3.13 and later).

Headers are touched only when a delivery renders them: the broker's own values
then cover a client's headers of the same name.

Source: mc.erl record_death, mc_amqpl.erl protocol_state (3.13.7, 4.3.5); live
servers of 4.0.5 and 4.3.6.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dlx.deaths import FIRST_DEATH_HEADERS, LAST_DEATH_HEADERS, X_DEATH, Death, DeathPoint, merged
from dlx.message import Message, recorded_routing_keys
from dlx.releases import Release


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
