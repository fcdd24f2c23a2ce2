"""Adds up both sides: where messages ended before and after, what changed and why, and how sure that is."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from statistics import quantiles
from typing import Any

import msgspec

from simulator.replay.whatif.causes import Cause
from simulator.replay.whatif.fates import Ends, Fate
from simulator.replay.whatif.stories import Outcome
from simulator.replay.whatif.what_if import Case

EXAMPLES_MAX = 3
SHOWN_MAX = 20
RATIO_MIN = 1.5
MESSAGES_MIN = 3
REPRESENTED_MAX = 10
VALUES_MAX = 10_000


class Side(msgspec.Struct):
    """Where copies of messages ended.

    Attributes:
        acknowledged: by queue, those whose last delivery ended.
        waiting: by queue, those that were left there.
        lost: by queue and reason of death.
        refused: by queue, those that a full queue refused from their publisher.
        unroutable: publishes that reached no queue.
    """

    acknowledged: dict[str, int] = {}
    waiting: dict[str, int] = {}
    lost: dict[str, dict[str, int]] = {}
    refused: dict[str, int] = {}
    unroutable: int = 0

    def add(self, ends: Ends) -> None:
        """Add the ends of one message."""
        for into, found in (
            (self.acknowledged, ends.acknowledged),
            (self.waiting, ends.waiting),
            (self.refused, ends.refused),
        ):
            for queue, copies in found:
                into[queue] = into.get(queue, 0) + copies
        for queue, reason, copies in ends.lost:
            reasons = self.lost.setdefault(queue, {})
            reasons[reason] = reasons.get(reason, 0) + copies
        self.unroutable += ends.unroutable


class Delay(msgspec.Struct, frozen=True):
    """Milliseconds from the first publish of a message to the end of its last copy that was acknowledged or lost."""

    p50: float | None = None
    p95: float | None = None


class Delays(msgspec.Struct, frozen=True):
    """The delays of both sides."""

    before: Delay
    after: Delay


class Represented(msgspec.Struct, frozen=True):
    """What messages that change have more often than others.

    Attributes:
        what, value: such as the routing key, and which one.
        messages: how many messages with it change.
        ratio: its share of the messages that change, over its share of all.
    """

    what: str
    value: str
    messages: int
    ratio: float


class Change(msgspec.Struct, frozen=True):
    """One way in which messages end differently.

    Attributes:
        before, after: how they end, and the deaths on the way, in words.
        messages: how many.
        lost: whether more copies are lost than before; or fewer: ``saved``.
        examples: some of the messages.
    """

    before: str
    after: str
    messages: int
    lost: bool
    saved: bool
    examples: tuple[str, ...]


class Answer(msgspec.Struct, kw_only=True):
    """The answer.

    Attributes:
        messages: all messages of the log; ``reproduced``: those of which the first run gives what the log shows.
            Only these are compared.
        before, after: where their copies ended.
        changed: how many messages end differently; ``assumed``: how many answers rest on what the log does not have.
        delay_ms: how long they took.
        causes: which settings or rows of the release table do it.
        over_represented: what the messages that change have more often.
        changes: the ways in which messages change, losses first.
        not_reproduced: messages that are left out, some of them.
        assumptions: what was assumed, in sentences, with the number of messages that rest on it.
        outcomes: what consumers did with deliveries, by outcome, and how much of it is inferred.
        unchecked: what was not checked, in sentences.
    """

    messages: int
    reproduced: int
    before: Side
    after: Side
    changed: int
    assumed: int
    delay_ms: Delays
    causes: tuple[Cause, ...] = ()
    over_represented: tuple[Represented, ...] = ()
    changes: tuple[Change, ...] = ()
    not_reproduced: tuple[str, ...] = ()
    assumptions: dict[str, int] = {}
    outcomes: dict[str, int] = {}
    unchecked: tuple[str, ...] = ()

    @property
    def loses(self) -> bool:
        """Whether more copies of some message are lost than before."""
        return any(change.lost for change in self.changes)


def answered(cases: Sequence[Case], causes: Sequence[Cause] = (), unchecked: Iterable[str] = ()) -> Answer:
    """Add up what became of messages."""
    sure = [case for case in cases if case.reproduced]
    before, after = Side(), Side()
    for case in sure:
        before.add(case.before.ends)
        after.add(case.after.ends)
    changed = [case for case in sure if case.changed]
    left_out = [case.story.message for case in cases if not case.reproduced]
    return Answer(
        messages=len(cases),
        reproduced=len(sure),
        before=before,
        after=after,
        changed=len(changed),
        assumed=sum(bool(case.assumed) for case in sure),
        delay_ms=Delays(_delay(case.before for case in sure), _delay(case.after for case in sure)),
        causes=tuple(causes),
        over_represented=tuple(_over_represented(sure, changed)),
        changes=tuple(_changes(changed)),
        not_reproduced=tuple(left_out[:SHOWN_MAX]),
        assumptions=dict(Counter(each for case in sure for each in case.assumed).most_common()),
        outcomes=_outcomes(cases),
        unchecked=tuple(unchecked),
    )


def _delay(fates: Iterable[Fate]) -> Delay:
    took = sorted((fate.last_us - fate.first_us) / 1_000 for fate in fates if fate.last_us > fate.first_us)
    if len(took) < 2:
        return Delay(*(took * 2))
    found = quantiles(took, n=20, method="inclusive")
    return Delay(found[9], found[18])


def _changes(changed: Sequence[Case]) -> list[Change]:
    """Return the ways in which messages change: losses first, then what is saved, frequent ones first."""
    alike: defaultdict[tuple[Ends, Ends, str, str], list[Case]] = defaultdict(list)
    for case in changed:
        alike[case.before.ends, case.after.ends, case.before.path, case.after.path].append(case)
    found = [
        Change(
            f"{told(one)} ({path})",
            f"{told(other)} ({other_path})",
            len(cases),
            _lost(other) > _lost(one),
            _lost(other) < _lost(one),
            tuple(case.story.message for case in cases[:EXAMPLES_MAX]),
        )
        for (one, other, path, other_path), cases in alike.items()
    ]
    return sorted(found, key=lambda change: (not change.lost, not change.saved, -change.messages))


def _lost(ends: Ends) -> int:
    return sum(copies for *_, copies in ends.lost) + sum(copies for _, copies in ends.refused) + ends.unroutable


def ends_of(answer: Answer) -> Iterator[tuple[str, int, int]]:
    """Yield each kind of end with the copies of both sides, losses first."""
    one, other = answer.before, answer.after
    for queue in {**one.lost, **other.lost}:
        had, has = one.lost.get(queue, {}), other.lost.get(queue, {})
        for reason in {**had, **has}:
            yield f"lost in '{queue}' ({reason})", had.get(reason, 0), has.get(reason, 0)
    yield "published to no queue", one.unroutable, other.unroutable
    for name, words in (("refused", "refused by"), ("waiting", "waiting in"), ("acknowledged", "acknowledged in")):
        counts: tuple[dict[str, int], dict[str, int]] = getattr(one, name), getattr(other, name)
        for queue in {**counts[0], **counts[1]}:
            yield f"{words} '{queue}'", counts[0].get(queue, 0), counts[1].get(queue, 0)


def told(ends: Ends) -> str:
    """Say where the copies of a message ended."""
    parts = [f"lost in '{queue}' ({reason}){_times(copies)}" for queue, reason, copies in ends.lost]
    parts += [f"refused by '{queue}'{_times(copies)}" for queue, copies in ends.refused]
    parts += ["routed to no queue" + _times(ends.unroutable)] if ends.unroutable else []
    parts += [f"waits in '{queue}'{_times(copies)}" for queue, copies in ends.waiting]
    parts += [f"acknowledged in '{queue}'{_times(copies)}" for queue, copies in ends.acknowledged]
    return ", ".join(parts) or "kept by no queue"


def _times(copies: int) -> str:
    return "" if copies == 1 else f", {copies} copies"


def _over_represented(cases: Sequence[Case], changed: Sequence[Case]) -> list[Represented]:
    """Return what the messages that change have at least half as often again as others do."""
    if not changed or len(changed) == len(cases):
        return []
    everywhere, here = (Counter(each for case in some for each in _marks(case)) for some in (cases, changed))
    found = [
        Represented(what, value, count, round(count / len(changed) / (everywhere[what, value] / len(cases)), 2))
        for (what, value), count in here.most_common(VALUES_MAX)
        if count >= min(MESSAGES_MIN, len(changed))
    ]
    often = [each for each in found if each.ratio >= RATIO_MIN]
    return sorted(often, key=lambda each: (-each.messages * (each.ratio - 1), each.what, each.value))[:REPRESENTED_MAX]


def _marks(case: Case) -> set[tuple[str, str]]:
    """Return what tells a message from others: how it was published first, and with which headers."""
    if not case.story.publications:
        return set()
    first = case.story.publications[0]
    found = {("exchange", first.exchange), ("routing key", first.routing_key)}
    for name in ("app_id", "content_type", "type", "priority", "expiration"):
        if name in first.properties:
            found.add((name.replace("_", " "), str(first.properties[name])))
    headers: dict[str, Any] = first.properties.get("headers") or {}
    found |= {(f"header {name}", str(each)) for name, each in headers.items() if isinstance(each, str | int | bool)}
    return found


def _outcomes(cases: Iterable[Case]) -> dict[str, int]:
    counted: Counter[str] = Counter()
    for case in cases:
        for delivery in case.story.deliveries:
            ended = delivery.outcome == Outcome.ENDED and not delivery.observed
            counted[f"{delivery.outcome.value}, {_known(delivery.observed, ended=ended)}"] += 1
    return dict(counted.most_common())


def _known(observed: bool, *, ended: bool) -> str:
    if observed:
        return "observed"
    return "acknowledged or discarded: no trace tells" if ended else "inferred"
