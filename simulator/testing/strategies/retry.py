"""Plans of consumers that try again."""

from __future__ import annotations

from collections.abc import Collection

from hypothesis import strategies as st

from dlx.releases import RELEASES
from dlx.retries import DELAY_MAX_MS, RetryPlan
from simulator.testing.strategies.building_blocks import check_count, checked_names, first_names

_DELAYS_MS = st.sampled_from((1_000, 60_000, 0)) | st.integers(0, DELAY_MAX_MS)
_DAY_MS = 86_400_000


def retry_plans(*, queue_names: Collection[str] = first_names(4), delays_max: int = 3) -> st.SearchStrategy[RetryPlan]:
    """Draw retry plans of every kind: fixed and growing delays, with and without wait queues and parking.

    A plan with an age limit needs the time, and one with jitter the message's identity.

    Args:
        queue_names: the wait queues, the parking queue, and the queue whose failures count.
        delays_max: delays, at most.
    """
    check_count("delays_max", delays_max)
    return _plans(checked_names("queue_names", queue_names), delays_max)


@st.composite
def _plans(draw: st.DrawFn, queues: tuple[str, ...], delays_max: int) -> RetryPlan:
    delays_ms = tuple(draw(st.lists(_DELAYS_MS, max_size=delays_max)))
    attempts_most = len(delays_ms) + 2 if delays_ms else 1
    waits = st.tuples(*(st.sampled_from(queues) for _ in delays_ms))
    queue = st.none() | st.sampled_from(queues)
    return RetryPlan(
        delays_ms=delays_ms,
        attempts_max=draw(st.none() | st.integers(1, attempts_most)),
        wait_queues=draw(st.just(()) | waits),
        parking=draw(queue),
        age_max_ms=draw(st.none() | st.sampled_from((60_000, _DAY_MS, 1))),
        jitter=draw(st.sampled_from((0, 0.5, 1))),
        queue=draw(queue),
        release=draw(st.none() | st.sampled_from(RELEASES)),
    )
