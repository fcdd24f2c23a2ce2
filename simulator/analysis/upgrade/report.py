"""Answers what an upgrade changes for a topology: asks the question of every row that differs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dlx.releases import Release, differing_behaviours
from simulator.analysis.findings import SEVERITIES, ObjectName
from simulator.analysis.upgrade import histories, objects, paths, queues, settings
from simulator.analysis.upgrade.questions import QUESTIONS, FoundChange, Upgrade
from simulator.definitions import Definitions

# The rows of the release table that cannot matter to a topology, each with the reason.
#
# Some of them matter to what clients send or read; a person who upgrades finds them with ``dlx releases A B``.


_PUBLISHED = "publishers decide it; definitions do not show what they send"
_CONSUMED = "consumers decide it; definitions do not show with which arguments they subscribe"
_WORDS = "only the words or the code of an answer change"
_IMPORT = "it decides how a document is imported; the new server exports in the new form"
_EXPORT = "it decides what an export shows of a topology"
_NEW = "it is about new declarations; the queues of definitions have their type"
_CLIENTS = "it is about clients and connections"
_PLUGINS = "an upgrade leaves out the exchanges and parameters of plugins"

BESIDE: Mapping[str, str] = {
    "expiration_form": _PUBLISHED,
    "expiration_max_ms": _PUBLISHED,
    "published_octets": _PUBLISHED,
    "amqp10_durable_default": _PUBLISHED,
    "amqp10_reply_to": _PUBLISHED,
    "amqp10_x_cc": _PUBLISHED,
    "amqp10_opaque_values": _PUBLISHED,
    "delivery_mode_checked": _PUBLISHED,
    "max_message_size": _PUBLISHED,
    "content_size_checked": _PUBLISHED,
    "publisher_checked": _PUBLISHED,
    "mandatory_publishes_numbered": _PUBLISHED,
    "header_order": "headers have no order in AMQP; no rule depends on it",
    "headers_match_message_timestamps": "an export writes a timestamp as an integer, so it does not show one",
    "stream_message_overhead": "it changes the size of a stream's segments by a few bytes for each message",
    "commit_to_deleted_queue": "transactions on deleted queues; definitions have neither",
    "direct_replies_taken_by": "definitions have no reply queues",
    "direct_replies_by_dead_letter": "definitions have no reply queues",
    "delay_header_after": _PLUGINS,
    "delayed_messages_counted": _PLUGINS,
    "delayed_topic_routes": _PLUGINS,
    "jms_selector_atoms_checked": _PLUGINS,
    "binding_kept_over_crash": _PLUGINS,
    "global_qos": _CONSUMED,
    "global_qos_refused": _WORDS,
    "consumer_timeout_ms": "consumer_timeout_enforced_by, which changed with it, covers it",
    "quorum_consumer_order": _CONSUMED,
    "quorum_consumer_continues": _CONSUMED,
    "quorum_repeats_are_flagged": _CONSUMED,
    "quorum_consumer_priorities": _CONSUMED,
    "quorum_delivery_limit_widens_prefetch": _CONSUMED,
    "stream_filters": _CONSUMED,
    "amqp10_sasl_mechanisms": _CLIENTS,
    "amqp10_first_ids": _CLIENTS,
    "amqp10_spells_out_false": _WORDS,
    "amqp10_links_say_active": _CLIENTS,
    "amqp10_deliveries_time_out": _CONSUMED,
    "amqp10_dynamic_nodes": _CLIENTS,
    "amqp10_faults_of_links": _CLIENTS,
    "amqp10_addresses": _CLIENTS,
    "amqp10_refusals_say_why": _CLIENTS,
    "amqp10_link_capabilities": _CLIENTS,
    "delivery_time_asked": _CONSUMED,
    "management_takes_tokens": _CLIENTS,
    "management_reads_need_permissions": _CLIENTS,
    "purge_of_missing_queue": _CLIENTS,
    "filters_found_by": _CONSUMED,
    "plain_stream_filters": _CONSUMED,
    "stream_offset_may_be_symbol": _CONSUMED,
    "property_filters": _CONSUMED,
    "sql_filters": _CONSUMED,
    "classic_consumer_arguments": _CONSUMED,
    "quorum_consumer_arguments": _CONSUMED,
    "stream_consumer_arguments": _CONSUMED,
    "credit_read_by": _CONSUMED,
    "returns_counted_as_failures": "quorum_delivery_limit_counts, delivery_count_carried and"
    " quorum_acquired_count_header cover what follows from it",
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
    "user_limits": "a limit that did not exist before limits no client",
    "vhost_deletion_protection": "no virtual host is protected from deletion until an operator protects it",
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
    "shovel_keys": "a shovel keeps the keys that it has",
    "shovel_delete_after": _WORDS,
    "shovel_protocols_checked": _WORDS,
    "shovel_arguments_checked": "a shovel that was set stays as it is",
    "shovel_ends_with_channel": "a shovel whose publish is refused moves nothing in either release",
    "dead_letters_counted": "only monitoring sees it",
    "counted_protocols": "only monitoring sees it",
    "alarms_in_metrics": "only monitoring sees it",
}


GROUPS = (settings, paths, histories, queues, objects)
"""The modules that hold the questions."""
ASSUMED = (
    "publishers set no expiration, CC, BCC or x-death; a change that depends on one says so",
    "the server has only the plugins of a plain installation, and its configuration does not change",
    "queues, bindings and policies do not change during the upgrade, and no feature flag is left disabled",
    "no traffic passes through releases that the upgrade may have to pass on the way",
)
UNCHECKED = (
    "what clients do: their libraries, arguments of consumers, prefetch, message sizes",
    "clusters, performance, disk and memory, and what release notes list besides dead-lettering",
)


class UpgradeReport(msgspec.Struct, frozen=True):
    """What an upgrade changes.

    Attributes:
        before, after: the releases by name.
        changes: errors first, then warnings and notes; by object.
        assumed: what has to be so for the answer to hold.
        unchecked: what was not looked at.
    """

    before: str
    after: str
    changes: tuple[FoundChange, ...]
    assumed: tuple[str, ...]
    unchecked: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        return {
            "from": self.before,
            "to": self.after,
            "changes": [each.as_json() for each in self.changes],
            "assumed": self.assumed,
            "unchecked": self.unchecked,
        }


def upgraded(definitions: Definitions, before: Release, after: Release) -> UpgradeReport:
    """Return what changes for the topology of these definitions."""
    upgrade = Upgrade(definitions, before, after)
    rows = differing_behaviours(before, after)
    found = [
        FoundChange(
            behaviour=row.name,
            change=change,
            evidence=f"since {', '.join(row.dates_between(before.version, after.version))}: {row.evidence}",
        )
        for row in rows
        if row.name in QUESTIONS
        for change in QUESTIONS[row.name](upgrade, row)
    ]
    beside = [row.name for row in rows if row.name in BESIDE]
    unchecked = [*_left_out(upgrade), *UNCHECKED]
    if beside:
        table = f"`dlx releases {before.name} {after.name}` has them"
        unchecked.append(f"{len(beside)} behaviours that differ and do not show in a topology; {table}")
    return UpgradeReport(before.name, after.name, tuple(sorted(found, key=_order)), ASSUMED, tuple(unchecked))


def _order(found: FoundChange) -> tuple[int, Any, str]:
    return SEVERITIES.index(found.change.severity), found.change.about, found.behaviour


def _left_out(upgrade: Upgrade) -> list[str]:
    publishes = upgrade.entries.left_out
    cut = [
        f"paths of messages in virtual host '{vhost}' beyond the {paths.PATHS_MAX:,} shortest"
        for vhost, walk in upgrade.walks.items()
        if not walk.complete or len(walk.places) > paths.PATHS_MAX
    ]
    return [*upgrade.left_out, *_tied(upgrade), *publishes, *cut]


def _tied(upgrade: Upgrade) -> list[str]:
    """Return the policies of equal priority of which RabbitMQ may take any, in sentences."""
    found: dict[tuple[str, ...], dict[ObjectName, None]] = {}
    for queue, *both in upgrade.queues():
        for each in both:
            for choice, kind in ((each.policy, "policies"), (each.operator_policy, "operator policies")):
                if choice.policy is not None and choice.disagreeing:
                    names = (choice.policy.name, *(other.name for other in choice.disagreeing))
                    found.setdefault((kind, *names), {})[queue.about] = None
    return [
        f"which of the {kind} {' and '.join(map(repr, names))} of equal priority applies to {_some(list(queues))}: "
        f"RabbitMQ does not define that, and another may apply after the upgrade; here it is {names[0]!r}"
        for (kind, *names), queues in found.items()
    ]


def _some(about: list[ObjectName]) -> str:
    return f"{about[0]} and {len(about) - 1} more" if len(about) > 1 else str(about[0])
