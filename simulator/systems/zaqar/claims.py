"""A message as Zaqar stores it, and the effects of a claim, its renewal and its release on it.

All times are seconds. ``now_s`` is whole seconds since 1970: Zaqar knows no smaller ones.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from simulator.systems.zaqar.metadata import DeadLettering
from simulator.systems.zaqar.profiles import Profile


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message. Times are whole seconds since 1970, as Zaqar keeps them.

    Attributes:
        id: its id, which a move to a dead-letter queue does not change.
        body: any JSON value.
        ttl_s: the time to live that is shown; ``expires_s`` ends the message.
        created_s: when it was posted; its age counts from here, in a dead-letter queue too.
        client: the Client-ID of who posted it.
        delay_until_s: no claim takes it before.
        claim_id: the last claim that took it, ``None`` after a release.
        claim_expires_s: when that claim ends; it holds the message until then.
        claim_count: how often it was claimed while its queue counted. ``None``: a driver forgot, which counts as 0.
    """

    id: str
    body: Any
    ttl_s: int
    created_s: int
    expires_s: int
    client: str
    delay_until_s: int
    claim_id: str | None = None
    claim_expires_s: int = 0
    claim_count: int | None = 0

    @property
    def count(self) -> int:
        """How often it was claimed, as the rules count."""
        return self.claim_count or 0

    def held(self, now_s: int) -> bool:
        """Return whether a claim holds the message."""
        return self.claim_id is not None and now_s < self.claim_expires_s

    def expired(self, now_s: int) -> bool:
        """Return whether the message's time to live has run out."""
        return self.expires_s <= now_s


def posted(id: str, body: Any, *, ttl_s: int, delay_s: int, client: str, now_s: int) -> Message:
    """Make a message that is posted now."""
    return Message(
        id=id,
        body=body,
        ttl_s=ttl_s,
        created_s=now_s,
        expires_s=now_s + ttl_s,
        client=client,
        delay_until_s=now_s + delay_s,
        claim_expires_s=now_s,
    )


class Uncountable(TypeError):
    """A ``_max_claim_count`` that no number compares with, or a dead-letter queue that has no name: the claim fails."""


class Terms(msgspec.Struct, frozen=True):
    """The terms that a client asks of a claim: how long it lasts, and how much longer its messages must live."""

    ttl_s: int
    grace_s: int


def held(message: Message, claim_id: str, terms: Terms, now_s: int, profile: Profile) -> Message:
    """Return the message as a claim takes it.

    A message that would die before the claim ends lives on through its grace.
    """
    taken = _lasting(replace(message, claim_id=claim_id, claim_expires_s=now_s + terms.ttl_s), terms, now_s, profile)
    return taken if profile.uncounted_claim_keeps_count else replace(taken, claim_count=0)


def exhausted(message: Message, rule: DeadLettering) -> bool:
    """Return whether this claim is one too many. ``message`` is as it was before. Raises ``Uncountable``."""
    # True and False count as 1 and 0, as they do in Zaqar.
    if not isinstance(rule.max_claim_count, int | float):
        raise Uncountable(f"_max_claim_count {rule.max_claim_count!r} is not a number")
    return message.count >= rule.max_claim_count


def counted(taken: Message, before: Message) -> Message:
    """Return the message that a claim hands out, with that claim counted."""
    return replace(taken, claim_count=before.count + 1)


def moved(taken: Message, before: Message, rule: DeadLettering, now_s: int, profile: Profile) -> Message:
    """Return the message as it arrives in the dead-letter queue: with its id, body, age, claim and count."""
    letter = replace(taken, claim_count=before.count + 1 if profile.counts_the_move else before.count)
    if not profile.hides_dead_letters:
        letter = replace(letter, claim_expires_s=now_s)
    if rule.ttl_s is None:
        return letter
    letter = replace(letter, ttl_s=rule.ttl_s)
    return replace(letter, expires_s=now_s + rule.ttl_s) if profile.dead_letter_ttl_is_real else letter


def target(rule: DeadLettering, profile: Profile) -> str:
    """Return the name of the dead-letter queue. Raises ``Uncountable`` if it is not a name."""
    if rule.target is None and not profile.any_name:
        return ""
    if not isinstance(rule.target, str) and not profile.any_name:
        raise Uncountable(f"_dead_letter_queue {rule.target!r} is not a name")
    return str(rule.target)


def renewed(message: Message, claim_id: str, terms: Terms, now_s: int, profile: Profile) -> Message:
    """Return a message whose claim is renewed for ``terms``, which begin now."""
    taken = replace(message, claim_id=claim_id, claim_expires_s=now_s + terms.ttl_s)
    if profile.rewrites:
        return taken
    ahead_s = now_s + terms.ttl_s - message.expires_s
    if ahead_s > 0 or (ahead_s == 0 and profile.renewal_stretches_ties):
        taken = _stretched(taken, terms, now_s)
    return taken if profile.renewal_keeps_count else replace(taken, claim_count=None)


def released(message: Message, now_s: int, profile: Profile) -> Message:
    """Return a message whose claim is given up: free at once."""
    created_s = now_s if profile.rewrites else message.created_s
    free = replace(message, claim_id=None, claim_expires_s=now_s, created_s=created_s)
    return free if profile.release_keeps_count else replace(free, claim_count=None)


def _lasting(message: Message, terms: Terms, now_s: int, profile: Profile) -> Message:
    if profile.rewrites:
        ttl_s = max(message.ttl_s, terms.ttl_s + terms.grace_s)
        return replace(message, ttl_s=ttl_s, created_s=now_s, expires_s=now_s + ttl_s)
    if message.expires_s < now_s + terms.ttl_s:
        return _stretched(message, terms, now_s)
    return message


def _stretched(message: Message, terms: Terms, now_s: int) -> Message:
    lasting_s = terms.ttl_s + terms.grace_s
    return replace(message, ttl_s=lasting_s, expires_s=now_s + lasting_s)
