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


class HashExchangeRows:
    """Exchanges that choose by a hash."""

    consistent_hash_header: Literal["type and value", "value"] = since(
        "3.13", "value", before="type and value",
        meaning="What an x-consistent-hash exchange with a hash-header hashes, so that other releases choose others.",
        evidence="live; 3.13 by source: rabbit_exchange_type_consistent_hash.erl value_to_hash",
    )
    consistent_hash_bound_twice: Literal["counts twice", "counts once"] = since(
        "3.10", "counts once", before="counts twice", undecided=("3.9",),
        meaning=(
            "A second binding of an x-consistent-hash exchange to one destination, with another weight, adds buckets,"
            " or is listed without effect. Where it adds some, unbinding one of the two leaves buckets without a"
            " destination, and messages there are unroutable."
        ),
        evidence="live; rabbit_exchange_type_consistent_hash.erl add_binding, remove_binding",
    )
    modulus_hash_order: Literal["by binding key", "by destination"] = since(
        "4.3", "by destination", before="by binding key",
        meaning="The order in which an x-modulus-hash exchange numbers its bindings, before all else.",
        evidence="live; rabbit_exchange_type_modulus_hash.erl",
    )
