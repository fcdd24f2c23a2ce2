"""Resolve a queue's arguments, policy and operator policy into its settings, each value with its origin.

First the operator policy is laid over the policy: numbers become the smaller of
the two, ``overflow`` the operator's; operators cannot set dead-letter keys. Then
the queue's arguments meet the result, key by key: names (dead-letter exchange,
routing key, strategy) come from the argument, numbers are the smaller, and
``overflow`` is the argument's in a classic queue and the policy's in a quorum
queue. ``Setting.hidden`` keeps the values that lost.

Source: rabbit_policy.erl merge_operator_definitions, rabbit_policies.erl
merge_policy_value, rabbit_queue_type_util.erl args_policy_lookup,
rabbit_quorum_queue.erl gather_policy_config; live servers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from math import floor
from typing import Any

import msgspec

from dlx.policies import PolicyChoice, choose_policy
from dlx.releases import Release
from dlx.topology import CLASSIC, QUORUM, STREAM, Exchange, Policy, Queue, Topology

DEAD_LETTER_EXCHANGE = "dead-letter-exchange"
DEAD_LETTER_ROUTING_KEY = "dead-letter-routing-key"
DEAD_LETTER_STRATEGY = "dead-letter-strategy"
MESSAGE_TTL = "message-ttl"
EXPIRES = "expires"
MAX_LENGTH = "max-length"
MAX_LENGTH_BYTES = "max-length-bytes"
OVERFLOW = "overflow"
DELIVERY_LIMIT = "delivery-limit"
DELAYED_RETRY_TYPE = "delayed-retry-type"
DELAYED_RETRY_MIN = "delayed-retry-min"
DELAYED_RETRY_MAX = "delayed-retry-max"
CONSUMER_TIMEOUT = "consumer-timeout"
QUEUE_TYPE = "queue-type"

DROP_HEAD = "drop-head"
REJECT_PUBLISH = "reject-publish"
REJECT_PUBLISH_DLX = "reject-publish-dlx"
AT_MOST_ONCE = "at-most-once"
AT_LEAST_ONCE = "at-least-once"
OVERFLOWS = (DROP_HEAD, REJECT_PUBLISH, REJECT_PUBLISH_DLX)
STRATEGIES = (AT_MOST_ONCE, AT_LEAST_ONCE)

KEYS = (
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_ROUTING_KEY,
    DEAD_LETTER_STRATEGY,
    MESSAGE_TTL,
    EXPIRES,
    MAX_LENGTH,
    MAX_LENGTH_BYTES,
    OVERFLOW,
    DELIVERY_LIMIT,
    DELAYED_RETRY_TYPE,
    DELAYED_RETRY_MIN,
    DELAYED_RETRY_MAX,
    CONSUMER_TIMEOUT,
)
_DELAYED_RETRY_KEYS = (DELAYED_RETRY_TYPE, DELAYED_RETRY_MIN, DELAYED_RETRY_MAX)
_DELAYED_RETRY_TYPES = ("all", "failed", "returned")
_NAMES = (DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY, DEAD_LETTER_STRATEGY)
_OPERATOR_KEYS = (MESSAGE_TTL, EXPIRES, MAX_LENGTH, MAX_LENGTH_BYTES, DELIVERY_LIMIT, *_DELAYED_RETRY_KEYS)


class Origin(msgspec.Struct, frozen=True):
    """Where a value comes from: ``argument``, ``policy``, ``operator policy`` or ``server default``."""

    kind: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".rstrip()


ARGUMENT = Origin("argument")
SERVER_DEFAULT = Origin("server default")


class Setting(msgspec.Struct, frozen=True):
    """One value, where it comes from, and the values it hid."""

    key: str
    value: Any
    origin: Origin
    hidden: tuple[tuple[Any, Origin], ...] = ()

    def __str__(self) -> str:
        return f"{self.key} {self.value} by {self.origin}"


class DelayedRetry(msgspec.Struct, frozen=True):
    """How long a quorum queue keeps back a returned message: ``min_ms`` per failed delivery, at most ``max_ms``.

    ``type`` says which returns: ``all``, ``failed`` deliveries only, or ``returned`` ones that did not fail.
    """

    type: str
    min_ms: int
    max_ms: int


class Settings(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The effective settings of one queue.

    ``values`` has an entry for each key that is set or has a default; ``ignored``
    the values that the queue's type or the release does not use, with the reason.
    """

    queue: Queue
    release: Release
    values: Mapping[str, Setting]
    ignored: tuple[tuple[Setting, str], ...] = ()
    policy: PolicyChoice = PolicyChoice(None)
    operator_policy: PolicyChoice = PolicyChoice(None)

    @property
    def in_force(self) -> tuple[Policy | None, Policy | None]:
        """Return the policy and the operator policy that the queue goes by."""
        return self.policy.policy, self.operator_policy.policy

    def value(self, key: str) -> Any:
        """Return the effective value of a key such as ``message-ttl``; ``None`` where nothing sets it."""
        setting = self.values.get(key)
        return None if setting is None else setting.value

    @cached_property
    def dead_letter_exchange(self) -> str | None:
        """Return the dead-letter exchange's name: ``""`` is the default exchange, ``None`` means that none is set."""
        return _string(self.value(DEAD_LETTER_EXCHANGE))

    @cached_property
    def dead_letter_routing_key(self) -> str | None:
        """Return the key that replaces a dead letter's keys; ``None`` keeps them."""
        return _string(self.value(DEAD_LETTER_ROUTING_KEY))

    @cached_property
    def dead_letter_strategy(self) -> str:
        """Return the strategy in force: at-least-once needs a quorum queue, a DLX and overflow reject-publish."""
        wanted = self.value(DEAD_LETTER_STRATEGY) == AT_LEAST_ONCE and self.dead_letter_exchange is not None
        return AT_LEAST_ONCE if wanted and self.overflow == REJECT_PUBLISH else AT_MOST_ONCE

    @property
    def why_at_most_once(self) -> str | None:
        """Return what the queue does if at-least-once dead-lettering is asked for and does not happen, and why."""
        wanted = self.value(DEAD_LETTER_STRATEGY) == AT_LEAST_ONCE
        if not wanted or self.dead_letter_strategy == AT_LEAST_ONCE:
            return None
        lacks = f"overflow {REJECT_PUBLISH}" if self.dead_letters else "a dead-letter exchange"
        return f"asks for at-least-once dead-lettering without {lacks}: at-most-once happens"

    @property
    def message_ttl_ms(self) -> int | None:
        """Return the queue's own TTL in ms; a message's expiration may be shorter."""
        return _integer(self.value(MESSAGE_TTL))

    @cached_property
    def expires_ms(self) -> int | None:
        """Return how long the queue itself lives unused, in ms."""
        return _integer(self.value(EXPIRES))

    @property
    def max_length(self) -> int | None:
        """Return how many ready messages the queue holds."""
        return _integer(self.value(MAX_LENGTH))

    @property
    def max_length_bytes(self) -> int | None:
        """Return how many bytes of ready messages the queue holds."""
        return _integer(self.value(MAX_LENGTH_BYTES))

    @property
    def overflow(self) -> str:
        """Return what happens past the limits; a quorum queue treats reject-publish-dlx as drop-head."""
        overflow = self.value(OVERFLOW)
        if overflow == REJECT_PUBLISH_DLX and self.queue.type == QUORUM:
            return DROP_HEAD
        return overflow if isinstance(overflow, str) else DROP_HEAD

    @property
    def has_length_limit(self) -> bool:
        """Return whether the queue can be full."""
        return self.max_length is not None or self.max_length_bytes is not None

    @property
    def refuses_when_full(self) -> bool:
        """Return whether the queue turns publishes away instead of dropping its oldest message, once it is full."""
        return self.overflow in (REJECT_PUBLISH, REJECT_PUBLISH_DLX)

    @property
    def dead_letters_refused(self) -> bool:
        """Return whether the queue dead-letters the messages it turns away; only classic queues do."""
        return self.overflow == REJECT_PUBLISH_DLX

    @property
    def refuses_dead_letters(self) -> bool:
        """Return whether the queue, once full, turns away dead letters that are sent at most once, too.

        Quorum queues refuse publishers alone, among them the workers of at-least-once
        dead-lettering. Source: rabbit_amqqueue_process.erl maybe_deliver_or_enqueue;
        rabbit_quorum_queue.erl deliver, which has no publisher to block for dead letters.
        """
        return self.refuses_when_full and self.queue.type == CLASSIC

    @property
    def delivery_limit(self) -> int | None:
        """Return how many counted returns a message survives; ``None`` is any number."""
        limit = _number(self.value(DELIVERY_LIMIT))
        if limit is None or limit >= 0:
            return None if limit is None else floor(limit)  # what is counted is whole
        return None if self.release.quorum_negative_delivery_limit == "unlimited" else 0

    @property
    def requeues_at_back(self) -> bool:
        """Return whether a quorum queue puts what is requeued behind all else; with its channel lost, it goes first."""
        without_limit = self.release.quorum_requeue_without_limit
        return self.queue.type == QUORUM and self.delivery_limit is None and without_limit == "back"

    @property
    def delayed_retry(self) -> DelayedRetry | None:
        """Return the delayed retry if it is on. Values that make no sense turn it off; no release refuses them."""
        kind, min_ms = self.value(DELAYED_RETRY_TYPE), _integer(self.value(DELAYED_RETRY_MIN))
        if kind not in _DELAYED_RETRY_TYPES or min_ms is None or min_ms <= 0:
            return None
        max_ms = _integer(self.value(DELAYED_RETRY_MAX))
        return DelayedRetry(kind, min_ms, max_ms if max_ms is not None and max_ms > 0 else min_ms)

    @property
    def consumer_timeout_ms(self) -> int | None:
        """Return how long a delivery may stay unacknowledged, in ms, where the queue says so itself."""
        return _integer(self.value(CONSUMER_TIMEOUT))

    @property
    def dead_letters(self) -> bool:
        """Return whether the queue passes its dead messages on at all."""
        return self.dead_letter_exchange is not None


