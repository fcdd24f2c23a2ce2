"""What findings of lint rest on: what a recording saw, what follows from that, or what it did not see."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from dlx.deaths import DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED
from simulator.analysis.clients import Clients
from simulator.analysis.findings import Basis, Finding
from simulator.analysis.losses import (
    HELD,
    MISSING,
    REFUSED,
    REMOVED,
    UNROUTABLE,
    Loss,
    cause,
    causes,
    published,
    ruled_out_by,
)
from simulator.analysis.snapshot import Snapshot
from simulator.analysis.walk import Walk
from simulator.events import Event
from simulator.record.recording import STORY_MAX, RecordedLoss, RecordedQueue, Recording
from simulator.record.seen_clients import (
    clients_seen,
    counted,
    counting_returns,
    endings,
    is_consumed,
    messages,
    together,
    told_lost,
)

_OF_CONSUMERS = {
    "no-dlx-on-rejecting": REJECTED,
    "default-delivery-limit": DELIVERY_LIMIT,
    "delivery-limit-ignored": DELIVERY_LIMIT,
}
"""The rules whose findings take a consumer also where they have no history, with what it makes messages die of."""
_DOES = {REJECTED: "rejects", DELIVERY_LIMIT: "returns messages"}
_DONE = {REJECTED: "rejected", DELIVERY_LIMIT: "returned"}
_NOT_DONE = {REJECTED: "no reject", DELIVERY_LIMIT: "nothing returned"}


class Judge:
    """Compares findings with a recording.

    Attributes:
        explained: the recorded losses that some finding is about, by their place.
    """

    def __init__(self, recording: Recording, snapshot: Snapshot, losses: Iterable[Loss]) -> None:
        self._recording, self._flows = recording, snapshot.flows
        self._by_history: dict[int, list[Loss]] = defaultdict(list)
        self._without: dict[tuple[str, str], list[Loss]] = defaultdict(list)
        self._alike: dict[tuple[str, str | None, str], list[Loss]] = defaultdict(list)
        for loss in losses:
            self._alike[_told_of(loss)].append(loss)
            if loss.history:
                self._by_history[id(loss.history)].append(loss)
            else:
                self._without[loss.vhost, loss.queue].append(loss)
        self._consumed = {(each.vhost, each.queue): each for each in recording.consumed}
        self._rules = snapshot.release
        self._seen = _as_seen(clients_seen(recording, self._rules))
        self._published = Clients(publish=self._seen.publish)
        self._causes = self._causes_under(self._seen)
        self._causes_of_publishes = self._causes_under(self._published)
        self.explained: set[int] = set()

    def _causes_under(self, clients: Clients) -> set[object]:
        if not clients.publish and self._recording.has_publishes:  # else anything would be published
            return set()
        publishes, _ = published(self._flows, clients)
        return set(causes(Walk(flow, vhost, publishes, clients) for vhost, flow in self._flows.items()))

    @property
    def unexplained(self) -> list[RecordedLoss]:
        """The recorded losses from queues that no finding is about."""
        every = enumerate(self._recording.lost)
        return [lost for place, lost in every if lost.queue is not None and place not in self.explained]

    def judged(self, finding: Finding) -> Finding:
        """Return the finding with what it rests on."""
        lost = self._lost_like(finding)
        if lost:
            self.explained |= lost.keys()
            return _with_losses(finding, list(lost.values()))
        basis, text = self._held(finding) or self._basis(finding)
        found = msgspec.structs.replace(finding, basis=basis, basis_text=text)
        there = self._recording.declared("queue", finding.about.vhost, finding.about.name)
        exclusive = there is not None and there.item.get("exclusive") is True
        if basis == "assumed" and exclusive and any(map(self._used, self._losses_of(finding))):
            return msgspec.structs.replace(found, severity="note")  # as queues for replies are used
        return found

    def _basis(self, finding: Finding) -> tuple[Basis, str]:
        losses = self._losses_of(finding)
        if not losses:
            return self._basis_of_object(finding)
        follows = [
            loss for loss in losses if cause(loss) in self._causes and self._came_in(loss) and not self._used(loss)
        ]
        if follows:
            return "follows", f"{self._did(follows[0])}; nothing else is needed but time, or more messages"
        used = list(filter(None, map(self._used, losses)))
        if used:
            return "assumed", f"it takes {used[0][0]}; {_has([used[0][1]])}"
        missing = min((list(self._missing(loss)) for loss in losses), key=len)
        return "assumed", f"it takes {together([takes for takes, _ in missing])}; {_has(has for _, has in missing)}"

    def _held(self, finding: Finding) -> tuple[Basis, str] | None:
        """Return that dead letters were held as the finding says; ``None`` where none was."""
        queues = {(each.vhost, each.queue) for each in self._losses_of(finding) if each.fate == HELD}
        for vhost, queue in sorted(queues):
            if held := self._at(vhost, queue).held:
                return "seen", f"'{queue}' held {counted(held, 'dead letter')} when the recording ended"
        return None

    def _lost_like(self, finding: Finding) -> dict[int, RecordedLoss]:
        """Return the recorded losses that a finding is about, by their place."""
        losses = self._losses_of(finding)
        by_limit = _OF_CONSUMERS.get(finding.name) == DELIVERY_LIMIT
        return {
            place: each
            for place, each in enumerate(self._recording.lost)
            if (not by_limit or each.reason == DELIVERY_LIMIT) and any(self._is_of(each, loss) for loss in losses)
        }

    def _is_of(self, lost: RecordedLoss, loss: Loss) -> bool:
        """Return whether messages were lost in that way.

        Lint takes messages to have no expiration. Where no queue takes the dead letters of a queue, those that expired
        by their own are lost like the others.
        """
        if loss.fate == REFUSED:  # of which the full queue tells
            return (lost.vhost, lost.queue, lost.reason) == (loss.vhost, loss.target, MAXLEN)
        if (lost.vhost, lost.queue) != (loss.vhost, loss.queue):
            return False
        if loss.fate == REMOVED:
            return lost.event == Event.PURGED and self._went_by_itself(loss)
        own = lost.reason == EXPIRED and loss.fate in (UNROUTABLE, MISSING)
        if lost.event == Event.PURGED or (lost.reason != loss.reason and not own):
            return False
        return (lost.event == Event.CYCLE_DROPPED) == (loss.fate == "cycle")

    def _went_by_itself(self, loss: Loss) -> bool:
        """Return whether a queue can have been deleted by ``x-expires`` or auto-delete, and not only by a client."""
        there = self._recording.declared("queue", loss.vhost, loss.queue)
        if there is None or there.gone_us is None:
            return False
        expires_ms = self._flows[loss.vhost].settings(loss.queue).expires_ms
        if expires_ms is None:
            return is_consumed(self._at(loss.vhost, loss.queue))
        return there.first_us is None or there.gone_us - there.first_us >= expires_ms * 1_000

    def _used(self, loss: Loss) -> tuple[str, str] | None:
        """Return what a queue that goes by itself with messages takes, and what the recording has instead.

        ``None`` where its consumers may have left it with messages.
        """
        consumed, there = self._at(loss.vhost, loss.queue), self._recording.declared("queue", loss.vhost, loss.queue)
        expires_ms = self._flows[loss.vhost].settings(loss.queue).expires_ms
        if loss.fate != REMOVED:
            return None
        if expires_ms is not None:
            stays = consumed.consumers_max > 0 and (there is None or there.gone_us is None)
            takes = f"{expires_ms:,} ms in which nobody uses '{loss.queue}'"
            return (takes, f"{counted(consumed.consumers, 'consumer')} of it, and it stayed") if stays else None
        if consumed.automatic and consumed.automatic == consumed.deliveries >= consumed.entered:
            return f"a message in '{loss.queue}' when its last consumer leaves", f"{endings(consumed)}, of each message"
        return None

    def _losses_of(self, finding: Finding) -> list[Loss]:
        """Return the losses that a finding is about: that of its history, and its like from the same queue.

        Without a history, those from its queue that the same rule decides.
        """
        if not finding.history:
            at = self._without.get((finding.about.vhost, finding.about.name), [])
            return [loss for loss in at if finding.because.startswith(str(loss.rule))]
        shown = self._by_history.get(id(finding.history), [])
        if _OF_CONSUMERS.get(finding.name) == DELIVERY_LIMIT:
            return shown
        return [each for told_of in dict.fromkeys(map(_told_of, shown)) for each in self._alike[told_of]]

    def _came_in(self, loss: Loss) -> bool:
        """Return whether messages came into the first queue of a loss; yes where their keys were recorded."""
        return self._recording.has_publishes or self._at(loss.vhost, _first(loss)).entered > 0

    def _did(self, loss: Loss) -> str:
        """Say what clients did that the loss takes."""
        first = _first(loss)
        entered = self._at(loss.vhost, first).entered
        said = [f"{counted(entered, 'message')} came into '{first}'"] if entered else []
        for queue, reason in _deaths(loss):
            if reason in _DOES:
                said.append(f"consumers of '{queue}' {_DONE[reason]} {self._times(loss.vhost, queue, reason):,}")
        return together(said) or f"messages were published that come into '{first}'"

    def _missing(self, loss: Loss) -> Iterator[tuple[str, str]]:
        """Yield what the loss takes that clients were not seen to do, each with what the recording has instead."""
        flow = self._flows[loss.vhost]
        came_in = self._came_in(loss) and cause(loss) in self._causes_of_publishes
        if not came_in:
            to = f"exchange '{loss.publish.exchange}'" if loss.publish.exchange else "the default exchange"
            takes = f"a publish to {to} with a routing key like '{loss.publish.routing_key}'"
            count = counted(messages(self._recording), "message")
            none = f"no message that came into '{_first(loss)}', and publishes were not recorded"
            yield takes, f"{count}, and none that is routed like that" if self._recording.has_publishes else none
        found = False
        for queue, reason in dict.fromkeys(_deaths(loss)):
            if reason in _DOES and not self._times(loss.vhost, queue, reason):
                found = True
                yield f"a consumer of '{queue}' that {_DOES[reason]}", self._instead(loss.vhost, queue, reason)
        if loss.fate == REMOVED and not found and not is_consumed(self._at(loss.vhost, loss.queue)):
            yield f"a consumer of '{loss.queue}' that leaves", f"no consumer of '{loss.queue}'"
        elif not found and came_in:
            line = ruled_out_by(loss, flow, self._seen)
            yield "something else of clients", self._seen.said(line) if line else "nothing that leads there"

    def _instead(self, vhost: str, queue: str, reason: str) -> str:
        consumed = self._at(vhost, queue)
        if not is_consumed(consumed):
            return f"no consumer of '{queue}'"
        if not consumed.deliveries:
            return f"no delivery from '{queue}'"
        ends = endings(consumed)
        if not ends:
            return f"{counted(consumed.deliveries, 'delivery')} from '{queue}', and not how they ended"
        not_done = _NOT_DONE[reason]
        if reason == DELIVERY_LIMIT and consumed.requeued:
            not_done = f"none that the delivery limit counts under {self._rules.name}"
        return f"{ends} of '{queue}', and {not_done}"

    def _times(self, vhost: str, queue: str, reason: str) -> int:
        consumed = self._at(vhost, queue)
        return consumed.rejected if reason == REJECTED else counting_returns(consumed, self._rules)

    def _at(self, vhost: str, queue: str) -> RecordedQueue:
        return self._consumed.get((vhost, queue)) or RecordedQueue(vhost=vhost, queue=queue)

    def _basis_of_object(self, finding: Finding) -> tuple[Basis, str]:
        """Return what a finding rests on that shows no loss: whether clients use its object."""
        about = finding.about
        reason = _OF_CONSUMERS.get(finding.name)
        if about.kind == "queue" and reason is not None:
            times = self._times(about.vhost, about.name, reason)
            if times:
                return "follows", f"consumers of '{about.name}' {_DONE[reason]} {times:,}"
            instead = self._instead(about.vhost, about.name, reason)
            return "assumed", f"it takes a consumer of '{about.name}' that {_DOES[reason]}; {_has([instead])}"
        if about.kind == "queue":
            consumed = self._at(about.vhost, about.name)
            used = [
                *([f"{counted(consumed.entered, 'message')} came into it"] if consumed.entered else []),
                *([f"{counted(consumed.deliveries, 'delivery')} left it"] if consumed.deliveries else []),
            ]
            if used:
                return "follows", together(used)
            return "assumed", f"it takes messages in '{about.name}'; the recording has none from clients"
        if about.kind == "exchange":
            times = sum(
                each.times
                for each in self._recording.published
                if (each.vhost, each.exchange) == (about.vhost, about.name)
            )
            if times:
                return "follows", f"clients published {counted(times, 'message')} to it"
            none = "the recording has none from clients"
            has = none if self._recording.has_publishes else "publishes were not recorded"
            return "assumed", f"it takes messages to '{about.name}'; {has}"
        return "follows", "it is so whatever clients do"


def broken_promises(recording: Recording) -> set[tuple[str, str, str]]:
    """Return the virtual hosts, queues and reasons of the deaths by which messages were lost."""
    return {(each.vhost, each.queue, each.reason or "") for each in recording.lost if each.queue is not None}


def published_by_name(recording: Recording, snapshot: Snapshot) -> list[tuple[str, str]]:
    """Return the virtual hosts and names of the queues to which clients published through the default exchange."""
    straight = ((each.vhost, each.routing_key) for each in recording.published if not each.exchange)
    return [
        (vhost, name)
        for vhost, name in straight
        if vhost in snapshot.flows and name in snapshot.topologies[vhost].queues
    ]


def _as_seen(clients: Clients) -> Clients:
    """Return clients who do nothing that was not seen, where it is open what they do."""
    queues = (
        msgspec.structs.replace(each, on_failure=()) if each.consumers is None and each.on_failure is None else each
        for each in clients.queue
    )
    return msgspec.structs.replace(clients, queue=tuple(queues))


def _told_of(loss: Loss) -> tuple[str, str | None, str]:
    """Return what the losses of one finding have in common: the queue that is to blame, and the fate."""
    return loss.vhost, loss.target if loss.fate == REFUSED else loss.queue, loss.fate


def _first(loss: Loss) -> str:
    """Return the queue into which the message was published."""
    return loss.path[0].queue if loss.path else loss.queue


def _deaths(loss: Loss) -> Iterator[tuple[str, str]]:
    """Yield the queues in which a message dies until it is lost, each with the reason."""
    yield from ((hop.queue, hop.reason) for hop in loss.path)
    yield loss.queue, loss.reason


def _with_losses(finding: Finding, lost: list[RecordedLoss]) -> Finding:
    first = lost[0]
    to = f"exchange '{first.exchange}'" if first.exchange else "the default exchange"
    counts = Counter[str]()
    for each in lost:
        counts[each.reason or ""] += each.times
    text = f"{told_lost(counts)}; the first, last published to {to} with routing key '{first.routing_key}'"
    story = tuple(first.story[:STORY_MAX])
    return msgspec.structs.replace(finding, basis="seen", basis_text=text, lost=dict(counts), story=story)


def _has(instead: Iterable[str]) -> str:
    return f"the recording has {together(list(dict.fromkeys(instead)))}"
