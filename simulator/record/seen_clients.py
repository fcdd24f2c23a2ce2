"""What clients did in a recording, in the place of what a project would state of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from glob import escape
from typing import Any

import msgspec

from dlx.deaths import DELIVERY_LIMIT, MAXLEN
from dlx.releases import Release, release
from simulator.analysis.clients import NOTHING_STATED, Clients, Failure, Publishes, QueueClients
from simulator.analysis.life import PredictedLife
from simulator.analysis.upgrade.questions import MessagesConcerned
from simulator.record.recording import RecordedQueue, Recording

KEYS_MAX = 10
_GIVEN_BACK = "delivery that a closed channel gave back"
_LOST_BY = {
    MAXLEN: "pushed out or refused", DELIVERY_LIMIT: "over the delivery limit", "": "removed with the queue"
}  # fmt: skip
_OF_QUEUES = ("consumers", "on_failure", "declare_before_publish")


class SeenClients(Clients, frozen=True, forbid_unknown_fields=True):
    """What clients do, as far as it is stated, and else as they did it in a recording.

    Attributes:
        recorded: what the recording has, in phrases, by the line that it stands in for.
    """

    recorded: Mapping[str, str] = {}

    def __bool__(self) -> bool:
        return any(getattr(self, name) != getattr(NOTHING_STATED, name) for name in Clients.__struct_fields__)

    @property
    def lines(self) -> dict[str, str]:
        """What is stated or was seen, in sentences; many routing keys are counted."""
        found = super().lines
        keys = sum(len(each.keys) for each in self.publish)
        if keys > KEYS_MAX and "clients.publish" in self.recorded:
            found["clients.publish"] = f"publishers publish only the {keys:,} routing keys that were recorded"
        return found

    def said(self, line: str) -> str:
        """Return the sentence of a line, with its name, or with what was recorded."""
        return f"{self.lines[line]} ({self.recorded.get(line, line)})"


def clients_seen(recording: Recording, rules: Release) -> SeenClients:
    """Return what clients did: who consumed, how deliveries ended, and what was published that a queue took.

    What the recording cannot know stays open: how consumers fail where no delivery is known to have ended. A return
    that the delivery limit does not count under ``rules`` is not a failure.
    """
    lines: dict[str, str] = {}
    queues = []
    known = list(_queues(recording))
    hosts = {vhost for vhost, _, _ in known} | {each.vhost for each in recording.published}
    pattern = {vhost: escape(vhost) if len(hosts) > 1 else "*" for vhost in hosts}
    for place, (vhost, name, consumed) in enumerate(known):
        found, because = _of_queue(consumed, rules)
        queues.append(QueueClients(escape(name), pattern[vhost], **found))
        lines |= {f"clients.queue[{place}].{field}": f"recorded: {text}" for field, text in because.items()}
    keys: dict[tuple[str, str], list[str]] = defaultdict(list)
    taken = [each for each in recording.published if each.times > each.unroutable]
    for each in sorted(taken or recording.published, key=lambda each: -each.times):
        keys[each.vhost, each.exchange].append(each.routing_key)
    published = tuple(Publishes(exchange, tuple(found), pattern[vhost]) for (vhost, exchange), found in keys.items())
    more = f", {recording.omitted:,} of them with routing keys that it does not list" if recording.omitted else ""
    lines["clients.publish"] = f"recorded: {counted(messages(recording), 'message')}{more}"
    again = sum(each.with_x_death for each in recording.published)
    lines["clients.republish_x_death"] = f"recorded: {counted(again, 'message')}"
    return SeenClients(queue=tuple(queues), publish=published, republish_x_death=again > 0, recorded=lines)


def laid_under(seen: SeenClients, stated: Clients) -> SeenClients:
    """Return what is stated, and what was seen where nothing is stated."""
    silent = {name: None for name in _OF_QUEUES if getattr(stated, name) is not None}
    queues = (msgspec.structs.replace(each, **silent) for each in seen.queue)
    before = len(stated.queue)
    lines = {
        f"clients.queue[{place + before}].{field}": seen.recorded[line]
        for place in range(len(seen.queue))
        for field in _OF_QUEUES
        if (line := f"clients.queue[{place}].{field}") in seen.recorded
    }
    if not stated.publish:
        lines["clients.publish"] = seen.recorded["clients.publish"]
    if not stated.republish_x_death:
        lines["clients.republish_x_death"] = seen.recorded["clients.republish_x_death"]
    fields: dict[str, Any] = {name: getattr(stated, name) for name in Clients.__struct_fields__}
    fields["queue"] = (*stated.queue, *queues)
    fields["publish"] = stated.publish or seen.publish
    fields["republish_x_death"] = stated.republish_x_death or seen.republish_x_death
    return SeenClients(**fields, recorded=lines)


def _queues(recording: Recording) -> Iterator[tuple[str, str, RecordedQueue]]:
    """Yield each queue that was there, with what clients did with it."""
    known = {(each.vhost, each.queue): each for each in recording.consumed}
    for each in recording.declarations:
        if each.kind == "queue":
            known.setdefault((each.vhost, each.name), RecordedQueue(vhost=each.vhost, queue=each.name))
    yield from ((vhost, name, each) for (vhost, name), each in known.items())


def _of_queue(consumed: RecordedQueue, rules: Release) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the fields of ``QueueClients`` that the recording shows, and what it has for each."""
    found: dict[str, Any] = {}
    because: dict[str, str] = {}
    if not is_consumed(consumed):
        found["consumers"], because["consumers"] = "none", f"no consumer of '{consumed.queue}'"
    elif endings(consumed):
        failures: dict[Failure, int] = {
            "reject": consumed.rejected,
            "requeue": counting_returns(consumed, rules) - consumed.abandoned,
            "crash": consumed.abandoned,
        }  # fmt: skip
        found["on_failure"] = tuple(each for each, times in failures.items() if times)
        because["on_failure"] = f"{endings(consumed)} of '{consumed.queue}'"
    if consumed.declared_before == consumed.entered > 0:
        found["declare_before_publish"] = True
        because["declare_before_publish"] = f"before each of {counted(consumed.entered, 'message')}"
    return found, because


