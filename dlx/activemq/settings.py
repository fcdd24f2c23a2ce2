"""The configuration of a broker, as far as it decides about dead letters."""

from __future__ import annotations

import msgspec

from dlx.activemq.dead_letter_strategies import Shared, Strategy
from dlx.activemq.destination_map import DestinationMap
from dlx.activemq.plugins import Plugin
from dlx.activemq.redelivery_policy import RedeliveryPolicy

EXPIRE_PERIOD_MS = 30_000
DEFAULT_STRATEGY = Shared()
"""The strategy of all destinations that have none of their own; one audit for all of them."""


class DestinationPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """One policyEntry.

    ``strategy`` is ``None`` where the entry does not name one; ``expire_period_ms`` is how often the broker
    looks for expired messages, 0 never.
    """

    strategy: Strategy | None = None
    expire_period_ms: int = EXPIRE_PERIOD_MS


class BrokerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The whole broker.

    Attributes:
        policies: of destinations.
        plugins: in the order of the configuration; the last is asked first.
        redelivery_policy: what the broker sends to clients, where the profile lets it.
    """

    policies: DestinationMap[DestinationPolicy] = DestinationMap()
    plugins: tuple[Plugin, ...] = ()
    redelivery_policy: RedeliveryPolicy | None = None
