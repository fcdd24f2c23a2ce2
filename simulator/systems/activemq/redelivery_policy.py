"""How often and how late a message is delivered again: ActiveMQ's RedeliveryPolicy.

Source: activemq-client, RedeliveryPolicy.getNextRedeliveryDelay; the texts are
ActiveMQMessageConsumer's. Delays are whole milliseconds, cut off and not rounded.
"""

from __future__ import annotations

import math
from decimal import Decimal

import msgspec

from simulator.systems.activemq.destinations import Destination, parse_destination

UNLIMITED = -1
NO_CAP = -1
_LONG_MAX = 2**63 - 1
_NAMES = {
    "maximum_redeliveries": "maximumRedeliveries",
    "initial_delay_ms": "initialRedeliveryDelay",
    "delay_ms": "redeliveryDelay",
    "maximum_delay_ms": "maximumRedeliveryDelay",
    "use_back_off": "useExponentialBackOff",
    "multiplier": "backOffMultiplier",
    "use_collision_avoidance": "useCollisionAvoidance",
    "collision_avoidance_percent": "collisionAvoidancePercent",
    "pre_dispatch_check": "preDispatchCheck",
}


class RedeliveryPolicy(msgspec.Struct, frozen=True, kw_only=True, rename=_NAMES, forbid_unknown_fields=True):
    """When a client, or the broker's redelivery plugin, delivers again, and when it gives up.

    Attributes:
        maximum_redeliveries: how often; -1 always. Any other negative number is a limit that
            every message exceeds.
        initial_delay_ms: before the first redelivery. It does not set ``delay_ms``.
        delay_ms: before the others; with back-off, where there was no delay before.
        use_back_off: multiply the delay each time, if ``multiplier`` is above 1.
        multiplier: by how much.
        maximum_delay_ms: a cap for back-off, and for nothing else; -1 none. Below ``delay_ms`` it is that.
        use_collision_avoidance: move each delay but the first at random, after the cap.
        collision_avoidance_percent: by how much at most, in either direction.
        pre_dispatch_check: whether a transacted session compares the broker's count before it delivers.
        queue, topic: what the policy is for, in a map of policies.
    """

    maximum_redeliveries: int = 6
    initial_delay_ms: int = 1000
    delay_ms: int = 1000
    use_back_off: bool = False
    multiplier: float = 5.0
    maximum_delay_ms: int = NO_CAP
    use_collision_avoidance: bool = False
    collision_avoidance_percent: int = 15
    pre_dispatch_check: bool = True
    queue: str | None = None
    topic: str | None = None

    def __post_init__(self) -> None:
        if self.queue is not None and self.topic is not None:
            raise ValueError("expected a queue or a topic, got both")
        if math.isnan(self.multiplier):
            raise ValueError("expected a number as backOffMultiplier, got NaN")

    @property
    def destination(self) -> Destination | None:
        """What the policy is for; ``None`` where it does not say."""
        if self.queue is not None:
            return parse_destination(self.queue, "queue")
        return None if self.topic is None else parse_destination(self.topic, "topic")

    def exceeded(self, counter: int) -> bool:
        """Return whether a message that was delivered again ``counter`` times is over the limit."""
        return self.maximum_redeliveries != UNLIMITED and counter > self.maximum_redeliveries

    def __str__(self) -> str:
        return (
            f"RedeliveryPolicy {{destination = {self.destination or 'null'}, "
            f"collisionAvoidanceFactor = {java_double(self.collision_avoidance_percent * 0.01)}, "
            f"maximumRedeliveries = {self.maximum_redeliveries}, "
            f"maximumRedeliveryDelay = {self.maximum_delay_ms}, "
            f"initialRedeliveryDelay = {self.initial_delay_ms}, "
            f"useCollisionAvoidance = {_java_bool(self.use_collision_avoidance)}, "
            f"useExponentialBackOff = {_java_bool(self.use_back_off)}, "
            f"backOffMultiplier = {java_double(self.multiplier)}, "
            f"redeliveryDelay = {self.delay_ms}, "
            f"preDispatchCheck = {_java_bool(self.pre_dispatch_check)}}}"
        )


def next_delay_ms(policy: RedeliveryPolicy, previous_ms: int, share: float = 0.0) -> int:
    """Return the delay that follows ``previous_ms``.

    Args:
        policy: whose fields decide.
        previous_ms: the delay before; 0 where there was none.
        share: how far collision avoidance goes, from -1 to 1; drawn at random by the caller.
    """
    delay = policy.delay_ms
    if previous_ms > 0 and policy.use_back_off and policy.multiplier > 1:
        delay = _long(previous_ms * policy.multiplier)
        if policy.maximum_delay_ms != NO_CAP and delay > policy.maximum_delay_ms:
            delay = max(policy.maximum_delay_ms, policy.delay_ms)
    if policy.use_collision_avoidance:
        delay = _long(delay + delay * (share * policy.collision_avoidance_percent * 0.01))
    return delay


def delay_by_counter_ms(policy: RedeliveryPolicy, counter: int, shares: tuple[float, ...] = ()) -> int:
    """Return the delay of a message's redelivery number ``counter``, from 1 on, worked out from the start.

    ``shares`` are those of ``next_delay_ms``, one for each redelivery after the first.
    """
    delay = policy.initial_delay_ms
    for step in range(counter - 1):
        delay = next_delay_ms(policy, delay, shares[step] if step < len(shares) else 0.0)
    return delay


def delivery_exceeds(policy: RedeliveryPolicy, counter: int, cause: str | None) -> str:
    """Return the cause of death of a message that was rolled back once too often.

    ``cause``: what a listener threw.
    """
    return f"Delivery[{counter}] exceeds redelivery policy limit:{policy}, cause:{cause or 'null'}"


def dispatch_exceeds(policy: RedeliveryPolicy, counter: int, consumer: str, *, to_listener: bool = False) -> str:
    """Return the cause of death of a message that came to a transacted consumer with too high a count."""
    dispatch = "listener dispatch" if to_listener else "Dispatch"
    return f"{dispatch}[{counter}] to {consumer} exceeds redelivery policy limit:{policy}"


def java_double(value: float) -> str:
    """Format a number as Java prints a double: ``5.0``, ``1.0E10``."""
    if value == 0 or not math.isfinite(value) or 1e-3 <= abs(value) < 1e7:
        plain = {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value)
        return plain or format(Decimal(repr(value)), "f")
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    mantissa = "".join(map(str, digits))
    return f"{'-' * sign}{mantissa[0]}.{mantissa[1:] or '0'}E{int(exponent) + len(mantissa) - 1}"


def _java_bool(value: bool) -> str:
    return "true" if value else "false"


def _long(value: float) -> int:
    """Return a number as Java casts it to a long."""
    if math.isnan(value):
        return 0
    return int(max(-_LONG_MAX - 1, min(_LONG_MAX, value)))
