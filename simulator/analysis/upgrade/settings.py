"""Questions about settings that are other ones after the upgrade, and about the delivery limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from dlx.deaths import DELIVERY_LIMIT as OVER_LIMIT
from dlx.deaths import EXPIRED
from dlx.releases import Release, Row
from dlx.settings import (
    AT_LEAST_ONCE,
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_ROUTING_KEY,
    DEAD_LETTER_STRATEGY,
    DELIVERY_LIMIT,
    EXPIRES,
    MAX_LENGTH_BYTES,
    MESSAGE_TTL,
    OVERFLOW,
    Settings,
    effective_settings,
)
from dlx.topology import QUORUM, Policy
from simulator.analysis.findings import Fix, Severity
from simulator.analysis.losses import HELD, Loss, losses_at
from simulator.analysis.upgrade.paths import DEATHS
from simulator.analysis.upgrade.questions import (
    NOTHING_TO_DO,
    Kind,
    MessagesConcerned,
    QueueAt,
    SettingChange,
    Upgrade,
    UpgradeChange,
    asks,
    by_policy,
    change_of,
    named,
    setting_changes,
)
from simulator.broker import WORKER_PREFETCH

OWN_LIMIT = 50
_NOT_SET = "not set"


@asks("quorum_default_delivery_limit", "quorum_negative_delivery_limit", "quorum_non_integer_delivery_limit")
def delivery_limit(upgrade: Upgrade, row: Row) -> Iterator[UpgradeChange]:
    """A quorum queue gets a delivery limit that was not set, or a different one."""
    for each in setting_changes(upgrade, row):
        if each.key != DELIVERY_LIMIT:
            continue
        if row.name == "quorum_default_delivery_limit" and each.now is not None:
            continue  # its limit changes, and another row says why
        yield _limit_change(upgrade, each)
    same = upgrade.before.quorum_requeue_without_limit == upgrade.after.quorum_requeue_without_limit
    if row.name == "quorum_default_delivery_limit" and same:
        yield from place_of_returns(upgrade, row)


def _limit_change(upgrade: Upgrade, each: SettingChange) -> UpgradeChange:
    queue, before, after = each.queue.name, upgrade.before.name, upgrade.after.name
    end = _end_of_limit(each.after)
    now = _limit(f"'{queue}'", each.now, upgrade.before, _end_of_limit(each.before))
    then = _limit("it", each.then, upgrade.after, end)
    severity: Severity = "note"
    lost = ""
    if each.then is not None and (each.now is None or each.then < each.now):
        lost = _lost_after_limit(upgrade, each.queue)
        severity = "warning" if each.after.dead_letters and not lost else "error"
    return UpgradeChange(
        severity=severity,
        about=each.queue.about,
        message=f"Under {before} {now}; under {after} {then}.{lost}",
        fix=NOTHING_TO_DO if severity == "note" and not each.before.dead_letters else _limit_fix(upgrade, each),
        traffic=MessagesConcerned("return", each.queue.vhost, (queue,)),
    )


def _lost_after_limit(upgrade: Upgrade, queue: QueueAt) -> str:
    """Say where messages that exceed the delivery limit of a queue close a cycle after the upgrade; empty if none do.

    Besides that death, they only expire: nothing more is needed of consumers.
    """
    walk = upgrade.later_walks[queue.vhost]
    for loss in (loss for place in walk.places for loss in losses_at(place, walk, parked=False)):
        deaths = {*((hop.queue, hop.reason) for hop in loss.path), (loss.queue, loss.reason)}
        others = {reason for _, reason in deaths - {(queue.name, OVER_LIMIT)}}
        closes = loss.whole and loss.target is not None and loss.fate in ("cycle", HELD)
        if closes and (queue.name, OVER_LIMIT) in deaths and others <= {EXPIRED}:
            return f" Then it is {'held' if loss.fate == HELD else 'lost'} in '{loss.queue}': {loss.rule}."
    return ""


def _limit(queue: str, limit: int | None, release: Release, end: str) -> str:
    if limit is None:
        return f"consumers may return a message to {queue} as often as they like"
    failed = "failed delivery (a basic.reject with requeue, or a lost channel)"
    kind = failed if release.quorum_delivery_limit_counts == "failures" else "return"
    return f"{queue} has the delivery limit {limit}: the {_ordinal(limit + 1)} {kind} {end}"


def _ordinal(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def _end_of_limit(settings: Settings) -> str:
    if not settings.dead_letters:
        return "drops the message, because the queue has no dead-letter exchange"
    name = settings.dead_letter_exchange
    return f"dead-letters the message to exchange '{name}'" if name else "dead-letters it to the default exchange"


def _limit_fix(upgrade: Upgrade, each: SettingChange) -> Fix:
    if each.now is not None:
        wanted = "the limit that you want"
        return change_of(each.before, DELIVERY_LIMIT, f"give it {wanted}, a positive number means the same in both")
    own = f"delivery-limit (such as {OWN_LIMIT})"
    own += "" if each.before.dead_letters else " and dead-letter-exchange"
    safe = f"before the upgrade, {by_policy(each.before, own)}; {upgrade.before.name} takes that"
    unlimited = Policy(name="limits", pattern=".*", definition={DELIVERY_LIMIT: -1}, apply_to="queues")
    if upgrade.refused_policy(unlimited, upgrade.before, operator=False) is None:
        return Fix(True, f"{safe}, and also delivery-limit -1 for none")
    return Fix(True, f"{safe}. Policies take delivery-limit -1, for none, only from 4.0 on")


@asks("quorum_delivery_limit_counts")
def what_counts(upgrade: Upgrade, _row: Row) -> Iterator[UpgradeChange]:
    """A quorum queue counts other returns towards its delivery limit."""
    failures = upgrade.after.quorum_delivery_limit_counts == "failures"
    for queue, now, then in upgrade.queues(QUORUM):
        if now.delivery_limit is None or then.delivery_limit is None:
            continue  # where the limit is new, that is reported
        if failures:
            text = (
                f"Messages that consumers of '{queue.name}' return by basic.nack no longer count towards its delivery"
                f" limit ({then.delivery_limit}): under {upgrade.before.name} every return counts, under"
                f" {upgrade.after.name} only a basic.reject and a lost channel do. A message that is always returned"
                " by basic.nack comes back forever."
            )
        else:
            text = (
                f"Every return to '{queue.name}' counts towards its delivery limit ({then.delivery_limit}) under"
                f" {upgrade.after.name}, those by basic.nack too; under {upgrade.before.name} only a basic.reject and"
                " a lost channel do."
            )
        how = "let consumers return a failed message by basic.reject with requeue=true in place of basic.nack"
        fix = Fix(True, f"{how}; it counts in both releases") if failures else NOTHING_TO_DO
        yield UpgradeChange(
            severity="warning",
            about=queue.about,
            message=text,
            fix=fix,
            traffic=MessagesConcerned("return", queue.vhost, (queue.name,)),
        )


@asks(
    "quorum_overflow",
    "quorum_at_least_once",
    "quorum_expires",
    "consumer_timeout_setting",
    "policy_applies_to_queue_types",
    "regex_library",
    "operator_overflow",
    "classic_unsupported_policy_keys",
    "quorum_unsupported_policy_keys",
    "stream_unsupported_policy_keys",
)
def other_settings(upgrade: Upgrade, row: Row) -> Iterator[UpgradeChange]:
    """A setting of a queue is another one, because its type knows the key, or another policy applies."""
    for each in setting_changes(upgrade, row):
        if _has_the_same_effect(each):
            continue
        if each.key != DELIVERY_LIMIT or row.name.endswith("policy_keys"):
            yield _changed(upgrade, each)


@asks("policy_keys_checked_at_declaration")
def policies_of_new_queues(upgrade: Upgrade, row: Row) -> Iterator[UpgradeChange]:
    """A queue that is declared after a policy which its type does not support has it for a while, or no longer."""
    first, other = upgrade.before, upgrade.after
    if first.policy_keys_checked_at_declaration:
        first, other = other, first
    for queue, _, _ in upgrade.queues():
        topology = upgrade.topologies[queue.vhost]
        definition = topology.queues[queue.name]
        new = effective_settings(definition, topology, first, at_declaration=True).in_force
        later = effective_settings(definition, topology, first).in_force
        extra = [one.name for one, then in zip(new, later, strict=True) if one is not None and one != then]
        if extra:
            yield UpgradeChange(
                severity="warning",
                about=queue.about,
                message=f"Under {first.name} '{queue.name}' has policy {named(extra)} if it is declared after it, until"
                f" a policy changes, though {definition.type} queues do not support all its keys; under"
                f" {other.name} that is skipped at once.",
                fix=Fix(True, "put the queue's settings into a policy with only keys that its type supports"),
                traffic=MessagesConcerned("any message", queue.vhost, (queue.name,)),
            )


def _changed(upgrade: Upgrade, each: SettingChange) -> UpgradeChange:
    now, then = (
        f"{_shown(value)} under {release.name}{_origin(settings, each.key)}"
        for value, release, settings in (
            (each.now, upgrade.before, each.before),
            (each.then, upgrade.after, each.after),
        )
    )
    severity, follows = _what_follows(each)
    held = _held_from_then_on(upgrade, each) if (each.key, each.then) == (DEAD_LETTER_STRATEGY, AT_LEAST_ONCE) else None
    if held is not None:
        severity, follows = held.severity, f"{follows} {held.sentence}"
    return UpgradeChange(
        severity=severity,
        about=each.queue.about,
        message=f"{each.key} of '{each.queue.name}' is {now}, and {then}.{_why_skipped(each)} {follows}".rstrip(),
        fix=held.fix if held is not None else NOTHING_TO_DO if _only_stops_a_loss(each) else _same_in_both(each),
        traffic=MessagesConcerned(_MET_BY.get(each.key, "any message"), each.queue.vhost, (each.queue.name,)),
    )


class _Held(NamedTuple):
    """What a queue holds after the upgrade that is lost before it: how bad that is, in words, and what to do."""

    severity: Severity
    sentence: str
    fix: Fix


def _held_from_then_on(upgrade: Upgrade, each: SettingChange) -> _Held | None:
    """Return what becomes of dead letters that no queue takes: each is lost, and then they hold up all others."""
    queue, walk = each.queue, upgrade.later_walks[each.queue.vhost]
    held: dict[str, Loss] = {}
    others_arrive = False
    for place in (place for place in walk.places if place.queue == queue.name):
        found = {loss.reason: loss for loss in losses_at(place, walk, parked=False) if loss.fate == HELD}
        held |= found
        possible = {death.reason for death in walk.flow.deaths(place.state) if death.possible}
        others_arrive = others_arrive or bool(possible - found.keys())
    if not held:
        return None
    loss = next(iter(held.values()))
    also = ", also those that arrive today" if others_arrive else ""
    sentence = (
        f"What {DEATHS[loss.reason]} '{queue.name}' and is lost today is held there then: {loss.rule}."
        f" {WORKER_PREFETCH} of these hold up all its other dead letters{also}."
    )
    how = (
        "before the upgrade, lead its dead letters to a queue that takes them all; dlx lint names those that none takes"
    )
    return _Held("error" if others_arrive else "warning", sentence, Fix(True, how))


_MET_BY: dict[str, Kind] = {DEAD_LETTER_EXCHANGE: "death", DEAD_LETTER_STRATEGY: "death"}


def _has_the_same_effect(each: SettingChange) -> bool:
    """Return whether a release that does not know the key does what the other one does with its value."""
    if each.key == OVERFLOW:
        return each.before.overflow == each.after.overflow
    return each.key == DEAD_LETTER_STRATEGY and each.before.dead_letter_strategy == each.after.dead_letter_strategy


_KEEPS = {
    (EXPIRES, None): "The queue is no longer deleted.",
    (DEAD_LETTER_STRATEGY, AT_LEAST_ONCE): "It then keeps a dead letter until another queue has confirmed it.",
}


def _only_stops_a_loss(each: SettingChange) -> bool:
    """Return whether messages, or the queue with them, that are lost today are kept, and nothing else changes."""
    if each.key in (DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY):
        return each.after.dead_letters and not each.before.dead_letters
    return (each.key, each.then) in _KEEPS


def _what_follows(each: SettingChange) -> tuple[Severity, str]:
    if _only_stops_a_loss(each):
        return "note", _KEEPS.get((each.key, each.then), "Messages that die there are dead-lettered.")
    if each.key == MESSAGE_TTL and each.then is not None and not each.after.dead_letters:
        return "error", f"Messages that wait {each.then} ms are dropped, because it has no dead-letter exchange."
    if each.key == MESSAGE_TTL and each.then is not None:
        return "warning", f"Messages that wait {each.then} ms are dead-lettered."
    if each.key == DEAD_LETTER_EXCHANGE and each.then is None:
        return "error", "Messages that die there are dropped."
    if each.key == EXPIRES and each.then is not None:
        return "error", f"When the queue has been unused for {each.then} ms, it is deleted with its messages."
    if each.key == OVERFLOW and each.then != each.now:
        return "warning", "A full queue treats new messages differently."
    return "warning", ""


def _why_skipped(each: SettingChange) -> str:
    """Say which policy is another one, and why the other is skipped."""
    now, then = each.before.policy.policy, each.after.policy.policy
    if now == then:
        return ""
    skipped = [*each.after.policy.skipped, *each.before.policy.skipped]
    reasons = [f"'{one.policy.name}' is skipped: {one.why}" for one in skipped if one.policy in (now, then)]
    return f" Policy {reasons[0]}." if reasons else ""


def _same_in_both(each: SettingChange) -> Fix:
    release_now, release_then = each.before.release.name, each.after.release.name
    both = (
        f"in a policy with only keys that both {release_now} and {release_then} know for {each.after.queue.type} queues"
    )
    wanted = _shown(each.now) if each.now is not None else "what you want"
    if each.after.values.get(each.key) is not None and each.after.values[each.key].origin.kind == "argument":
        return change_of(each.after, each.key, f"decide on {each.key} before the upgrade")
    return Fix(True, f"before the upgrade, decide on {each.key} ({wanted}) {both}")


def _origin(settings: Settings, key: str) -> str:
    setting = settings.values.get(key)
    return "" if setting is None else f" ({setting.origin})"


def _shown(value: Any) -> str:
    return _NOT_SET if value is None else f"'{value}'" if isinstance(value, str) else str(value)


@asks("quorum_message_ttl")
def quorum_message_ttl(upgrade: Upgrade, row: Row) -> Iterator[UpgradeChange]:
    """Quorum queues begin to apply a time to live: their own, and the expiration of a message."""
    for each in setting_changes(upgrade, row):
        yield _changed(upgrade, each)
    begins = upgrade.after.quorum_message_ttl
    old, new = (upgrade.before.name, upgrade.after.name) if begins else (upgrade.after.name, upgrade.before.name)
    fix = "publish without expiration what must not expire" if begins else "let another queue delay messages"
    for queue, now, then in upgrade.queues(QUORUM):
        dead_letters = (then if begins else now).dead_letters
        end = "dead-lettered" if dead_letters else "dropped"
        why = "" if dead_letters else ", because the queue has no dead-letter exchange"
        yield UpgradeChange(
            severity="warning",
            about=queue.about,
            message=f"A message that is published with an expiration stays in '{queue.name}' under {old}, which ignores"
            f" it there; under {new} it is {end} when that time is over{why}.",
            fix=Fix(True, fix),
            traffic=MessagesConcerned("expiration", queue.vhost, (queue.name,)),
        )


@asks("quorum_requeue_without_limit")
def place_of_returns(upgrade: Upgrade, _row: Row) -> Iterator[UpgradeChange]:
    """A quorum queue puts returned messages elsewhere."""
    for queue, now, then in upgrade.queues(QUORUM):
        places = [
            "front" if settings.delivery_limit is not None else settings.release.quorum_requeue_without_limit
            for settings in (now, then)
        ]
        if places[0] != places[1]:
            yield UpgradeChange(
                severity="note",
                about=queue.about,
                message=f"A message that a consumer returns goes to the {places[0]} of '{queue.name}' under"
                f" {upgrade.before.name}, and to its {places[1]} under {upgrade.after.name}.",
                fix=NOTHING_TO_DO,
                traffic=MessagesConcerned("return", queue.vhost, (queue.name,)),
            )


@asks("quorum_message_size")
def message_size(upgrade: Upgrade, _row: Row) -> Iterator[UpgradeChange]:
    """A limit in bytes counts the properties of messages too."""
    for queue, _, then in upgrade.queues(QUORUM):
        if then.max_length_bytes is not None:
            yield UpgradeChange(
                severity="warning",
                about=queue.about,
                message=f"'{queue.name}' holds at most {then.max_length_bytes:,} bytes. Under {upgrade.before.name} the"
                f" {_size(upgrade.before)} of its messages count, under {upgrade.after.name} the"
                f" {_size(upgrade.after)}, so that it is full with another number of messages.",
                fix=change_of(then, MAX_LENGTH_BYTES, "leave room for properties and headers"),
                traffic=MessagesConcerned("any message", queue.vhost, (queue.name,)),
            )


def _size(release: Release) -> str:
    return "bodies" if release.quorum_message_size == "body" else "bodies, properties and headers"
