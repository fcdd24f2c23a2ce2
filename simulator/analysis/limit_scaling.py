"""Makes large limits small, so that filling a queue of ten million takes no longer than filling one of a thousand.

A queue behaves the same at a small limit and at a large one; only which of several
limits is larger matters. The search then tries a history that it found with the true
limits, unless that takes too long.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from itertools import combinations_with_replacement
from typing import Any

from dlx.settings import DELIVERY_LIMIT, MAX_LENGTH
from simulator.scenario import steps
from simulator.scenario.steps import AnyStep, History

LARGE = 20_000
APART = 1_000
GUESSES_MAX = 3
ADDED_MAX = 3
_KEYS = {f"{prefix}{key}": key for prefix in ("", "x-") for key in (MAX_LENGTH, DELIVERY_LIMIT)}

Limits = Mapping[str, Mapping[int, int]]
"""The large limit behind each small one, by the key that sets it; empty where none is large."""


def scaled(document: Mapping[str, Any], *, above: int = LARGE, apart: int = APART) -> tuple[dict[str, Any], Limits]:
    """Return the definitions with small limits in place of large ones, and the large ones behind them.

    Limits ``above`` that number are large; those in their place are ``apart`` from each other.
    """
    limits = {value for table in _tables(document) for key, value in table.items() if _is_limit(key, value)}
    base = max([1, *(value for value in limits if value <= above)])  # a step that happens once stays one
    large = sorted(value for value in limits if value > above)
    if not large:
        return dict(document), {}
    smaller = copy.deepcopy(dict(document))
    small = {value: base + apart * (rank + 1) for rank, value in enumerate(large)}
    behind: dict[str, dict[int, int]] = {}
    for table in _tables(smaller):
        for key, value in table.items():
            if _is_limit(key, value) and value in small:
                table[key] = small[value]
                behind.setdefault(_KEYS[key], {})[small[value]] = value
    return smaller, behind


def _tables(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the tables that may hold limits: arguments of queues, definitions of policies and of operator policies."""
    for queue in document.get("queues", ()):
        yield queue.get("arguments") or {}
    for policy in document.get("policies", ()):
        yield policy.get("definition") or {}
    for parameter in document.get("parameters", ()):
        value = parameter.get("value")
        if isinstance(value, dict) and isinstance(value.get("definition"), dict):
            yield value["definition"]


def _is_limit(key: str, value: Any) -> bool:
    return key in _KEYS and isinstance(value, int) and not isinstance(value, bool)


def unscaled(history: History, limits: Limits) -> Iterator[History]:
    """Yield what the history may be with the true limits, shortest first; the last goes beyond every limit.

    A message that is to go through several limits takes as many as they hold together, and some more. How often a
    message is returned is up to delivery limits, how many there are to lengths.
    """
    seen: list[History] = []
    for place in range(GUESSES_MAX + 1):
        try:
            guess = _unscaled(history, limits, place)
        except ValueError:  # more messages than a history may have
            continue
        if guess not in seen:
            seen.append(guess)
            yield guess


def _unscaled(history: History, limits: Limits, place: int) -> History:
    found: list[AnyStep] = []
    for step in history:
        if isinstance(step, steps.Repeat):
            step = steps.changed(step, steps=_unscaled(step.steps, limits, place))
        times, large = getattr(step, "times", None), limits.get(DELIVERY_LIMIT if _returns(step) else MAX_LENGTH)
        if large and times is not None and times >= min(large):
            step = steps.changed(step, times=_guesses(times, large)[place])
        found.append(step)
    return tuple(found)


def _returns(step: AnyStep) -> bool:
    """Tell whether the step does nothing but return a message, and wait for it."""
    if isinstance(step, steps.Repeat):
        return all(_returns(each) or isinstance(each, steps.Wait) for each in step.steps)
    return isinstance(step, steps.Crash | steps.Requeue)


def _guesses(times: int, limits: Mapping[int, int]) -> list[int]:
    """Return numbers to try in place of ``times``: limits that add up to it, or nearly; at last one beyond them all."""
    together = (part for size in range(1, ADDED_MAX + 1) for part in combinations_with_replacement(limits, size))
    nearest = sorted((times - sum(part), len(part), part) for part in together if sum(part) <= times)[:GUESSES_MAX]
    guesses = sorted(rest + sum(limits[small] for small in part) for rest, _, part in nearest)
    enough = max(-(-times * true // small) for small, true in limits.items())
    return guesses + [enough] * (GUESSES_MAX + 1 - len(guesses))
