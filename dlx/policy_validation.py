"""Check policies as a server does, and say in its words what is wrong with them.

A policy's pattern must be a regular expression, its ``apply_to`` a word the release
knows, and its definition one or more known keys with values that fit. The texts are
those that ``rabbitmqctl set_policy`` and the management API print below
``Validation failed``.

Source: rabbit_policy.erl validation, rabbit_policies.erl validate_policy0;
rabbit_mirror_queue_misc.erl, rabbit_queue_location_validator.erl,
rabbit_classic_queue.erl, rabbit_quorum_queue.erl and rabbit_sharding_policy_validator.erl validate_policy;
rabbit_parameter_validation.erl; live servers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping
from typing import Any

from dlx.amqp_errors import Refusal
from dlx.argument_values import LOCATION_STRATEGIES, age_ms
from dlx.erlang_printing import Atom, json_term, printed
from dlx.parameter_validation import Member, is_integer, is_number, said, wrong_members, wrong_number
from dlx.patterns import PatternError, compiled
from dlx.policies import TYPE_SELECTORS
from dlx.releases import Release
from dlx.server_plugins import policy_keys_of
from dlx.settings import OVERFLOWS, STRATEGIES

Definition = Mapping[str, Any]


class PolicyRefusedError(ValueError):
    """A policy that RabbitMQ refuses; its text is RabbitMQ's, one line for each thing that is wrong.

    ``status`` is the management API's: 400, or 500 where the server did not foresee such a value.
    """

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


def check_policy(
    name: str,
    pattern: Any,
    definition: Any,
    apply_to: Any,
    priority: Any,
    *,
    operator: bool,
    release: Release,
    plugins: Collection[str] = (),
) -> None:
    """Raise ``PolicyRefusedError`` for a policy, or operator policy, that the release refuses.

    ``plugins`` are those that are enabled, by RabbitMQ's names.
    """
    value = {"pattern": pattern, "definition": definition, "apply-to": apply_to, "priority": priority}
    check_policy_parameter(name, value, operator=operator, release=release, plugins=plugins)


def check_policy_parameter(
    name: str, value: Any, *, operator: bool, release: Release, plugins: Collection[str] = ()
) -> None:
    """Raise ``PolicyRefusedError`` for the value of a runtime parameter that the release does not take as a policy."""
    more = policy_keys_of(plugins) if not operator else frozenset()
    members = (
        Member("priority", lambda priority: wrong_number("priority", priority, is_number), mandatory=True),
        Member("pattern", lambda pattern: _wrong_pattern(pattern, release), mandatory=True),
        Member("apply-to", lambda apply_to: _wrong_apply_to(apply_to, release)),
        Member("definition", lambda definition: _wrong_definition(definition, operator, release, more), mandatory=True),
    )
    if texts := wrong_members(value, members, name):
        raise PolicyRefusedError("\n".join(texts))


# Pattern, apply-to


def _wrong_apply_to(apply_to: Any, release: Release) -> str | None:
    if not isinstance(apply_to, str | bool | None):
        raise _unforeseen()
    by_type = tuple(TYPE_SELECTORS.values()) if release.policy_applies_to_queue_types else ()
    if apply_to in ("all", "exchanges", "queues", *by_type):
        return None
    if by_type:
        known = "one of: 'queues', 'classic_queues',  'quorum_queues', 'streams', 'exchanges', or 'all'"
    else:
        known = "'queues', 'exchanges' or 'all'"
    shown = apply_to if isinstance(apply_to, str) else json_term(apply_to)
    return f"apply-to '{shown}' unrecognised; should be {known}"


def _wrong_pattern(pattern: Any, release: Release) -> str | None:
    if not isinstance(pattern, str) or isinstance(pattern, Atom):
        return said("pattern should be a binary but was {}", pattern)
    longest = release.policy_pattern_max_bytes
    if longest is not None and len(pattern.encode()) > longest:
        return f"pattern must not exceed {longest} bytes"
    error = pattern_error(pattern, release)
    start = "pattern should be regular expression but is invalid: "
    return start + printed(error, len(start)) if error is not None else None


def pattern_error(pattern: str, release: Release) -> tuple[list[int], int] | None:
    """Return the error in a regular expression, as an Erlang term of words and place; ``None`` if it has no error."""
    try:
        compiled(pattern, release.regex_library)
    except PatternError as error:
        words, at = _pattern_error(error, pattern, release)
        return list(map(ord, words)), at
    return None


# The words of Python's regex: those of PCRE and of PCRE2, each with how far beyond regex's place they see the error.
_PATTERN_ERRORS = {
    "missing )": (("missing )", 0), ("missing closing parenthesis", 0)),
    "unbalanced parenthesis": (("unmatched parentheses", 0), ("unmatched closing parenthesis", 1)),
    "unterminated character set": (("missing terminating ] for character class", 0),) * 2,
    "nothing to repeat": (("nothing to repeat", 0), ("quantifier does not follow a repeatable item", 1)),
    "multiple repeat": (("nothing to repeat", 0), ("quantifier does not follow a repeatable item", 1)),
    "bad escape (end of pattern)": (("\\ at end of pattern", 0),) * 2,
    "bad character range": (
        ("range out of order in character class", -1),
        ("range out of order in character class", 0),
    ),
    "unknown extension": (
        ("unrecognized character after (? or (?-", 0),
        ("unrecognized character after (? or (?-", 1),
    ),
    "two named subpatterns have the same name": (
        ("two named subpatterns have the same name", 0),
        ("two named subpatterns have the same name (PCRE2_DUPNAMES not set)", 1),
    ),
    "unknown group": (("reference to non-existent subpattern", 1),) * 2,
    "invalid group reference": (("reference to non-existent subpattern", 0),) * 2,
}


def _pattern_error(error: PatternError, pattern: str, release: Release) -> tuple[str, int]:
    """Return PCRE's words for an error and the byte where it is; for rare errors, Python's words."""
    position = error.position
    at_end = release.regex_library == "PCRE2" and error.why == "unknown extension" and position == len(pattern)
    both = _PATTERN_ERRORS.get("missing )" if at_end else error.why)
    if both is None:
        return error.why, position
    words, behind = both[release.regex_library == "PCRE2"]
    return words, position + behind


# The definition


def _wrong_definition(definition: Any, operator: bool, release: Release, more: frozenset[str]) -> str | None:
    if definition in ({}, []):
        return "no policy provided"
    if isinstance(definition, list):
        return said("definition must be a dictionary: {}", definition)
    if not isinstance(definition, Mapping):
        validator = "operator_policy_validator" if operator else "policy_validator"
        return said(f"parse error while reading policy definition: {{}}. Validator: {validator}.", definition)
    known = (release.operator_policy_keys if operator else release.policy_keys) | more
    for group in (*release.policy_check_order, "sharding"):
        members = {key: definition[key] for key in _sorted(definition) if key in known and _group(key) == group}
        wrong = _GROUPS[group](members, release) if members else None
        if wrong is not None:
            return wrong
    unknown = [(json_term(key), json_term(definition[key])) for key in _sorted(definition) if key not in known]
    return f"{printed(unknown)} are not recognised policy settings" if unknown else None


def _sorted(definition: Definition) -> list[str]:
    return sorted(definition, key=str.encode)


def _group(key: str) -> str:
    if key.startswith("ha-"):
        return "mirroring"
    if key == "queue-master-locator":
        return "locator"
    if key in ("shards-per-node", "routing-key"):
        return "sharding"
    return "quorum" if key == "target-group-size" or key.startswith("delayed-retry-") else "other"


def _first_wrong(
    members: Definition, checks: Mapping[str, tuple[Callable[[Any, Release], bool], str]], release: Release
) -> str | None:
    for key, value in members.items():
        fits, text = checks[key]
        if not fits(value, release):
            return said(text, value)
    return None


def _is_string(value: Any, _release: Release) -> bool:
    return isinstance(value, str)


def _in_range(least: int, most: int | None = None) -> Callable[[Any, Release], bool]:
    def fits(value: Any, release: Release) -> bool:
        return is_integer(value) and value >= least and (most is None or value <= most)

    return fits


def _one_of(*words: Any) -> Callable[[Any, Release], bool]:
    def fits(value: Any, _release: Release) -> bool:
        return any(value == word and type(value) is type(word) for word in words)

    return fits


def _is_delivery_limit(value: Any, release: Release) -> bool:
    negative_fits = release.quorum_negative_delivery_limit == "unlimited"
    return is_integer(value) and (negative_fits or value >= 0)


def _is_max_age(value: Any, release: Release) -> bool:
    text = _characters(value)
    if text is not None:
        with contextlib.suppress(Refusal):
            return age_ms(text, release) is not None
    raise _unforeseen()


def _unforeseen() -> PolicyRefusedError:
    return PolicyRefusedError("Internal Server Error", 500)


def _characters(value: Any) -> str | None:
    """Return the text that Erlang's regular expressions see in a value: a string, or a list of strings and bytes."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return None
    parts = [chr(item) if type(item) is int and 0 <= item <= 255 else _characters(item) for item in value]
    return None if None in parts else "".join(part for part in parts if part is not None)


