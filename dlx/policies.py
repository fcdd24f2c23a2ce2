"""Choose the policy that applies to a queue or exchange, and tell why the others do not.

One policy and one operator policy apply to an object: of those whose pattern is
found in its name, whose ``apply-to`` covers it and whose keys its type supports,
the one with the highest priority. Between equals RabbitMQ's choice is not
defined; here the first by name is taken and the others are reported as tied.

Source: rabbit_policy.erl match, is_applicable; rabbit_policies.erl.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import regex

from dlx.patterns import compiled
from dlx.releases import Release
from dlx.topology import CLASSIC, QUORUM, STREAM, Exchange, Policy, Queue

_MATCH_SECONDS = 1.0
_TYPE_SELECTORS = {CLASSIC: "classic_queues", QUORUM: "quorum_queues", STREAM: "streams"}


class SkippedPolicy(msgspec.Struct, frozen=True):
    """A policy that does not apply, and why not."""

    policy: Policy
    why: str


class PolicyChoice(msgspec.Struct, frozen=True):
    """The policy that applies, those of equal priority that might, and those that do not."""

    policy: Policy | None
    tied: tuple[Policy, ...] = ()
    skipped: tuple[SkippedPolicy, ...] = ()


def choose_policy(target: Queue | Exchange, policies: Iterable[Policy], release: Release) -> PolicyChoice:
    """Return the policy of ``policies`` that applies to ``target``."""
    fitting: list[Policy] = []
    skipped: list[SkippedPolicy] = []
    for policy in policies:
        why = why_not(policy, target, release)
        if why is None:
            fitting.append(policy)
        else:
            skipped.append(SkippedPolicy(policy, why))
    if not fitting:
        return PolicyChoice(None, (), tuple(skipped))
    ordered = sorted(fitting, key=lambda policy: (-policy.priority, policy.name))
    best, rest = ordered[0], ordered[1:]
    tied = tuple(policy for policy in rest if policy.priority == best.priority)
    lower = (
        SkippedPolicy(policy, f"{best.name} has the higher priority {best.priority}")
        for policy in rest
        if policy.priority != best.priority
    )
    return PolicyChoice(best, tied, (*skipped, *lower))


def why_not(policy: Policy, target: Queue | Exchange, release: Release) -> str | None:
    """Tell why the policy cannot apply to the target, whatever its priority; ``None`` when it can."""
    if not pattern_found(policy.pattern, target.name):
        return f"pattern {policy.pattern!r} is not found in the name"
    if policy.apply_to not in _selectors(target, release):
        return f"apply-to is {policy.apply_to!r}"
    if isinstance(target, Exchange):
        return None
    unsupported = sorted(set(policy.definition) & unsupported_keys(target, release))
    if unsupported:
        return f"{target.type} queues do not support {', '.join(unsupported)}"
    return None


def _selectors(target: Queue | Exchange, release: Release) -> tuple[str, ...]:
    if isinstance(target, Exchange):
        return ("all", "exchanges")
    if release.policy_applies_to_queue_types:
        return ("all", "queues", _TYPE_SELECTORS.get(target.type, ""))
    return ("all", "queues")


def unsupported_keys(queue: Queue, release: Release) -> frozenset[str]:
    """Return the policy keys that the queue's type does not support in that release."""
    if queue.type == QUORUM:
        return release.quorum_unsupported_policy_keys
    if queue.type == STREAM:
        return release.stream_unsupported_policy_keys
    return release.classic_unsupported_policy_keys


def pattern_found(pattern: str, name: str) -> bool:
    """Tell whether the regular expression is found anywhere in the name; a broken one is never found."""
    try:
        return compiled(pattern).search(name, timeout=_MATCH_SECONDS) is not None
    except (TimeoutError, regex.error):
        return False
