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
_KEYS = {f"{prefix}{key}" for prefix in ("", "x-") for key in (MAX_LENGTH, DELIVERY_LIMIT)}


def scaled(
    document: Mapping[str, Any], *, above: int = LARGE, apart: int = APART
) -> tuple[dict[str, Any], dict[int, int]]:
    """Return the definitions with small limits in place of large ones, and the large one behind each small one.

    Limits ``above`` that number are large; those in their place are ``apart`` from each other.
    """
    limits = {value for table in _tables(document) for key, value in table.items() if _is_limit(key, value)}
    base = max([1, *(value for value in limits if value <= above)])  # a step that happens once stays one
    large = sorted(value for value in limits if value > above)
    if not large:
        return dict(document), {}
    smaller = copy.deepcopy(dict(document))
    small = {value: base + apart * (rank + 1) for rank, value in enumerate(large)}
    for table in _tables(smaller):
        table.update({key: small[value] for key, value in table.items() if _is_limit(key, value) and value in small})
    return smaller, {by: value for value, by in small.items()}


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


def unscaled(history: History, limits: Mapping[int, int]) -> Iterator[History]:
    """Yield what the history may be with the true limits, shortest first; the last goes beyond every limit.

    A message that is to go through several limits takes as many as they hold together, and some more.
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


def _unscaled(history: History, limits: Mapping[int, int], place: int) -> History:
    found: list[AnyStep] = []
    for step in history:
        if isinstance(step, steps.Repeat):
            step = steps.changed(step, steps=_unscaled(step.steps, limits, place))
        times = getattr(step, "times", None)
        if limits and times is not None and times >= min(limits):
            step = steps.changed(step, times=_guesses(times, limits)[place])
        found.append(step)
    return tuple(found)


def _guesses(times: int, limits: Mapping[int, int]) -> list[int]:
    """Return numbers to try in place of ``times``: limits that add up to it, or nearly; at last one beyond them all."""
    together = (part for size in range(1, ADDED_MAX + 1) for part in combinations_with_replacement(limits, size))
    nearest = sorted((times - sum(part), len(part), part) for part in together if sum(part) <= times)[:GUESSES_MAX]
    guesses = sorted(rest + sum(limits[small] for small in part) for rest, _, part in nearest)
    enough = max(-(-times * true // small) for small, true in limits.items())
    return guesses + [enough] * (GUESSES_MAX + 1 - len(guesses))
