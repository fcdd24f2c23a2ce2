"""Loaded by Hypothesis through the entry point ``hypothesis``: from then on ``st.from_type(dlx.Topology)`` works.

Hypothesis calls ``register`` while it is being imported, so nothing of it is imported here before;
the strategies themselves are loaded when one is first resolved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import dlx

if TYPE_CHECKING:
    from hypothesis import strategies as st

_STRATEGIES = {
    "Binding": "bindings",
    "Death": "deaths",
    "DeathHistory": "death_histories",
    "Exchange": "exchanges",
    "Message": "messages",
    "Policy": "policies",
    "Queue": "queues",
    "RetryPlan": "retry_plans",
    "Settings": "settings",
    "Topology": "topologies",
}


def register() -> None:
    """Tell Hypothesis how to draw the values of ``dlx``; a release is one of those there are."""
    from hypothesis import strategies as st

    for name, strategy in _STRATEGIES.items():
        st.register_type_strategy(getattr(dlx, name), _deferred(strategy))
    st.register_type_strategy(dlx.Release, lambda _type: _releases())


def _deferred(strategy: str) -> Callable[[Any], st.SearchStrategy[Any]]:
    def resolve(_type: Any) -> st.SearchStrategy[Any]:
        from simulator.testing import strategies

        found: st.SearchStrategy[Any] = getattr(strategies, strategy)()
        return found

    return resolve


def _releases() -> st.SearchStrategy[dlx.Release]:
    from hypothesis import strategies as st

    from dlx.releases import DEFAULT, RELEASES

    names = (DEFAULT, *(name for name in reversed(RELEASES) if name != DEFAULT))
    return st.sampled_from([dlx.release(name) for name in names])
