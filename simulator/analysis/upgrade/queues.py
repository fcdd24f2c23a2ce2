"""Questions about what is in queues and who consumes it: order, limits, time-outs, retries."""

from __future__ import annotations

from collections.abc import Iterator

from dlx.consistent_hash import HASH_HEADER
from dlx.deaths import REJECTED
from dlx.releases import Row
from dlx.server_plugins import CONSISTENT_HASH, MODULUS_HASH
from dlx.settings import AT_LEAST_ONCE, CONSUMER_TIMEOUT, Settings
from dlx.topology import CLASSIC, QUORUM, STREAM, Binding, Exchange
from simulator.analysis.findings import Fix, ObjectName, Severity
from simulator.analysis.upgrade.questions import (
    NOTHING_TO_DO,
    Kind,
    MessagesConcerned,
    QueueAt,
    Upgrade,
    UpgradeChange,
    asks,
    for_each_vhost,
    named,
)


def _change(
    queue: QueueAt, text: str, kind: Kind, severity: Severity = "note", fix: Fix = NOTHING_TO_DO
) -> UpgradeChange:
    return UpgradeChange(
        severity=severity,
        about=queue.about,
        message=text,
        fix=fix,
        traffic=MessagesConcerned(kind, queue.vhost, (queue.name,)),
    )


@asks("consumer_timeout_enforced_by")
def consumer_timeout(upgrade: Upgrade, _row: Row) -> Iterator[UpgradeChange]:
    """Deliveries that are not acknowledged in time are taken back by another process than before, or by none."""
    timed = upgrade.after if upgrade.after.consumer_timeout_ms else upgrade.before
    span = f"{_span(timed.consumer_timeout_ms or 0)}, unless {CONSUMER_TIMEOUT} or rabbitmq.conf says otherwise"
    for kind in (CLASSIC, QUORUM):
        now, then = (_late(release.consumer_timeout_enforced_by, kind) for release in (upgrade.before, upgrade.after))
        if now != then:
            fix = Fix(True, f"let consumers acknowledge in time{_AFTERWARDS.get(then, '')}")
            text = (
                f"When a consumer of {{names}} does not acknowledge in time ({span}), {now} under {{before}}; under"
                f" {{after}} {then}."
            )
            yield from for_each_vhost(upgrade, upgrade.names(kind), "any message", text, "note", fix)


_CHANNEL_CLOSED = "its channel is closed, and all deliveries on it come back"
_CANCELLED = "the queue takes this delivery back and cancels the consumer, while the channel stays open"
_AFTERWARDS = {
    _CHANNEL_CLOSED: ", and open a channel again that was closed",
    _CANCELLED: ", and subscribe again after a basic.cancel",
}
"""What consumers have to do as well where that happens to a late delivery."""


def _late(enforced_by: str, queue_type: str) -> str:
    """Say what happens to a late delivery from a queue of that type."""
    if enforced_by == "channel":
        return _CHANNEL_CLOSED
    if enforced_by == "queue" and queue_type == QUORUM:
        return _CANCELLED
    return "nothing happens, and the delivery stays with it"


def _span(ms: int) -> str:
    return f"{ms // 60_000} minutes" if ms and ms % 60_000 == 0 else f"{ms:,} ms"


@asks("quorum_delayed_retry")
def delayed_retry(upgrade: Upgrade, _row: Row) -> Iterator[UpgradeChange]:
    """A retry by way of a queue with a TTL could be done by the quorum queue itself; or its settings take effect."""
    has = upgrade.after.quorum_delayed_retry
    for queue, now, then in upgrade.queues(QUORUM):
        if (now.delayed_retry is None) != (then.delayed_retry is None):
            retry = then.delayed_retry or now.delayed_retry
            assert retry is not None
            first, second = (
                (upgrade.before.name, upgrade.after.name) if has else (upgrade.after.name, upgrade.before.name)
            )
            text = (
                f"A returned message comes back at once to '{queue.name}' under {first}, which does not know delayed"
                f" retries; under {second} it waits {retry.min_ms} ms or more."
            )
            yield _change(queue, text, "return", "note" if has else "warning")
    if has:
        for queue, _, settings in upgrade.queues(QUORUM):
            for name in _waiting(upgrade, queue, settings):
                yield _ladder(upgrade, queue, name)


