"""The rows about a queue's settings, and about the meaning of their values."""

from __future__ import annotations

from typing import Literal

from dlx.releases.rows import changed, since


class SettingRows:
    """The settings that a queue knows, and what their values mean."""

    quorum_message_ttl: bool = since(
        "3.10", True, before=False,
        meaning="Quorum queues know message-ttl and expiration.",
        evidence="live; release notes of 3.10.0",
    )
    quorum_overflow: bool = since(
        "3.9", True, before=False,
        meaning="Quorum queues take an overflow setting; otherwise they only drop from the head.",
        evidence="live; rabbit_quorum_queue.erl overflow",
    )
    quorum_at_least_once: bool = since(
        "3.10", True, before=False,
        meaning="Quorum queues know the dead-letter strategy at-least-once.",
        evidence="live; rabbit_quorum_queue.erl dlh",
    )
    quorum_expires: Literal["not supported", "policy wins", "smaller"] = changed(
        {"3.9": "policy wins", "4.0": "smaller"}, before="not supported",
        meaning="Which expires holds for a quorum queue when both argument and policy set it.",
        evidence="live; rabbit_quorum_queue.erl (3.13.7)",
    )
    quorum_default_delivery_limit: int | None = since(
        "4.0", 20, before=None,
        meaning="The delivery limit of a quorum queue without a setting.",
        evidence="live (21 deliveries); rabbit_quorum_queue.erl get_delivery_limit",
    )
    quorum_negative_delivery_limit: Literal["zero", "unlimited"] = since(
        "4.0", "unlimited", before="zero",
        meaning=(
            "How a negative delivery limit is read. As unlimited, argument and policy combine to the larger when"
            " either is negative, otherwise to the smaller."
        ),
        evidence="live; rabbit_quorum_queue.erl resolve_delivery_limit",
    )
    quorum_non_integer_delivery_limit: Literal["unlimited", "default"] = since(
        "4.2", "default", before="unlimited",
        meaning=(
            "How a delivery limit that is not an integer is read; no release refuses it for a quorum queue. As"
            " unlimited, but a number with a fraction is rounded down; or as not set."
        ),
        evidence='live (2.5, 2.0, "two", true); rabbit_quorum_queue.erl get_delivery_limit',
    )
