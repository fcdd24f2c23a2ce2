"""What differs between RabbitMQ releases: one table, one row per behaviour.

Two rules for this file. Every difference between releases that the rules know
stands here and nowhere else; and the rules ask for a behaviour
(``release.client_deaths_continued``), never for a version. To add a release, add
a column; to add a difference, add a field to ``Release`` and a row to ``TABLE``.

The evidence of a row names what it was seen on. "live" means observed on real
servers of 3.8.9, 3.10.8, 4.0.5 and 4.3.6. The column 3.13 stands for 3.13.7 and
was read from its source; no server of that release has judged it.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

RELEASES = ("3.8", "3.10", "3.13", "4.0", "4.3")
VERSIONS = {"3.8": "3.8.9", "3.10": "3.10.8", "3.13": "3.13.7", "4.0": "4.0.5", "4.3": "4.3.6"}
DEFAULT = "4.3"


class UnknownReleaseError(ValueError):
    """A release that the table has no column for."""


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """The behaviours of one release; ``TABLE`` says what each means and how it is known."""

    name: str
    version: str
    death_history: Literal["headers", "annotations"]
    death_order: Literal["reversed on every death", "recency"]
    client_deaths_continued: bool
    last_death_headers: bool
    death_routing_keys: Literal["first key and CC header", "all keys less BCC"]
    cc_header_after_dead_letter_routing_key: Literal["removed", "kept"]
    expiration_form: Literal["as published", "normalised"]
    expiration_max_ms: int | None
    header_order: Literal["sorted when dead-lettered", "sorted when delivered"]
    headers_match_with_x: bool
    headers_match_numbers: Literal["by value", "by type and value"]
    headers_match_message_timestamps: Literal["seconds", "milliseconds"]
    headers_match_sees_x_death: bool
    topic_hash_wildcards_max: int | None
    quorum_message_ttl: bool
    quorum_overflow: bool
    quorum_at_least_once: bool
    quorum_expires: Literal["not supported", "policy wins", "smaller"]
    quorum_default_delivery_limit: int | None
    quorum_negative_delivery_limit: Literal["zero", "unlimited"]
    quorum_non_integer_delivery_limit: Literal["unlimited", "default"]
    quorum_delivery_limit_counts: Literal["returns", "failures"]
    failed_deliveries: frozenset[str]
    quorum_count_on_first_get: bool
    quorum_acquired_count_header: bool
    delivery_count_carried: Literal["never", "from quorum queues", "from all queues"]
    stream_takes_dead_letters: bool
    stream_keeps: Literal["scalar headers", "x- headers and CC"]
    policy_with_unsupported_key: Literal["applies to classic queues", "skipped"]
    policy_applies_to_queue_types: bool
    operator_overflow: bool
    classic_unsupported_policy_keys: frozenset[str]
    quorum_unsupported_policy_keys: frozenset[str]
    stream_unsupported_policy_keys: frozenset[str]


class Row(msgspec.Struct, frozen=True):
    """One behaviour: what it decides, its value in each of ``RELEASES``, and how that is known."""

    name: str
    meaning: str
    values: tuple[Any, ...]
    evidence: str


_HA_KEYS = {
    "ha-mode",
    "ha-params",
    "ha-sync-mode",
    "ha-promote-on-shutdown",
    "ha-promote-on-failure",
    "queue-master-locator",
}
_STREAM_ONLY = {"max-age", "stream-max-segment-size-bytes", "initial-cluster-size"}
_IN_MEMORY = {"max-in-memory-length", "max-in-memory-bytes"}
_SELECTORS = {"selector-fields", "selector-field-max-bytes"}
_CLASSIC_310 = frozenset(_STREAM_ONLY | {"queue-leader-locator", "delivery-limit", "dead-letter-strategy"})
_CLASSIC_313 = _CLASSIC_310 | _IN_MEMORY | {"target-group-size"}
_CLASSIC_40 = _CLASSIC_313 - {"queue-leader-locator"}
_QUORUM_43 = frozenset(_STREAM_ONLY | _HA_KEYS | {"max-priority", "queue-mode"})
_QUORUM_310 = _QUORUM_43 | {"single-active-consumer"}
_STREAM_43 = frozenset(
    _HA_KEYS
    | _IN_MEMORY
    | {"expires", "message-ttl", "dead-letter-exchange", "dead-letter-routing-key", "dead-letter-strategy"}
    | {"max-length", "max-priority", "overflow", "queue-mode", "delivery-limit"}
)
_STREAM_310 = _STREAM_43 | {"single-active-consumer"}
# 3.8 lists what a quorum queue accepts; everything else a policy may set is unsupported there.
_QUORUM_38 = frozenset(
    _QUORUM_310
    | {"message-ttl", "expires", "overflow", "dead-letter-strategy", "queue-leader-locator", "queue-version"}
    | {"federation-upstream", "federation-upstream-set", "federation-upstream-pattern"}
)
_NONE: frozenset[str] = frozenset()

# Columns: 3.8, 3.10, 3.13, 4.0, 4.3
TABLE: tuple[Row, ...] = (
    Row(
        "death_history",
        "Where a message's deaths live: in its own headers, or beside it, rendered into headers on delivery.",
        ("headers", "headers", "annotations", "annotations", "annotations"),
        "live; rabbit_dead_letter.erl (3.10), mc.erl record_death (3.13 on)",
    ),
    Row(
        "death_order",
        "Order of x-death entries. Until 3.12 a list of two or more is reversed by every further death, so that"
        " only entry 0 is the newest; the cycle rule reads that order.",
        ("reversed on every death", "reversed on every death", "recency", "recency", "recency"),
        "live; rabbit_dead_letter.erl group_by_queue_and_reason (3.10), mc.erl record_death (3.13.3 on)",
    ),
    Row(
        "client_deaths_continued",
        "An x-death header that a client publishes is taken as history and counted on; from 4.0 it is opaque"
        " data until the first death replaces it.",
        (True, True, True, False, False),
        "live; mc_amqpl.erl headers_to_deaths (3.13.7); release notes of 4.0.1",
    ),
    Row(
        "last_death_headers",
        "x-last-death-reason, -queue and -exchange are written at every death.",
        (False, False, True, True, True),
        "live; mc.erl record_death",
    ),
    Row(
        "death_routing_keys",
        "What an entry's routing-keys hold: the first key and the CC header as it stands at that death, or every"
        " routing key less, one for one, those published as BCC.",
        (
            "first key and CC header",
            "first key and CC header",
            "all keys less BCC",
            "all keys less BCC",
            "all keys less BCC",
        ),
        "live (a dead-letter routing key equal to a BCC key leaves an empty array from 4.0); mc.erl record_death",
    ),
    Row(
        "cc_header_after_dead_letter_routing_key",
        "What becomes of the CC header when a dead-letter routing key replaces the keys.",
        ("removed", "removed", "kept", "kept", "kept"),
        "live; the dead-letter and sender-selected guides still describe the removal",
    ),
    Row(
        "expiration_form",
        "'+60000' and '0060000' are delivered and recorded as published, or as '60000'.",
        ("as published", "as published", "normalised", "normalised", "normalised"),
        "live; mc_amqpl.erl essential_properties",
    ),
    Row(
        "expiration_max_ms",
        "The largest expiration that a publish may carry, in ms (ten years of 365 days).",
        (None, 315_360_000_000, 315_360_000_000, 315_360_000_000, 315_360_000_000),
        "live; rabbit_misc.erl check_expiry",
    ),
    Row(
        "header_order",
        "Headers keep the client's order until a dead letter sorts them, or every delivery sorts them.",
        ("sorted when dead-lettered",) * 2 + ("sorted when delivered",) * 3,
        "live; mc_amqpl.erl protocol_state",
    ),
    Row(
        "headers_match_with_x",
        "x-match takes all-with-x and any-with-x, which look at x- arguments too.",
        (False, True, True, True, True),
        "live; rabbit_exchange_type_headers.erl",
    ),
    Row(
        "headers_match_numbers",
        "A headers binding compares the integer 1 with the float 1.0 as equal, or not.",
        ("by value", "by value", "by type and value", "by type and value", "by type and value"),
        "live; rabbit_exchange_type_headers.erl match",
    ),
    Row(
        "headers_match_message_timestamps",
        "What a message's timestamp header is when a headers binding compares it. The binding's own is in seconds,"
        " so from 3.13 two equal timestamps never match, but an integer of milliseconds does.",
        ("seconds", "seconds", "milliseconds", "milliseconds", "milliseconds"),
        "live; mc_amqpl.erl routing_value",
    ),
    Row(
        "headers_match_sees_x_death",
        "The x-death header takes part in headers routing (a void argument matches its presence).",
        (True, True, False, False, False),
        "live; mc.erl routing_headers",
    ),
    Row(
        "topic_hash_wildcards_max",
        "How many '#' a topic binding key may hold.",
        (None, None, None, None, 2),
        "live; release notes of 4.3.5",
    ),
    Row(
        "quorum_message_ttl",
        "Quorum queues know message-ttl and expiration.",
        (False, True, True, True, True),
        "live; release notes of 3.10.0",
    ),
    Row(
        "quorum_overflow",
        "Quorum queues take an overflow setting; before, they only drop from the head.",
        (False, True, True, True, True),
        "live; rabbit_quorum_queue.erl overflow",
    ),
    Row(
        "quorum_at_least_once",
        "Quorum queues know the dead-letter strategy at-least-once.",
        (False, True, True, True, True),
        "live; rabbit_quorum_queue.erl dlh",
    ),
    Row(
        "quorum_expires",
        "A quorum queue's expires when argument and policy both set it.",
        ("not supported", "policy wins", "policy wins", "smaller", "smaller"),
        "live for 3.8, 3.10, 4.0, 4.3; rabbit_quorum_queue.erl (3.13.7)",
    ),
    Row(
        "quorum_default_delivery_limit",
        "The delivery limit of a quorum queue for which none is set.",
        (None, None, None, 20, 20),
        "live (21 deliveries); rabbit_quorum_queue.erl get_delivery_limit",
    ),
    Row(
        "quorum_negative_delivery_limit",
        "What a negative delivery limit means. Where it means unlimited, argument and policy combine to the"
        " larger when either is negative, else to the smaller.",
        ("zero", "zero", "zero", "unlimited", "unlimited"),
        "live; rabbit_quorum_queue.erl resolve_delivery_limit",
    ),
    Row(
        "quorum_non_integer_delivery_limit",
        "What a delivery limit means that is no integer, which no release refuses.",
        ("unlimited", "unlimited", "unlimited", "unlimited", "default"),
        "live; rabbit_quorum_queue.erl get_delivery_limit",
    ),
    Row(
        "quorum_delivery_limit_counts",
        "What counts towards the delivery limit: every return, or only basic.reject and lost channels.",
        ("returns", "returns", "returns", "returns", "failures"),
        "live; rabbit_fifo.erl return_one",
    ),
    Row(
        "failed_deliveries",
        "What counts as a failed delivery, beside the count of all returns.",
        (
            _NONE,
            _NONE,
            _NONE,
            frozenset({"lost channel", "final nack", "final reject"}),
            frozenset({"reject", "lost channel", "final reject"}),
        ),
        "live; rabbit_fifo.erl discard, return (4.0.5, 4.3.5)",
    ),
    Row(
        "quorum_count_on_first_get",
        "basic.get shows x-delivery-count 0 on the first delivery.",
        (True, True, False, False, False),
        "live; rabbit_fifo_client.erl",
    ),
    Row(
        "quorum_acquired_count_header",
        "Deliveries carry x-acquired-count (every return) beside x-delivery-count (failed ones only).",
        (False, False, False, False, True),
        "live; rabbit_fifo_client.erl",
    ),
    Row(
        "delivery_count_carried",
        "A dead letter brings its count of failed deliveries along: the next quorum queue shows it, and counts"
        " on from it. In 4.0 a final rejection and a lost channel count as failed, in 4.3 basic.reject (not"
        " nack) and a lost channel, in classic queues too.",
        ("never", "never", "never", "from quorum queues", "from all queues"),
        "live; rabbit_fifo.erl incr_msg, annotate_msg; rabbit_variable_queue.erl annotate_delivery_count (4.3)",
    ),
    Row(
        "stream_takes_dead_letters",
        "A stream receives at-most-once dead letters; until 3.11 they are lost.",
        (False, False, True, True, True),
        "live; release notes of 3.12.0",
    ),
    Row(
        "stream_keeps",
        "What of a message's headers a stream keeps. Until 3.12 no arrays and tables (so neither CC nor x-death),"
        " and of the keys the first; then the broker's x-death, x- headers of any type and CC, whose keys come"
        " back behind the first, while delivery_mode is always set.",
        ("scalar headers", "scalar headers", "x- headers and CC", "x- headers and CC", "x- headers and CC"),
        "live; rabbit_msg_record.erl (3.10.8), mc_amqpl.erl convert_to, convert_from (3.13.7 on)",
    ),
    Row(
        "policy_with_unsupported_key",
        "A policy with a key that the queue's type does not support: classic queues take it, or it is skipped as"
        " a whole and the next one applies.",
        ("applies to classic queues", "skipped", "skipped", "skipped", "skipped"),
        "live; rabbit_amqqueue.erl is_policy_applicable",
    ),
    Row(
        "policy_applies_to_queue_types",
        "apply-to takes classic_queues, quorum_queues and streams.",
        (False, False, True, True, True),
        "live; pull request 7601 of rabbitmq-server",
    ),
    Row(
        "operator_overflow",
        "An operator policy may set overflow, and wins.",
        (False, False, True, True, True),
        "live; rabbit_policies.erl (3.12.8 on)",
    ),
    Row(
        "classic_unsupported_policy_keys",
        "Policy keys that a classic queue does not support.",
        (_NONE, _CLASSIC_310, _CLASSIC_313, _CLASSIC_40, _CLASSIC_40 | _SELECTORS),
        "rabbit_classic_queue.erl capabilities; live for delivery-limit",
    ),
    Row(
        "quorum_unsupported_policy_keys",
        "Policy keys that a quorum queue does not support.",
        (_QUORUM_38, _QUORUM_310, _QUORUM_310, _QUORUM_310, _QUORUM_43 | _SELECTORS),
        "rabbit_quorum_queue.erl capabilities; live for max-priority",
    ),
    Row(
        "stream_unsupported_policy_keys",
        "Policy keys that a stream does not support.",
        (
            _NONE,
            _STREAM_310,
            _STREAM_310 | {"target-group-size"},
            _STREAM_310 | {"target-group-size"},
            _STREAM_43 | _SELECTORS | {"target-group-size"},
        ),
        "rabbit_stream_queue.erl capabilities",
    ),
)


def _release(column: int) -> Release:
    name = RELEASES[column]
    behaviours = {row.name: row.values[column] for row in TABLE}
    return Release(name=name, version=VERSIONS[name], **behaviours)


_BY_NAME = {name: _release(column) for column, name in enumerate(RELEASES)}


def release(name: str = DEFAULT) -> Release:
    """The release of that name: ``3.8``, ``3.10``, ``3.13``, ``4.0`` or ``4.3``, or a full version of one.

    Raises ``UnknownReleaseError`` for any other.
    """
    found = _BY_NAME.get(name) or _BY_NAME.get(".".join(name.split(".")[:2]))
    if found is None:
        raise UnknownReleaseError(f"no release {name!r}: known are {', '.join(RELEASES)}")
    return found


def differing_behaviours(one: Release, other: Release) -> tuple[Row, ...]:
    """The rows in which two releases differ, in table order."""
    return tuple(row for row in TABLE if getattr(one, row.name) != getattr(other, row.name))
