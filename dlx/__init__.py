"""dlx: RabbitMQ's dead-letter rules, and what a consumer asks of ``x-death``.

Names are loaded on first use, so that ``import dlx`` costs a consumer next to
nothing. ``dlx.consumer`` is for production code; the other modules are the rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlx._lazy import lazy

if TYPE_CHECKING:
    from dlx.consumer import DeathHistory, death_history
    from dlx.dead_lettering import DeadLetter, dead_letter
    from dlx.death_headers import QueueCrashError
    from dlx.deaths import Death, DeathPoint
    from dlx.message import Message, PublishRefusedError, published
    from dlx.message_flow import MessageFlow
    from dlx.plugins import PluginError
    from dlx.releases import Release, ReleaseName, StandInRelease, UnknownReleaseError, release
    from dlx.retries import Decision, GiveUp, Park, Retry, RetryPlan, exponential_delays_ms, republish_headers
    from dlx.routing import UnknownExchangeTypeError, route
    from dlx.settings import Settings, effective_settings
    from dlx.topology import Binding, Exchange, Policy, Queue, Topology
else:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "dlx.consumer": ("DeathHistory", "death_history"),
            "dlx.dead_lettering": ("DeadLetter", "dead_letter"),
            "dlx.death_headers": ("QueueCrashError",),
            "dlx.deaths": ("Death", "DeathPoint"),
            "dlx.message": ("Message", "PublishRefusedError", "published"),
            "dlx.message_flow": ("MessageFlow",),
            "dlx.plugins": ("PluginError",),
            "dlx.releases": ("Release", "ReleaseName", "StandInRelease", "UnknownReleaseError", "release"),
            "dlx.retries": (
                "Decision",
                "GiveUp",
                "Park",
                "Retry",
                "RetryPlan",
                "exponential_delays_ms",
                "republish_headers",
            ),
            "dlx.routing": ("UnknownExchangeTypeError", "route"),
            "dlx.settings": ("Settings", "effective_settings"),
            "dlx.topology": ("Binding", "Exchange", "Policy", "Queue", "Topology"),
        },
    )

__version__ = "0.1.0"

__all__ = [
    "Binding",
    "DeadLetter",
    "Death",
    "DeathHistory",
    "DeathPoint",
    "Decision",
    "Exchange",
    "GiveUp",
    "Message",
    "MessageFlow",
    "Park",
    "PluginError",
    "Policy",
    "PublishRefusedError",
    "Queue",
    "QueueCrashError",
    "Release",
    "ReleaseName",
    "Retry",
    "RetryPlan",
    "Settings",
    "StandInRelease",
    "Topology",
    "UnknownExchangeTypeError",
    "UnknownReleaseError",
    "dead_letter",
    "death_history",
    "effective_settings",
    "exponential_delays_ms",
    "published",
    "release",
    "republish_headers",
    "route",
]
