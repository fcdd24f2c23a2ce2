"""What a recording says of an application on its own: what was refused to its clients, and what nobody was told of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import msgspec

from dlx.message_flow import MessageFlow
from dlx.releases import Release
from dlx.topology import STOCK_EXCHANGES
from simulator.analysis.findings import SEVERITIES, Severity
from simulator.events import Event
from simulator.record.recording import STORY_MAX, RecordedLoss, RecordedPublishes, RecordedQueue, Recording
from simulator.record.seen_clients import counted, messages, together
from simulator.time_spans import span

NAMED_MAX = 3
LOOP_MIN = 20
"""More redeliveries than this for each message are reported as a loop."""
Kind = Literal[
    "no-client", "refused", "unroutable", "lost", "returned", "full", "x-death", "counter", "timed-out", "loop",
    "expiration", "prefetch",
]  # fmt: skip
_LOOKED_FOR = 404
"""The code of what is not there: many clients ask whether it is."""


class Fact(msgspec.Struct, frozen=True):
    """One fact of a recording.

    Attributes:
        kind: what it is about; losses come first, then ``refused``.
        severity: ``error`` where messages were lost, as for findings.
        text: the fact in a sentence.
        story: what happened to the first message, in sentences, where it was lost.
    """

    kind: Kind
    severity: Severity
    text: str
    story: tuple[str, ...] = ()


class Recorded(msgspec.Struct, frozen=True):
    """What an answer says of the recording that it rests on.

    Attributes:
        of, release, command: as in ``Recording``.
        ms: how long it took; ``None`` while it goes on.
        clients, messages: how many connected, and how many messages they published; ``None`` where publishes were not
            recorded.
        not_seen: what it cannot know, in clauses.
        lost: the messages that were lost in it, of which nobody was told.
        facts: what it says on its own.
    """

    of: str
    release: str
    command: tuple[str, ...]
    ms: int | None
    clients: int
    messages: int | None
    not_seen: tuple[str, ...]
    lost: tuple[RecordedLoss, ...]
    facts: tuple[Fact, ...] = ()

    @property
    def sentence(self) -> str:
        """What was recorded, in one sentence."""
        of = "the simulated broker" if self.of == "simulator" else self.of
        by = f", by `{' '.join(self.command)}`" if self.command else ""
        how_long = "" if self.ms is None else f" in {span(self.ms * 1_000)}"
        who = counted(self.clients, "client")
        if self.messages is None:
            return f"Recorded{how_long} on {of}{by}: {who}, and publishes were not recorded"
        who = f"{counted(self.messages, 'message')} of {who}"
        return f"Recorded{how_long} on {of}{by}: {who}"


def recorded(recording: Recording, facts: Iterable[Fact] = ()) -> Recorded:
    """Return what an answer says of the recording."""
    ended = recording.ended_us
    found = sorted(
        facts, key=lambda each: (each.severity != "error", each.kind != "refused", SEVERITIES.index(each.severity))
    )
    return Recorded(
        recording.of,
        recording.release,
        tuple(recording.command),
        None if ended is None else (ended - recording.began_us) // 1_000,
        len(recording.connections),
        messages(recording) if recording.has_publishes else None,
        tuple(recording.not_seen),
        tuple(recording.lost),
        tuple(found),
    )


def taken_from(recording: Recording, source: object) -> str:
    """Say from which recording an answer takes what clients did, and what that cannot know."""
    found = recorded(recording)
    more = "".join(f" Not recorded: {each}." for each in found.not_seen)
    return f"What clients did is taken from {source}. {found.sentence}.{more}"


def facts_of(
    recording: Recording, release: Release, flows: Mapping[str, MessageFlow], unexplained: Iterable[RecordedLoss]
) -> Iterator[Fact]:
    """Yield what a recording says on its own; ``unexplained``: the losses that no finding is about."""
    yield from _no_client(recording)
    yield from _refusals(recording)
    yield from _publishes(recording, release)
    for lost in unexplained:
        where = f"'{lost.queue}'{_in(lost.vhost)} ({lost.reason or _HOW.get(lost.event, lost.event)})"
        told = f"{counted(lost.times, 'message')} lost from {where}: no finding explains it"
        yield Fact("lost", "error", told, tuple(lost.story[:STORY_MAX]))
    yield from _prefetches(recording, flows)
    counters: dict[str, set[str]] = defaultdict(set)
    for one in recording.published:
        counters[one.vhost].update(one.counters)
    for each in recording.consumed:
        at = f"'{each.queue}'{_in(each.vhost)}"
        if each.timed_out:
            closed = counted(each.timed_out, "channel")
            yield Fact("timed-out", "warning", f"the consumer timeout closed {closed} of consumers of {at}")
        messages_delivered = max(each.deliveries - each.redeliveries, 1)
        if each.redeliveries > LOOP_MIN * messages_delivered:
            times = f"{each.deliveries:,} deliveries of {counted(messages_delivered, 'message')} left {at}"
            yield Fact("loop", "warning", f"{times}: they were returned, and delivered again, over and over")
        limit = _delivery_limit(each, flows)
        if each.republished and counters[each.vhost] and limit is not None:
            names = together([f"'{name}'" for name in sorted(counters[each.vhost])])
            yield Fact(
                "counter",
                "note",
                f"clients count tries in header {names} and publish messages of {at} again, and the queue has a "
                f"delivery limit of {limit} besides: that counts what goes back to the queue, not what is published",
            )


def _delivery_limit(consumed: RecordedQueue, flows: Mapping[str, MessageFlow]) -> int | None:
    flow = flows.get(consumed.vhost)
    there = flow is not None and consumed.queue in flow.topology.queues
    return flow.settings(consumed.queue).delivery_limit if flow is not None and there else None


def _prefetches(recording: Recording, flows: Mapping[str, MessageFlow]) -> Iterator[Fact]:
    """Yield the queues with a delivery limit whose consumers take several messages in advance.

    In every release, a lost channel counts for each delivery that it had (``quorum_delivery_limit_counts``).
    """
    alike: dict[tuple[bool, tuple[int, ...], int], list[str]] = defaultdict(list)
    for each in recording.consumed:
        limit, most = _delivery_limit(each, flows), tuple(sorted(set(each.prefetch) - {1}))
        if limit is not None and most and each.automatic < max(each.deliveries, 1):
            alike[each.abandoned > 0, most, limit].append(f"'{each.queue}'{_in(each.vhost)}")
    for (was_lost, most, limit), queues in alike.items():
        more = f" and {len(queues) - NAMED_MAX:,} more queues" if len(queues) > NAMED_MAX else ""
        taken = together([f"{count:,}" if count else "any number of" for count in most])
        seen = ", and channels were lost with messages" if was_lost else ""
        yield Fact(
            "prefetch",
            "warning" if was_lost else "note",
            f"consumers of {', '.join(queues[:NAMED_MAX])}{more} take {taken} messages in advance, with a delivery "
            f"limit of {limit}{seen}: each lost channel counts against all messages that it had, also those that "
            "nobody had begun to work on, and they die with the one that is to blame. Take one at a time, or raise the "
            "limit",
        )


def _no_client(recording: Recording) -> Iterator[Fact]:
    unknown = any(each.startswith("connections") for each in recording.not_seen)
    if unknown or recording.published or any(each.number for each in recording.connections):
        return
    if recording.of == "simulator":
        where = "the broker's address is in AMQP_URL and other variables; --env sets those that the application reads"
    else:
        where = f"the application has to connect to {recording.of} while it is recorded"
    yield Fact("no-client", "error", f"No client connected: {where}")


_HOW = {Event.PURGED.value: "the queue was purged, deleted or expired"}


def _refusals(recording: Recording) -> Iterator[Fact]:
    for each in recording.refusals:
        who = together(list(recording.clients_of(each.connections))) or "a client"
        times = f", {each.times:,} times" if each.times > 1 else ""
        text = f"{each.method}{_in(each.vhost)} was refused to {who}: {each.code} {each.text}{times}"
        looked = each.code == _LOOKED_FOR and each.method != "basic.publish"  # which is gone with its message
        yield Fact("refused", "note" if looked else "warning", text)


def _publishes(recording: Recording, release: Release) -> Iterator[Fact]:
    """Yield what became of publishes, for each exchange."""
    by_exchange: dict[tuple[str, str], list[RecordedPublishes]] = defaultdict(list)
    for each in recording.published:
        by_exchange[each.vhost, each.exchange].append(each)
    for (vhost, exchange), found in by_exchange.items():
        to = (f"exchange '{exchange}'" if exchange else "the default exchange") + _in(vhost)
        yield from _unroutable(recording, found, to)
        yield from _returned_or_refused(found, to)
        yield from _with_x_death(found, to, release)
        yield from _expiring(found, to)
    if recording.omitted_unroutable:
        what = counted(recording.omitted_unroutable, "message")
        yield Fact("unroutable", "error", f"{what} with further routing keys reached no queue, and nobody was told")


def _told(count: int, found: list[RecordedPublishes], to: str) -> str:
    return f"{counted(count, 'message')} to {to} with {_keys(found)}"


def _unroutable(recording: Recording, found: list[RecordedPublishes], to: str) -> Iterator[Fact]:
    gone = [each for each in found if each.unroutable > each.returned]
    if not gone:
        return
    what = f"{_told(sum(each.unroutable - each.returned for each in gone), gone, to)} reached no queue"
    who = together(list(recording.clients_of([number for each in gone for number in each.connections])))
    by = f". Published by {who.removesuffix('.')}" if who else ""
    if _may_have_no_listener(recording, gone[0].vhost, gone[0].exchange):
        yield Fact("unroutable", "warning", f"{what}: none was ever bound to it, so nobody listened{by}")
    else:
        yield Fact("unroutable", "error", f"{what}, and nobody was told: publish them as mandatory{by}")


def _returned_or_refused(found: list[RecordedPublishes], to: str) -> Iterator[Fact]:
    back = [each for each in found if each.returned]
    if back:
        what = _told(sum(each.returned for each in back), back, to)
        yield Fact("returned", "warning", f"{what} reached no queue and went back to the publisher")
    full = [each for each in found if each.refused and not each.confirmed]
    if full:
        what = _told(sum(each.refused for each in full), full, to)
        yield Fact("full", "error", f"a full queue refused {what}, and nobody was told: publish with confirms")
    full = [each for each in found if each.refused and each.confirmed]
    if full:
        what = _told(sum(each.refused for each in full), full, to)
        yield Fact("full", "warning", f"a full queue refused {what} (basic.nack)")


def _with_x_death(found: list[RecordedPublishes], to: str, release: Release) -> Iterator[Fact]:
    counts_on = release.client_deaths_continued
    again = [each for each in found if each.with_x_death and (counts_on or not each.counters)]
    if again:
        what = _told(sum(each.with_x_death for each in again), again, to)
        goes_on = "counts on from it" if counts_on else "does not count on from it"
        text = f"{what} had the x-death of an earlier delivery: RabbitMQ {release.name} {goes_on}"
        yield Fact("x-death", "note" if counts_on else "warning", text)


def _expiring(found: list[RecordedPublishes], to: str) -> Iterator[Fact]:
    timed = [each for each in found if each.least_expiration_ms is not None]
    if timed:
        least = min(each.least_expiration_ms or 0 for each in timed)
        most = max(each.most_expiration_ms or 0 for each in timed)
        ms = f"{least:,} ms" if least == most else f"{least:,} to {most:,} ms"
        text = f"messages to {to} with {_keys(timed)} had an expiration of {ms}"
        yield Fact("expiration", "note", f"{text}: findings are about messages without one")


def _may_have_no_listener(recording: Recording, vhost: str, exchange: str) -> bool:
    """Return whether an exchange is for whoever listens, and nobody ever did, as with events that nobody wants."""
    declared = recording.declared("exchange", vhost, exchange)
    kind = next((each.type for each in STOCK_EXCHANGES if each.name == exchange), "")
    if declared is not None:
        kind = declared.item["type"]
    bound = (each.item["source"] == exchange for each in recording.declarations if each.kind == "binding")
    return kind in ("fanout", "topic") and not any(bound)


def _keys(found: list[RecordedPublishes]) -> str:
    named = ", ".join(f"'{each.routing_key}'" for each in found[:NAMED_MAX])
    more = f" and {len(found) - NAMED_MAX:,} more" if len(found) > NAMED_MAX else ""
    return f"routing key {named}{more}"


def _in(vhost: str) -> str:
    return "" if vhost in ("", "/") else f" in virtual host '{vhost}'"
