"""Questions about what consumers read of a message's past: x-death, its counts, and the headers beside it."""

from __future__ import annotations

from collections.abc import Iterator

from dlx.releases import Row
from dlx.settings import DEAD_LETTER_ROUTING_KEY, Settings
from dlx.topology import CLASSIC, QUORUM, STREAM
from simulator.analysis.findings import Fix, ObjectName, Severity
from simulator.analysis.upgrade.questions import (
    NOTHING_TO_DO,
    MessagesConcerned,
    Upgrade,
    UpgradeChange,
    asks,
    for_each_vhost,
    named,
)

OWN_COUNT = Fix(
    True,
    "count attempts in a header of your own (`dlx.republish_headers`), or reject the message into a queue with a TTL"
    " in place of publishing it again; both work in both releases",
)


@asks("client_deaths_continued")
def republished(upgrade: Upgrade, _row: Row) -> Iterator[UpgradeChange]:
    """The counts of a message that a client publishes again with its headers begin again, or continue."""
    text = "A client or a shovel takes a dead letter from {names} and publishes it again with its headers: "
    if upgrade.after.client_deaths_continued:
        text += (
            "under {before} its x-death counts begin at 1 with the next death; under {after} RabbitMQ takes the header"
            " for its history and counts on."
        )
    else:
        text += (
            "under {before} its x-death counts go on with every death. Under {after} RabbitMQ does not read the header,"
            " and the counts begin at 1 with the next death, so a consumer that gives up at a count never does."
        )
    queues = ((vhost, name) for vhost, name in _taking(upgrade) if not _only_waits(upgrade, vhost, name))
    yield from for_each_vhost(upgrade, queues, "republished", text, "warning", OWN_COUNT)


def _only_waits(upgrade: Upgrade, vhost: str, name: str) -> bool:
    settings = upgrade.after_flows[vhost].settings(name)
    return settings.message_ttl_ms is not None and settings.dead_letters


def _dead_lettering(upgrade: Upgrade, *types: str) -> Iterator[tuple[str, str]]:
    """Yield the queues of these types that have a dead-letter exchange."""
    for queue, _, then in upgrade.queues(*types):
        if then.dead_letters:
            yield queue


def _taking(upgrade: Upgrade) -> Iterator[tuple[str, str]]:
    """Yield the queues that dead letters enter."""
    return ((vhost, name) for vhost, targets in upgrade.takes_dead_letters.items() for name in sorted(targets))


@asks("last_death_headers")
def last_death(upgrade: Upgrade, row: Row) -> Iterator[UpgradeChange]:
    """Dead letters carry the x-last-death headers, or no longer do."""
    has = upgrade.after.last_death_headers
    text = "Dead letters in {names} carry " + (
        "x-last-death-reason, -queue and -exchange under {after}; under {before} they do not, and a client's own"
        " header of such a name stays as it is."
        if has
        else "no x-last-death headers under {after}; under {before} they do."
    )
    fix = NOTHING_TO_DO if has else Fix(True, "let consumers read x-death, which has the same in both releases")
    yield from for_each_vhost(upgrade, _taking(upgrade), "dead letter", text, "note" if has else "warning", fix)


@asks("death_routing_keys")
def routing_keys(upgrade: Upgrade, _row: Row) -> Iterator[UpgradeChange]:
    """The routing keys in x-death leave out others."""
    text = (
        "A message with CC or BCC keys that dies in {names} has different routing-keys in x-death: the first key"
        " and CC until 3.12, all keys except those of BCC from 3.13 on ({before} and {after} differ)."
    )
    yield from for_each_vhost(upgrade, _dead_lettering(upgrade), "CC", text)


@asks("cc_header_after_dead_letter_routing_key")
def cc_header(upgrade: Upgrade, _row: Row) -> Iterator[UpgradeChange]:
    """The CC header of a dead letter stays, or is removed, where a routing key replaces the message's."""
    queues = (
        queue for queue, _, then in upgrade.queues() if then.dead_letters and then.dead_letter_routing_key is not None
    )
    kept = upgrade.after.cc_header_after_dead_letter_routing_key == "kept"
    now, later = ("loses", "keeps") if kept else ("keeps", "loses")
    text = (
        f"A message with a CC header that dies in {{names}} {now} the header under {{before}}, because"
        f" {DEAD_LETTER_ROUTING_KEY} replaces its keys; under {{after}} it {later} the header."
    )
    fix = NOTHING_TO_DO
    if kept:
        text += " A client that publishes such a message again with its headers sends it to the CC keys once more."
        fix = Fix(True, "remove CC from the headers before a dead letter is published again")
    yield from for_each_vhost(upgrade, queues, "CC", text, "note", fix)


@asks("original_expiration")
def original_expiration(upgrade: Upgrade, _row: Row) -> Iterator[UpgradeChange]:
    """A death records the expiration that the message had, or does not."""
    before, after = upgrade.before.original_expiration, upgrade.after.original_expiration
    for types in ((QUORUM,), (CLASSIC,)):
        now, then = (_records(value, types[0]) for value in (before, after))
        if now != then:
            text = (
                f"A message with an expiration that dies in {{names}}: its x-death {now} original-expiration under"
                f" {{before}}, and {then} it under {{after}}. The expiration itself is removed in both."
            )
            fix = NOTHING_TO_DO if then == "has" else Fix(True, "publish the delay in a header of your own as well")
            severity: Severity = "note" if then == "has" else "warning"
            yield from for_each_vhost(upgrade, _dead_lettering(upgrade, *types), "expiration", text, severity, fix)


def _records(value: str, queue_type: str) -> str:
    if value == "not by quorum queues" and queue_type == QUORUM:
        return "does not have"
    if value == "not behind another message" and queue_type == CLASSIC:
        return "has only where the message did not wait behind another one"
    return "has"


