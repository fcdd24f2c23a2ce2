"""Choose the policy that applies to a queue or exchange, and say why the others do not.

One policy and one operator policy apply to an object: of those whose pattern is
found in its name, whose ``apply-to`` covers it and whose keys its type supports,
the one with the highest priority. Between equals RabbitMQ's choice is not
defined; here the first by name is taken and the others are reported as tied.

Source: rabbit_policy.erl match, is_applicable; rabbit_policies.erl.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dlx.patterns import Library, PatternError, compiled
from dlx.releases import Release
from dlx.topology import CLASSIC, QUORUM, STREAM, Exchange, Policy, Queue

_MATCH_SECONDS = 1.0
_UNSUPPORTED = "do not support"
TYPE_SELECTORS = {CLASSIC: "classic_queues", QUORUM: "quorum_queues", STREAM: "streams"}
"""What a policy applies to that is for the queues of one type."""


class SkippedPolicy(msgspec.Struct, frozen=True):
    """A policy that does not apply, and why not."""

    policy: Policy
    why: str


class PolicyChoice(msgspec.Struct, frozen=True):
    """The policy that applies to ``target``, chosen of ``policies``.

    Why the others do not apply is computed on first use: a virtual host may have thousands of queues.
    """

    policy: Policy | None
    target: Queue | Exchange | None = None
    policies: tuple[Policy, ...] = ()
    release: Release | None = None
    at_declaration: bool = False

    @property
    def tied(self) -> tuple[Policy, ...]:
        """The policies of equal priority that might apply as well."""
        equal = (policy for policy in self.policies if policy.priority == self._priority and policy is not self.policy)
        return tuple(sorted((policy for policy in equal if self._why_not(policy) is None), key=_precedence))

    @property
    def disagreeing(self) -> tuple[Policy, ...]:
        """The tied policies that say something else than the one that applies."""
        return tuple(each for each in self.tied if self.policy and each.definition != self.policy.definition)

    @property
    def skipped(self) -> tuple[SkippedPolicy, ...]:
        """The policies that do not apply, each with the reason."""
        judged = [(policy, self._why_not(policy)) for policy in self.policies]
        unfit = tuple(SkippedPolicy(policy, why) for policy, why in judged if why is not None)
        lower = (policy for policy, why in judged if why is None and policy.priority != self._priority)
        return unfit + tuple(SkippedPolicy(policy, self._beaten_by()) for policy in sorted(lower, key=_precedence))

    def kept_away_by(self, key: str) -> tuple[SkippedPolicy, ...]:
        """Return the policies that would fit if the type of the queue supported this key of theirs."""
        if not isinstance(self.target, Queue) or self.release is None:
            return ()
        if key not in unsupported_keys(self.target, self.release):  # patterns cost more than that
            return ()
        holding = ((policy, self._why_not(policy)) for policy in self.policies if key in policy.definition)
        return tuple(SkippedPolicy(policy, why) for policy, why in holding if why is not None and is_for_type(why))

    def _why_not(self, policy: Policy) -> str | None:
        assert self.target is not None
        assert self.release is not None
        return why_not(policy, self.target, self.release, at_declaration=self.at_declaration)

    @property
    def _priority(self) -> float | None:
        return None if self.policy is None else self.policy.priority

    def _beaten_by(self) -> str:
        assert self.policy is not None
        return f"{self.policy.name} has the higher priority {self.policy.priority}"


def choose_policy(
    target: Queue | Exchange, policies: Iterable[Policy], release: Release, *, at_declaration: bool = False
) -> PolicyChoice:
    """Return the policy of ``policies`` that applies to ``target``.

    ``at_declaration``: to one that is being declared, and until a policy changes.
    """
    choice = PolicyChoice(None, target, tuple(policies), release, at_declaration)
    by_precedence = sorted(choice.policies, key=_precedence)  # patterns cost more than that
    best = next((policy for policy in by_precedence if choice._why_not(policy) is None), None)
    return msgspec.structs.replace(choice, policy=best)


def _precedence(policy: Policy) -> tuple[float, str]:
    return -policy.priority, policy.name


def why_not(policy: Policy, target: Queue | Exchange, release: Release, *, at_declaration: bool = False) -> str | None:
    """Return why the policy cannot apply to the target, whatever its priority; ``None`` when it can."""
    if not pattern_found(policy.pattern, target.name, release.regex_library):
        return f"pattern {policy.pattern!r} is not found in the name"
    if policy.apply_to not in _selectors(target, release):
        return f"apply-to is {policy.apply_to!r}"
    if isinstance(target, Exchange) or (at_declaration and not release.policy_keys_checked_at_declaration):
        return None
    unsupported = sorted(set(policy.definition) & unsupported_keys(target, release))
    if unsupported:
        return f"{target.type} queues {_UNSUPPORTED} {', '.join(unsupported)}"
    return None


def is_for_type(why: str) -> bool:
    """Tell whether a reason of ``why_not`` is that a type of queue does not support a key."""
    return _UNSUPPORTED in why


def _selectors(target: Queue | Exchange, release: Release) -> tuple[str, ...]:
    if isinstance(target, Exchange):
        return ("all", "exchanges")
    if release.policy_applies_to_queue_types:
        return ("all", "queues", TYPE_SELECTORS.get(target.type, ""))
    return ("all", "queues")


def unsupported_keys(queue: Queue, release: Release) -> frozenset[str]:
    """Return the policy keys that the queue's type does not support in that release."""
    if queue.type == QUORUM:
        return release.quorum_unsupported_policy_keys
    if queue.type == STREAM:
        return release.stream_unsupported_policy_keys
    return release.classic_unsupported_policy_keys


def pattern_found(pattern: str, name: str, library: Library | None = None) -> bool:
    """Return whether the regular expression is found anywhere in the name; a broken one is never found.

    ``library`` is that of the release, ``release.regex_library``; without it, one of the libraries finding it will do.
    """
    if library is None:
        return pattern_found(pattern, name, "PCRE2") or pattern_found(pattern, name, "PCRE")
    try:
        return compiled(pattern, library).search(name, _MATCH_SECONDS) is not None
    except (TimeoutError, PatternError):
        return False
