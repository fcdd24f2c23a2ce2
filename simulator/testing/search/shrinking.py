"""Makes a history shorter that shows something: leaves out steps, and takes smaller numbers, while it still does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Protocol, TypeVar

from simulator.scenario import steps
from simulator.scenario.steps import AnyStep, History


class Shown(Protocol):
    """A finding that a history shows; ``history`` is the part of it that was needed."""

    history: History


Found = TypeVar("Found", bound=Shown)


def shrink(best: Found, shows: Callable[[History], Found | None], *, until_s: float) -> Found:
    """Return the same finding with the shortest history that still shows it.

    ``shows`` returns what a history shows, or ``None``. The search stops when ``time.monotonic()``
    reaches ``until_s``, with the best so far.
    """
    better: Found | None = best
    while better is not None:
        best = better
        better = _first(best.history, shows, until_s)
    return best


def _first(history: History, shows: Callable[[History], Found | None], end: float) -> Found | None:
    """Return the first of the simpler histories that still shows it."""
    for simpler in _simpler(history):
        if time.monotonic() > end:
            return None
        found = shows(simpler)
        if found is not None and _weight(found.history) < _weight(history):
            return found
    return None


def _weight(history: History) -> tuple[int, int, int]:
    """Weigh a history: fewer steps are better, then fewer actions, then less time and smaller bodies."""
    return _count(history), steps.length(history), sum(map(_size, history))


def _count(history: History) -> int:
    return sum(1 + (_count(step.steps) if isinstance(step, steps.Repeat) else 0) for step in history)


def _size(step: AnyStep) -> int:
    if isinstance(step, steps.Repeat):
        return sum(map(_size, step.steps))
    return getattr(step, "ms", 0) + getattr(step, "body_bytes", 0)


def _simpler(history: History) -> Iterator[History]:
    yield from _without_parts(history)
    yield from _merged(history)
    yield from _repeated(history)
    for index, step in enumerate(history):
        for smaller in _smaller(step):
            yield (*history[:index], *smaller, *history[index + 1 :])


def _without_parts(history: History) -> Iterator[History]:
    """Leave out a half, a quarter, ..., one step."""
    size = len(history) // 2
    while size:
        for start in range(0, len(history) - size + 1, size):
            yield history[:start] + history[start + size :]
        size //= 2


def _merged(history: History) -> Iterator[History]:
    """Merge neighbouring steps that differ only in how often they happen."""
    for index, (step, following) in enumerate(pairwise(history)):
        times = [getattr(each, "times", 0) for each in (step, following)]
        if all(times) and steps.changed(step, times=1) == steps.changed(following, times=1):
            yield (*history[:index], steps.changed(step, times=sum(times)), *history[index + 2 :])


def _repeated(history: History) -> Iterator[History]:
    """Say once what is done again and again."""
    for period in range(1, 5):
        for start in range(len(history) - 2 * period + 1):
            part, times = history[start : start + period], 1
            while history[start + times * period : start + (times + 1) * period] == part:
                times += 1
            if times > 1:
                rest = history[start + times * period :]
                yield (*history[:start], steps.again(part, times), *rest)


def _smaller(step: AnyStep) -> Iterator[History]:
    """Yield simpler steps to put in its place."""
    if isinstance(step, steps.Repeat):
        yield step.steps
        if len(step.steps) == 1:
            yield (steps.again(step.steps, step.times),)
        for inner in _simpler(step.steps):
            if inner:
                yield (steps.Repeat(inner, step.times),)
    for field, least in (("times", 1), ("ms", 0), ("body_bytes", 0)):
        value = getattr(step, field, least)
        for less in _less(value, least):
            yield (steps.changed(step, **{field: less}),)


def _less(value: int, least: int) -> Iterator[int]:
    """Yield smaller numbers, the smallest first."""
    gap = value - least
    while gap > 0:
        yield value - gap
        gap //= 2