_NOT_NEGATIVE = _in_range(0)
_OTHER: dict[str, tuple[Callable[[Any, Release], bool], str]] = {
    "alternate-exchange": (_is_string, "{} is not a valid alternate exchange name"),
    "consumer-disconnected-timeout": (_NOT_NEGATIVE, "{} is not a valid consumer disconnected timeout"),
    "consumer-timeout": (_NOT_NEGATIVE, "{} is not a valid consumer timeout"),
    "dead-letter-exchange": (_is_string, "{} is not a valid dead letter exchange name"),
    "dead-letter-routing-key": (_is_string, "{} is not a valid dead letter routing key"),
    "dead-letter-strategy": (_one_of(*STRATEGIES), "{} is not a valid dead letter strategy"),
    "message-ttl": (_NOT_NEGATIVE, "{} is not a valid message TTL"),
    "expires": (_in_range(1), "{} is not a valid queue expiry"),
    "max-length": (_NOT_NEGATIVE, "{} is not a valid maximum length"),
    "max-length-bytes": (_NOT_NEGATIVE, "{} is not a valid maximum length in bytes"),
    "max-in-memory-length": (_NOT_NEGATIVE, "{} is not a valid maximum memory in bytes"),
    "max-in-memory-bytes": (_NOT_NEGATIVE, "{} is not a valid maximum memory in bytes"),
    "queue-mode": (_one_of("default", "lazy"), "{} is not a valid queue-mode value"),
    "queue-version": (_one_of(1, 2), "{} is not a valid queue-version value"),
    "overflow": (_one_of(*OVERFLOWS), "{} is not a valid overflow value"),
    "delivery-limit": (_is_delivery_limit, "{} is not a valid delivery limit"),
    "max-age": (_is_max_age, "{} is not a valid max age"),
    "queue-leader-locator": (
        _one_of("client-local", "balanced", "random", "least-leaders"),
        "{} is not a valid queue leader locator value",
    ),
    "initial-cluster-size": (_NOT_NEGATIVE, "{} is not a valid cluster size"),
    "stream-max-segment-size-bytes": (_in_range(0, 3_000_000_000), "{} is not a valid segment size"),
    "stream-filter-size-bytes": (_in_range(16, 255), "{} is not a valid filter size. Valid range is 16-255"),
}
_QUORUM: dict[str, tuple[Callable[[Any, Release], bool], str]] = {
    "target-group-size": (_in_range(1), "{} is not a valid qq target count value"),
    "delayed-retry-type": (
        _one_of("all", "failed", "returned", "disabled"),
        "{} is not a valid delayed retry type. Must be one of: all, failed, returned, disabled",
    ),
    "delayed-retry-min": (
        _in_range(1),
        "{} is not a valid delayed retry minimum delay. Must be a positive integer",
    ),
    "delayed-retry-max": (
        _in_range(1),
        "{} is not a valid delayed retry maximum delay. Must be a positive integer",
    ),
}


