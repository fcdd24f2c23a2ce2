"""The rows about routing: which bindings a message meets."""

from __future__ import annotations

from typing import Literal

from dlx.releases.rows import since


class RoutingRows:
    """Which bindings a message meets."""

    headers_match_with_x: bool = since(
        "3.10", True, before=False,
        meaning="x-match takes all-with-x and any-with-x, which compare x- arguments too.",
        evidence="live; rabbit_exchange_type_headers.erl",
    )
    headers_match_numbers: Literal["by value", "by type and value"] = since(
        "3.13", "by type and value", before="by value",
        meaning=(
            "A headers binding compares numbers by value, so that the integer 1 equals the float 1.0, or by type and"
            " value."
        ),
        evidence="live; rabbit_exchange_type_headers.erl match",
    )
    headers_match_message_timestamps: Literal["seconds", "milliseconds"] = since(
        "3.13", "milliseconds", before="seconds",
        meaning=(
            "The unit in which a headers binding sees a message's timestamp header. The binding's own is in seconds,"
            " so with milliseconds two equal timestamps never match, but an integer of milliseconds does."
        ),
        evidence="live; mc_amqpl.erl routing_value",
    )
    headers_match_sees_x_death: bool = since(
        "3.13", False, before=True,
        meaning="The x-death header takes part in headers routing (a void argument matches its presence).",
        evidence="live; mc.erl routing_headers",
    )
    topic_hash_wildcards_max: int | None = since(
        "4.3.5", 2, before=None,
        meaning="How many '#' a topic binding key may hold.",
        evidence="live; release notes of 4.3.5",
    )