Candidate = tuple[Any, Origin]


def effective_settings(queue: Queue, topology: Topology, release: Release, *, at_declaration: bool = False) -> Settings:
    """Return the settings of ``queue`` in ``topology`` under ``release``.

    ``at_declaration``: those that it has from its declaration on until a policy changes.
    """
    policy = choose_policy(queue, topology.policies, release, at_declaration=at_declaration)
    operator = choose_policy(queue, topology.operator_policies, release, at_declaration=at_declaration)
    values: dict[str, Setting] = {}
    ignored: list[tuple[Setting, str]] = []
    for key in KEYS:
        setting = _resolved(key, queue, policy, operator, release)
        if setting is None:
            continue
        why = _why_ignored(key, queue, release)
        if why is None:
            values[key] = setting
        elif setting.origin != SERVER_DEFAULT:
            ignored.append((setting, why))
    values[QUEUE_TYPE] = Setting(QUEUE_TYPE, queue.type, _type_origin(queue))
    return Settings(
        queue=queue,
        release=release,
        values=values,
        ignored=tuple(ignored),
        policy=policy,
        operator_policy=operator,
    )


def _resolved(key: str, queue: Queue, policy: PolicyChoice, operator: PolicyChoice, release: Release) -> Setting | None:
    candidates: list[Candidate] = []
    merge = _numeric_rule(key, release)
    by_policy = _candidate(key, policy, "policy")
    by_operator = _candidate(key, operator, "operator policy")
    if by_operator is not None and not _operator_may_set(key, release):
        by_operator = None
    from_policies, lost = _pick(by_policy, by_operator, _OPERATOR_RULES.get(key, merge))
    candidates += lost
    argument = queue.arguments.get(f"x-{key}")
    by_argument = None if argument is None else (argument, ARGUMENT)
    rule = _argument_rule(key, queue, release) or merge
    winner, lost = _pick(by_argument, from_policies, rule)
    candidates += lost
    if winner is None or _unusable_limit(key, winner[0], release):
        candidates += [] if winner is None else [winner]
        winner = _default(key, queue, release)
    return None if winner is None else Setting(key, winner[0], winner[1], tuple(candidates))


