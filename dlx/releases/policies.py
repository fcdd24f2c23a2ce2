"""The rows about policies: which of them apply to a queue, and what they may hold."""

from __future__ import annotations

from typing import Literal

from dlx.releases.rows import changed, since

_NONE: frozenset[str] = frozenset()
_HA = {"ha-mode", "ha-params", "ha-sync-mode", "ha-promote-on-shutdown", "ha-promote-on-failure"}
_HA_AND_LOCATOR = _HA | {"queue-master-locator"}
_STREAM_ONLY = {"max-age", "stream-max-segment-size-bytes", "initial-cluster-size"}
_IN_MEMORY = {"max-in-memory-length", "max-in-memory-bytes"}
_SELECTORS = {"selector-fields", "selector-field-max-bytes"}
_DELAYED_RETRY = frozenset({"delayed-retry-type", "delayed-retry-min", "delayed-retry-max"})
_LIMITS = frozenset({"expires", "message-ttl", "max-length", "max-length-bytes", "delivery-limit"} | _IN_MEMORY)

# Keys that a type of queue does not support.
_NOT_CLASSIC_39 = frozenset(_STREAM_ONLY | {"queue-leader-locator"})
_NOT_CLASSIC_310 = _NOT_CLASSIC_39 | {"delivery-limit", "dead-letter-strategy"}
_NOT_CLASSIC_312 = _NOT_CLASSIC_310 | _IN_MEMORY | {"target-group-size"}
_NOT_CLASSIC_40 = _NOT_CLASSIC_312 - {"queue-leader-locator"}
_NOT_QUORUM_42 = frozenset(_STREAM_ONLY | _HA_AND_LOCATOR | {"max-priority", "queue-mode"})
_NOT_QUORUM_310 = _NOT_QUORUM_42 | {"single-active-consumer"}
_NOT_QUORUM_39 = _NOT_QUORUM_310 | {"message-ttl", "queue-leader-locator"}
# 3.8 lists what a quorum queue accepts; everything else a policy may set is unsupported there.
_NOT_QUORUM_38 = frozenset(
    _NOT_QUORUM_39
    | {"alternate-exchange", "expires", "overflow", "dead-letter-strategy", "queue-version"}
    | {"federation-upstream", "federation-upstream-set", "federation-upstream-pattern"}
)
_NOT_STREAM_39 = frozenset(
    _HA_AND_LOCATOR
    | _IN_MEMORY
    | {"expires", "message-ttl", "dead-letter-exchange", "dead-letter-routing-key", "single-active-consumer"}
    | {"max-length", "max-priority", "overflow", "queue-mode", "delivery-limit"}
)
_NOT_STREAM_310 = _NOT_STREAM_39 | {"dead-letter-strategy"}
_NOT_STREAM_312 = _NOT_STREAM_310 | {"target-group-size"}
_NOT_STREAM_42 = _NOT_STREAM_312 - {"single-active-consumer"}

# Keys that a policy may have.
_KEYS_38 = frozenset(
    _LIMITS
    | _HA_AND_LOCATOR
    | {"ha-sync-batch-size", "alternate-exchange", "dead-letter-exchange", "dead-letter-routing-key"}
    | {"queue-mode", "overflow"}
)
_KEYS_39 = _KEYS_38 | _STREAM_ONLY | {"queue-leader-locator"}
_KEYS_310 = _KEYS_39 | {"dead-letter-strategy", "queue-version"}
_KEYS_312 = _KEYS_310 | {"consumer-timeout"}
_KEYS_313 = _KEYS_312 | {"stream-filter-size-bytes", "target-group-size"}
_KEYS_40 = _KEYS_313 - _HA - {"ha-sync-batch-size"}
_OPERATOR_KEYS_311 = _LIMITS | {"queue-version", "ha-mode", "ha-params", "ha-sync-mode"}
_OPERATOR_KEYS_312 = _OPERATOR_KEYS_311 | {"overflow"}
_OPERATOR_KEYS_313 = _OPERATOR_KEYS_312 | {"target-group-size"}
_OPERATOR_KEYS_40 = (_OPERATOR_KEYS_313 - _HA) | {"queue-master-locator"}


