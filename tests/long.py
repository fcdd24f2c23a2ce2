"""What CI leaves to `make test-long`: it plays some of many parameters, the others take too long for every change."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def some_in_ci(every: Iterable[Any], chosen: Collection[Any]) -> list[Any]:
    """Return these parameters of a test, of which CI plays only the chosen ones."""
    return [each if each in chosen else pytest.param(*_values(each), marks=pytest.mark.long) for each in every]


def _values(parameter: Any) -> tuple[Any, ...]:
    return parameter if isinstance(parameter, tuple) else (parameter,)