def _pick(
    first: Candidate | None, second: Candidate | None, rule: Callable[[Any, Any], bool]
) -> tuple[Candidate | None, list[Candidate]]:
    """Return the winner and the losers; ``rule`` says whether the first beats the second."""
    if first is None or second is None:
        return first or second, []
    return (first, [second]) if rule(first[0], second[0]) else (second, [first])


def _candidate(key: str, choice: PolicyChoice, kind: str) -> Candidate | None:
    policy = choice.policy
    if policy is None or key not in policy.definition:
        return None
    return policy.definition[key], Origin(kind, policy.name)


def _first(_one: Any, _other: Any) -> bool:
    return True


def _second(_one: Any, _other: Any) -> bool:
    return False


def _smaller(one: Any, other: Any) -> bool:
    return bool(one <= other) if _comparable(one, other) else _number(one) is not None  # Erlang's order of terms


def _larger_when_negative(one: Any, other: Any) -> bool:
    if not _comparable(one, other):
        return _number(one) is not None
    return bool(one >= other) if min(one, other) < 0 else bool(one <= other)


def _larger(one: Any, other: Any) -> bool:
    return bool(one >= other) if _comparable(one, other) else True


_OPERATOR_RULES = {OVERFLOW: _second, DELAYED_RETRY_TYPE: _second, DELAYED_RETRY_MIN: _larger}


