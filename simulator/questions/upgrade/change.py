"""A change that an upgrade brings, and the questions that find them: one for each row of the release table.

A question looks at a topology under two releases and yields the objects to which its row
matters. It writes no rules: it compares what ``dlx`` says under both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from dlx.releases import Row
from simulator.questions.findings import Fix, ObjectName, Severity

if TYPE_CHECKING:
    from simulator.questions.upgrade.upgrade import Upgrade

Kind = Literal["any message", "dead letter", "death", "return", "republished", "CC", "expiration", "priority"]
"""Which messages can meet a change: any, those that died before, die or come back there, or carry something."""


class Traffic(msgspec.Struct, frozen=True):
    """The messages that can meet a change: of that kind, in these queues; in all of the virtual host without any."""

    kind: Kind
    vhost: str
    queues: tuple[str, ...] = ()


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What will change for one object.

    Attributes:
        severity: ``error`` where messages will be lost, ``warning`` where they may be or come another way.
        about: the object.
        message: what happens now and what will, in sentences.
        fix: what to do, and whether it can be done before the upgrade without losing anything.
        traffic: the messages that can meet it.
    """

    severity: Severity
    about: ObjectName
    message: str
    fix: Fix
    traffic: Traffic


class FoundChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change with the row of the release table behind it, and how that is known."""

    behaviour: str
    change: Change
    evidence: str

    def as_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        about = self.change.about
        return {
            "behaviour": self.behaviour,
            "severity": self.change.severity,
            "kind": about.kind,
            "vhost": about.vhost,
            "object": about.name,
            "message": self.change.message,
            "fix": msgspec.to_builtins(self.change.fix),
            "evidence": self.evidence,
        }


Question = Callable[["Upgrade", Row], Iterable[Change]]

QUESTIONS: dict[str, Question] = {}
"""The questions by the name of their row."""


def asks(*rows: str) -> Callable[[Question], Question]:
    """Return the decorator that makes a function the question of these rows."""

    def add(question: Question) -> Question:
        for row in rows:
            if row in QUESTIONS:
                raise ValueError(f"{row} has a question already")
            QUESTIONS[row] = question
        return question

    return add


NOTHING_TO_DO = Fix(True, "nothing has to be done before the upgrade")


def named(names: Iterable[str], most: int = 4) -> str:
    """Return names as a sentence has them: 'a', 'b' and 3 more."""
    known = sorted(names)
    shown = ", ".join(f"'{name}'" for name in known[:most])
    return f"{shown} and {len(known) - most} more" if len(known) > most else shown