_TOLD_APART = 3
"""This many different deaths are listed in another order; the newest comes first, so two have only one order."""


def _deep(upgrade: Upgrade) -> Iterator[tuple[str, str]]:
    """Yield the queues to which messages may come after three different deaths, from where on their order differs."""
    for vhost, walk in upgrade.walks.items():
        behind: dict[int, frozenset[tuple[str, str]]] = {}
        ahead = list(walk.places)
        while ahead:
            place = ahead.pop()
            for hop, there in place.onward:
                known = behind.get(id(there), frozenset())
                more = known | behind.get(id(place), frozenset()) | {hop[:2]}
                if len(known) < _TOLD_APART and more != known:
                    behind[id(there)] = more
                    ahead.append(there)
        seen = {place.queue for place in walk.places if len(behind.get(id(place), ())) >= _TOLD_APART}
        yield from ((vhost, name) for name in sorted(seen))


def order_of_deaths(upgrade: Upgrade) -> Iterator[UpgradeChange]:
    """Yield where x-death lists its entries in another order."""
    text = (
        "A message that died three times or more in different queues comes to {names} with the entries of x-death in"
        " another order: under {before} each death reverses the older ones, under {after} the newest comes first"
        " and the others behind it by age. The first entry is the newest in both."
    )
    fix = Fix(True, "let consumers look for the entry of a queue and reason, not for a place in the list")
    yield from for_each_vhost(upgrade, _deep(upgrade), "dead letter", text, "warning", fix)


@asks("headers_kept_in_stream")
def stream_headers(upgrade: Upgrade, _row: Row) -> Iterator[UpgradeChange]:
    """Consumers of a stream see other headers."""
    text = (
        "Consumers of stream {names} see different headers on a message: under 3.12 and before, a stream keeps no"
        " arrays and tables (no x-death and no CC); from 3.13 on it keeps x-death, x- headers and CC, and a dead letter"
        " read from it shows an expiration again."
    )
    yield from for_each_vhost(upgrade, upgrade.names(STREAM), "any message", text)


@asks("quorum_acquired_count_header")
def acquired_count(upgrade: Upgrade, _row: Row) -> Iterator[UpgradeChange]:
    """x-delivery-count of a quorum queue counts something else."""
    every, failed = "every return", "failed deliveries only (basic.reject and lost channels)"
    now, then, instead = (
        (
            every,
            failed,
            "x-acquired-count has every return, and a consumer that returns by basic.nack sees no other count",
        )
        if upgrade.after.quorum_acquired_count_header
        else (failed, every, "there is no x-acquired-count")
    )
    text = (
        f"x-delivery-count on deliveries from {{names}} counts {now} under {{before}}, and {then} under {{after}};"
        f" {instead}."
    )
    fix = Fix(True, "let consumers read x-acquired-count where it is there, and x-delivery-count otherwise")
    yield from for_each_vhost(upgrade, upgrade.names(QUORUM), "return", text, "warning", fix)


@asks("quorum_count_on_first_get")
def first_get(upgrade: Upgrade, _row: Row) -> Iterator[UpgradeChange]:
    """basic.get shows a count of 0 on the first delivery, or none."""
    text = (
        "The first basic.get of a message from {names} shows x-delivery-count 0 until 3.11, and no header from 3.12 on."
    )
    yield from for_each_vhost(upgrade, upgrade.names(QUORUM), "any message", text)


@asks("delivery_count_carried")
def carried(upgrade: Upgrade, _row: Row) -> Iterator[UpgradeChange]:
    """A dead letter brings its count of failed deliveries along, and the next quorum queue counts on."""
    if upgrade.after.delivery_count_carried == "never":
        return
    for vhost, targets in upgrade.takes_dead_letters.items():
        flow = upgrade.after_flows[vhost]
        for name, sources in sorted(targets.items()):
            settings = flow.settings(name)
            bringing = [source for source in sorted(sources) if _brings(upgrade, flow.settings(source))]
            if settings.queue.type == QUORUM and bringing:
                yield _carried(upgrade, ObjectName("queue", vhost, name), settings, bringing)


def _brings(upgrade: Upgrade, source: Settings) -> bool:
    if source.queue.type == STREAM:
        return False
    if source.queue.type == QUORUM and upgrade.before.delivery_count_carried != "never":
        return _begins_to_count(upgrade)
    return source.queue.type == QUORUM or upgrade.after.delivery_count_carried == "from all queues"


def _begins_to_count(upgrade: Upgrade) -> bool:
    counts = [release.quorum_delivery_limit_counts == "failures" for release in (upgrade.before, upgrade.after)]
    return counts == [False, True]


def _carried(upgrade: Upgrade, about: ObjectName, settings: Settings, sources: list[str]) -> UpgradeChange:
    counts = _begins_to_count(upgrade) and settings.delivery_limit is not None
    limit = f" They count towards its delivery limit ({settings.delivery_limit}), which is reached sooner."
    now = "as if it were new" if upgrade.before.delivery_count_carried == "never" else "and its past counts for nothing"
    return UpgradeChange(
        severity="warning" if counts else "note",
        about=about,
        message=f"A dead letter from {named(sources)} comes to '{about.name}' {now} under"
        f" {upgrade.before.name}; under {upgrade.after.name} it carries its failed deliveries along, and is redelivered"
        f" with x-delivery-count 1 or more.{limit if counts else ''}",
        fix=Fix(True, f"give '{about.name}' a higher delivery-limit with a policy, if its consumers return messages")
        if counts
        else NOTHING_TO_DO,
        traffic=MessagesConcerned("dead letter", about.vhost, (about.name,)),
    )
