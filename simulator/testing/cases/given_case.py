"""A case that was read: its definitions, its steps, and where it stands."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from dlx.nearest_names import suggestion
from dlx.releases import RELEASES
from dlx.releases.versions import known_release, numbers
from dlx.topology import Topology
from simulator.scenario.steps import Modify, Repeat, Wait
from simulator.server.faults.fault import RaiseAlarm
from simulator.testing.cases.file_format import CaseStep, Expect, Releases, SetFaults, Until


@dataclass(frozen=True)
class GivenCase:
    """One case, ready to be run.

    Attributes:
        name: its name in the file.
        source: the file.
        line: the line in it where the case begins.
        step_lines: the line of each step.
        document: its definitions, as the export of one virtual host.
        topology: the same as values.
        releases: the releases for which it is; ``None`` for all.
        steps: what happens and what is expected.
    """

    name: str
    source: str
    line: int
    step_lines: tuple[int, ...]
    document: dict[str, Any]
    topology: Topology
    releases: Releases | None
    steps: tuple[CaseStep, ...]

    @property
    def takes_ms(self) -> int:
        """How much time passes in it, milliseconds."""
        now = 0
        for step in self.steps:
            if isinstance(step, (Expect, Until)):
                now = max(now, 0 if step.at is None else milliseconds(step.at))
            else:
                now += waited_ms(step)
        return now

    @property
    def faults(self) -> list[str]:
        """The names of the faults that it asks for, each once."""
        asked = [fault.kind for step in self.steps if isinstance(step, SetFaults) for fault in step.set]
        return list(dict.fromkeys(asked))

    @property
    def modified_queues(self) -> frozenset[str]:
        """The queues whose consumers settle messages by an outcome that AMQP 0-9-1 has not."""
        return modified_queues(self.steps)

    @property
    def raises_alarm(self) -> bool:
        """Whether it asks for an alarm, which stops every publisher of a server."""
        return RaiseAlarm.__struct_config__.tag in self.faults


def modified_queues(given: Iterable[CaseStep]) -> frozenset[str]:
    """Return the queues whose consumers speak AMQP 1.0: ``modified`` is an outcome that AMQP 0-9-1 has not."""
    return frozenset(step.queue for step in single_steps(given) if isinstance(step, Modify))


def single_steps(given: Iterable[CaseStep]) -> Iterator[CaseStep]:
    """Yield the steps, and in place of repetitions what they repeat, once."""
    for step in given:
        if isinstance(step, Repeat):
            yield from single_steps(step.steps)
        else:
            yield step


def waited_ms(step: CaseStep) -> int:
    """Return how much time passes in a step by itself, milliseconds."""
    if isinstance(step, Repeat):
        return step.times * sum(map(waited_ms, step.steps))
    return step.ms if isinstance(step, Wait) else 0


# Reads times as people write them in cases: ``24h``, ``1h 30min``, ``250ms``.


_UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "min": 60_000, "s": 1_000, "ms": 1}
TIME_MAX_MS = 1_000 * 365 * 86_400_000
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|min|d|h|s)(?![a-z])")


def milliseconds(time: int | str) -> int:
    """Return a time in milliseconds. Raises ``ValueError`` for what is none, or negative, or more than 1,000 years."""
    found = _in_milliseconds(time)
    if found > TIME_MAX_MS:
        raise ValueError(f"{time!r} is more than 1,000 years")
    return found


def _in_milliseconds(time: int | str) -> int:
    if isinstance(time, int):
        if time < 0:
            raise ValueError(f"{time} ms; time only goes forward")
        return time
    parts = _PART.findall(time)
    if not parts or _PART.sub("", time).strip():
        raise ValueError(f"{time!r} is not a time; expected milliseconds or text, such as '90s', '24h', '1h 30min'")
    return round(sum(float(number) * _UNITS_MS[unit] for number, unit in parts))


# Conditions on releases: ``4.3``, ``>=4.0``, ``>=3.10 <4.0``.


_TERM = re.compile(r"(>=|<=|>|<|)([0-9][0-9.]*)")
_COMPARE: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    "": operator.eq,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


def fits(release: str, condition: str | list[str] | None) -> bool:
    """Return whether a release fits: all terms of one of the texts. Everything fits ``None``.

    Raises ``ValueError`` for a text that is not a condition.
    """
    if condition is None:
        return True
    texts = [condition] if isinstance(condition, str) else condition
    found = [[_term(release, term) for term in _terms(text)] for text in texts]  # all are read: each may be wrong
    return any(map(all, found))


def _terms(text: str) -> list[str]:
    terms = text.split()
    if not terms:
        raise ValueError("an empty condition on releases; expected one such as '4.3' or '>=3.10 <4.0'")
    return terms


def _term(release: str, term: str) -> bool:
    found = _TERM.fullmatch(term)
    if found is None:
        raise ValueError(f"{term!r} is not a condition on releases; expected one such as '4.3' or '>=3.10 <4.0'")
    if known_release(found[2]) != found[2]:
        raise ValueError(f"there is no release {found[2]!r}; {suggestion(found[2], RELEASES)}")
    return _COMPARE[found[1]](numbers(release)[:2], numbers(found[2]))
