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
    max_message_size: int
    acknowledgements_awaited_by: Literal["nobody", "channel", "queue"]
    consumer_timeout_ms: int | None
    purge_clears_pending: bool
    passive_declare_needs: Literal["nothing", "any permission"]
    quorum_consumer_order: Literal["tag", "subscription"]
    quorum_delivery_limit_widens_prefetch: bool
    quorum_consumer_continues: bool
    quorum_drops_before_returns_die: bool
    delivery_mode_checked: bool
    quorum_rejection_order: Literal["newest first", "oldest first"]
    commit_to_deleted_queue: Literal["returned", "fails", "ends the connection"]
    stream_takes_rejections: bool
    stream_filters: bool
    stream_message_overhead: int
    direct_replies_by: Literal["channel", "volatile queue"]
    quorum_policy_restarts_expiry: bool
    global_qos: bool
    quorum_consumer_priorities: bool
    quorum_single_active_by_priority: bool
    classic_single_active_served_after_cancel: bool
    classic_least_max_priority: int
    quorum_priorities: Literal["none", "two lanes", "32 levels"]
    quorum_requeue_without_limit: Literal["front", "back"]
    quorum_drop_head_order: Literal["newest first", "oldest first"]
    quorum_expiry_looks_at: Literal["next message", "head of every priority"]
    quorum_message_size: Literal["body", "body and properties"]
    quorum_refusal_outlives_limits: bool
    quorum_delayed_retry: bool
    consumer_timeout_setting: bool
    queue_types: frozenset[str]
    queue_types_meaning_default: frozenset[str]
    queue_type_argument: Literal["as declared", "where the default fits", "default or classic", "always"]
    server_named_queues: Literal["all types", "classic or internal error", "classic"]
    arguments_checked_by_type: bool
    argument_errors: Literal["terms", "sentences"]
    classic_queue_arguments: frozenset[str]
    quorum_queue_arguments: frozenset[str]
    stream_queue_arguments: frozenset[str]
    queue_mode_checked: bool
    queue_versions: frozenset[int]
    age_without_number: Literal["internal error", "refused"]
    max_age_compared: Literal["as written", "in milliseconds"]
    stream_filter_size_refusal: str | None
    queue_master_locator: Literal["strategies", "leader locators", "denied"]
    leader_locators: frozenset[str]
    classic_consumer_arguments: frozenset[str]
    quorum_consumer_arguments: frozenset[str]
    stream_consumer_arguments: frozenset[str]
    stream_refusals: Literal["stream queues queue", "stream queue"]
    single_active_get_refusal: str
    exchange_types: frozenset[str]
    unknown_exchange_type_code: int
    access_refusal_names_permission: bool
    topic_permission_expansion: Literal["verbatim", "escaped"]
    topic_permission_keys: Literal["first", "all"]
    policy_keys: frozenset[str]
    operator_policy_keys: frozenset[str]
    policy_check_order: tuple[str, ...]
    policy_pattern_max_bytes: int | None
    regex_errors: Literal["PCRE", "PCRE2"]
    frame_max_least: int
    content_size_checked: bool
    speaks_amqp_1_0: bool
    greets_amqp_0_8: bool
    error_texts: Literal["bytes", "UTF-8"]
    surrogates_are_utf_8: bool
    definitions_order: tuple[str, ...]
    definitions_without_vhost: Literal["no such vhost", "crash"]
    definitions_existing: Literal["checked", "skipped"]
    definitions_impossible_queues: Literal["refused", "left out"]
    definitions_impossible_bindings: Literal["left out", "refused"]
    definitions_refusal_texts: Literal["printed", "plain"]
    topic_permissions_need_exchange: bool

    def __repr__(self) -> str:
        in_table = _BY_NAME.get(self.name) == self
        return f"dlx.release({self.name!r})" if in_table else super().__repr__()

    def __hash__(self) -> int:
        """Quick, since rules remember results by their release."""
        return hash(self.name)


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

