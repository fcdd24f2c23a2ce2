"""Values for the settings of a queue: the same serve arguments (``x-message-ttl``) and policies.

``USUAL`` are few, small and readable; ``ALLOWED`` is all that every release takes, the usual ones first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from dlx.releases import Release
from dlx.settings import (
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
    CONSUMER_TIMEOUT,
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
    REJECT_PUBLISH,
    REJECT_PUBLISH_DLX,
)

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
