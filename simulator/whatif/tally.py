"""Adds up cases, in any number of parts: the answer comes from the tallies of all parts together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any, NamedTuple

from simulator.markup import plural
from simulator.replay.results.late_rows import misfits_of, waited_in
from simulator.whatif.answer import (
    ChangeCause,
    Delay,
    Delays,
    OutcomeChange,
    Represented,
    Totals,
    WhatIfAnswer,
    in_one_sentence,
)
from simulator.whatif.both_sides import ComparedMessage
from simulator.whatif.correlates import Correlates, marks_of
from simulator.whatif.log_rows import ReplayedRows
from simulator.whatif.outcomes import Ends, count, told
from simulator.whatif.playback_broker import QueueRef
from simulator.whatif.stories import ConsumerAction, Named
from simulator.whatif.undecidable_ends import LastSeen

LEFT_OUT_MAX = 20
EXAMPLES_MAX = 3
"""Messages that are named for each way of change: the first ones."""
RATIO_MIN = 1.5
MESSAGES_MIN = 3
REPRESENTED_MAX = 10
LAST_SEEN_MAX = 10_000
"""Last deliveries that are kept apart; others count as one from the same queue and exchange, with another key."""


class Transition(NamedTuple):
    """How a message ends on both sides, and by which deaths."""

    before: Ends
    after: Ends
    path: str
    other_path: str

    @classmethod
    def of(cls, case: ComparedMessage) -> Transition | None:
        """Return how the end of a message changes, if it does, and the message is reproduced."""
        if not (case.reproduced and case.changed):
            return None
        return cls(case.before.ends, case.after.ends, case.before.path, case.after.path)


class Tally:
    """What became of messages, added up. It can be pickled.

    Attributes:
        messages, reproduced, changed, assumed: how many messages.
        ends: where the copies of messages ended, before and after: how many messages did so.
        took_ms: how long messages took, before and after: how many took each number of milliseconds.
        ways: the ways in which messages change: how many do, and some of them, with their virtual hosts.
        ended: the last deliveries of which no recorder tells whether they were acknowledged.
        undecided, undecided_losing: how many messages may end in another way, and how many of these lose copies then
            that they did not lose before.
        misfits, waited: what tells whether rows are late, as ``late_rows.estimated`` takes it; ``waited`` by queue.
    """

    def __init__(self, cases: Iterable[ComparedMessage] = ()) -> None:
        self.messages = self.reproduced = self.changed = self.assumed = 0
        self.ends: tuple[Counter[Ends], Counter[Ends]] = Counter(), Counter()
        self.took_ms: tuple[Counter[int], Counter[int]] = Counter(), Counter()
        self.ways: dict[Transition, tuple[int, list[Named]]] = {}
        self.ended: Counter[LastSeen] = Counter()
        self._ended_from: dict[tuple[str, str, str], LastSeen] = {}
        self.undecided = self.undecided_losing = 0
        self.misfits: list[Mapping[str, Any]] = []
        self.waited: dict[QueueRef, Mapping[str, Any]] = {}
        self._left_out: list[str] = []
        self._assumptions: Counter[str] = Counter()
        self._outcomes: Counter[tuple[ConsumerAction, bool]] = Counter()
        self.marks, self._marks_of_changed = Correlates(), Correlates()
        for case in cases:
            self.add(case)

    def add(self, case: ComparedMessage) -> None:
        """Add a message."""
        story, way = case.story, Transition.of(case)
        self.messages += 1
        for delivery in story.deliveries:
            count(self._outcomes, (delivery.action, delivery.observed))
            if delivery.may_be_hidden:
                shown = delivery.shown
                self._add_last(LastSeen(story.vhost, shown.queue, shown.exchange, shown.routing_keys), 1)
        if not case.reproduced:
            self._left_out = _first(LEFT_OUT_MAX, self._left_out, [story.message])
            return
        self.reproduced += 1
        self.assumed += bool(case.assumed)
        if case.or_else is not None:
            self.undecided += 1
            self.undecided_losing += case.or_else.lost_copies > case.before.ends.lost_copies
        for assumption in case.assumed:
            count(self._assumptions, assumption)
        for fate, ends, took_ms in zip((case.before, case.after), self.ends, self.took_ms, strict=True):
            count(ends, fate.ends)
            if fate.last_us > fate.first_us:
                count(took_ms, (fate.last_us - fate.first_us) // 1_000)
        marks = [*marks_of(story)]
        self.marks.add(marks)
        if way is not None:
            self.changed += 1
            self._marks_of_changed.add(marks)
            self._note(way, 1, [case.named])

    def _add_last(self, last: LastSeen, messages: int) -> None:
        """Count last deliveries of which no recorder tells whether they were acknowledged."""
        if last not in self.ended:
            another = self._ended_from.setdefault(last[:3], last)
            last = another if len(self.ended) >= LAST_SEEN_MAX else last
        self.ended[last] += messages

    def add_verdicts(self, batches: Iterable[ReplayedRows]) -> Iterator[ReplayedRows]:
        """Yield rows of the log, and take what the verdicts on them tell of late rows."""
        for batch in batches:
            self._add_times(misfits_of(batch.replayed), waited_in(batch.replayed))
            yield batch

    def _add_times(self, misfits: Iterable[Mapping[str, Any]], waited: Iterable[Mapping[str, Any]]) -> None:
        self.misfits += misfits
        for row in waited:
            queue = row["vhost"], row["queue"]
            known = self.waited.get(queue, {**row, "deaths": 0})
            self.waited[queue] = {
                **row,
                "deaths": known["deaths"] + row["deaths"],
                "from_us": min(known["from_us"], row["from_us"]),
                "until_us": max(known["until_us"], row["until_us"]),
            }

    def _note(self, way: Transition, messages: int, examples: list[Named]) -> None:
        known, some = self.ways.get(way, (0, []))
        self.ways[way] = known + messages, _first(EXAMPLES_MAX, some, examples)

    @classmethod
    def whole(cls, parts: Iterable[Tally]) -> Tally:
        """Return what several parts have together."""
        found = cls()
        for part in parts:
            found.merge(part)
        return found

    def merge(self, other: Tally) -> None:
        """Add what another part has."""
        self.messages += other.messages
        self.reproduced += other.reproduced
        self.changed += other.changed
        self.assumed += other.assumed
        for last, messages in other.ended.items():
            self._add_last(last, messages)
        self.undecided += other.undecided
        self.undecided_losing += other.undecided_losing
        for ends, theirs in zip(self.ends, other.ends, strict=True):
            ends.update(theirs)
        for took_ms, they_took_ms in zip(self.took_ms, other.took_ms, strict=True):
            took_ms.update(they_took_ms)
        for way, (messages, examples) in other.ways.items():
            self._note(way, messages, examples)
        self._add_times(other.misfits, other.waited.values())
        self._left_out = _first(LEFT_OUT_MAX, self._left_out, other._left_out)
        self._assumptions.update(other._assumptions)
        self._outcomes.update(other._outcomes)
        self.marks.merge(other.marks)
        self._marks_of_changed.merge(other._marks_of_changed)

    def answer(
        self,
        question: str = "the same settings",
        causes: Iterable[ChangeCause] = (),
        unchecked: Iterable[str] = (),
        not_heeded: Iterable[str] = (),
    ) -> WhatIfAnswer:
        """Return the answer to the question. ``not_heeded``: what of it has no effect, in sentences."""
        found = WhatIfAnswer(
            question=question,
            messages=self.messages,
            reproduced=self.reproduced,
            before=Totals.of(self.ends[0]).in_order(),
            after=Totals.of(self.ends[1]).in_order(),
            changed=self.changed,
            assumed=self.assumed,
            undecided=self.undecided,
            undecided_losing=self.undecided_losing,
            delay_ms=Delays(*map(_delay, self.took_ms)),
            causes=tuple(causes),
            over_represented=tuple(self._over_represented()),
            changes=tuple(self._changes()),
            not_reproduced=tuple(self._left_out),
            assumptions=_frequent_first(self._assumptions),
            outcomes=_frequent_first({_describe(*each): number for each, number in self._outcomes.items()}),
            unchecked=tuple(unchecked),
        )
        found.sentence = in_one_sentence(found, self._ends_told(), not_heeded)
        return found

    def _ends_told(self) -> Iterator[str]:
        """Say how many messages end differently, and how: losses first, then what is held."""
        together: dict[tuple[int, str], Counter[tuple[str, str]]] = {}
        for way, (messages, _) in self.ways.items():
            pairs = together.setdefault(_kind_of_change(way), Counter())
            pairs[told(way.before), told(way.after)] += messages
        for (_, words), pairs in sorted(together.items()):
            ((was, now), _), *more = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))
            such = "such as " if more else ""
            yield f"{plural(pairs.total(), 'message')} {words} ({such}{now} instead of {was})"

    def examples(self) -> set[Named]:
        """Return a message for each way of change."""
        return {name for _, examples in self.ways.values() for name in examples[:1]}

    def _changes(self) -> list[OutcomeChange]:
        """Return the ways in which messages change: losses first, then what is held, what is saved, and the rest."""
        found = [
            OutcomeChange(
                f"{told(way.before)} ({way.path})",
                f"{told(way.after)} ({way.other_path})",
                messages,
                way.after.lost_copies > way.before.lost_copies,
                way.after.lost_copies < way.before.lost_copies,
                tuple(message for _, message in examples),
                way.after.held_copies > way.before.held_copies,
            )
            for way, (messages, examples) in self.ways.items()
        ]
        found.sort(key=lambda each: (-each.messages, each.before, each.after))
        return sorted(found, key=lambda each: (not each.lost, not each.held, not each.saved))

    def _over_represented(self) -> list[Represented]:
        """Return what the messages that change have at least half as often again as others do."""
        if not self.changed or self.changed == self.reproduced:
            return []
        found = [
            Represented(
                what, value, many, round(many / self.changed / (self.marks.of(what, value) / self.reproduced), 2)
            )
            for what, value, many in self._marks_of_changed.most_common()
            if many >= min(MESSAGES_MIN, self.changed) and what not in self.marks.too_many
        ]
        often = [each for each in found if each.ratio >= RATIO_MIN]
        ranked = sorted(often, key=lambda each: (-each.messages * (each.ratio - 1), each.what, each.value))
        return ranked[:REPRESENTED_MAX]


def _kind_of_change(way: Transition) -> tuple[int, str]:
    """Return how a message ends differently, in words, and how bad that is: 0 is the worst."""
    before, after = way.before, way.after
    more_lost = after.lost_copies - before.lost_copies
    more_held = after.held_copies - before.held_copies
    others = after.acknowledged or after.waiting or after.endless
    if more_lost > 0:
        whole = not (before.lost_copies or after.held or others)
        return 0, "would be lost that were not" if whole else "would lose copies that they did not lose"
    if more_held > 0:
        if before.held or after.lost_copies or others:
            return 1, "would have copies held that were not"
        return 1, "would be held that were lost" if more_lost else "would be held that were not"
    if more_lost < 0:
        return 2, "would lose fewer copies"
    if more_held < 0:
        return 3, "would have fewer copies held" if after.held else "would be held no longer"
    return 4, "would end elsewhere"


def _first(most: int, some: Iterable[Any], others: Iterable[Any]) -> list[Any]:
    return sorted({*some, *others})[:most]


def _frequent_first(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _delay(took_ms: Counter[int]) -> Delay:
    return Delay(*(_percentile(took_ms, percent) for percent in (50, 95, 100))) if took_ms else Delay()


def _percentile(counts: Counter[int], percent: int) -> int:
    """Return the smallest value that ``percent`` per cent do not exceed."""
    values = sorted(counts)
    wanted = percent * counts.total()
    upto = accumulate(counts[value] for value in values)
    return next(value for value, many in zip(values, upto, strict=True) if 100 * many >= wanted)


def _describe(action: ConsumerAction, observed: bool) -> str:
    if observed:
        known = "observed"
    elif action == ConsumerAction.ENDED:
        known = "acknowledged or discarded: traces cannot show which"
    else:
        known = "inferred"
    return f"{action.value}, {known}"
