"""Large limits made small, so that filling a queue of ten million takes no longer than filling one of a thousand.

What happens at a limit does not depend on how large it is, only on which of several
limits is the larger. A history that was found is then tried with the true limits,
where that does not take too long.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from dlx.settings import DELIVERY_LIMIT, MAX_LENGTH
from simulator.testing import steps
from simulator.testing.steps import AnyStep, History

LARGE = 20_000
APART = 1_000
_KEYS = {f"{prefix}{key}" for prefix in ("", "x-") for key in (MAX_LENGTH, DELIVERY_LIMIT)}


def scaled(document: Mapping[str, Any]) -> tuple[dict[str, Any], dict[int, int]]:
    """The definitions with small limits in the place of large ones, and which large one each small one stands for."""
    smaller = copy.deepcopy(dict(document))
    limits = {value for table in _tables(smaller) for key, value in table.items() if _is_limit(key, value)}
    base = max((value for value in limits if value <= LARGE), default=0)
    large = sorted(value for value in limits if value > LARGE)
    small = {value: base + APART * (rank + 1) for rank, value in enumerate(large)}
    for table in _tables(smaller):
        table.update({key: small[value] for key, value in table.items() if _is_limit(key, value) and value in small})
    return smaller, {by: value for value, by in small.items()}


def _tables(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Where limits stand: arguments of queues, definitions of policies and of operator policies."""
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


def unscaled(history: History, limits: Mapping[int, int]) -> History:
    """The history with what the small limits are gone beyond by, beyond the true ones. Raises ``ValueError``."""
    return tuple(_unscaled(step, limits) for step in history)


def _unscaled(step: AnyStep, limits: Mapping[int, int]) -> AnyStep:
    if isinstance(step, steps.Repeat):
        step = steps.changed(step, steps=unscaled(step.steps, limits))
    times = getattr(step, "times", 1)
    for small, true in limits.items():
        if small <= times <= small + 2:
            return steps.changed(step, times=times - small + true)
    return step
