"""Questions about objects that the new release refuses: policies, queues, exchanges, bindings, topic permissions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dlx.amqp_errors import Refusal
from dlx.bindings import check_binding
from dlx.delays import plugin_starts
from dlx.releases import Release, Row
from dlx.server_plugins import DELAYED
from dlx.topology import CLASSIC, Policy
from simulator.analysis.findings import Fix, ObjectName
from simulator.analysis.upgrade.questions import MessagesConcerned, Upgrade, UpgradeChange, asks, named
from simulator.definitions.checks import check_declared

_MIRRORING = "ha-"
# The types of a field's value, by their letters on the wire.
_KINDS = {"b": "a signed byte", "d": "a double", "f": "a float", "x": "a byte array", "D": "a decimal", "V": "void"}


@asks("policy_keys", "operator_policy_keys", "policy_pattern_max_bytes")
def refused_policies(upgrade: Upgrade, row: Row) -> Iterator[UpgradeChange]:
    """A policy has what the release no longer takes; mirrored queues are the known case."""
    for vhost, topology in upgrade.topologies.items():
        for operator, policies in ((False, topology.policies), (True, topology.operator_policies)):
            for policy in policies:
                if _refused_by(upgrade, policy, row, operator):
                    yield _refused_policy(upgrade, vhost, policy, operator)


def _refused_by(upgrade: Upgrade, policy: Policy, row: Row, operator: bool) -> bool:
    pairs = upgrade.trials(row)
    return upgrade.refused_policy(policy, upgrade.before, operator=operator) is None and any(
        upgrade.refused_policy(policy, one, operator=operator) is None
        and upgrade.refused_policy(policy, other, operator=operator) is not None
        for one, other in pairs
    )


def _refused_policy(upgrade: Upgrade, vhost: str, policy: Policy, operator: bool) -> UpgradeChange:
    kind = "operator policy" if operator else "policy"
    known = upgrade.after.operator_policy_keys if operator else upgrade.after.policy_keys
    gone = sorted(policy.definition.keys() - known)
    why = upgrade.refused_policy(policy, upgrade.after, operator=operator)
    mirrored = _mirrored_by(upgrade, vhost, policy, operator) if any(key.startswith(_MIRRORING) for key in gone) else []
    keys = ", ".join(gone) or "what it has"
    text = f"{upgrade.after.name} does not take {kind} '{policy.name}' ({keys}), as {upgrade.before.name} does:"
    text += f" {why}."
    if upgrade.definitions.is_imported:
        text += " An import of these definitions fails."
    if mirrored:
        text += (
            f" Classic queues that it mirrors ({named(mirrored)}) have one copy after the upgrade, and a node that is"
            " lost takes their messages with it."
        )
    how = f"set {kind} '{policy.name}' without {keys}"
    how += "; where copies matter, declare new quorum queues" if mirrored else ""
    return UpgradeChange(
        severity="warning",
        about=ObjectName(kind, vhost, policy.name),
        message=text,
        fix=Fix(not mirrored, how),
        traffic=MessagesConcerned("any message", vhost),
    )


def _mirrored_by(upgrade: Upgrade, vhost: str, policy: Policy, operator: bool) -> list[str]:
    """Return the classic queues to which a policy applies before the upgrade, or may, beside others of its priority."""
    choices = (
        (queue, settings.operator_policy if operator else settings.policy)
        for queue, settings, _ in upgrade.queues(CLASSIC)
        if queue.vhost == vhost
    )
    return [queue.name for queue, choice in choices if policy in (choice.policy, *choice.tied)]


@asks("queue_master_locator")
def master_locator(upgrade: Upgrade, row: Row) -> Iterator[UpgradeChange]:
    """queue-master-locator is refused in policies, and as an argument of classic queues."""
    yield from refused_policies(upgrade, row)
    yield from refused_objects(upgrade, row)


@asks(
    "queue_types",
    "queue_versions",
    "queue_mode_checked",
    "quorum_name_most",
    "arguments_checked_by_type",
    "classic_queue_arguments",
    "quorum_queue_arguments",
    "stream_queue_arguments",
    "leader_locators",
    "exchange_types",
)
def refused_objects(upgrade: Upgrade, row: Row) -> Iterator[UpgradeChange]:
    """A queue or exchange cannot be declared any more as it is."""
    for vhost, item, kind in _items(upgrade):
        now, then = (_refusal(kind, vhost, item, release) for release in (upgrade.before, upgrade.after))
        alone = any(
            _refusal(kind, vhost, item, one) is None and _refusal(kind, vhost, item, other) is not None
            for one, other in upgrade.trials(row)
        )
        if now is None and then is not None and alone:
            yield UpgradeChange(
                severity="warning",
                about=ObjectName(kind, vhost, item["name"]),
                message=f"{upgrade.after.name} refuses to declare {kind} '{item['name']}', which"
                f" {upgrade.before.name} does: {then}. Clients that declare it on start fail{upgrade.import_too}.",
                fix=Fix(
                    False,
                    f"drain {kind} '{item['name']}', delete it and declare it without what is refused, in clients, too",
                ),
                traffic=MessagesConcerned("any message", vhost, (item["name"],) if kind == "queue" else ()),
            )


def _items(upgrade: Upgrade) -> Iterator[tuple[str, dict[str, Any], str]]:
    definitions = upgrade.definitions
    for section, kind in (("queues", "queue"), ("exchanges", "exchange")):
        for item in definitions.document.get(section, ()):
            vhost = definitions.vhosts[0] if definitions.single_vhost else str(item["vhost"])
            yield vhost, item, kind


def _refusal(kind: str, vhost: str, item: dict[str, Any], release: Release) -> str | None:
    try:
        check_declared(kind, vhost, item, release)
    except Refusal as refusal:
        return refusal.plain
    return None


@asks("plugins_not_released")
def delayed_exchanges(upgrade: Upgrade, _row: Row) -> Iterator[UpgradeChange]:
    """The plugin of delayed message exchanges does not start."""
    for vhost, item, kind in _items(upgrade):
        if item.get("type") == DELAYED and plugin_starts(upgrade.before) and not plugin_starts(upgrade.after):
            yield UpgradeChange(
                severity="error",
                about=ObjectName(kind, vhost, item["name"]),
                message=f"Messages that exchange '{item['name']}' delays at the time of the upgrade are lost: no"
                f" released version of its plugin ({DELAYED}) starts on {upgrade.after.name}. A server with the plugin"
                " does not start, and without it clients that declare the exchange fail.",
                fix=Fix(False, "delay messages in queues with a TTL that dead-letter to where they are to go"),
                traffic=MessagesConcerned("any message", vhost),
            )


@asks("delay_kinds", "delay_kinds_unreadable")
def delay_kinds(upgrade: Upgrade, row: Row) -> Iterator[UpgradeChange]:
    """Publishers set a delay with a value of another type than an integer or a string."""
    now, then = (getattr(release, row.name) for release in (upgrade.before, upgrade.after))
    new, gone = ([_KINDS[kind] for kind in sorted(one - other)] for one, other in ((then, now), (now, then)))
    if row.name == "delay_kinds":
        does = {"delays messages by": new, "no longer delays messages by": gone}
    else:
        does = {"ends the connection of publishers of": new, "no longer ends the connection of publishers of": gone}
    told = "; ".join(f"{verb} an x-delay that is {' or '.join(kinds)}" for verb, kinds in does.items() if kinds)
    for vhost, item, kind in _items(upgrade):
        if item.get("type") == DELAYED and told:
            yield UpgradeChange(
                severity="warning",
                about=ObjectName(kind, vhost, item["name"]),
                message=f"{upgrade.after.name}: delayed message exchange '{item['name']}' {told}.",
                fix=Fix(True, "publish x-delay as a 32-bit integer, which every release takes"),
                traffic=MessagesConcerned("any message", vhost),
            )


@asks("topic_hash_wildcards_max")
def bindings(upgrade: Upgrade, _row: Row) -> Iterator[UpgradeChange]:
    """A binding cannot be declared any more."""
    for vhost, topology in upgrade.topologies.items():
        for name, bound in topology.bindings.items():
            for binding in bound:
                exchange = topology.exchanges.get(name)
                if exchange is None:
                    continue
                try:
                    check_binding(exchange, binding.routing_key, binding.arguments, release=upgrade.after, vhost=vhost)
                except Refusal as refusal:
                    yield UpgradeChange(
                        severity="warning",
                        about=ObjectName("exchange", vhost, name),
                        message=f"{upgrade.after.name} refuses the binding of '{name}' to '{binding.destination}' with"
                        f" key '{binding.routing_key}', which {upgrade.before.name} takes: {refusal.plain}. Clients"
                        f" that bind on start fail{upgrade.import_too}.",
                        fix=Fix(True, "bind with a key that is taken before unbinding this one"),
                        traffic=MessagesConcerned("any message", vhost),
                    )


@asks("topic_permission_expansion", "topic_permission_keys", "topic_permissions_need_exchange")
def topic_permissions(upgrade: Upgrade, row: Row) -> Iterator[UpgradeChange]:
    """What topic permissions allow is read another way."""
    for item in upgrade.definitions.document.get("topic_permissions", ()):
        vhost, exchange = str(item.get("vhost", "/")), str(item.get("exchange", ""))
        topology = upgrade.topologies.get(vhost)
        matters = {
            "topic_permission_expansion": "{" in f"{item.get('write')}{item.get('read')}",
            "topic_permission_keys": True,
            "topic_permissions_need_exchange": topology is not None and exchange not in topology.exchanges,
        }[row.name]
        if matters:
            user = str(item.get("user", ""))
            yield UpgradeChange(
                severity="warning",
                about=ObjectName("topic permission", vhost, exchange),
                message=f"The topic permission of user '{user}' for exchange '{exchange}' has another meaning under"
                f" {upgrade.after.name} than under {upgrade.before.name}: {row.meaning}",
                fix=Fix(True, f"try what '{user}' publishes against {upgrade.after.name} before the upgrade"),
                traffic=MessagesConcerned("any message", vhost),
            )
