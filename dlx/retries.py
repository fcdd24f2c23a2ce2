"""Decide what to do after a failed attempt: try again later, park the message, or give up.

    plan = dlx.RetryPlan(delays_ms=(1_000, 5_000, 30_000), wait_queues=WAITS, parking="orders.parking")
    match plan.decide(dlx.death_history(properties)):
        case dlx.Retry(): channel.basic_reject(method.delivery_tag, requeue=False)
        case dlx.Park(to=queue): ...

A plan decides and does nothing: the consumer sends the message where the decision
says. Rejecting it is the safest way, if the queue's dead-letter exchange leads there.
A consumer that publishes it instead must take ``republish_headers`` along: from 4.0
on, the broker starts counting from zero.

Decisions follow from their arguments alone. There is no clock and no chance here:
the caller passes the time for an age limit, and jitter comes from the message's identity.
"""

from __future__ import annotations

import zlib
from datetime import datetime, timedelta
from typing import Any

import msgspec

from dlx.consumer import (
    ATTEMPTS_HEADER,
    COUNT_MAX,
    X_ACQUIRED_COUNT,
    X_DELIVERY_COUNT,
    DeathHistory,
    MessageSource,
    headers_of,
)
from dlx.deaths import FIRST_DEATH_HEADERS, LAST_DEATH_HEADERS, X_DEATH
from dlx.value_kinds import value_kind

DELAY_MAX_MS = 2**32 - 1
"""The longest time to live that every release takes."""

_NOT_REPUBLISHED = frozenset(
    {X_DEATH, *FIRST_DEATH_HEADERS, *LAST_DEATH_HEADERS, X_DELIVERY_COUNT, X_ACQUIRED_COUNT, ATTEMPTS_HEADER}
    | {"CC", "BCC", "x-stream-offset"}
)


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """Try again after ``delay_ms``. ``attempt`` has failed, from 1; ``to`` is the wait queue, if the plan names one."""

    attempt: int
    delay_ms: int
    to: str | None = None


class Park(msgspec.Struct, frozen=True, kw_only=True):
    """Put the message into the queue ``to`` for people to look at. ``attempt`` has failed; ``reason`` says the rest."""

    attempt: int
    to: str
    reason: str


class GiveUp(msgspec.Struct, frozen=True, kw_only=True):
    """There is nothing left to do, and no parking queue. ``attempt`` has failed; ``reason`` says the rest."""

    attempt: int
    reason: str


Decision = Retry | Park | GiveUp
"""What a ``RetryPlan`` decides on after a failed attempt."""


class RetryPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Says how often an attempt is repeated, when, and what happens to the message then.

    Attributes:
        delays_ms: the wait before each retry; the last one holds for all further ones. One number is a fixed delay,
            and ``exponential_delays_ms`` gives growing ones.
        attempts_max: how many attempts there are altogether; ``None``: one more than delays.
        wait_queues: the queue for each delay; empty where the queue's dead-letter exchange takes care of it.
        parking: the queue for messages that have failed for good; ``None``: the decision is to give up.
        age_max_ms: no retry for a message whose first death is longer ago; ``decide`` then needs the time.
        jitter: the largest share of a delay, 0 to 1, to shorten it by, so that messages that failed
            together are not tried together. A wait queue's own TTL cuts off any longer delay.
        queue: the queue whose failures count; ``None``: those of all queues (``DeathHistory.failures``).
        release: the broker's release, such as ``3.13``, where it is known: until 3.13 requeues are counted better.

    Raises:
        ValueError: an argument makes no sense; the text names it and what would be right.
        UnknownReleaseError: there are no rules for that release.
    """

    delays_ms: tuple[int, ...]
    attempts_max: int | None = None
    wait_queues: tuple[str, ...] = ()
    parking: str | None = None
    age_max_ms: int | None = None
    jitter: float = 0
    queue: str | None = None
    release: str | None = None

    def __post_init__(self) -> None:
        for name in ("delays_ms", "wait_queues"):
            if not isinstance(getattr(self, name), (tuple, list)):
                raise ValueError(f"{name}: expected a tuple, got {getattr(self, name)!r}")
        for at, delay in enumerate(self.delays_ms):
            _check_whole(f"delays_ms[{at}]", delay, 0, DELAY_MAX_MS)
        if self.attempts_max is not None:
            _check_whole("attempts_max", self.attempts_max, 1)
        if self.age_max_ms is not None:
            _check_whole("age_max_ms", self.age_max_ms, 1)
        self._check_names()
        if not self.delays_ms and self.attempts > 1:
            raise ValueError(f"delays_ms: expected a delay, since attempts_max={self.attempts} allows a retry")
        if self.wait_queues and len(self.wait_queues) != len(self.delays_ms):
            raise ValueError(
                f"wait_queues: expected one for each of the {len(self.delays_ms)} delays, got {len(self.wait_queues)}"
            )
        if not isinstance(self.jitter, (int, float)) or not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter: expected a share from 0 to 1, got {self.jitter!r}")
        _counts_carried(self.release)

    def _check_names(self) -> None:
        for at, wait_queue in enumerate(self.wait_queues):
            _check_name(f"wait_queues[{at}]", wait_queue)
        for name in ("parking", "queue"):
            if getattr(self, name) is not None:
                _check_name(name, getattr(self, name))
        if self.release is not None:
            _check_name("release", self.release, "a name such as '3.13'")

    @property
    def attempts(self) -> int:
        """How many attempts there are altogether."""
        return len(self.delays_ms) + 1 if self.attempts_max is None else self.attempts_max

    def decide(
        self, history: DeathHistory, *, now: datetime | None = None, identity: str | bytes | None = None
    ) -> Decision:
        """Decide what to do with a message whose attempt has just failed.

        Args:
            history: the deaths of the message, as it was delivered to this attempt.
            now: the time, with a time zone; needed only by a plan with ``age_max_ms``.
            identity: a value that identifies the message, such as its ``message_id``; needed only by a plan with
                jitter that decides on a retry.

        Raises:
            TypeError: ``history`` is not a ``DeathHistory``.
            ValueError: ``now`` or ``identity`` is missing, or ``now`` has no time zone. No header raises.
        """
        _check_history(history)
        attempt = history.failures(self.queue, counts_carried=_counts_carried(self.release)) + 1
        over = self._why_over(attempt, history, now)
        if over is None:
            step = min(attempt, len(self.delays_ms)) - 1
            to = self.wait_queues[step] if self.wait_queues else None
            return Retry(attempt=attempt, delay_ms=int(self.delays_ms[step] * self._shortened(identity)), to=to)
        if self.parking is not None:
            return Park(attempt=attempt, to=self.parking, reason=over)
        return GiveUp(attempt=attempt, reason=over)

    def _why_over(self, attempt: int, history: DeathHistory, now: datetime | None) -> str | None:
        """Return why there is no further attempt; ``None`` when there is one."""
        too_old = self._is_too_old(history, now)
        if attempt >= self.attempts:
            return f"attempt {attempt} of {self.attempts} failed"
        if too_old:
            return f"attempt {attempt} failed, and the first death was more than {self.age_max_ms} ms ago"
        return None

    def _is_too_old(self, history: DeathHistory, now: datetime | None) -> bool:
        if self.age_max_ms is None:
            return False
        if not isinstance(now, datetime) or now.tzinfo is None:
            raise ValueError(f"now: expected the time with a time zone, since the plan has age_max_ms, got {now!r}")
        died_at = history.first_death_at
        # In integers: a timedelta does not hold every age_max_ms.
        return died_at is not None and (now - died_at) // timedelta(microseconds=1) > self.age_max_ms * 1_000

    def _shortened(self, identity: str | bytes | None) -> float:
        """Return the share of a delay that is left, the same for all delays of one message, so that they still grow."""
        if not self.jitter:
            return 1
        if not isinstance(identity, (str, bytes)):
            raise ValueError(f"identity: expected the message's, since the plan has jitter, got {identity!r}")
        data = identity.encode("utf-8", "replace") if isinstance(identity, str) else identity
        return 1 - self.jitter * zlib.crc32(data) / 2**32


def exponential_delays_ms(first_ms: int, *, cap_ms: int, factor: float = 2) -> tuple[int, ...]:
    """Return delays that grow by ``factor`` from ``first_ms`` to ``cap_ms``, for ``RetryPlan.delays_ms``.

    They are whole numbers of ms, and each is at least 1 ms longer than the one before.

    Raises ``ValueError`` for a cap below the first delay, and a factor below 1.1 or above 1000.
    """
    _check_whole("first_ms", first_ms, 1, DELAY_MAX_MS)
    _check_whole("cap_ms", cap_ms, first_ms, DELAY_MAX_MS)
    if not isinstance(factor, (int, float)) or not 1.1 <= factor <= 1_000:
        raise ValueError(f"factor: expected a number from 1.1 to 1000, got {factor!r}")
    delays: list[int] = []
    delay: float = first_ms
    while delay < cap_ms:
        delays.append(int(delay))
        delay = max(delay * factor, delays[-1] + 1)
    return (*delays, cap_ms)


def republish_headers(source: MessageSource, *, attempts: int) -> dict[str, Any]:
    """Return the headers with which a consumer publishes a message again, to a wait queue or a parking queue.

    They are the message's own headers and the failed attempts so far, in ``ATTEMPTS_HEADER``,
    which ``death_history`` reads; by AMQP 1.0 they are for the application properties. The
    broker's headers stay behind: until 3.13 they would be counted twice, from 4.0 on not at
    all. CC and BCC stay behind too, or the message would go to their queues as well.

    Args:
        source: anything that ``death_history`` takes.
        attempts: how many attempts have failed: ``attempt`` of the decision.

    Raises:
        TypeError: ``death_history`` does not take ``source``.
        ValueError: ``attempts`` is not a whole number of at least 0.
    """
    _check_whole("attempts", attempts, 0)
    headers = headers_of(source, own=True)
    kept = {name: value for name, value in headers.items() if name not in _NOT_REPUBLISHED}
    return {**kept, ATTEMPTS_HEADER: min(attempts, COUNT_MAX)}


def _counts_carried(name: str | None) -> bool:
    """Return whether a dead letter may carry its delivery count along; without a release, it may."""
    if name is None:
        return True
    from dlx.releases import release  # the table is only needed here

    return release(name).delivery_count_carried != "never"


def _check_history(value: Any) -> None:
    if not isinstance(value, DeathHistory):
        raise TypeError(f"history: expected dlx.death_history(properties), got {value_kind(value)}")


def _check_name(name: str, value: Any, right: str = "a queue's name") -> None:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name}: expected {right}, got {value!r}")


def _check_whole(name: str, value: Any, least: int, most: int | None = None) -> None:
    if isinstance(value, int) and not isinstance(value, bool) and least <= value and (most is None or value <= most):
        return
    right = f"a whole number of at least {least}" if most is None else f"a whole number from {least} to {most}"
    raise ValueError(f"{name}: expected {right}, got {value!r}")
