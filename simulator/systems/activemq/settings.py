"""The configuration of a broker, as far as it decides about dead letters."""

from __future__ import annotations

import msgspec

from simulator.systems.activemq.dead_letter_strategies import Shared, Strategy
from simulator.systems.activemq.destinations import DestinationMap
from simulator.systems.activemq.plugins import Plugin
from simulator.systems.activemq.redelivery_policy import RedeliveryPolicy
from simulator.systems.activemq.virtual_destinations import BY_DEFAULT, Virtual

EXPIRE_PERIOD_MS = 30_000
PAGE_SIZE, BROWSE_PAGE_SIZE = 200, 400
DEFAULT_STRATEGY = Shared()
"""The strategy of all destinations that have none of their own; one audit for all of them."""


class DestinationPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """One policyEntry.

    Attributes:
        strategy: ``None`` where the entry does not name one.
        expire_period_ms: how often the broker looks for expired messages; 0 never.
        enable_audit: whether a queue remembers which messages it has had; the strategy has an audit of its own.
        max_queue_audit_depth: how far back a queue remembers one producer, in messages.
        max_audit_depth: the same of a durable subscription.
        max_producers_to_audit: how many producers either remembers.
        all_exclusive: whether one consumer of a queue gets all messages, until it goes away.
        max_page_size: how many messages of a queue the broker reads at a time for its consumers; it reads no more while
            as many wait in memory.
        max_expire_page_size: how many messages the broker looks at for what has expired.
        max_browse_page_size: how many messages a browser of a queue is shown.
    """

    strategy: Strategy | None = None
    expire_period_ms: int = EXPIRE_PERIOD_MS
    enable_audit: bool = True
    max_queue_audit_depth: int = 10_000
    max_audit_depth: int = 10_000
    max_producers_to_audit: int = 64
    all_exclusive: bool = False
    max_page_size: int = PAGE_SIZE
    max_expire_page_size: int = BROWSE_PAGE_SIZE
    max_browse_page_size: int = BROWSE_PAGE_SIZE


class BrokerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The whole broker.

    Attributes:
        persistent: whether anything outlives it.
        forgets_at_start: whether it begins without the messages and subscriptions that it stored.
        scheduler: whether it has one, which sends what is to come later.
        repeat_max: how often a scheduled message may be repeated.
        advisories: whether it tells in advisory topics what becomes of messages.
        durable_consumers: whether it lets durable subscribers in.
        offline_timeout_ms: after how long without consumer a durable subscription ends; below 0 never.
        offline_period_ms: how often the broker looks for such subscriptions.
        virtual_destinations: what is copied elsewhere.
        not_simulated: what the configuration asks for and the simulator does not do, in words.
        policies: of destinations.
        plugins: in the order of the configuration; the last is asked first.
        redelivery_policy: what the broker sends to clients, where the profile lets it.
    """

    policies: DestinationMap[DestinationPolicy] = DestinationMap()
    plugins: tuple[Plugin, ...] = ()
    redelivery_policy: RedeliveryPolicy | None = None
    persistent: bool = True
    forgets_at_start: bool = False
    scheduler: bool = False
    repeat_max: int = 1000
    advisories: bool = True
    durable_consumers: bool = True
    offline_timeout_ms: int = -1
    offline_period_ms: int = 300_000
    virtual_destinations: tuple[Virtual, ...] = BY_DEFAULT
    not_simulated: tuple[str, ...] = ()