def _waiting(upgrade: Upgrade, queue: QueueAt, settings: Settings) -> Iterator[str]:
    """Yield the queues in which messages that are rejected in a queue wait for their time, to come back to it."""
    flow = upgrade.after_flows[queue.vhost]
    if not settings.dead_letters or flow.why_impossible(queue.name, REJECTED) is not None:
        return
    sources = upgrade.takes_dead_letters[queue.vhost]
    for name in sorted(sources.get(queue.name, set()) - {queue.name}):
        if flow.settings(name).message_ttl_ms is not None and queue.name in sources.get(name, ()):
            yield name


def _ladder(upgrade: Upgrade, queue: QueueAt, wait: str) -> UpgradeChange:
    ttl = upgrade.after_flows[queue.vhost].settings(wait).message_ttl_ms
    text = (
        f"A message that is rejected in '{queue.name}' waits {ttl} ms in '{wait}' and comes back. It does so in both"
        f" releases; from 4.3 on the quorum queue '{queue.name}' can keep a returned message back by itself."
    )
    how = (
        f"nothing to do before the upgrade. After it, a policy for '{queue.name}' with delayed-retry-type all,"
        f" delayed-retry-min {ttl} and delayed-retry-max {ttl} does without '{wait}': consumers then return a message"
        " by basic.reject with requeue=true"
    )
    return _change(queue, text, "death", "note", Fix(True, how))


@asks("quorum_priorities")
def priorities(upgrade: Upgrade, _row: Row) -> Iterator[UpgradeChange]:
    """A quorum queue looks at the priority of messages, or looks at it in another way."""
    said = {
        "none": "ignores the priority of messages",
        "two lanes": "serves messages of priority 5 and more two to one before the others",
        "32 levels": "serves messages by priority from 31 down to 0, those without one as 4",
    }
    text = (
        f"A message with a priority: {{before}} {said[upgrade.before.quorum_priorities]} in quorum queues {{names}};"
        f" {{after}} {said[upgrade.after.quorum_priorities]}."
    )
    fix = Fix(True, "publish without a priority what must stay in order")
    yield from for_each_vhost(upgrade, upgrade.names(QUORUM), "priority", text, "note", fix)


@asks("classic_max_priority_min")
def max_priority(upgrade: Upgrade, _row: Row) -> Iterator[UpgradeChange]:
    """A classic queue with x-max-priority 0 has one priority, or two."""
    for queue, _, then in upgrade.queues(CLASSIC):
        if then.queue.arguments.get("x-max-priority") == 0:
            levels = [1 + release.classic_max_priority_min for release in (upgrade.before, upgrade.after)]
            text = (
                f"'{queue.name}' (x-max-priority 0) has {levels[0]} priorities now, and {levels[1]} after the upgrade."
            )
            yield _change(queue, text, "priority")


@asks("purge_clears_pending_dead_letters", "quorum_confirms_own_dead_letters")
def at_least_once(upgrade: Upgrade, row: Row) -> Iterator[UpgradeChange]:
    """At-least-once dead-lettering treats what it holds in another way."""
    for queue, _, then in upgrade.queues(QUORUM):
        if then.dead_letter_strategy != AT_LEAST_ONCE:
            continue
        flow = upgrade.after_flows[queue.vhost]
        if row.name == "quorum_confirms_own_dead_letters" and queue.name not in flow.possible_targets(queue.name):
            continue
        yield _change(queue, _read(upgrade, row, queue), "death", "note")


@asks(
    "quorum_overflow_before_delivery_limit",
    "quorum_rejection_order",
    "quorum_drop_head_order",
    "quorum_expiry_looks_at",
    "quorum_policy_restarts_expiry",
    "quorum_refusal_outlives_limits",
)
def orders(upgrade: Upgrade, row: Row) -> Iterator[UpgradeChange]:
    """Messages die or come in another order; nothing is lost by it."""
    for queue, _, then in upgrade.queues(QUORUM):
        concerned = {
            "quorum_overflow_before_delivery_limit": then.has_length_limit and then.delivery_limit is not None,
            "quorum_rejection_order": then.dead_letters,
            "quorum_drop_head_order": then.has_length_limit and then.dead_letters,
            "quorum_expiry_looks_at": then.message_ttl_ms is not None,
            "quorum_policy_restarts_expiry": then.expires_ms is not None,
            "quorum_refusal_outlives_limits": then.has_length_limit and then.refuses_when_full,
        }[row.name]
        if concerned:
            kind: Kind = "death" if "order" in row.name or "overflow" in row.name else "any message"
            yield _change(queue, _read(upgrade, row, queue), kind)


