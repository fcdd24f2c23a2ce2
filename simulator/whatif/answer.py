"""The answer: where messages ended before and after, what changed and why, and how sure that is; and its sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

import msgspec

from simulator.time_spans import span
from simulator.whatif.outcomes import Ends

SHOWN_MAX = 12
"""Ways of change, and assumptions, that people are shown."""


class Totals(msgspec.Struct):
    """Where copies of messages ended.

    Attributes:
        acknowledged: by queue, those whose last delivery ended.
        waiting: by queue, those that were left there.
        lost: by queue and reason of death.
        refused: by queue, those that a full queue refused from their publisher.
        unroutable: publishes that reached no queue.
        endless: messages that go round without end.
        held: by queue, dead ones that at-least-once dead-lettering holds there: no queue has taken them.
    """

    acknowledged: dict[str, int] = {}
    waiting: dict[str, int] = {}
    lost: dict[str, dict[str, int]] = {}
    refused: dict[str, int] = {}
    unroutable: int = 0
    endless: int = 0
    held: dict[str, int] = {}

    @classmethod
    def of(cls, ends: Mapping[Ends, int]) -> Totals:
        """Return the totals of messages, by how they end."""
        found = cls()
        for each, messages in ends.items():
            found._add(each, messages)
        return found

    def _add(self, ends: Ends, messages: int) -> None:
        for into, copies in (
            (self.acknowledged, ends.acknowledged),
            (self.waiting, ends.waiting),
            (self.refused, ends.refused),
            (self.held, ends.held),
        ):
            _add_counts(into, copies, messages)
        for queue, reason, number in ends.lost:
            _add_counts(self.lost.setdefault(queue, {}), ((reason, number),), messages)
        self.unroutable += ends.unroutable * messages
        self.endless += ends.endless * messages

    def in_order(self) -> Totals:
        """Return the same, by the names of queues and reasons."""
        lost = {queue: dict(sorted(reasons.items())) for queue, reasons in sorted(self.lost.items())}
        kept = (self.acknowledged, self.waiting, self.refused, self.held)
        acknowledged, waiting, refused, held = (dict(sorted(each.items())) for each in kept)
        return Totals(acknowledged, waiting, lost, refused, self.unroutable, self.endless, held)


def _add_counts(into: dict[str, int], counts: Iterable[tuple[str, int]], times: int) -> None:
    for name, number in counts:
        into[name] = into.get(name, 0) + number * times


class Delay(msgspec.Struct, frozen=True):
    """Milliseconds from the first publish of a message to the end of its last copy that was acknowledged or lost."""

    p50: float | None = None
    p95: float | None = None
    max: float | None = None


class Delays(msgspec.Struct, frozen=True):
    """The delays of both sides."""

    before: Delay
    after: Delay


class ChangeCause(msgspec.Struct, frozen=True, rename={"what": "behaviour or setting"}):
    """A setting, or a row of the release table, and how many messages end differently by it."""

    what: str
    messages: int


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


class OutcomeChange(msgspec.Struct, frozen=True):
    """One way in which messages end differently.

    Attributes:
        before, after: how they end, and the deaths on the way, in words.
        messages: how many.
        lost: whether more copies are lost than before; or fewer: ``saved``.
        held: whether more copies are held than before.
        examples: some of the messages.
    """

    before: str
    after: str
    messages: int
    lost: bool
    saved: bool
    examples: tuple[str, ...]
    held: bool = False


class WhatIfAnswer(msgspec.Struct, kw_only=True):
    """The answer.

    Attributes:
        question: in what the sides differ; ``sentence``: the same with the answer: what ends differently, and in
            what time.
        messages: all messages of the log; ``reproduced``: those of which the first run gives what the log shows.
            Only these are compared.
        before, after: where their copies ended.
        changed: how many messages end differently; ``assumed``: how many answers rest on what the log does not have.
        delay_ms: how long they took.
        undecided: how many messages end in another way if their consumers lost channels where the log has returns.
        undecided_losing: how many of these lose copies then that they did not lose before.
        causes: which settings or rows of the release table do it.
        over_represented: what the messages that change have more often.
        changes: the ways in which messages change, losses first.
        not_reproduced: messages that are left out, some of them.
        assumptions: what was assumed, in sentences, with the number of messages that rest on it.
        outcomes: what consumers did with deliveries, by outcome, and how much of it is inferred.
        unchecked: what was not checked, in sentences.
    """

    question: str
    sentence: str = ""
    messages: int
    reproduced: int
    before: Totals
    after: Totals
    changed: int
    assumed: int
    delay_ms: Delays
    undecided: int = 0
    undecided_losing: int = 0
    causes: tuple[ChangeCause, ...] = ()
    over_represented: tuple[Represented, ...] = ()
    changes: tuple[OutcomeChange, ...] = ()
    not_reproduced: tuple[str, ...] = ()
    assumptions: dict[str, int] = {}
    outcomes: dict[str, int] = {}
    unchecked: tuple[str, ...] = ()

    @property
    def losing(self) -> int:
        """How many messages lose more copies than before."""
        return sum(change.messages for change in self.changes if change.lost)

    @property
    def saved(self) -> int:
        """How many messages lose fewer copies than before."""
        return sum(change.messages for change in self.changes if change.saved)

    @property
    def shown_examples(self) -> set[str]:
        """A message for each way of change that people are shown."""
        return {change.examples[0] for change in self.changes[:SHOWN_MAX]}

    @property
    def reproduced_percent(self) -> float:
        """The share of the messages that are compared."""
        return 100 * self.reproduced / self.messages if self.messages else 100.0


Mood = Literal["bad", "good", "open"]


class Sentence(NamedTuple):
    """What to say, and whether it is good or bad news; open where it is neither."""

    text: str
    mood: Mood


def headline(answer: WhatIfAnswer) -> list[Sentence]:
    """Return question and answer in one sentence, then what is undecided, then how many end differently."""
    newly_held = any(change.held and not change.saved for change in answer.changes)
    good = not answer.changed or (answer.saved and not newly_held)
    mood: Mood = "bad" if answer.losing else "good" if good else "open"
    found = [Sentence(answer.sentence, mood if answer.reproduced else "open")]
    if answer.undecided:
        found.append(Sentence(_undecided(answer), "bad" if answer.undecided_losing else "open"))
    all_of_them = f"{answer.changed:,} of {_messages(answer.reproduced)} would end differently"
    return [*found, Sentence(all_of_them, "open" if answer.changed else "good")]


def sureness(answer: WhatIfAnswer) -> Iterator[str]:
    """Yield how sure the answer is: what the log's own settings reproduce, what was assumed, what was not checked."""
    yield (
        f"Replaying with the original settings reproduces {answer.reproduced:,} of {_messages(answer.messages)}"
        f" ({answer.reproduced_percent:.2f} %); the others are left out."
    )
    if answer.not_reproduced:
        rest = answer.messages - answer.reproduced - len(answer.not_reproduced)
        yield f"Left out: {', '.join(answer.not_reproduced)}{f' and {rest:,} more' if rest else ''}"
    if answer.assumed:
        yield f"{answer.assumed:,} answers rest on assumptions beyond the log:"
    for what, messages in list(answer.assumptions.items())[:SHOWN_MAX]:
        yield f"{messages:,}: {what}"
    for outcome, deliveries in answer.outcomes.items():
        yield f"{deliveries:,} deliveries {outcome}"
    for each in answer.unchecked:
        yield f"Not checked: {each}"


