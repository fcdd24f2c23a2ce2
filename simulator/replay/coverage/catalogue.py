"""The rules that a trace can show, each with its meaning, and the release rows that none can show, with the reason."""

from __future__ import annotations

from collections.abc import Mapping

from dlx.releases import MESSAGE_ROWS, Row

PATH_RULES: Mapping[str, Mapping[str, str]] = {
    "Deaths": {
        "rejected_in_classic": "A consumer rejects a message of a classic queue.",
        "rejected_in_quorum": "A consumer rejects a message of a quorum queue.",
        "expired_in_classic": "A message expires in a classic queue.",
        "expired_in_quorum": "A message expires in a quorum queue.",
        "maxlen_in_classic": "A message dies of the length limit of a classic queue.",
        "maxlen_in_quorum": "A message dies of the length limit of a quorum queue.",
        "delivery_limit_in_quorum": "A message dies of the delivery limit of a quorum queue.",
    },
    "Times to live": {
        "expired_by_queue_ttl": "The queue's TTL counts, since the message has no expiration.",
        "expired_by_expiration": "The message's expiration counts, since the queue has no TTL.",
        "expired_by_shorter": "Both are set: the shorter one counts.",
        "expired_at_once": "A TTL of 0: a message that no consumer waits for expires at once.",
        "ttl_by_argument": "The queue's TTL comes from an argument.",
        "ttl_by_policy": "It comes from a policy.",
        "ttl_by_operator_policy": "It comes from an operator policy.",
    },
    "Limits": {
        "length_in_messages": "The queue holds a number of messages.",
        "length_in_bytes": "The queue holds a number of bytes.",
        "overflow_drop_head": "A full queue drops its oldest message.",
        "overflow_reject_publish_dlx": "A full queue refuses the new message, which becomes a dead letter.",
        "length_by_argument": "The length limit comes from an argument.",
        "length_by_policy": "It comes from a policy.",
        "length_by_operator_policy": "It comes from an operator policy.",
        "delivery_limit_by_argument": "The delivery limit comes from an argument.",
        "delivery_limit_by_policy": "It comes from a policy.",
        "delivery_limit_by_operator_policy": "It comes from an operator policy.",
    },
    "Settings": {
        "exchange_by_argument": "The dead-letter exchange comes from an argument.",
        "exchange_by_policy": "It comes from a policy.",
        "key_by_argument": "The dead-letter routing key comes from an argument.",
        "key_by_policy": "It comes from a policy.",
        "argument_over_policy": "Argument and policy name an exchange or key: the argument's counts.",
        "smaller_number": "Several of argument, policy and operator policy set a number: the smaller one counts.",
        "at_least_once_by_argument": "A dead letter goes out at least once, by an argument.",
        "at_least_once_by_policy": "A dead letter goes out at least once, by a policy.",
    },
    "Routes": {
        "through_default": "A dead letter goes through the default exchange.",
        "through_direct": "It goes through a direct exchange.",
        "through_topic": "It goes through a topic exchange.",
        "through_fanout": "It goes through a fanout exchange.",
        "through_headers": "It goes through a headers exchange.",
        "through_internal": "It goes through an internal exchange, which clients cannot publish to.",
        "through_alternate": "It goes on to an alternate exchange, since no binding matches.",
        "through_exchange_binding": "It goes from exchange to exchange by a binding.",
        "topic_star": "It meets a topic binding with '*'.",
        "topic_hash": "It meets a topic binding with '#'.",
        "headers_all": "It meets all headers of a binding.",
        "headers_any": "It meets any header of a binding.",
        "into_classic": "It enters a classic queue.",
        "into_quorum": "It enters a quorum queue.",
        "into_stream": "It enters a stream.",
        "into_same_queue": "It enters the queue that it died in.",
        "several_copies": "It enters several queues, a copy each.",
        "one_copy_per_queue": "Several bindings lead it to the same queue: one copy enters.",
    },
    "Keys and headers": {
        "keys_kept": "Without a dead-letter routing key, a dead letter keeps its keys.",
        "keys_replaced": "A dead-letter routing key replaces all keys.",
        "cc_routes_publish": "A CC key leads a publish to a queue.",
        "bcc_routes_publish": "A BCC key leads a publish to a queue.",
        "cc_routes_dead_letter": "A CC key leads a dead letter to a queue.",
        "bcc_routes_dead_letter": "A BCC key, which no consumer sees, leads a dead letter to a queue.",
        "expiration_removed": "A dead letter loses its expiration, so that it does not expire again.",
        "redelivery_counted": "A quorum queue counts redeliveries in x-delivery-count.",
    },
    "History": {
        "first_death": "The first death begins x-death, and sets the x-first-death headers.",
        "another_death": "A death of another kind adds an entry in front; the x-first-death headers stay.",
        "counted_again": "The kind of death that is in front happens again: it is counted there.",
        "older_entry_counted": "A kind of death that is further back happens again: its entry is counted.",
        "several_deaths": "A message dies several times before it is delivered again.",
        "return_after_rejection": "A dead letter returns to a queue where it died, since it was rejected on the way.",
        "cycle_beside_arrival": "The cycle rule keeps one copy out, and another one arrives.",
    },
}
"""What an explained delivery shows of the rules, by subject: names and meanings."""

