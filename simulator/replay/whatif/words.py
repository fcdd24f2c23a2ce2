"""The sentences of an answer, as a terminal, a page and a notebook show them: what changes, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from simulator.replay.whatif.answer import SHOWN_MAX, Answer

Mood = Literal["bad", "good", "open"]


class Sentence(NamedTuple):
    """What to say, and whether it is good or bad news; open where it is neither."""

    text: str
    mood: Mood


def headline(answer: Answer) -> list[Sentence]:
    """Return what changes: losses first, then what is saved, then all that ends differently."""
    found = []
    if answer.losing:
        found.append(Sentence(f"{_messages(answer.losing)} would lose copies that they did not lose", "bad"))
    if answer.saved:
        found.append(Sentence(f"{_messages(answer.saved)} would lose fewer copies", "good"))
    if answer.undecided:
        found.append(Sentence(_undecided(answer), "bad" if answer.undecided_losing else "open"))
    all_of_them = f"{answer.changed:,} of {_messages(answer.reproduced)} would end differently"
    return [*found, Sentence(all_of_them, "open" if answer.changed else "good")]


def sureness(answer: Answer) -> Iterator[str]:
    """Yield how sure the answer is: what the log's own settings reproduce, what was assumed, what was not checked."""
    yield (
        f"Played under its own settings, the log comes out for {answer.reproduced:,} of {_messages(answer.messages)}"
        f" ({answer.reproduced_percent:.2f} %); the others are left out."
    )
    if answer.not_reproduced:
        rest = answer.messages - answer.reproduced - len(answer.not_reproduced)
        yield f"Left out: {', '.join(answer.not_reproduced)}{f' and {rest:,} more' if rest else ''}"
    if answer.assumed:
        yield f"{answer.assumed:,} answers rest on what the log does not have:"
    for what, messages in list(answer.assumptions.items())[:SHOWN_MAX]:
        yield f"{messages:,}: {what}"
    for outcome, deliveries in answer.outcomes.items():
        yield f"{deliveries:,} deliveries {outcome}"
    for each in answer.unchecked:
        yield f"Not checked: {each}"


def _undecided(answer: Answer) -> str:
    text = f"{_messages(answer.undecided)} may end in another way: no trace tells whether consumers returned them"
    lost = f"; then {answer.undecided_losing:,} would lose copies" if answer.undecided_losing else ""
    return f"{text} (basic.nack) or failed them (basic.reject, a lost channel){lost}"


def ends_of(answer: Answer) -> Iterator[tuple[str, int, int]]:
    """Yield each kind of end with the copies of both sides, losses first."""
    one, other = answer.before, answer.after
    for queue in {**one.lost, **other.lost}:
        had, has = one.lost.get(queue, {}), other.lost.get(queue, {})
        for reason in {**had, **has}:
            yield f"lost in '{queue}' ({reason})", had.get(reason, 0), has.get(reason, 0)
    yield "published to no queue", one.unroutable, other.unroutable
    yield "going round without end", one.endless, other.endless
    for name, words in (("refused", "refused by"), ("waiting", "waiting in"), ("acknowledged", "acknowledged in")):
        counts: tuple[dict[str, int], dict[str, int]] = getattr(one, name), getattr(other, name)
        for queue in {**counts[0], **counts[1]}:
            yield f"{words} '{queue}'", counts[0].get(queue, 0), counts[1].get(queue, 0)


def _messages(count: int) -> str:
    return f"{count:,} message" + ("" if count == 1 else "s")
