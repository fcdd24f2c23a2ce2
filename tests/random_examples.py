"""Hypothesis as a source of random examples: the same in each run, in any time, and not made smaller."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings


def random_examples(count: int) -> settings:
    """Return the decorator of a test that plays so many examples."""
    return settings(
        max_examples=count,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
    )
