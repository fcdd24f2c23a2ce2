"""What the check of a log found that another system's rules rule out, without a scenario."""

from __future__ import annotations

from collections import Counter

import msgspec


class LogProblem(msgspec.Struct, frozen=True):
    """What cannot be: the line of the log, from 1, the message, and the rule that forbids it."""

    line: int
    message: str
    problem: str


class Checked(msgspec.Struct, kw_only=True):
    """What the check of a log found, how often it looked, and how often it could not."""

    found: list[LogProblem] = []
    looked_at: Counter[str] = Counter()
    not_checked: Counter[str] = Counter()
