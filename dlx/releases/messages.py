"""The rows about a message's headers, properties and history of deaths."""

from __future__ import annotations

from typing import Literal

from dlx.releases.rows import changed, since


class MessageRows:
    """A message's headers, properties and history of deaths."""

    death_history: Literal["headers", "annotations"] = since(
        "3.13", "annotations", before="headers",
        meaning=(
            "Where the record of a message's deaths is kept: in its own headers, or beside it, written into headers"
            " on delivery."
        ),
        evidence="live; rabbit_dead_letter.erl (3.10), mc.erl record_death (3.13 on)",
    )
    death_order: Literal["reversed on every death", "recency"] = since(
        "3.13.3", "recency", before="reversed on every death",
        meaning=(
            "The order of x-death entries: every further death reverses a list of two or more, so that only entry 0"
            " is sure to be the newest, or the most recent death comes first. The cycle rule reads that order."
        ),
        evidence="live; rabbit_dead_letter.erl group_by_queue_and_reason (3.10), mc.erl record_death (3.13.3 on)",
    )
    client_deaths_continued: bool = since(
        "4.0", False, before=True,
        meaning=(
            "An x-death header that a client publishes is taken as history and counted on; otherwise it is opaque"
            " data until the first death replaces it."
        ),
        evidence="live; mc_amqpl.erl headers_to_deaths (3.13.7); release notes of 4.0.1",
    )
    last_death_headers: bool = since(
        "3.13", True, before=False,
        meaning="Every death writes x-last-death-reason, x-last-death-queue and x-last-death-exchange.",
        evidence="live; mc.erl record_death",
    )
    death_routing_keys: Literal["first key and CC header", "all keys less BCC"] = since(
        "3.13", "all keys less BCC", before="first key and CC header",
        meaning=(
            "What an entry's routing-keys hold: the first key and the CC header as it stands at that death, or all"
            " routing keys except, one for one, those published as BCC."
        ),
        evidence=(
            "live (a dead-letter routing key equal to a BCC key leaves an empty array from 4.0); mc.erl record_death"
        ),
    )
    cc_header_after_dead_letter_routing_key: Literal["removed", "kept"] = since(
        "3.13", "kept", before="removed",
        meaning="Whether the CC header stays when a dead-letter routing key replaces the message's keys.",
        evidence="live; the dead-letter and sender-selected guides still describe the removal",
    )
    expiration_form: Literal["as published", "normalised"] = since(
        "3.13", "normalised", before="as published",
        meaning="An expiration of '+60000' or '0060000' is delivered and recorded as published, or as '60000'.",
        evidence="live; mc_amqpl.erl essential_properties",
    )
    original_expiration: Literal["recorded", "not by quorum queues", "not behind another message"] = changed(
        {"3.9": "not by quorum queues", "3.10": "recorded", "3.12": "not behind another message", "3.13": "recorded"},
        before="recorded",
        meaning=(
            "Whether a death records the expiration that the message had, as original-expiration: always; not in a"
            " quorum queue; or not in a classic queue where the message arrived behind another ready one of its"
            " priority, unless it was published with BCC keys. A server with many deliveries keeps more in"
            " memory, and records more."
        ),
        evidence=(
            "live; rabbit_quorum_queue.erl clean_delivery (3.9.29), rabbit_variable_queue.erl publish1,"
            " prepare_to_store (3.12.14)"
        ),
    )
    expiration_max_ms: int | None = since(
        "3.10", 315_360_000_000, before=None,
        meaning="The largest expiration that a publish may carry, in ms (ten years of 365 days).",
        evidence="live; rabbit_misc.erl check_expiry",
    )
    header_order: Literal["sorted when dead-lettered", "sorted when delivered"] = since(
        "3.13", "sorted when delivered", before="sorted when dead-lettered",
        meaning="Headers keep the client's order until a dead letter sorts them, or every delivery sorts them.",
        evidence="live; mc_amqpl.erl protocol_state",
    )
    stream_takes_dead_letters: bool = since(
        "3.12", True, before=False,
        meaning="A stream receives at-most-once dead letters; otherwise they are lost silently.",
        evidence="live; release notes of 3.12.0",
    )
    published_octets: Literal["as given", "low bits"] = since(
        "4.0", "low bits", before="as given",
        meaning="How a priority or delivery mode that is not an octet appears, as the management API can publish it.",
        evidence="live, asked directly; mc_amqpl.erl",
        undecided=("3.13",),
    )
    headers_kept_in_stream: Literal["scalar headers", "x- headers and CC"] = since(
        "3.13", "x- headers and CC", before="scalar headers",
        meaning=(
            "The headers that a message keeps in a stream: scalars, without arrays and tables (so neither CC nor"
            " x-death), and only the first routing key; or the broker's x-death, x- headers of any type and CC, whose"
            " keys come back behind the first, while delivery_mode is always set and of an expiration only its lowest"
            " 32 bits come back (99999999999 as 1215752191, 007 as 7)."
        ),
        evidence="live; rabbit_msg_record.erl (3.10.8), mc_amqpl.erl convert_to, convert_from (3.13.7 on)",
    )
    amqp10_durable_default: bool = since(
        "4.2", False, before=True,
        meaning="Whether a message of AMQP 1.0 is persistent whose header does not say.",
        evidence="4.0 and 4.3 live; mc_amqp.erl get_property",
    )
    amqp10_reply_to: Literal["as given", "an address"] = since(
        "4.2", "an address", before="as given",
        meaning=(
            "A reply-to that goes from AMQP 0-9-1 to AMQP 1.0 or back stays as it is, or is the name of a queue there"
            " and its address here."
        ),
        evidence="4.0 and 4.3 live; mc_amqpl.erl convert_to, convert_from",
    )
    amqp10_opaque_values: Literal["end the connection", "left out"] = since(
        "4.2", "left out", before="end the connection",
        meaning=(
            "What a client of AMQP 0-9-1 gets of a decimal or of a float that is not a number, which AMQP 1.0 has: the"
            " delivery fails and its connection ends, or it gets the message without that header."
        ),
        evidence="4.0 and 4.3 live; mc_amqpl.erl to_091",
    )
    amqp10_x_cc: bool = since(
        "4.1", True, before=False,
        meaning="A message of AMQP 1.0 goes by the keys in its annotation x-cc as well, which must be a list of texts.",
        evidence="4.0 and 4.3 live; rabbit_amqp_session.erl lookup_routing_key",
    )
