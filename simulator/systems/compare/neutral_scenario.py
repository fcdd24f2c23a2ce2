"""A neutral scenario, for any system: a queue, how often and how late it delivers again, and messages that fail.

``docs/how-to/compare.md`` describes it, and what each system makes of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from simulator.scenario.scenario_errors import ScenarioError, convert_part

POLLS_MAX = 2_000
_YEAR_MS = 366 * 86_400_000

# Names of queues and messages; a system that does not allow a dash in a queue's gets another one, and a note.
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{1,40}$")]
Milliseconds = Annotated[int, Meta(ge=0, le=_YEAR_MS)]
Positive = Annotated[int, Meta(ge=1, le=_YEAR_MS)]
How = Literal["reject", "crash", "hold"]


class Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message, and what its consumer does with it.

    Attributes:
        name: what the outcome calls it.
        at_ms: when it is published, milliseconds from the start.
        body: its text.
        fails: how many of its deliveries fail, before one succeeds.
        how: what the consumer does then: give it back (``reject``), die (``crash``), or keep it and do nothing
            (``hold``).
        time_to_live_ms: how long it lives; ``None`` for as long as the system lets it.
    """

    name: Name
    at_ms: Milliseconds = 0
    body: str = ""
    fails: Annotated[int, Meta(ge=0)] | Literal["always"] = 0
    how: How = "reject"
    time_to_live_ms: Positive | None = None

    def succeeds(self, attempt: int) -> bool:
        """Return whether delivery number ``attempt``, counted from 1, is acknowledged."""
        return self.fails != "always" and attempt > self.fails


class NeutralScenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole scenario. One consumer takes one message at a time, and is done with it at once.

    Attributes:
        messages: what is published.
        until_ms: when it ends, milliseconds from the start.
        queue: where they are published to.
        dead_letter_queue: where dead letters go; ``None``: no dead-letter queue.
        attempts_max: how often a message is to be delivered before it is dead.
        retry_delay_ms: how long it is to wait before it is delivered again.
        ack_timeout_ms: how long a consumer is to keep a message that it does not settle.
        poll_ms: how often a consumer asks a system that does not push.
        consumed: whether the queue has a consumer; without one messages wait there.
    """

    messages: Annotated[list[Message], Meta(min_length=1, max_length=20)]
    until_ms: Positive
    queue: Name = "orders"
    dead_letter_queue: Name | None = None
    attempts_max: Annotated[int, Meta(ge=1, le=10)] = 3
    retry_delay_ms: Milliseconds = 0
    ack_timeout_ms: Positive = 60_000
    poll_ms: Positive = 1_000
    consumed: bool = True

    def message(self, name: str) -> Message:
        """Return the message of that name."""
        return next(message for message in self.messages if message.name == name)

    def published(self) -> list[Message]:
        """Return the messages in the order in which they are published."""
        return sorted(self.messages, key=lambda message: message.at_ms)


_EXPECTED = {
    "fails": "expected a number from 0, or 'always'",
    "name": "expected 1 to 40 letters, digits, dots, dashes and underscores",
    "how": "expected 'reject', 'crash' or 'hold'",
    "queue": "expected 1 to 40 letters, digits, dots, dashes and underscores",
    "dead_letter_queue": "expected 1 to 40 letters, digits, dots, dashes and underscores, or null",
}


# For systems that take whole seconds.


def whole_seconds(ms: int, least: int = 0, most: int | None = None) -> int:
    """Return milliseconds as seconds: rounded up, and within the limits of a system."""
    seconds = max(-(-ms // 1_000), least)
    return seconds if most is None else min(seconds, most)


def note_rounded(field: str, ms: int, seconds: float) -> list[str]:
    """Return a note if the seconds differ from the milliseconds of the scenario."""
    return [] if ms == round(seconds * 1_000) else [f"{field}: {seconds} s, and not {ms} ms"]


# Reading one


def read(document: Mapping[str, Any]) -> NeutralScenario:
    """Return the scenario in a document. Raises ``ScenarioError`` with the wrong field, and what would be right."""
    neutral = convert_part(document, NeutralScenario, expected=_EXPECTED)
    names: set[str] = set()
    for index, message in enumerate(neutral.messages):
        if message.name in names:
            problem = f"a second message '{message.name}'; expected a name of its own"
            raise ScenarioError(f"messages[{index}].name", problem)
        names.add(message.name)
        if message.at_ms > neutral.until_ms:
            problem = f"{message.at_ms} is after the end; expected at most until_ms, {neutral.until_ms}"
            raise ScenarioError(f"messages[{index}].at_ms", problem)
    if neutral.dead_letter_queue == neutral.queue:
        raise ScenarioError("dead_letter_queue", f"expected another queue than '{neutral.queue}', or null")
    if neutral.until_ms // neutral.poll_ms > POLLS_MAX:
        least = -(-neutral.until_ms // POLLS_MAX)
        raise ScenarioError("poll_ms", f"more than {POLLS_MAX:,} polls until the end; expected {least} or more")
    return neutral
