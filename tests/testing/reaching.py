"""Whether a strategy ever draws what is asked for."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from hypothesis import HealthCheck, Phase, find, settings
from hypothesis import strategies as st

DRAWN_MAX = 3_000


def reached(strategy: st.SearchStrategy[Any], wanted: Callable[[Any], Any]) -> Any:
    """An example that is wanted, not shrunk, and always the same.

    Raises ``NoSuchExample`` when ``DRAWN_MAX`` of them were not.
    """
    quick = settings(
        phases=[Phase.generate], max_examples=DRAWN_MAX, database=None, suppress_health_check=list(HealthCheck)
    )
    return find(strategy, wanted, settings=quick, random=Random(7))