class PolicySelectionRows:
    """Which policies apply to a queue."""

    policy_applies_to_queue_types: bool = since(
        "3.12", True, before=False,
        meaning="A policy's apply-to takes classic_queues, quorum_queues and streams.",
        evidence="live; pull request 7601 of rabbitmq-server",
    )
    operator_overflow: bool = since(
        "3.12.8", True, before=False,
        meaning="An operator policy may set overflow, and wins over the policy and the argument.",
        evidence="live; rabbit_policies.erl (3.12.8 on)",
    )
    classic_unsupported_policy_keys: frozenset[str] = changed(
        {
            "3.9": _NOT_CLASSIC_39,
            "3.10": _NOT_CLASSIC_310,
            "3.12": _NOT_CLASSIC_312,
            "4.0": _NOT_CLASSIC_40,
            "4.3": _NOT_CLASSIC_40 | _SELECTORS,
        },
        before=_NONE,
        meaning=(
            "Policy keys that a classic queue does not support. A policy with one of them is skipped as a whole, and"
            " the next one by priority applies."
        ),
        evidence="rabbit_classic_queue.erl capabilities; live for delivery-limit",
    )
    policy_keys_checked_at_declaration: bool = since(
        "3.9.15", True, before=False,
        meaning=(
            "A queue that is declared after a policy which its type does not support skips it at once. Otherwise it"
            " has that policy until any policy of its virtual host changes. Definitions do not show which"
            " came first: if a broker starts with them, or a command only reads them, such a policy is skipped"
            " in every release."
        ),
        evidence="live; rabbit_policy.erl set, rabbit_amqqueue.erl is_policy_applicable (3.8.9, 3.9.15)",
    )
    quorum_unsupported_policy_keys: frozenset[str] = changed(
        {
            "3.9": _NOT_QUORUM_39,
            "3.10": _NOT_QUORUM_310,
            "4.2": _NOT_QUORUM_42,
            "4.3": _NOT_QUORUM_42 | _SELECTORS,
        },
        before=_NOT_QUORUM_38,
        meaning=(
            "Policy keys that a quorum queue does not support; a policy with one of them is skipped."
        ),
        evidence="rabbit_quorum_queue.erl capabilities; live for max-priority, and for each key in 3.8",
    )
    stream_unsupported_policy_keys: frozenset[str] = changed(
        {
            "3.9": _NOT_STREAM_39,
            "3.10": _NOT_STREAM_310,
            "3.12": _NOT_STREAM_312,
            "4.2": _NOT_STREAM_42,
            "4.3": _NOT_STREAM_42 | _SELECTORS,
        },
        before=_NONE,
        meaning="Policy keys that a stream does not support; a policy with one of them is skipped.",
        evidence="rabbit_stream_queue.erl capabilities",
    )


class PolicyContentRows:
    """What a policy may hold, and how it is checked."""

    policy_keys: frozenset[str] = changed(
        {
            "3.9": _KEYS_39,
            "3.10": _KEYS_310,
            "3.12": _KEYS_312,
            "3.13": _KEYS_313,
            "4.0": _KEYS_40,
            "4.3": _KEYS_40 | _DELAYED_RETRY | {"consumer-disconnected-timeout"},
        },
        before=_KEYS_38,
        meaning="The keys that a policy may have on a server without plugins.",
        evidence="live; rabbit_registry.erl lookup_all policy_validator",
    )
    operator_policy_keys: frozenset[str] = changed(
        {
            "3.11": _OPERATOR_KEYS_311,
            "3.12.8": _OPERATOR_KEYS_312,
            "3.13": _OPERATOR_KEYS_313,
            "4.0": _OPERATOR_KEYS_40,
            "4.3": _OPERATOR_KEYS_40 | _DELAYED_RETRY,
        },
        before=_LIMITS,
        meaning="The keys that an operator policy may have.",
        evidence="live; rabbit_registry.erl lookup_all operator_policy_validator",
    )
    policy_check_order: tuple[str, ...] = changed(
        {
            "3.9": ("locator", "other", "mirroring"),
            "3.11": ("locator", "mirroring", "other"),
            "3.12": ("locator", "other", "mirroring"),
            "3.13": ("locator", "other", "mirroring", "quorum"),
            "4.0": ("other", "quorum", "locator"),
            "4.3": ("locator", "other", "quorum"),
        },
        before=("locator", "mirroring", "other"),
        meaning=(
            "The groups in which a policy's keys are checked, each group by name; the first wrong key is the one"
            " reported."
        ),
        evidence="live; rabbit_policy.erl validation0",
        undecided=("4.1", "4.2"),
    )
    policy_pattern_max_bytes: int | None = since(
        "4.2", 1024, before=None,
        meaning="The longest pattern that a policy may have, in bytes.",
        evidence="live; rabbit_re.erl",
    )
    regex_library: Literal["PCRE", "PCRE2"] = since(
        "4.3", "PCRE2", before="PCRE",
        meaning=(
            "The library that reads patterns, and whose words say what is wrong with one: Erlang has PCRE until OTP 27,"
            " then PCRE2."
        ),
        evidence="live; 4.1 and 4.2 were seen on OTP 27",
        undecided=("4.1", "4.2"),
    )
    queue_master_locator: Literal["strategies", "leader locators", "denied"] = changed(
        {"4.0": "leader locators", "4.3": "denied"}, before="strategies",
        meaning=(
            "The values that queue-master-locator may have in a policy. The last releases refuse it in policies and"
            " as an argument of classic queues. Where the values are strategies, an argument with any other value"
            " ends the connection with 541."
        ),
        evidence="live; rabbit_queue_location.erl",
    )
