"""The rows of the release table that cannot matter to a topology, each with the reason.

Some of them matter to what clients send or read; a person who upgrades finds them with
``dlx releases A B``.
"""

from __future__ import annotations

from collections.abc import Mapping

_PUBLISHED = "publishers decide it; definitions do not tell what they send"
_CONSUMED = "consumers decide it; definitions do not tell with which arguments they subscribe"
_WORDS = "only the words or the code of an answer change"
_IMPORT = "it decides how a document is imported, and what is exported from the new server is in its form"
_EXPORT = "it decides what an export tells of a topology"
_NEW = "it is about new declarations; the queues of definitions have their type"
_CLIENTS = "it is about clients and connections"

BESIDE: Mapping[str, str] = {
    "expiration_form": _PUBLISHED,
    "expiration_max_ms": _PUBLISHED,
    "published_octets": _PUBLISHED,
    "delivery_mode_checked": _PUBLISHED,
    "max_message_size": _PUBLISHED,
    "content_size_checked": _PUBLISHED,
    "publisher_checked": _PUBLISHED,
    "mandatory_publishes_numbered": _PUBLISHED,
    "header_order": "headers have no order in AMQP; no rule goes by it",
    "headers_match_message_timestamps": "an export has a timestamp as an integer, so that it does not tell one",
    "stream_message_overhead": "it changes the size of a stream's segments by a few bytes for each message",
    "commit_to_deleted_queue": "transactions on deleted queues; definitions have neither",
    "direct_replies_taken_by": "definitions have no reply queues",
    "direct_replies_by_dead_letter": "definitions have no reply queues",
    "global_qos": _CONSUMED,
    "global_qos_refused": _WORDS,
    "consumer_timeout_ms": "consumer_timeout_enforced_by, which changed with it, tells it",
    "quorum_consumer_order": _CONSUMED,
    "quorum_consumer_continues": _CONSUMED,
    "quorum_repeats_are_flagged": _CONSUMED,
    "quorum_consumer_priorities": _CONSUMED,
    "quorum_delivery_limit_widens_prefetch": _CONSUMED,
    "stream_filters": _CONSUMED,
    "classic_consumer_arguments": _CONSUMED,
    "quorum_consumer_arguments": _CONSUMED,
    "stream_consumer_arguments": _CONSUMED,
    "credit_read_by": _CONSUMED,
    "returns_counted_as_failures": "quorum_delivery_limit_counts, delivery_count_carried and"
    " quorum_acquired_count_header tell what follows from it",
    "stream_refusals": _WORDS,
    "single_active_get_refusal": _WORDS,
    "argument_errors": _WORDS,
    "stream_filter_size_refusal": _WORDS,
    "non_numeric_max_age": _WORDS,
    "unknown_exchange_type_code": _WORDS,
    "policy_check_order": _WORDS,
    "access_refusal_names_permission": _WORDS,
    "channel_limit_refusal": _WORDS,
    "definitions_refusal_texts": _WORDS,
    "error_text_encoding": _WORDS,
    "queue_types_meaning_default": _NEW,
    "quorum_first_tick": "it decides on new queues that expire within milliseconds",
    "queue_type_argument": _NEW,
    "server_named_queues": "the server makes up names for new queues only",
    "max_age_compared": "a stream that is declared again with an equal age in other units is taken more often",
    "exclusive_queues_located": "an exclusive queue goes with its connection, and is in no definitions",
    "passive_declare_needs": _CLIENTS,
    "user_tags": _CLIENTS,
    "user_limits": "a limit that was not there before limits nobody",
    "vhost_deletion_protection": "no virtual host is protected from deletion before somebody protects it",
    "queue_limit_checked": "it decides in which order a new declaration is checked",
    "frame_max_min": _CLIENTS,
    "speaks_amqp_1_0": _CLIENTS,
    "accepts_amqp_0_8": _CLIENTS,
    "sasl_mechanisms": _CLIENTS,
    "amqplain_takes_byte_arrays": _CLIENTS,
    "amqplain_password_that_is_no_text": _CLIENTS,
    "surrogates_are_utf_8": _CLIENTS,
    "json_lenient": _IMPORT,
    "json_equal_keys": _IMPORT,
    "definitions_byte_order_mark": _IMPORT,
    "definitions_order": _IMPORT,
    "definitions_without_vhost": _IMPORT,
    "definitions_required_fields": _IMPORT,
    "definitions_default_queue_type": _IMPORT,
    "definitions_topic_binding_without_key": _IMPORT,
    "definitions_existing": _IMPORT,
    "definitions_impossible_queues": _IMPORT,
    "definitions_impossible_bindings": _IMPORT,
    "definitions_unknown_queue_type": _IMPORT,
    "definitions_internal_exchanges": _EXPORT,
    "definitions_exclusive_bindings": _EXPORT,
    "initial_global_parameters": _IMPORT,
    "dead_letters_counted": "it is what monitoring sees",
    "counted_protocols": "it is what monitoring sees",
    "alarms_in_metrics": "it is what monitoring sees",
}
