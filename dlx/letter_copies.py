"""Decide what happens to each copy of a dead letter, and by which rule.

A dead letter is copied to each queue that it is routed to. The cycle rule leaves some
out, streams of older releases drop theirs, and a full queue may refuse its copy. If no
queue is left, the message is gone, or held if its queue dead-letters at least once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec

from dlx import dead_lettering
from dlx.dead_lettering import DeadLetter
from dlx.delays import Delay
from dlx.possible_deaths import DeathRule
from dlx.settings import (
    AT_LEAST_ONCE,
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_ROUTING_KEY,
    DEAD_LETTER_STRATEGY,
    OVERFLOW,
    Settings,
)

CopyOutcome = Literal[
    "dead-lettered",
    "may be refused",
    "cycle",
    "lost in a stream",
    "unroutable",
    "no dead-letter exchange",
    "dead-letter exchange missing",
    "held",
    "queue crashes",
]
"""What becomes of one copy.

``may be refused``: it is dead-lettered, unless the queue is full just then. ``held``: it
waits in the queue it died in, since at-least-once dead-lettering gives up no message.
"""


class LetterCopy(msgspec.Struct, frozen=True):
    """One copy of a dead letter: its outcome, the rule behind that, and the queue it is for, if there is one."""

    outcome: CopyOutcome
    rule: DeathRule
    queue: str | None = None


def letter_copies(
    letter: DeadLetter,
    settings: Settings,
    settings_of: Callable[[str], Settings],
    ends: Sequence[Sequence[str]] = (),
) -> list[LetterCopy]:
    """Return the copies of a dead letter, first those that reach a queue, those with a delay last.

    ``settings`` are those of the queue it comes from; ``settings_of`` returns those of a queue that it goes to,
    ``ends`` are the queues that it reaches when each of its delays is over.
    """
    copies = [] if letter.outcome == "held" else list(_copies(letter, settings, settings_of))
    later = [copy for each in zip(letter.delays, ends, strict=True) for copy in _later(*each, settings)]
    if letter.outcome == "held" or not (copies or later):
        copies = [_nowhere(letter, settings)]
    return copies + later


def crashed(queue: str, why: str) -> LetterCopy:
    """Return the one copy of a message whose own header crashes the queue that it dies in."""
    return LetterCopy("queue crashes", DeathRule(f"the message's headers crash '{queue}': {why}"))


def _copies(letter: DeadLetter, settings: Settings, settings_of: Callable[[str], Settings]) -> Iterator[LetterCopy]:
    message = letter.message
    if message is None:
        return
    address = settings.values.get(DEAD_LETTER_ROUTING_KEY) or settings.values.get(DEAD_LETTER_EXCHANGE)
    for queue in letter.queues:
        refusal = _refusal(settings_of(queue), held=settings.dead_letter_strategy == AT_LEAST_ONCE)
        if refusal is not None:
            yield LetterCopy("may be refused", refusal, queue)
        else:
            yield LetterCopy("dead-lettered", DeathRule(dead_lettering.routed_text(message, queue), address), queue)
    for queue in letter.cycles:
        yield LetterCopy("cycle", DeathRule(f"it {dead_lettering.would_return(queue)}", address), queue)
    for queue in letter.lost_in:
        yield LetterCopy("lost in a stream", DeathRule(dead_lettering.stream_drops(queue)), queue)


def _later(delay: Delay, queues: Sequence[str], settings: Settings) -> Iterator[LetterCopy]:
    """Yield the copies that a delayed exchange makes when the delay is over: no cycle keeps them out."""
    address = settings.values.get(DEAD_LETTER_ROUTING_KEY) or settings.values.get(DEAD_LETTER_EXCHANGE)
    message = msgspec.structs.replace(delay.message, exchange=delay.exchange.name)
    for queue in queues or (None,):
        text = f"{dead_lettering.routed_text(message, queue)} after a delay of {delay.delay_ms:,} ms"
        yield LetterCopy("unroutable" if queue is None else "dead-lettered", DeathRule(text, address), queue)


def _refusal(target: Settings, *, held: bool) -> DeathRule | None:
    """Return the rule that makes the queue refuse dead letters when it is full; ``None`` if it takes them all.

    The worker of at-least-once dead-lettering publishes them, so that any type of queue may refuse.
    """
    refuses = target.refuses_when_full if held else target.refuses_dead_letters
    if not (refuses and target.has_length_limit):
        return None
    then = "it dies there of maxlen" if target.dead_letters_refused else "it is gone"
    then = "it is held and sent again" if held else then
    return DeathRule(
        f"while queue '{target.queue.name}' is full, it refuses the copy: {then}", target.values.get(OVERFLOW)
    )


def _nowhere(letter: DeadLetter, settings: Settings) -> LetterCopy:
    key = DEAD_LETTER_EXCHANGE
    if letter.outcome == "held":
        key = DEAD_LETTER_STRATEGY
    elif letter.outcome == "unroutable" and DEAD_LETTER_ROUTING_KEY in settings.values:
        key = DEAD_LETTER_ROUTING_KEY
    return LetterCopy(letter.outcome, DeathRule(letter.why, settings.values.get(key)))
