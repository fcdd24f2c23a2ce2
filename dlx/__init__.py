"""dlx: RabbitMQ's dead-letter rules, and what a consumer asks of ``x-death``.

Names are loaded on first use, so that ``import dlx`` costs a consumer next to
nothing. ``dlx.consumer`` is for production code; the other modules are the rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlx._lazy import lazy

if TYPE_CHECKING:
    from dlx.consumer import DeathHistory as DeathHistory
    from dlx.consumer import attempts as attempts
    from dlx.consumer import death_history as death_history
    from dlx.dead_lettering import DeadLetter as DeadLetter
    from dlx.dead_lettering import dead_letter as dead_letter
    from dlx.death_headers import QueueCrashError as QueueCrashError
    from dlx.deaths import Death as Death
    from dlx.deaths import DeathPoint as DeathPoint
    from dlx.message import Message as Message
    from dlx.message import PublishRefusedError as PublishRefusedError
    from dlx.message import published as published
    from dlx.message_flow import MessageFlow as MessageFlow
    from dlx.plugins import PluginError as PluginError
    from dlx.releases import Release as Release
    from dlx.releases import ReleaseName as ReleaseName
    from dlx.releases import StandInRelease as StandInRelease
    from dlx.releases import UnknownReleaseError as UnknownReleaseError
    from dlx.releases import release as release
    from dlx.retries import Decision as Decision
    from dlx.retries import GiveUp as GiveUp
    from dlx.retries import Park as Park
    from dlx.retries import Retry as Retry
    from dlx.retries import RetryPlan as RetryPlan
    from dlx.retries import exponential_delays_ms as exponential_delays_ms
    from dlx.retries import republish_headers as republish_headers
    from dlx.routing import UnknownExchangeTypeError as UnknownExchangeTypeError
    from dlx.routing import route as route
    from dlx.server_plugins import UnknownPluginError as UnknownPluginError
    from dlx.settings import Settings as Settings
    from dlx.settings import effective_settings as effective_settings
    from dlx.topology import Binding as Binding
    from dlx.topology import Exchange as Exchange
    from dlx.topology import Policy as Policy
    from dlx.topology import Queue as Queue
    from dlx.topology import Topology as Topology
else:
    __all__, __getattr__, __dir__ = lazy(
        __name__,
        {
            "dlx.consumer": ("DeathHistory", "attempts", "death_history"),
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
            "dlx.server_plugins": ("UnknownPluginError",),
            "dlx.settings": ("Settings", "effective_settings"),
            "dlx.topology": ("Binding", "Exchange", "Policy", "Queue", "Topology"),
        },
    )

__version__ = "0.1.0"
