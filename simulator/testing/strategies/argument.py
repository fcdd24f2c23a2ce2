"""The arguments that queues are declared with."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from hypothesis import strategies as st
from hypothesis.errors import InvalidArgument

from dlx import declarations
from dlx.releases import DEFAULT, Release
from dlx.settings import (
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
    CONSUMER_TIMEOUT,
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_ROUTING_KEY,
    DEAD_LETTER_STRATEGY,
    DELAYED_RETRY_MAX,
    DELAYED_RETRY_MIN,
    DELAYED_RETRY_TYPE,
    DELIVERY_LIMIT,
    DROP_HEAD,
    EXPIRES,
    MAX_LENGTH,
    MAX_LENGTH_BYTES,
    MESSAGE_TTL,
    OVERFLOW,
    QUEUE_TYPE,
    REJECT_PUBLISH,
    REJECT_PUBLISH_DLX,
)
from dlx.topology import CLASSIC, QUORUM
from simulator.testing.strategies.building_blocks import NOWHERE, check_flags, checked_names, checked_release

SETTINGS_MAX = 4
"""How many settings one queue or policy gets at most, for examples are to be read."""

Arguments = dict[str, Any]

# What no release takes for an argument that it checks.
_WRONG: dict[str, tuple[Any, ...]] = {
    "x-message-ttl": (-1, "60000", 1.5, True),
    "x-expires": (0, -1, "60000"),
    "x-max-length": (-1, "10"),
    "x-max-length-bytes": (-1, 10.5),
    "x-overflow": ("drop-tail", 1),
    "x-dead-letter-exchange": (1, True, ["dlx"]),
    "x-dead-letter-routing-key": (1, ["orders"]),
    "x-dead-letter-strategy": ("exactly-once", 1),
    "x-max-priority": (-1, 256, "10"),
    "x-single-active-consumer": ("true", 1),
    "x-max-age": ("0s", "1 hour", 60),
    "x-queue-type": ("mirrored", 1),
}


def queue_arguments(
    *,
    type: str = CLASSIC,
    release: Release | str = DEFAULT,
    exchange_names: Collection[str] = ("", "dlx", NOWHERE),
    routing_keys: Collection[str] = ("orders", "orders.dead"),
    valid: bool = True,
) -> st.SearchStrategy[Arguments]:
    """Draw the x-arguments of a queue, as the release takes them from a client.

    Args:
        type: ``classic``, ``quorum`` or ``stream``, as far as the release has it.
        release: a release or its name.
        exchange_names: the names that ``x-dead-letter-exchange`` is drawn from.
        routing_keys: those of ``x-dead-letter-routing-key``.
        valid: ``False`` draws only arguments that the release refuses (406).
    """
    rules = checked_release(release)
    check_type(type, rules)
    check_flags(valid=valid)
    names = checked_names("exchange_names", exchange_names), checked_names("routing_keys", routing_keys)
    return _valid(type, rules, *names) if valid else _invalid(type, rules, *names)


def check_type(type: str, release: Release) -> None:
    """Raise ``InvalidArgument`` unless the release has queues of the type."""
    if type not in release.queue_types:
        raise InvalidArgument(f"type={type!r}: {types_had(release)}")


def types_had(release: Release) -> str:
    """Say which types of queues a release has, for an error."""
    return f"RabbitMQ {release.name} has {', '.join(map(repr, sorted(release.queue_types)))}"


def argument_keys(type: str, release: Release) -> tuple[str, ...]:
    """Return the settings that a queue of the type takes as arguments, among those with values."""
    own = declarations.queue_arguments(type, release)
    if type == QUORUM:
        own |= {"x-delivery-limit"}  # not checked in 3.8, but heeded
    return tuple(key for key in ALLOWED if f"x-{key}" in own)


@st.composite
def _valid(
    draw: st.DrawFn, type: str, release: Release, exchanges: tuple[str, ...], routing_keys: tuple[str, ...]
) -> Arguments:
    found: Arguments = {} if type == CLASSIC else {QUEUE_TYPE: type}
    dead_letters = draw(dead_letter_settings(exchanges, routing_keys))
    if "x-dead-letter-exchange" in declarations.queue_arguments(type, release):  # not in a stream's
        found |= dead_letters
    keys = argument_keys(type, release)
    for key in draw(st.lists(st.sampled_from(keys), max_size=SETTINGS_MAX, unique=True)):
        found[key] = draw(allowed(key, release))
    if DELAYED_RETRY_TYPE in found:
        found |= draw(delays())
    if found.get(DEAD_LETTER_STRATEGY) == AT_LEAST_ONCE and draw(st.booleans()):
        found[OVERFLOW] = REJECT_PUBLISH  # without which it has no effect
    return {f"x-{key}": value for key, value in found.items()}


@st.composite
def dead_letter_settings(draw: st.DrawFn, exchanges: tuple[str, ...], routing_keys: tuple[str, ...]) -> dict[str, str]:
    """Draw a dead-letter exchange, perhaps with a routing key; or neither."""
    if not draw(st.booleans()):
        return {}
    found = {DEAD_LETTER_EXCHANGE: draw(st.sampled_from(exchanges))}
    if draw(st.booleans()):
        found[DEAD_LETTER_ROUTING_KEY] = draw(st.sampled_from(routing_keys))
    return found


@st.composite
def _invalid(
    draw: st.DrawFn, type: str, release: Release, exchanges: tuple[str, ...], routing_keys: tuple[str, ...]
) -> Arguments:
    """Draw valid arguments with one wrong one among them."""
    found = draw(_valid(type, release, exchanges, routing_keys))
    checked = declarations.queue_arguments(type, release)
    wrongs = [{key: value} for key, values in _WRONG.items() if key in checked for value in values]
    wrongs += [{key: draw(ALLOWED[key[2:]])} for key in _of_other_types(type, release)]
    wrong: Arguments = draw(st.sampled_from(wrongs))
    return found | wrong


def _of_other_types(type: str, release: Release) -> list[str]:
    """Return the arguments that the release has, but not for queues of the type: they are refused."""
    own = declarations.queue_arguments(type, release)
    others: set[str] = set()
    for each in release.queue_types:
        others |= declarations.queue_arguments(each, release) - own
    if not release.arguments_checked_by_type:
        others &= {"x-expires", "x-message-ttl", "x-max-priority", "x-overflow"}
    return [f"x-{key}" for key in ALLOWED if f"x-{key}" in others]


# Values for the settings of a queue: the same serve arguments (``x-message-ttl``) and policies.
#
# ``USUAL`` are few, small and readable; ``ALLOWED`` is all that every release takes, the usual ones first.


MAX_PRIORITY = "max-priority"
SINGLE_ACTIVE_CONSUMER = "single-active-consumer"
MAX_AGE = "max-age"
_TEN_YEARS_MS = 315_360_000_000
_GIGABYTE = 10**9

USUAL: Mapping[str, tuple[Any, ...]] = {
    MESSAGE_TTL: (1_000, 60_000, 0),
    MAX_LENGTH: (1, 2, 3, 0),
    MAX_LENGTH_BYTES: (100, 10, 0),
    OVERFLOW: (DROP_HEAD, REJECT_PUBLISH, REJECT_PUBLISH_DLX),
    DELIVERY_LIMIT: (1, 3, 0),
    DEAD_LETTER_STRATEGY: (AT_MOST_ONCE, AT_LEAST_ONCE),
    DELAYED_RETRY_TYPE: ("all", "failed", "returned"),
    EXPIRES: (60_000, 3_600_000),
    CONSUMER_TIMEOUT: (60_000, 1_800_000),
    MAX_PRIORITY: (10, 1),
    SINGLE_ACTIVE_CONSUMER: (True, False),
    MAX_AGE: ("1h", "7D"),
}
_RANGES = {
    MESSAGE_TTL: (0, _TEN_YEARS_MS),
    MAX_LENGTH: (0, _GIGABYTE),
    MAX_LENGTH_BYTES: (0, _GIGABYTE),
    DELIVERY_LIMIT: (0, 1_000),
    EXPIRES: (1, _TEN_YEARS_MS),
    CONSUMER_TIMEOUT: (0, _TEN_YEARS_MS),
    MAX_PRIORITY: (0, 255),
}
ALLOWED: Mapping[str, st.SearchStrategy[Any]] = {
    key: st.sampled_from(usual) | st.integers(*_RANGES[key]) if key in _RANGES else st.sampled_from(usual)
    for key, usual in USUAL.items()
}


def allowed(key: str, release: Release) -> st.SearchStrategy[Any]:
    """Draw values of the setting that the release takes."""
    if key == DELIVERY_LIMIT and release.quorum_negative_delivery_limit == "unlimited":
        return ALLOWED[key] | st.just(-1)
    return ALLOWED[key]


def delays() -> st.SearchStrategy[dict[str, int]]:
    """Draw how long delayed retry keeps a message back: the settings that its type needs beside it."""
    pairs = st.tuples(st.sampled_from((1_000, 60_000)), st.integers(1, 60))
    return pairs.map(lambda pair: {DELAYED_RETRY_MIN: pair[0], DELAYED_RETRY_MAX: pair[0] * pair[1]})