_EACH_QUEUE = {"x-expires", "x-message-ttl", "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-overflow"}
_EACH_QUEUE |= {"x-max-length", "x-max-length-bytes", "x-single-active-consumer", "x-queue-type"}
_CLASSIC_ARGUMENTS = frozenset(_EACH_QUEUE | {"x-max-priority", "x-queue-mode"})
_CLASSIC_ARGUMENTS_310 = _CLASSIC_ARGUMENTS | {"x-queue-version", "x-queue-master-locator"}
_CLASSIC_ARGUMENTS_40 = _CLASSIC_ARGUMENTS_310 | {"x-queue-leader-locator"}
_IN_MEMORY_ARGUMENTS = {"x-max-in-memory-length", "x-max-in-memory-bytes", "x-quorum-initial-group-size"}
_ALL_ARGUMENTS_38 = _CLASSIC_ARGUMENTS | _IN_MEMORY_ARGUMENTS
_QUORUM_ARGUMENTS_38 = _ALL_ARGUMENTS_38 - {
    "x-expires",
    "x-message-ttl",
    "x-max-priority",
    "x-queue-mode",
    "x-overflow",
}
_QUORUM_ARGUMENTS_310 = frozenset(
    _EACH_QUEUE | _IN_MEMORY_ARGUMENTS | {"x-dead-letter-strategy", "x-delivery-limit", "x-queue-leader-locator"}
)
_QUORUM_ARGUMENTS_43 = _QUORUM_ARGUMENTS_310 | {
    "x-consumer-timeout",
    "x-consumer-disconnected-timeout",
    "x-delayed-retry-type",
    "x-delayed-retry-min",
    "x-delayed-retry-max",
}
_STREAM_ARGUMENTS = frozenset(
    {
        "x-max-length-bytes",
        "x-queue-type",
        "x-max-age",
        "x-stream-max-segment-size-bytes",
        "x-initial-cluster-size",
        "x-queue-leader-locator",
    }
)
_LOCATORS = frozenset({"client-local", "balanced", "random", "least-leaders"})
_PRIORITY = frozenset({"x-priority"})
_FILTERED = frozenset({"x-stream-offset", "x-stream-filter", "x-stream-match-unfiltered"})
_STOCK_TYPES = frozenset({"direct", "fanout", "topic", "headers"})
_LIMIT_KEYS = frozenset({"expires", "message-ttl", "max-length", "max-length-bytes", "delivery-limit"} | _IN_MEMORY)
_POLICY_KEYS_38 = frozenset(
    _LIMIT_KEYS
    | _HA_KEYS
    | {"ha-sync-batch-size", "alternate-exchange", "dead-letter-exchange", "dead-letter-routing-key"}
    | {"queue-mode", "overflow"}
)
_POLICY_KEYS_310 = _POLICY_KEYS_38 | _STREAM_ONLY | {"dead-letter-strategy", "queue-version", "queue-leader-locator"}
_POLICY_KEYS_313 = _POLICY_KEYS_310 | {"consumer-timeout", "stream-filter-size-bytes", "target-group-size"}
_POLICY_KEYS_40 = _POLICY_KEYS_313 - _HA_KEYS - {"ha-sync-batch-size"} | {"queue-master-locator"}
_DELAYED_RETRY = frozenset({"delayed-retry-type", "delayed-retry-min", "delayed-retry-max"})
_OPERATOR_KEYS_313 = _LIMIT_KEYS | {"overflow", "queue-version", "target-group-size"}
_OPERATOR_KEYS_40 = _OPERATOR_KEYS_313 | {"queue-master-locator"}

# The sections of a definitions document.
_ACCESS_SECTIONS = ("users", "vhosts", "permissions", "topic_permissions")
_TOPOLOGY_SECTIONS = ("global_parameters", "policies", "parameters", "queues", "bindings")

