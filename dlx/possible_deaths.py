"""Decide which deaths a queue's settings allow a message, whether or not they happened.

A consumer is free to reject; the rest needs a setting: ``expired`` a TTL,
``maxlen`` a length limit that drops, ``delivery_limit`` a limit on a quorum queue.
"""

from __future__ import annotations

import msgspec

from dlx import settings as keys
from dlx.deaths import DELIVERY_LIMIT, EXPIRED, MAXLEN, REASONS, REJECTED
from dlx.releases import Release
from dlx.settings import Setting, Settings, expires_messages
from dlx.topology import QUORUM, STREAM


def why_impossible(reason: str, settings: Settings, release: Release, *, has_expiration: bool = False) -> str | None:
    """Return why no message can die in the queue for that reason; ``None`` when it can.

    ``has_expiration``: the message itself carries an expiration.
    """
    queue = f"'{settings.queue.name}'"
    if settings.queue.type == STREAM:
        return f"{reason} in {queue}: streams never dead-letter"
    if reason == REJECTED:
        return None
    if reason == EXPIRED:
        expires = has_expiration and expires_messages(settings.queue.type, release)
        if settings.message_ttl_ms is None and not expires:
            return f"expired in {queue}: neither the queue nor the message has a TTL"
    elif reason == MAXLEN:
        if not settings.has_length_limit:
            return f"maxlen in {queue}: the queue has no length limit"
        if settings.refuses_when_full and not settings.dead_letters_refused:
            return f"maxlen in {queue}: overflow is reject-publish, nothing is dropped"
    elif reason == DELIVERY_LIMIT:
        if settings.queue.type != QUORUM:
            return f"delivery_limit in {queue}: only quorum queues have one"
        if settings.delivery_limit is None:
            return f"delivery_limit in {queue}: the queue has none"
    else:
        return f"no queue has the reason {reason!r}: there are {', '.join(REASONS)}"
    return None


class DeathRule(msgspec.Struct, frozen=True):
    """Says why, in words, and by which setting of a queue where one decides."""

    text: str
    setting: Setting | None = None

    def __str__(self) -> str:
        by = self.setting
        return self.text if by is None else f"{self.text} ({by.key} by {by.origin})"


class PossibleDeath(msgspec.Struct, frozen=True):
    """Says of one reason of death whether the settings allow it, and what decides that."""

    reason: str
    possible: bool
    rule: DeathRule


def possible_death(reason: str, settings: Settings, release: Release, expiration: str | None = None) -> PossibleDeath:
    """Return whether a message can die for that reason in the queue of the settings, and what decides that.

    ``expiration`` is the message's own time to live, in ms as a string.
    """
    why_not = why_impossible(reason, settings, release, has_expiration=expiration is not None)
    values, when = settings.values, f"in '{settings.queue.name}'"
    if why_not is not None:
        refuses = reason == MAXLEN and settings.has_length_limit and settings.refuses_when_full
        return PossibleDeath(reason, False, DeathRule(why_not, values.get(keys.OVERFLOW) if refuses else None))
    if reason == REJECTED:
        return PossibleDeath(reason, True, DeathRule(f"rejected {when}: a consumer may reject it for good"))
    setting = next((values[key] for key in _DECIDING[reason] if key in values), None)
    if reason == EXPIRED and _is_shorter(expiration, settings.message_ttl_ms):
        setting = None
    limit = f"{setting.key} is {setting.value}" if setting is not None else f"its expiration is {expiration}"
    return PossibleDeath(reason, True, DeathRule(f"{reason} {when}: {limit}", setting))


def _is_shorter(expiration: str | None, ttl_ms: int | None) -> bool:
    """Return whether a message's own time to live ends before its queue's."""
    return expiration is not None and expiration.isdecimal() and ttl_ms is not None and int(expiration) < ttl_ms


_DECIDING = {
    EXPIRED: (keys.MESSAGE_TTL,),
    MAXLEN: (keys.MAX_LENGTH, keys.MAX_LENGTH_BYTES),
    DELIVERY_LIMIT: (keys.DELIVERY_LIMIT,),
}