@asks(
    "quorum_single_active_by_priority", "quorum_single_active_beside_cancelled", "quorum_single_active_after_return",
    "classic_single_active_served_after_cancel", "stream_takes_rejections"
)  # fmt: skip
def consumers(upgrade: Upgrade, row: Row) -> Iterator[UpgradeChange]:
    """Consumers are served in another way."""
    wanted = {"quorum": QUORUM, "classic": CLASSIC, "stream": STREAM}[row.name.partition("_")[0]]
    for queue, _, then in upgrade.queues(wanted):
        if wanted == STREAM or then.queue.arguments.get("x-single-active-consumer") is True:
            yield _change(queue, _read(upgrade, row, queue), "any message")


@asks("headers_match_numbers")
def numbers(upgrade: Upgrade, _row: Row) -> Iterator[UpgradeChange]:
    """A headers binding with a number takes only a header of the same type."""
    by_type = upgrade.after.headers_match_numbers == "by type and value"
    for vhost, topology in upgrade.topologies.items():
        for name, bound in topology.bindings.items():
            exchange = topology.exchanges.get(name)
            if exchange is None or exchange.type != "headers":
                continue
            for binding in bound:
                found = [key for key, value in binding.arguments.items() if isinstance(value, (int, float))
                         and not isinstance(value, bool)]  # fmt: skip
                if found:
                    first, second = (upgrade.before, upgrade.after) if by_type else (upgrade.after, upgrade.before)
                    yield UpgradeChange(
                        severity="warning",
                        about=ObjectName("exchange", vhost, name),
                        message=f"The binding of '{name}' to '{binding.destination}' compares {named(found)} by value"
                        f" under {first.name}, so that 1 equals 1.0; under {second.name} an integer and a float never"
                        " match, and such a message goes elsewhere or nowhere.",
                        fix=Fix(True, f"publish {named(found)} with the type that the binding has"),
                        traffic=MessagesConcerned("any message", vhost),
                    )


@asks("consistent_hash_header", "consistent_hash_bound_twice", "modulus_hash_order")
def hashed(upgrade: Upgrade, row: Row) -> Iterator[UpgradeChange]:
    """A hash exchange sends the messages of a key, or of a header's value, to another queue."""
    changed = {
        "consistent_hash_header": (_hashes_header, "most values of its hash-header"),
        "consistent_hash_bound_twice": (_is_bound_twice, "keys, by a destination that is bound twice,"),
        "modulus_hash_order": (_is_reordered, "keys, by its order of binding keys,"),
    }
    matters, what = changed[row.name]
    for vhost in upgrade.definitions.vhosts:
        topology = upgrade.definitions.topology(vhost)
        for exchange in topology.exchanges.values():
            bound = tuple(topology.bindings.get(exchange.name, ()))
            if len(bound) > 1 and matters(exchange, bound):
                yield UpgradeChange(
                    severity="warning",
                    about=ObjectName("exchange", vhost, exchange.name),
                    message=f"Exchange '{exchange.name}' sends {what} to other queues under {upgrade.after.name} than"
                    f" under {upgrade.before.name}, so that messages that belong together are in two queues.",
                    fix=Fix(True, "drain its queues before the upgrade if such messages must stay in order"),
                    traffic=MessagesConcerned("any message", vhost),
                )


def _hashes_header(exchange: Exchange, bound: tuple[Binding, ...]) -> bool:
    return exchange.type == CONSISTENT_HASH and HASH_HEADER in exchange.arguments


def _is_bound_twice(exchange: Exchange, bound: tuple[Binding, ...]) -> bool:
    return exchange.type == CONSISTENT_HASH and len({(b.destination_type, b.destination) for b in bound}) < len(bound)


def _is_reordered(exchange: Exchange, bound: tuple[Binding, ...]) -> bool:
    by_name = sorted(bound, key=lambda b: (b.destination_type, b.destination))
    return exchange.type == MODULUS_HASH and by_name != sorted(by_name, key=lambda b: b.routing_key)


def _read(upgrade: Upgrade, row: Row, queue: QueueAt) -> str:
    """Say what a row decides and its values, where no sentence of its own would say more."""
    now, then = (getattr(release, row.name) for release in (upgrade.before, upgrade.after))
    meaning = row.meaning.rstrip(".")
    values = f"{upgrade.before.name}: {_said(now)}; {upgrade.after.name}: {_said(then)}"
    return f"For '{queue.name}' this changes: {meaning} ({values})."


def _said(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