# Columns: 3.8, 3.10, 3.13, 4.0, 4.3
# What becomes of a message: its headers, its routes, its deaths. A replay depends on these.
MESSAGE_ROWS: tuple[Row, ...] = (
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

# What a broker does besides: what it refuses and how, whom it serves, what it counts.
BROKER_ROWS: tuple[Row, ...] = (
    Row(
        "max_message_size",
        "The largest message body, in bytes, that a server takes by default.",
        (134_217_728, 134_217_728, 134_217_728, 16_777_216, 16_777_216),
        "live; rabbit.app.src or prelaunch configuration max_message_size",
    ),
    Row(
        "acknowledgements_awaited_by",
        "Who minds a delivery that is not acknowledged in time: the channel, which looks once a minute and closes, or"
        " the quorum queue, which takes the delivery back and tells the consumer that it is cancelled.",
        ("nobody", "channel", "channel", "channel", "queue"),
        "live; rabbit_channel.erl evaluate_consumer_timeout (4.0.5), rabbit_fifo.erl (4.3.5)",
    ),
    Row(
        "consumer_timeout_ms",
        "How long a delivery may stay unacknowledged, in ms, by default.",
        (None, 1_800_000, 1_800_000, 1_800_000, 1_800_000),
        "rabbit_channel.erl evaluate_consumer_timeout",
    ),
    Row(
        "purge_clears_pending",
        "queue.purge also removes what at-least-once dead-lettering holds, but for the 32 messages that its worker"
        " has in hand.",
        (False, False, False, False, True),
        "live; rabbit_fifo.erl apply purge",
    ),
    Row(
        "passive_declare_needs",
        "The permission that a passive declaration needs.",
        ("nothing", "nothing", "nothing", "nothing", "any permission"),
        "live; rabbit_channel.erl handle_method queue.declare, exchange.declare",
    ),
    Row(
        "quorum_consumer_order",
        "In which order a quorum queue goes through its consumers, both to take back the deliveries of a lost channel"
        " and to send what one command lets it hand out: by their tags, a basic.get having its delivery tag, or as they"
        " subscribed and then the gets.",
        ("tag", "tag", "tag", "subscription", "subscription"),
        "live; rabbit_fifo.erl handle_down, add_delivery_effects",
    ),
    Row(
        "quorum_delivery_limit_widens_prefetch",
        "A consumer that returns a message over the delivery limit gets the credit for it twice, so that from then on"
        " it has one message more at a time than its prefetch.",
        (True, True, False, False, False),
        "live; rabbit_fifo.erl return, return_one, complete (3.8.9, 3.10.8), increase_credit (3.13.7)",
    ),
    Row(
        "quorum_consumer_continues",
        "A consumer that subscribes again, on the same channel and under the tag of a cancelled one that has deliveries"
        " left, goes on as that one: they count against its prefetch. In 3.8 it gets nothing, in 3.10 its channel fails"
        " at the next acknowledgement; neither is simulated.",
        (False, True, True, True, True),
        "live; rabbit_fifo.erl update_consumer, merge_consumer",
    ),
    Row(
        "quorum_drops_before_returns_die",
        "What a length limit pushes out when messages come back to a quorum queue is dead-lettered before those of them"
        " that exceeded their delivery limit.",
        (True, True, True, True, False),
        "live; rabbit_fifo.erl apply return",
    ),
    Row(
        "delivery_mode_checked",
        "A publish with a delivery_mode other than 1 and 2 is refused.",
        (True, True, False, False, False),
        "live; rabbit_basic.erl is_message_persistent (3.10.8)",
    ),
    Row(
        "quorum_rejection_order",
        "In which order a quorum queue dead-letters deliveries of one consumer that are rejected together.",
        ("newest first", "oldest first", "oldest first", "oldest first", "oldest first"),
        "live; rabbit_fifo.erl apply discard (3.8.9, 3.10.8)",
    ),
    Row(
        "commit_to_deleted_queue",
        "What tx.commit makes of a message whose queue was deleted after it was published: it is unroutable, or the commit"
        " fails (of a classic queue), or the connection ends.",
        ("returned", "returned", "returned", "fails", "ends the connection"),
        "live; rabbit_channel.erl deliver_to_queues",
    ),
    Row(
        "stream_takes_rejections",
        "basic.nack, reject and recover of a stream's delivery count as an acknowledgement; before, the server refuses"
        " the first two and dies of the third.",
        (False, False, True, True, True),
        "live; rabbit_stream_queue.erl settle",
    ),
    Row(
        "stream_filters",
        "x-stream-filter and x-stream-match-unfiltered choose what a stream's consumer gets, or mean nothing.",
        (False, False, True, True, True),
        "live; rabbit_stream_queue.erl filter_spec",
    ),
    Row(
        "stream_message_overhead",
        "Bytes that a message without properties takes in a stream beside its body, which segments count.",
        (141, 141, 153, 153, 153),
        "live: sizes of segment files of 3.10 and 4.0; 3.13 and 4.3 taken to be as 4.0",
    ),
    Row(
        "direct_replies_by",
        "What takes answers by direct reply-to: the channel, which uses up no delivery tags for them, so that a"
        " mandatory one comes back as unroutable although it arrives; or a queue of a type of its own, which cannot"
        " be bound, got from or consumed by others.",
        ("channel", "channel", "channel", "channel", "volatile queue"),
        "live; rabbit_channel.erl deliver_reply (4.0.5), rabbit_volatile_queue.erl (4.3.5)",
    ),
    Row(
        "quorum_policy_restarts_expiry",
        "A change of policy makes the expiry of an unused quorum queue count from then on.",
        (True, True, True, True, False),
        "rabbit_fifo.erl update_config (3.10.8 to 4.0.5, 4.3.5)",
    ),
    Row(
        "global_qos",
        "basic.qos with global set limits all of a channel's consumers together, or is read as if it were not set.",
        (True, True, True, True, False),
        "live; rabbit_channel.erl is_global_qos_permitted",
    ),
    Row(
        "quorum_consumer_priorities",
        "Quorum queues serve consumers by x-priority.",
        (False, True, True, True, True),
        "live; rabbit_fifo.erl",
    ),
    Row(
        "quorum_single_active_by_priority",
        "The next single active consumer of a quorum queue is the one of the highest x-priority, and one of higher"
        " priority takes over; before, they take over in the order in which they subscribed.",
        (False, False, False, True, True),
        "live; rabbit_fifo.erl activate_next_consumer",
    ),
    Row(
        "classic_single_active_served_after_cancel",
        "When the single active consumer of a classic queue cancels, the next one gets messages at once, not only"
        " when something else happens to the queue.",
        (False, False, False, True, True),
        "live; rabbit_amqqueue_process.erl handle_call basic_cancel",
    ),
    Row(
        "classic_least_max_priority",
        "An x-max-priority of 0 gives a classic queue one priority or two.",
        (0, 0, 1, 1, 1),
        "live; rabbit_priority_queue.erl priorities",
    ),
    Row(
        "quorum_priorities",
        "What a quorum queue makes of a message's priority: nothing; two lanes, above 4 and the rest, served two to"
        " one; or 32 levels, the highest first, where a message without one has 4.",
        ("none", "none", "none", "two lanes", "32 levels"),
        "live; rabbit_fifo_q.erl (4.0.5), rabbit_fifo_pq.erl (4.3.5)",
    ),
    Row(
        "quorum_requeue_without_limit",
        "Where a message goes that is returned to a quorum queue without a delivery limit. With a limit, and when"
        " its channel is lost, it always goes to the front.",
        ("front", "back", "back", "back", "front"),
        "live; rabbit_fifo.erl handle_aux return, apply requeue",
    ),
    Row(
        "quorum_drop_head_order",
        "The order in which a quorum queue dead-letters what one command pushes out of it. Newest first means also"
        " before what the same command expired or found over the delivery limit.",
        ("newest first", "newest first", "newest first", "newest first", "oldest first"),
        "live; rabbit_fifo.erl drop_head; release notes of 4.2.1",
    ),
    Row(
        "quorum_expiry_looks_at",
        "The messages of a quorum queue that may expire: the one to be delivered next, or also the first of every"
        " priority, whatever is to be delivered before it.",
        ("next message", "next message", "next message", "next message", "head of every priority"),
        "live; rabbit_fifo.erl expire_msgs, expire_batch",
    ),
    Row(
        "quorum_message_size",
        "What a message counts towards the limit in bytes of a quorum queue.",
        ("body", "body", "body", "body", "body and properties"),
        "live; rabbit_fifo.erl maybe_enqueue, mc_amqpl.erl size",
    ),
    Row(
        "quorum_refusal_outlives_limits",
        "A channel that a quorum queue refuses stays refused when the queue's limits are removed.",
        (True, True, True, False, False),
        "live; rabbit_fifo.erl evaluate_limit",
    ),
    Row(
        "quorum_delayed_retry",
        "Quorum queues know delayed-retry-type, -min and -max.",
        (False, False, False, False, True),
        "live; rabbit_fifo.erl should_delay",
    ),
    Row(
        "consumer_timeout_setting",
        "A queue may have a consumer-timeout of its own.",
        (False, False, True, True, True),
        "rabbit_channel.erl get_consumer_timeout (3.13.7, 4.0.5), rabbit_queue_type.erl get_consumer_timeout (4.3.5)",
    ),
    Row(
        "queue_types",
        "The types of queues there are.",
        (frozenset({"classic", "quorum"}),) + (frozenset({"classic", "quorum", "stream"}),) * 4,
        "live; rabbit_queue_type.erl",
    ),
    Row(
        "queue_types_meaning_default",
        "Values of x-queue-type that mean the virtual host's default type.",
        (_NONE, _NONE, frozenset({"undefined"}), frozenset({"undefined"}), frozenset({"undefined", ""})),
        "live; rabbit_amqqueue.erl maybe_inject_default_queue_type_shortcut_into_args",
    ),
    Row(
        "queue_type_argument",
        "Whether a queue's arguments get an x-queue-type that was not declared: the virtual host's default type,"
        " classic where the queue cannot be of that type, or always one of both.",
        ("as declared", "where the default fits", "default or classic", "always", "always"),
        "live; rabbit_amqqueue.erl augment_declare_args",
    ),
    Row(
        "server_named_queues",
        "The types of queues for which the server makes up a name; what becomes of a type it does not know.",
        ("all types",) + ("classic or internal error",) * 3 + ("classic",),
        "live; rabbit_amqqueue.erl is_server_named_allowed",
    ),
    Row(
        "arguments_checked_by_type",
        "A queue's arguments are checked and compared by what its type has; before, all alike, and a quorum queue"
        " refuses five of them.",
        (False, True, True, True, True),
        "live; rabbit_amqqueue.erl check_declare_arguments; rabbit_quorum_queue.erl check_invalid_arguments (3.8.9)",
    ),
    Row(
        "argument_errors",
        'How a wrong argument is described: {unacceptable_type,longstr}, or "expected integer, got longstr".',
        ("terms", "sentences", "sentences", "sentences", "sentences"),
        "live; rabbit_amqqueue.erl check_int_arg, check_queue_type",
    ),
    Row(
        "classic_queue_arguments",
        "The arguments of classic queues that are checked and compared. In 3.8, of all queues.",
        (
            _ALL_ARGUMENTS_38,
            _CLASSIC_ARGUMENTS_310,
            _CLASSIC_ARGUMENTS_310,
            _CLASSIC_ARGUMENTS_40,
            _CLASSIC_ARGUMENTS_40,
        ),
        "live; rabbit_classic_queue.erl capabilities",
    ),
    Row(
        "quorum_queue_arguments",
        "The arguments of quorum queues; those of other types are refused.",
        (
            _QUORUM_ARGUMENTS_38,
            _QUORUM_ARGUMENTS_310,
            _QUORUM_ARGUMENTS_310,
            _QUORUM_ARGUMENTS_310,
            _QUORUM_ARGUMENTS_43,
        ),
        "live; rabbit_quorum_queue.erl capabilities",
    ),
    Row(
        "stream_queue_arguments",
        "The arguments of streams; those of other types are refused.",
        (_NONE,) + (_STREAM_ARGUMENTS,) * 3 + (_STREAM_ARGUMENTS | {"x-stream-filter-size-bytes"},),
        "live; rabbit_stream_queue.erl capabilities",
    ),
    Row(
        "queue_mode_checked",
        "x-queue-mode must be default or lazy; then anything goes.",
        (True, True, True, True, False),
        "live; rabbit_amqqueue.erl declare_args",
    ),
    Row(
        "queue_versions",
        "The values of x-queue-version.",
        (frozenset(), frozenset({1, 2}), frozenset({1, 2}), frozenset({1, 2}), frozenset({2})),
        "live; rabbit_amqqueue.erl check_queue_version",
    ),
    Row(
        "age_without_number",
        "What becomes of an x-max-age or x-stream-offset that does not begin with a digit.",
        ("internal error", "internal error", "internal error", "internal error", "refused"),
        "live; rabbit_amqqueue.erl check_max_age",
    ),
    Row(
        "max_age_compared",
        "How the x-max-age of a stream is compared when it is declared again, and shown in the refusal.",
        ("as written", "as written", "as written", "as written", "in milliseconds"),
        "live",
    ),
    Row(
        "stream_filter_size_refusal",
        "The text that refuses an x-stream-filter-size-bytes outside of 16 to 255.",
        (
            None,
            None,
            "Invalid value for  x-stream-filter-size-bytes",
            "Invalid value for  x-stream-filter-size-bytes",
            "Invalid value for x-stream-filter-size-bytes",
        ),
        "live; rabbit_stream_queue.erl check_filter_size",
    ),
    Row(
        "queue_master_locator",
        "What a queue-master-locator may be in a policy; in the end it is denied, as an argument of classic queues, too.",
        ("strategies", "strategies", "strategies", "leader locators", "denied"),
        "live; rabbit_queue_location.erl",
    ),
    Row(
        "leader_locators",
        "The values of x-queue-leader-locator.",
        (_NONE, _LOCATORS, _LOCATORS, _LOCATORS | {"min-masters"}, _LOCATORS | {"min-masters"}),
        "live; rabbit_queue_location.erl queue_leader_locators",
    ),
    Row(
        "classic_consumer_arguments",
        "The arguments of a classic queue's consumers that are checked; those of other types are refused.",
        (frozenset({"x-priority", "x-cancel-on-ha-failover"}),)
        + (frozenset({"x-priority", "x-cancel-on-ha-failover", "x-credit"}),) * 2
        + (_PRIORITY,) * 2,
        "live; rabbit_classic_queue.erl capabilities",
    ),
    Row(
        "quorum_consumer_arguments",
        "The same of a quorum queue's consumers.",
        (
            frozenset({"x-priority", "x-cancel-on-ha-failover"}),
            _PRIORITY | {"x-credit"},
            _PRIORITY | {"x-credit"},
            _PRIORITY,
            _PRIORITY | {"x-consumer-timeout"},
        ),
        "live; rabbit_quorum_queue.erl capabilities",
    ),
    Row(
        "stream_consumer_arguments",
        "The same of a stream's consumers.",
        (_NONE,) + (frozenset({"x-stream-offset", "x-credit"}),) * 2 + (_FILTERED,) * 2,
        "live; rabbit_stream_queue.erl capabilities",
    ),
    Row(
        "stream_refusals",
        "How refusals name a stream that was asked for automatic acknowledgements, or without a prefetch.",
        ("stream queues queue",) * 3 + ("stream queue",) * 2,
        "live; rabbit_stream_queue.erl consume",
    ),
    Row(
        "single_active_get_refusal",
        "What the refusal of basic.get calls a quorum queue with a single active consumer.",
        ("quorum", "quorum", "quorum", "quorum", '<<"quorum">>'),
        "live; rabbit_channel.erl unsupported_single_active_consumer_error",
    ),
    Row(
        "exchange_types",
        "The types of exchanges that a server has without plugins.",
        (
            _STOCK_TYPES,
            _STOCK_TYPES,
            _STOCK_TYPES,
            _STOCK_TYPES | {"x-local-random"},
            _STOCK_TYPES | {"x-local-random", "x-modulus-hash"},
        ),
        "live; rabbit_registry.erl lookup_all",
    ),
    Row(
        "unknown_exchange_type_code",
        "The code of an unknown exchange type: 503 ends the connection, 406 the channel.",
        (503, 503, 406, 406, 406),
        "live; rabbit_exchange.erl check_type",
    ),
    Row(
        "access_refusal_names_permission",
        "A refused access says which permission was missing.",
        (False, False, True, True, True),
        "live; rabbit_access_control.erl check_resource_access",
    ),
    Row(
        "topic_permission_expansion",
        "How {username} and {vhost} stand in a topic permission: as part of the regular expression, or literally.",
        ("verbatim", "verbatim", "verbatim", "verbatim", "escaped"),
        "live; rabbit_auth_backend_internal.erl expand_topic_permission",
    ),
    Row(
        "topic_permission_keys",
        "Which routing keys of a publish a topic permission is asked for: the first, or those of CC and BCC, too.",
        ("first", "first", "first", "all", "all"),
        "live; rabbit_channel.erl check_write_permitted_on_topics",
    ),
    Row(
        "policy_keys",
        "The keys that a policy may have, on a server without plugins.",
        (
            _POLICY_KEYS_38,
            _POLICY_KEYS_310,
            _POLICY_KEYS_313,
            _POLICY_KEYS_40,
            _POLICY_KEYS_40 | _DELAYED_RETRY | {"consumer-disconnected-timeout"},
        ),
        "live; rabbit_registry.erl lookup_all policy_validator",
    ),
    Row(
        "operator_policy_keys",
        "The keys that an operator policy may have.",
        (
            _LIMIT_KEYS,
            _LIMIT_KEYS,
            _OPERATOR_KEYS_313 | {"ha-mode", "ha-params", "ha-sync-mode"},
            _OPERATOR_KEYS_40,
            _OPERATOR_KEYS_40 | _DELAYED_RETRY,
        ),
        "live; rabbit_registry.erl lookup_all operator_policy_validator",
    ),
    Row(
        "policy_check_order",
        "The groups in which a policy's keys are checked; within one, by name. What is wrong first is reported.",
        (
            ("locator", "mirroring", "other"),
            ("locator", "other", "mirroring"),
            ("locator", "other", "mirroring", "quorum"),
            ("other", "quorum", "locator"),
            ("locator", "other", "quorum"),
        ),
        "live; rabbit_policy.erl validation0",
    ),
    Row(
        "policy_pattern_max_bytes",
        "How long a policy's pattern may be.",
        (None, None, None, None, 1024),
        "live; rabbit_re.erl",
    ),
    Row(
        "regex_errors",
        "Whose words say what is wrong with a pattern: Erlang's until OTP 27, PCRE, or PCRE2.",
        ("PCRE", "PCRE", "PCRE", "PCRE", "PCRE2"),
        "live",
    ),
    Row(
        "frame_max_least",
        "The least frame_max in bytes that a client may settle on, which is also the limit until it has.",
        (4096, 4096, 4096, 4096, 8192),
        "live; rabbit_framing.hrl FRAME_MIN_SIZE",
    ),
    Row(
        "content_size_checked",
        "Content longer than its header says, or than 512 MiB, ends the connection; else its channel waits on.",
        (False, False, False, False, True),
        "live; rabbit_command_assembler.erl process",
    ),
    Row(
        "speaks_amqp_1_0",
        "AMQP 1.0 without a plugin: its header is what a client of an unknown protocol is answered.",
        (False, False, False, True, True),
        "live; rabbit_reader.erl refuse_connection",
    ),
    Row(
        "greets_amqp_0_8",
        "A client of AMQP 0-8 is let in as one of 0-9-1.",
        (True, True, True, False, False),
        "live; rabbit_reader.erl handshake",
    ),
    Row(
        "error_texts",
        "What error texts show of a client's bytes that are no UTF-8: the bytes themselves, or the same in Latin-1.",
        ("bytes", "bytes", "UTF-8", "UTF-8", "UTF-8"),
        "live; rabbit_binary_generator.erl amqp_exception_explanation, rabbit_reader.erl frame_error",
    ),
    Row(
        "surrogates_are_utf_8",
        "A name that encodes surrogates passes for UTF-8.",
        (True, True, True, True, False),
        "live; rabbit_binary_parser.erl validate_utf8",
    ),
    Row(
        "definitions_order",
        "The order in which the sections of a definitions document are imported.",
        (
            (*_ACCESS_SECTIONS, "parameters", "global_parameters", "policies", "queues", "exchanges", "bindings"),
            *((*_ACCESS_SECTIONS, "exchanges", *_TOPOLOGY_SECTIONS),) * 3,
            (*_ACCESS_SECTIONS[:-1], "exchanges", *_ACCESS_SECTIONS[-1:], *_TOPOLOGY_SECTIONS),
        ),
        "live; rabbit_definitions.erl apply_defs",
    ),
    Row(
        "definitions_without_vhost",
        "Queues, exchanges or bindings that name no virtual host, in an import that is not into one: refused, or a crash.",
        ("no such vhost", "no such vhost", "crash", "crash", "crash"),
        "live; rabbit_definitions.erl any_orphaned_in_doc (3.13.7)",
    ),
    Row(
        "definitions_existing",
        "Imported queues and exchanges that exist already: arguments and type are checked all the same, or they are skipped.",
        ("checked", "skipped", "skipped", "skipped", "skipped"),
        "live; rabbit_definitions.erl add_queue_int",
    ),
    Row(
        "definitions_impossible_queues",
        "An imported queue that its type cannot be, such as a quorum queue that is not durable: refused, or left out without a word.",
        ("refused", "left out", "left out", "left out", "left out"),
        "live; rabbit_definitions.erl add_queue_int, rabbit_queue_type_util.erl check_non_durable",
    ),
    Row(
        "definitions_impossible_bindings",
        "An imported binding whose ends are missing, or which the exchange does not take: left out without a word, or refused.",
        ("left out", "left out", "refused", "refused", "refused"),
        "live; rabbit_definitions.erl add_binding_int",
    ),
    Row(
        "definitions_refusal_texts",
        "The refusal of an imported policy or parameter: printed as an Erlang term and escaped for HTML, or the plain text.",
        ("printed", "printed", "printed", "printed", "plain"),
        "live; rabbit_definitions.erl format, add_policy, add_parameter",
    ),
    Row(
        "topic_permissions_need_exchange",
        "Topic permissions are refused for an exchange that does not exist.",
        (False, False, False, False, True),
        "live",
    ),
)

TABLE = (*MESSAGE_ROWS, *BROKER_ROWS)


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


def differing_behaviours(one: Release, other: Release, rows: tuple[Row, ...] = TABLE) -> tuple[Row, ...]:
    """The rows in which two releases differ, in table order."""
    return tuple(row for row in rows if getattr(one, row.name) != getattr(other, row.name))