def _comparable(one: Any, other: Any) -> bool:
    return _number(one) is not None and _number(other) is not None


def _numeric_rule(key: str, release: Release) -> Callable[[Any, Any], bool]:
    if key == DELIVERY_LIMIT and release.quorum_negative_delivery_limit == "unlimited":
        return _larger_when_negative
    return _smaller


def _argument_rule(key: str, queue: Queue, release: Release) -> Callable[[Any, Any], bool] | None:
    if key in _NAMES:
        return _first
    if key == DELAYED_RETRY_TYPE:
        return _second
    if key == OVERFLOW:
        return _second if queue.type == QUORUM else _first
    if key == EXPIRES and queue.type == QUORUM and release.quorum_expires == "policy wins":
        return _second
    return None


def _operator_may_set(key: str, release: Release) -> bool:
    return key in _OPERATOR_KEYS or (key == OVERFLOW and release.operator_overflow)


def _unusable_limit(key: str, value: Any, release: Release) -> bool:
    non_integer = key == DELIVERY_LIMIT and _integer(value) is None
    return non_integer and release.quorum_non_integer_delivery_limit == "default"


def _default(key: str, queue: Queue, release: Release) -> Candidate | None:
    if key == OVERFLOW:
        return DROP_HEAD, SERVER_DEFAULT
    if key == DEAD_LETTER_STRATEGY and queue.type == QUORUM:
        return AT_MOST_ONCE, SERVER_DEFAULT
    if key == DELIVERY_LIMIT and queue.type == QUORUM and release.quorum_default_delivery_limit is not None:
        return release.quorum_default_delivery_limit, SERVER_DEFAULT
    return None


def _why_ignored(key: str, queue: Queue, release: Release) -> str | None:
    """Return why the queue does not use the key, whoever sets it; ``None`` when it does."""
    if queue.type == CLASSIC and key in (DELIVERY_LIMIT, DEAD_LETTER_STRATEGY, *_DELAYED_RETRY_KEYS):
        return "classic queues have none"
    if queue.type == STREAM and key != MAX_LENGTH_BYTES:
        return "streams have none"
    if key == CONSUMER_TIMEOUT and not release.consumer_timeout_setting:
        return f"queues of {release.name} have none"
    if queue.type != QUORUM:
        return None
    if key in _DELAYED_RETRY_KEYS and not release.quorum_delayed_retry:
        return f"quorum queues of {release.name} have none"
    unused = {
        MESSAGE_TTL: not expires_messages(queue.type, release),
        OVERFLOW: not release.quorum_overflow,
        DEAD_LETTER_STRATEGY: not release.quorum_at_least_once,
        EXPIRES: release.quorum_expires == "not supported",
    }
    return f"quorum queues of {release.name} have none" if unused.get(key) else None


def expires_messages(queue_type: str, release: Release) -> bool:
    """Return whether queues of that type apply a time to live: the queue's own or a message's expiration."""
    return queue_type == CLASSIC or (queue_type == QUORUM and release.quorum_message_ttl)


def _type_origin(queue: Queue) -> Origin:
    return ARGUMENT if "x-queue-type" in queue.arguments else SERVER_DEFAULT


def _integer(value: Any) -> int | None:
    """Return an integer of any width as a plain one; ``None`` for other values."""
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: Any) -> int | float | None:
    """Return a number as a plain one; ``None`` for other values."""
    return float(value) if isinstance(value, float) else _integer(value)


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def alternate_exchange(exchange: Exchange, topology: Topology, release: Release) -> str | None:
    """Return the exchange's alternate exchange: the argument, else the policy's; ``""`` leads nowhere."""
    policy = choose_policy(exchange, topology.policies, release).policy if topology.policies else None
    return alternate_under(exchange, policy)


def alternate_under(exchange: Exchange, policy: Policy | None) -> str | None:
    """Return the alternate exchange that an exchange has under a policy."""
    name = exchange.arguments.get("alternate-exchange")
    if name is None and policy is not None:
        name = policy.definition.get("alternate-exchange")
    return name if isinstance(name, str) and name else None
