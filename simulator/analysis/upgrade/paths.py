"""Questions about the ways of messages: the dead letters that go elsewhere, come to an end, or go round."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from dlx.message_flow import Hop, MessageFlow, State
from dlx.releases import MESSAGE_ROWS, Row, differing_behaviours
from dlx.settings import DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY
from simulator.analysis.findings import Fix, Severity
from simulator.analysis.slices import message_of
from simulator.analysis.upgrade.histories import order_of_deaths
from simulator.analysis.upgrade.questions import MessagesConcerned, QueueAt, Upgrade, UpgradeChange, asks, change_of
from simulator.scenario.steps import Publish

CopyOutcomes = frozenset[tuple[str, str]]
"""The outcomes of a dead letter's copies, each with its queue."""

ARRIVES = ("dead-lettered", "may be refused", "held")
PATHS_MAX = 20_000
_LOSSES = {
    "cycle": "is dropped as a cycle",
    "lost in a stream": "is lost silently",
    "unroutable": "is dropped, because nothing takes it",
    "dead-letter exchange missing": "is dropped, because the dead-letter exchange does not exist",
    "queue crashes": "crashes the queue",
}
DEATHS = {
    "rejected": "is rejected in",
    "expired": "expires in",
    "maxlen": "is pushed out of",
    "delivery_limit": "exceeds the delivery limit of",
}


class PathChange(NamedTuple):
    """A death after which a message goes elsewhere than before."""

    queue: QueueAt
    reason: str
    publish: Publish
    path: tuple[Hop, ...]
    now: CopyOutcomes
    then: CopyOutcomes


def path_changes(upgrade: Upgrade) -> Iterator[PathChange]:
    """Yield the deaths whose dead letters go elsewhere, each by the shortest way; once for a queue and a reason."""
    told: set[tuple[QueueAt, str, CopyOutcomes]] = set()
    for vhost, walk in upgrade.walks.items():
        before, after = walk.flow, upgrade.after_flows[vhost]
        for place in walk.places[:PATHS_MAX]:
            queue = QueueAt(vhost, place.queue)
            for death in before.deaths(place.state):
                if not death.possible:
                    continue
                now = _fate(before, place.state, death.reason)
                then = fate(after, place.publish, place.path, place.queue, death.reason)
                key = queue, death.reason, then or frozenset()
                if then is not None and then != now and key not in told:
                    told.add(key)
                    yield PathChange(queue, death.reason, place.publish, place.path, now, then)


def fate(flow: MessageFlow, publish: Publish, path: tuple[Hop, ...], queue: str, reason: str) -> CopyOutcomes | None:
    """Return what becomes of a message that dies in a queue after a path; ``None`` where it does not come there."""
    first = path[0].queue if path else queue
    states = flow.publish(message_of(publish, flow.release))
    state = next((each for each in states if each.queue == first), None)
    for hop in path:
        if state is None or flow.why_not(state, hop.reason) is not None:
            return None
        state = next((there for step, there in flow.hops(state, hop.reason) if step.to_queue == hop.to_queue), None)
    return None if state is None or flow.why_not(state, reason) is not None else _fate(flow, state, reason)


def _fate(flow: MessageFlow, state: State, reason: str) -> CopyOutcomes:
    return frozenset((copy.outcome, copy.queue or "") for copy in flow.copies(state, reason))


@asks(
    "death_history",
    "death_order",
    "stream_takes_dead_letters",
    "headers_match_with_x",
    "headers_match_sees_x_death",
)
def ways(upgrade: Upgrade, row: Row) -> Iterator[UpgradeChange]:
    """Dead letters go another way, are dropped as a cycle, or are lost in a stream."""
    yield from (_change(upgrade, each) for cause, each in _with_causes(upgrade) if cause == row.name)
    if row.name == "death_order":
        yield from order_of_deaths(upgrade)


@lru_cache(maxsize=1)  # it is asked for by each of these rows
def _with_causes(upgrade: Upgrade) -> tuple[tuple[str | None, PathChange], ...]:
    return tuple((_cause(upgrade, each), each) for each in path_changes(upgrade))


def _cause(upgrade: Upgrade, each: PathChange) -> str | None:
    """Return the row behind a change: the first that makes it alone, or without which it is gone."""
    rows = {row.name: row for row in differing_behaviours(upgrade.before, upgrade.after, MESSAGE_ROWS)}

    def found(flows: dict[str, MessageFlow]) -> CopyOutcomes | None:
        return fate(flows[each.queue.vhost], each.publish, each.path, each.queue.name, each.reason)

    for row in sorted(rows.values(), key=lambda row: row.name == "death_history"):  # the order is what cycles go by
        with_row, without_row = upgrade.flows_of_trials(row)
        if found(with_row) == each.then or found(without_row) == each.now:
            return row.name
    return "death_order" if "death_order" in rows else None


def _change(upgrade: Upgrade, each: PathChange) -> UpgradeChange:
    now = f"Under {upgrade.before.name} {_ends(each.now)}"
    then = f"under {upgrade.after.name} {_ends(each.then)}"
    targets = tuple(sorted({queue for _, queue in each.now | each.then if queue}))
    return UpgradeChange(
        severity=_severity(each),
        about=each.queue.about,
        message=f"A message that {_story(each)}: {now[0].lower()}{now[1:]}, {then}.",
        fix=_fix(upgrade, each, targets),
        traffic=MessagesConcerned("death", each.queue.vhost, (each.queue.name,)),
    )


def _story(each: PathChange) -> str:
    deaths = [(hop.queue, hop.reason) for hop in each.path] + [(each.queue.name, each.reason)]
    return ", then ".join(f"{DEATHS[reason]} '{queue}'" for queue, reason in deaths)


def _ends(found: CopyOutcomes) -> str:
    arrived = sorted(queue for outcome, queue in found if outcome in ARRIVES and queue)
    lost = sorted({(outcome, queue) for outcome, queue in found if outcome not in ARRIVES})
    parts = [f"goes to {' and '.join(map(_quoted, arrived))}"] if arrived else []
    parts += [f"{_LOSSES.get(outcome, 'is dropped')}{_before(queue)}" for outcome, queue in lost]
    return "it " + (", and one copy ".join(parts) if parts else "is held")


def _before(queue: str) -> str:
    return f" before '{queue}'" if queue else ""


def _quoted(name: str) -> str:
    return f"'{name}'"


def _severity(each: PathChange) -> Severity:
    now, then = (frozenset(copy for copy in found if copy[0] in ARRIVES) for found in (each.now, each.then))
    if now and not then:
        return "error"
    only_stops_a_loss = now <= then and each.then - then < each.now - now
    return "note" if only_stops_a_loss or (then and not now) else "warning"


def _fix(upgrade: Upgrade, each: PathChange, targets: tuple[str, ...]) -> Fix:
    settings = upgrade.before_flows[each.queue.vhost].settings(each.queue.name)
    if _severity(each) == "note":
        return Fix(True, "nothing to do before the upgrade; watch the queues that now get these messages")
    key = DEAD_LETTER_ROUTING_KEY if DEAD_LETTER_ROUTING_KEY in settings.values else DEAD_LETTER_EXCHANGE
    where = f"lead what {DEATHS[each.reason]} '{each.queue.name}'"
    names = " or ".join(map(_quoted, targets))
    return change_of(settings, key, f"{where} to a queue where messages stay, and not on to {names}")