def _wrong_other(members: Definition, release: Release) -> str | None:
    return _first_wrong(members, _OTHER, release)


def _wrong_quorum(members: Definition, release: Release) -> str | None:
    wrong = _first_wrong(members, _QUORUM, release)
    if wrong is not None:
        return wrong
    kind, least, most = (members.get(f"delayed-retry-{which}") for which in ("type", "min", "max"))
    if kind not in (None, "disabled") and least is None:
        return f"delayed-retry-min is required when delayed-retry-type is {kind}"
    if least is not None and most is not None and most < least:
        return f"delayed-retry-max ({most}) must not be smaller than delayed-retry-min ({least})"
    return None


def _wrong_locator(members: Definition, release: Release) -> str | None:
    if release.queue_master_locator == "denied":
        return "use of deprecated queue-master-locator argument is not permitted"
    value = members["queue-master-locator"]
    if release.queue_master_locator == "leader locators":
        known, text = release.leader_locators, "{} is not a valid master locator"
    else:
        known, text = frozenset(LOCATION_STRATEGIES), "{} invalid queue-master-locator value"
    return None if isinstance(value, str) and value in known else said(text, value)


def _wrong_sharding(members: Definition, _release: Release) -> str | None:
    if "shards-per-node" not in members:
        return "shards-per-node must be specified"
    count, key = members["shards-per-node"], members.get("routing-key", "")
    if not is_number(count):
        return said("shards-per-node should be a number, actually was {}", count)
    if count < 0:
        return said("shards-per-node should be greater than 0, actually was {}", count)
    return None if isinstance(key, str) else said("routing-key should be binary, actually was {}", key)


