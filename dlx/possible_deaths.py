"""Which deaths a queue's settings allow a message, before anybody asks whether they happened.

A consumer is free to reject; the rest needs a setting: ``expired`` a TTL,
``maxlen`` a length limit that drops, ``delivery_limit`` a limit on a quorum queue.
"""

from __future__ import annotations

from dlx.deaths import DELIVERY_LIMIT, EXPIRED, MAXLEN, REASONS, REJECTED
from dlx.releases import Release
from dlx.settings import REJECT_PUBLISH, Settings
from dlx.topology import QUORUM, STREAM


def why_impossible(reason: str, settings: Settings, release: Release, *, has_expiration: bool = False) -> str | None:
    """Why no message can die in the queue for that reason; ``None`` when it can.

    ``has_expiration``: the message itself carries an expiration.
    """
    queue = f"'{settings.queue.name}'"
    if settings.queue.type == STREAM:
        return f"{reason} in {queue}: streams never dead-letter"
    if reason == REJECTED:
        return None
    if reason == EXPIRED:
        expires = has_expiration and _knows_expiration(settings, release)
        if settings.message_ttl_ms is None and not expires:
            return f"expired in {queue}: neither the queue nor the message has a TTL"
    elif reason == MAXLEN:
        if settings.max_length is None and settings.max_length_bytes is None:
            return f"maxlen in {queue}: the queue has no length limit"
        if settings.overflow == REJECT_PUBLISH:
            return f"maxlen in {queue}: overflow is reject-publish, nothing is dropped"
    elif reason == DELIVERY_LIMIT:
        if settings.queue.type != QUORUM:
            return f"delivery_limit in {queue}: only quorum queues have one"
        if settings.delivery_limit is None:
            return f"delivery_limit in {queue}: the queue has none"
    else:
        return f"no queue knows the reason {reason!r}: there are {', '.join(REASONS)}"
    return None


def _knows_expiration(settings: Settings, release: Release) -> bool:
    return settings.queue.type != QUORUM or release.quorum_message_ttl
