"""The differences between the releases of ActiveMQ Classic, and between them and its documentation.

Rules ask for the behaviour, never for a version.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """One column.

    Attributes:
        name: such as ``5.17.2``.
        delays_from: where a client keeps its back-off. ``consumer``: the last delay, whichever message it
            was for; ``message``: worked out from the message's own count (AMQ-8617: 5.17.3, 5.18.0).
        audit_per_destination: whether the individual strategy tells apart the same message from two
            destinations (AMQ-9217: 5.18.0).
        broker_sends_policy: whether a connection starts from the broker's redelivery policy.
        judged: whether the last message of a batch decides for all of it, or each message for itself.
        redelivered_by: who keeps the count and delivers again.
    """

    name: str
    delays_from: Literal["consumer", "message"] = "consumer"
    audit_per_destination: bool = False
    broker_sends_policy: bool = False
    judged: Literal["last", "each"] = "last"
    redelivered_by: Literal["client", "broker"] = "client"


PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(name="5.17.2"),
        Profile(name="5.18", delays_from="message", audit_per_destination=True),
        # The document speaks of a message's own attempts, and of a policy that the broker sends; no server does.
        Profile(name="document", delays_from="message", broker_sends_policy=True, judged="each"),
        # The same document on the brokers before 4.0.
        Profile(
            name="document-3.x",
            delays_from="message",
            broker_sends_policy=True,
            judged="each",
            redelivered_by="broker",
        ),
    )
}