# Mirrored classic queues


def _wrong_mirroring(members: Definition, release: Release) -> str | None:
    if "ha-mode" not in members:
        return "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown"
    mode = members["ha-mode"]
    if not isinstance(mode, str):
        raise _unforeseen()
    if mode not in _HA_PARAMS:
        return said("{} is not a valid ha-mode value", mode)
    return _HA_PARAMS[mode](members.get("ha-params")) or _first_wrong(
        {key: members[key] for key in _MIRRORING if key in members}, _MIRRORING, release
    )


def _wrong_params_of_all(params: Any) -> str | None:
    return None if params is None else 'ha-mode="all" does not take parameters'


def _wrong_params_of_exactly(params: Any) -> str | None:
    if isinstance(params, int) and not isinstance(params, bool) and params > 0:
        return None
    return f'ha-mode="exactly" takes an integer, {_param(params)} given'


def _wrong_params_of_nodes(params: Any) -> str | None:
    if not isinstance(params, list):
        return f'ha-mode="nodes" takes a list, {_param(params)} given'
    if not params:
        return 'ha-mode="nodes" list must be non-empty'
    others = [item for item in params if not isinstance(item, str)]
    text = 'ha-mode="nodes" takes a list of strings, {} was not a string'
    return said(text, others) if others else None


def _param(params: Any) -> str:
    return "none" if params is None else printed(json_term(params))


_HA_PARAMS: dict[Any, Callable[[Any], str | None]] = {
    "all": _wrong_params_of_all,
    "exactly": _wrong_params_of_exactly,
    "nodes": _wrong_params_of_nodes,
}
_PROMOTES = _one_of("always", "when-synced")
_MIRRORING: dict[str, tuple[Callable[[Any, Release], bool], str]] = {
    "ha-sync-mode": (
        _one_of("automatic", "manual"),
        'ha-sync-mode must be "manual" or "automatic", got {}',
    ),
    "ha-sync-batch-size": (_in_range(1), "ha-sync-batch-size takes an integer greater than 0, {} given"),
    "ha-promote-on-shutdown": (_PROMOTES, 'ha-promote-on-shutdown must be "always" or "when-synced", got {}'),
    "ha-promote-on-failure": (_PROMOTES, 'ha-promote-on-failure must be "always" or "when-synced", got {}'),
}
DEFINABLE = frozenset({*_OTHER, *_QUORUM, *_MIRRORING, "queue-master-locator"})
"""The names of all fields that a policy may define, in one release or another."""
_GROUPS: dict[str, Callable[[Definition, Release], str | None]] = {
    "locator": _wrong_locator,
    "mirroring": _wrong_mirroring,
    "quorum": _wrong_quorum,
    "other": _wrong_other,
    "sharding": _wrong_sharding,
}
