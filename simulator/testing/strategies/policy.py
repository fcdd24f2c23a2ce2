"""Policies and operator policies, and the settings that they give a queue beside its arguments."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import regex
from hypothesis import strategies as st

from dlx.policies import TYPE_SELECTORS
from dlx.releases import DEFAULT, Release
from dlx.settings import (
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_ROUTING_KEY,
    DELAYED_RETRY_TYPE,
    DELIVERY_LIMIT,
    MESSAGE_TTL,
    OVERFLOW,
    Settings,
    effective_settings,
)
from dlx.topology import Policy, Topology
from simulator.testing.strategies.argument import ALLOWED, SETTINGS_MAX, allowed, dead_letter_settings, delays
from simulator.testing.strategies.building_blocks import NOWHERE, check_flags, checked_names, checked_release
from simulator.testing.strategies.parts import QUEUE_TYPES, checked_types, queues

_NAMES = ("limits", "retry", "safety")
_BROKEN_PATTERNS = ("(", "orders)", "[", "*")
_WRONG: dict[str, tuple[Any, ...]] = {
    MESSAGE_TTL: (-1, "60000", 1.5),
    "expires": (0, "60000"),
    "max-length": (-1, "10"),
    OVERFLOW: ("drop-tail", 1),
    DELIVERY_LIMIT: ("3", 1.5),
    DEAD_LETTER_EXCHANGE: (1, ["dlx"]),
    DEAD_LETTER_ROUTING_KEY: (1,),
    "no-such-setting": (1, "x"),
}


def policies(
    *,
    queue_names: Collection[str] = ("orders", "orders.dead"),
    operator: bool = False,
    release: Release | str = DEFAULT,
    exchange_names: Collection[str] = ("", "dlx", NOWHERE),
    routing_keys: Collection[str] = ("orders", "orders.dead"),
    valid: bool = True,
) -> st.SearchStrategy[Policy]:
    """Draw policies that the release takes, each with a pattern that matches at least one of ``queue_names``.

    Args:
        queue_names: names of queues.
        operator: draw operator policies, which may say less.
        release: a release or its name.
        exchange_names: the names that ``dead-letter-exchange`` is drawn from.
        routing_keys: those of ``dead-letter-routing-key``.
        valid: ``False`` draws only policies that the release refuses.
    """
    rules = checked_release(release)
    check_flags(operator=operator, valid=valid)
    names = checked_names("exchange_names", exchange_names), checked_names("routing_keys", routing_keys)
    found = _valid(checked_names("queue_names", queue_names), operator, rules, *names)
    return found if valid else _invalid(found)


def exact_pattern(name: str) -> str:
    """Return the regular expression that matches this name only."""
    return f"^{regex.escape(name)}$"


def patterns(queues: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Draw regular expressions that match one of the names, or more."""
    exactly = st.sampled_from(queues).map(exact_pattern)
    begins = st.sampled_from(queues).map(lambda name: f"^{regex.escape(name.partition('.')[0])}")
    return st.one_of(exactly, begins, st.sampled_from((".*", "")))


@st.composite
def _valid(
    draw: st.DrawFn,
    queues: tuple[str, ...],
    operator: bool,
    release: Release,
    exchanges: tuple[str, ...],
    routing_keys: tuple[str, ...],
) -> Policy:
    return Policy(
        name=draw(st.sampled_from(_NAMES)),
        pattern=draw(patterns(queues)),
        definition=draw(_definitions(operator, release, exchanges, routing_keys)),
        apply_to=draw(st.sampled_from(_applies_to(release))),
        priority=draw(st.integers(0, 9)),
    )


@st.composite
def _definitions(
    draw: st.DrawFn, operator: bool, release: Release, exchanges: tuple[str, ...], routing_keys: tuple[str, ...]
) -> dict[str, Any]:
    known = release.operator_policy_keys if operator else release.policy_keys
    keys = [key for key in ALLOWED if key in known]
    found: dict[str, Any] = {} if operator else draw(dead_letter_settings(exchanges, routing_keys))
    least = 0 if found else 1  # an empty definition is refused
    for key in draw(st.lists(st.sampled_from(keys), min_size=least, max_size=SETTINGS_MAX, unique=True)):
        found[key] = draw(allowed(key, release))
    return found | draw(delays()) if DELAYED_RETRY_TYPE in found else found


def _applies_to(release: Release) -> tuple[str, ...]:
    by_type = tuple(TYPE_SELECTORS.values()) if release.policy_applies_to_queue_types else ()
    return ("queues", "all", *by_type)


@st.composite
def _invalid(draw: st.DrawFn, valid: st.SearchStrategy[Policy]) -> Policy:
    """Draw a valid policy and make one thing in it wrong."""
    policy = draw(valid)
    fields = {name: getattr(policy, name) for name in policy.__struct_fields__}
    wrongs: list[dict[str, Any]] = [{"definition": {}}, {"apply_to": "consumers"}]
    wrongs += [{"pattern": pattern} for pattern in _BROKEN_PATTERNS]
    for key, values in _WRONG.items():
        wrongs += [{"definition": {**policy.definition, key: value}} for value in values]
    return Policy(**fields | draw(st.sampled_from(wrongs)))


# What applies to a queue when arguments, policy and operator policy are resolved.


def settings(
    *, types: Collection[str] = QUEUE_TYPES, policies: bool = True, release: Release | str = DEFAULT
) -> st.SearchStrategy[Settings]:
    """Draw the effective settings of a queue that the release declares, by the release's rules.

    Args:
        types: the queue's type, of ``classic``, ``quorum``, ``stream``.
        policies: whether a policy and an operator policy may apply, too.
        release: a release or its name.
    """
    rules = checked_release(release)
    check_flags(policies=policies)
    return _settings(checked_types(types, rules), policies, rules)


@st.composite
def _settings(draw: st.DrawFn, types: tuple[str, ...], with_policies: bool, release: Release) -> Settings:
    queue = draw(queues(types=types, release=release))
    topology = Topology()
    if with_policies:
        by_kind = [
            draw(st.lists(policies(queue_names=(queue.name,), operator=operator, release=release), max_size=1))
            for operator in (False, True)
        ]
        topology = Topology.of(queues=[queue], policies=by_kind[0], operator_policies=by_kind[1])
    return effective_settings(queue, topology, release)
