"""dlx: RabbitMQ's dead-letter rules, and what a consumer asks of ``x-death``.

Names are loaded on first use, so that ``import dlx`` costs a consumer next to
nothing. ``dlx.consumer`` is for production code; the other modules are the rules.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dlx.consumer import DeathHistory, death_history
    from dlx.dead_lettering import DeadLetter, dead_letter
    from dlx.deaths import Death
    from dlx.message import Message, published
    from dlx.releases import Release, release
    from dlx.retries import GiveUp, Park, Retry, RetryPlan, exponential_delays_ms, republish_headers
    from dlx.routing import route
    from dlx.settings import Settings, effective_settings
    from dlx.topology import Binding, Exchange, Policy, Queue, Topology

__version__ = "0.1.0"

_HOME = {
    "Binding": "topology",
    "DeadLetter": "dead_lettering",
    "Death": "deaths",
    "DeathHistory": "consumer",
    "Exchange": "topology",
    "GiveUp": "retries",
    "Message": "message",
    "Park": "retries",
    "Policy": "topology",
    "Queue": "topology",
    "Release": "releases",
    "Retry": "retries",
    "RetryPlan": "retries",
    "Settings": "settings",
    "Topology": "topology",
    "dead_letter": "dead_lettering",
    "death_history": "consumer",
    "effective_settings": "settings",
    "exponential_delays_ms": "retries",
    "published": "message",
    "release": "releases",
    "republish_headers": "retries",
    "route": "routing",
}

__all__ = [
    "Binding",
    "DeadLetter",
    "Death",
    "DeathHistory",
    "Exchange",
    "GiveUp",
    "Message",
    "Park",
    "Policy",
    "Queue",
    "Release",
    "Retry",
    "RetryPlan",
    "Settings",
    "Topology",
    "dead_letter",
    "death_history",
    "effective_settings",
    "exponential_delays_ms",
    "published",
    "release",
    "republish_headers",
    "route",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dlx' has no attribute {name!r}")
    return getattr(importlib.import_module(f"dlx.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
