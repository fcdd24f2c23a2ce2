"""A message as Zaqar stores it."""

from __future__ import annotations

from typing import Any

import msgspec


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