_BY_AMQP10 = "a trace does not show which protocol a client speaks"
NEVER_SHOWN: Mapping[str, str] = {
    "header_order": "a trace has the headers as a table without an order",
    "headers_match_message_timestamps": "a trace has a timestamp as a number, just like an integer",
    "topic_hash_wildcards_max": "it decides which bindings are refused; a trace has no bindings",
    "published_octets": "only the management API sends such numbers; a replay compares properties as they are",
    "quorum_expires": "it decides when a queue is deleted; a trace has no queues",
    "quorum_delivery_limit_counts": "a trace does not show how a message was returned",
    "returns_counted_as_failures": "a trace does not show how a message was returned",
    "amqp10_durable_default": _BY_AMQP10,
    "amqp10_reply_to": _BY_AMQP10,
    "amqp10_opaque_values": _BY_AMQP10,
    "amqp10_x_cc": _BY_AMQP10,
    "delivery_time_asked": _BY_AMQP10,
    "policy_keys_checked_at_declaration": "a trace does not show whether a policy or a queue came first",
    "stream_unsupported_policy_keys": "no message dies in a stream, so no policy of a stream shows",
}
"""Release rows that no trace can show, with the reason."""

ALSO_NEVER_SHOWN: Mapping[str, str] = {
    "no dead-letter exchange": "a message that dies without one is gone, and leaves no row",
    "dead-letter exchange missing": "the dead letter is gone, or held, and leaves no row",
    "unroutable dead letter": "it is gone, and leaves no row",
    "cycle without an arrival": "the dead letter is gone, and leaves no row",
    "reject-publish": "a publish that a full queue refuses leaves no further row, like one that no consumer gets",
    "dead letter refused by a full queue": "the copy is gone, and leaves no row",
    "times of death": "a replay compares these seconds with the log; they are not a rule that a message meets",
}
"""Other rules that no trace can show, with the reason: whether a message is lost is inferred from its last row."""

RELEASE_ROWS: tuple[Row, ...] = tuple(row for row in MESSAGE_ROWS if row.name not in NEVER_SHOWN)
"""The release rows that a trace can show."""

RULES: tuple[str, ...] = (
    *(name for rules in PATH_RULES.values() for name in rules),
    *(row.name for row in RELEASE_ROWS),
)
"""The names of all rules that a trace can show."""

RULE_MEANINGS: Mapping[str, str] = {
    **{name: meaning for rules in PATH_RULES.values() for name, meaning in rules.items()},
    **{row.name: row.meaning for row in RELEASE_ROWS},
}
"""What each of them says."""