def _undecided(answer: WhatIfAnswer) -> str:
    lost = f"; {answer.undecided_losing:,} of them would lose copies then" if answer.undecided_losing else ""
    return (
        f"{_messages(answer.undecided)} count here as returned by their consumers (basic.nack), and end in another way"
        f" if these failed them (basic.reject, a lost channel): a trace does not show which{lost}"
    )


def ends_of(answer: WhatIfAnswer) -> Iterator[tuple[str, int, int]]:
    """Yield each kind of end with the copies of both sides, losses first."""
    one, other = answer.before, answer.after
    for queue in {**one.lost, **other.lost}:
        had, has = one.lost.get(queue, {}), other.lost.get(queue, {})
        for reason in {**had, **has}:
            yield f"lost in '{queue}' ({reason})", had.get(reason, 0), has.get(reason, 0)
    yield "published to no queue", one.unroutable, other.unroutable
    yield "going round without end", one.endless, other.endless
    for name, words in (
        ("refused", "refused by"),
        ("held", "held in"),
        ("waiting", "waiting in"),
        ("acknowledged", "acknowledged in"),
    ):
        counts: tuple[dict[str, int], dict[str, int]] = getattr(one, name), getattr(other, name)
        for queue in {**counts[0], **counts[1]}:
            yield f"{words} '{queue}'", counts[0].get(queue, 0), counts[1].get(queue, 0)


def in_one_sentence(answer: WhatIfAnswer, ends: Iterable[str], not_heeded: Iterable[str] = ()) -> str:
    """Return question and answer. ``ends`` say what ends differently, ``not_heeded`` which settings have no effect."""
    if not answer.reproduced:
        why = (
            f"the original settings reproduce none of {_messages(answer.messages)}" if answer.messages else "no message"
        )
        return f"{answer.question}: no answer ({why})"
    parts = [*ends] or ["the same ends"]
    parts += _times(answer.delay_ms)
    if answer.undecided:
        parts.append(f"{_messages(answer.undecided)} may end in another way")
    if left_out := answer.messages - answer.reproduced:
        parts.append(f"{left_out:,} of {_messages(answer.messages)} are left out")
    parts += not_heeded
    return f"{answer.question}: {'; '.join(parts)}"


_SHARES = {"p95": "95 % take up to", "p50": "half take up to", "max": "the slowest takes"}


def _times(delays: Delays) -> list[str]:
    """Say how long messages take, by the share of which that differs most; by the slowest only if all others agree."""
    before, after = delays.before, delays.after
    if before.max is None or after.max is None:
        return []
    both = {name: (_rounded(getattr(before, name)), _rounded(getattr(after, name))) for name in _SHARES}
    if all(was == now for was, now in both.values()):
        return ["as fast as before"]
    usual = [name for name in ("p95", "p50") if both[name][0] != both[name][1]]
    share = max(usual, key=lambda name: (max(both[name]) + 1) / (min(both[name]) + 1), default="max")
    was, now = (span(1_000 * ms) for ms in both[share])
    return [f"{_SHARES[share]} {now} instead of {was}"]


def _rounded(ms: float) -> int:
    """Return milliseconds, of which people read three digits."""
    return int(float(f"{ms:.3g}"))


def _messages(count: int) -> str:
    return f"{count:,} message" + ("" if count == 1 else "s")