def with_seen(life: PredictedLife, recording: Recording) -> PredictedLife:
    """Return the life with how often consumers did in the recording what may come next."""
    missing = []
    for each in life.missing:
        at = (life.publish.vhost, each.queue)
        consumed = next(
            (one for one in recording.consumed if (one.vhost, one.queue) == at), RecordedQueue(vhost="", queue="")
        )
        returned = consumed.requeued + consumed.abandoned
        counting = counting_returns(consumed, release(life.release))
        did = {
            "ack": consumed.acked + consumed.automatic,
            "reject": consumed.rejected,
            "requeue, nack or crash": returned,
            "requeue or crash": counting,
            "nack": returned - counting,
        }
        seen = tuple(msgspec.structs.replace(one, seen=did.get(one.outcome)) for one in each.possibilities)
        missing.append(msgspec.structs.replace(each, possibilities=seen))
    return msgspec.structs.replace(life, missing=tuple(missing))


def seen_of(concerned: MessagesConcerned, recording: Recording) -> str:
    """Say what a recording has of the messages that can meet a change; empty where it does not tell them apart."""
    vhost, queues = concerned.vhost, concerned.queues
    at = [each for each in recording.consumed if each.vhost == vhost and (not queues or each.queue in queues)]
    to = [each for each in recording.published if each.vhost == vhost]
    if concerned.kind == "any message":
        said = [
            f"{counted(sum(each.entered for each in at), 'message')} published",
            counted(sum(each.deliveries for each in at), "delivery"),
        ]
    elif concerned.kind == "return":
        requeued, abandoned = sum(each.requeued for each in at), sum(each.abandoned for each in at)
        said = [counted(requeued, "requeue")] if requeued or not abandoned else []
        said += [counted(abandoned, _GIVEN_BACK)] if abandoned else []
    elif concerned.kind == "republished":
        said = [f"{counted(sum(each.with_x_death for each in to), 'message')} published again with x-death"]
    elif concerned.kind == "expiration":
        found = [each for each in to if each.least_expiration_ms is not None]
        said = [f"{counted(len(found), 'routing key')} with which messages had an expiration"]
    elif concerned.kind == "death":
        said = [counted(sum(each.rejected for each in at), "reject")]
    else:
        return ""
    where = f" at {together([repr(name) for name in queues])}" if queues else ""
    return f"{together(said)}{where}"


def is_consumed(consumed: RecordedQueue) -> bool:
    """Return whether a client consumed from a queue, or polled it."""
    return bool(consumed.consumers or consumed.gets or consumed.deliveries)


def counting_returns(consumed: RecordedQueue, rules: Release) -> int:
    """Return how many of the returned deliveries a delivery limit counts."""
    requeued = consumed.failed if rules.quorum_delivery_limit_counts == "failures" else consumed.requeued
    return requeued + consumed.abandoned


def endings(consumed: RecordedQueue) -> str:
    """Say how deliveries ended, in a phrase such as ``132 acks and 4 rejects``; empty where none is known to have."""
    found = [
        counted(times, word)
        for times, word in (
            (consumed.acked, "ack"),
            (consumed.automatic, "automatic ack"),
            (consumed.rejected, "reject"),
            (consumed.requeued, "requeue"),
            (consumed.abandoned, _GIVEN_BACK),
        )
        if times
    ]
    return together(found)


def together(said: list[str]) -> str:
    """Return phrases as one: ``a, b and c``."""
    return " and ".join(filter(None, (", ".join(said[:-1]), said[-1]))) if said else ""


def counted(count: int, what: str) -> str:
    """Return how many of something, such as ``4 rejects``."""
    if count == 1:
        return f"1 {what}"
    if what.startswith("delivery"):
        return f"{count:,} deliveries{what.removeprefix('delivery')}"
    return f"{count:,} {what}s"


def told_lost(lost: Mapping[str, int], queues: int = 1) -> str:
    """Say how many messages were lost in how many queues, from the numbers by the reasons of their deaths."""
    what = counted(sum(lost.values()), "message") + (f" in {queues:,} queues" if queues > 1 else "")
    how = ", ".join(f"{times:,} {_LOST_BY.get(reason, reason)}" for reason, times in lost.items())
    return f"{what} lost like this" + (f": {how}" if len(lost) > 1 else "")


def messages(recording: Recording) -> int:
    """Return how many messages clients published."""
    return sum(each.times for each in recording.published) + recording.omitted
