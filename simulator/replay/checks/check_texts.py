"""Says in words what times and lengths refute or leave unchecked, with the queue and the setting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dlx.delays import X_DELAY
from dlx.delivery_counts import X_DELIVERY_COUNT
from dlx.message_flow import Hop
from dlx.settings import MESSAGE_TTL, Settings
from simulator.replay.checks.differences import ABSENT
from simulator.replay.checks.lengths import limit_text
from simulator.replay.checks.times import (
    DIED_EARLY,
    HOPS_MARKED_MAX,
    NOT_AGAIN,
    NOT_NEW,
    OTHER_TIME,
    TOO_EARLY,
    TOO_FEW,
    UNDELAYED,
    WRONG_TIME,
    HopMarks,
    Refutation,
)
from simulator.replay.rows.verdict_words import Difference, Unchecked
from simulator.time_spans import moment

OWN_TTL = "expiration of the message"
_MS_US = 1_000


def difference(fault: Refutation, hop: Hop | None, settings: Settings) -> Difference:
    """Return the difference for a path that the times refute.

    ``hop`` is the death that does not fit, ``None`` for the delivery; ``settings`` are those of its queue.
    """
    queue = settings.queue.name
    if fault.kind == OTHER_TIME:
        expected = f"{moment(fault.asked)}, as in the delivery before"
        return Difference(f"x-death[{fault.place}].time", expected, moment(fault.found))
    if fault.kind == NOT_NEW:
        expected = "true: every copy that came into the queue was delivered before"
        return Difference("redelivered", expected, "false")
    if fault.kind == NOT_AGAIN:
        return Difference(X_DELIVERY_COUNT, f"1 or more: it is redelivered from the quorum queue '{queue}'", ABSENT)
    if fault.kind == WRONG_TIME:
        reason = "" if hop is None else f"{hop.reason} "
        field = f"x-death time of {reason}in '{queue}'"
        return Difference(field, f"{moment(fault.asked)} or later", f"{moment(fault.found)} or earlier")
    if fault.kind == TOO_FEW:
        what = "messages" if settings.max_length is not None else "bytes"
        expected = f"more than {fault.asked:,} ({limit_text(settings)})"
        return Difference(f"{what} in '{queue}'", expected, f"at most {fault.found:,}")
    if fault.kind == UNDELAYED:
        return Difference(f"{X_DELAY} before '{queue}'", f"at least {_ms(fault.asked)}", f"at most {_ms(fault.found)}")
    early = fault.kind in (TOO_EARLY, DIED_EARLY)
    first, then = ("at least", "at most") if early else ("at most", "at least")
    expected = f"{first} {_ms(fault.asked)} ({_which(settings, fault.asked)})"
    return Difference(f"time in '{queue}'", expected, f"{then} {_ms(max(fault.found, 0))}")


def unchecked(
    hops: tuple[Hop, ...], queue: str, settings: Mapping[str, Settings], marks: HopMarks, tolerance_ms: float
) -> Iterator[Unchecked]:
    """Yield what is unchecked of a path: the deaths that have a mark, each with its setting, and the delivery.

    ``queue`` is where it was delivered from.
    """
    for place, hop in enumerate(hops):
        bit, of_queue = 1 << min(place, HOPS_MARKED_MAX), settings[hop.queue]
        if marks.untested & bit:
            short = of_queue.message_ttl_ms is not None and of_queue.message_ttl_ms <= tolerance_ms
            ttl = _ttl(of_queue) if short else OWN_TTL
            yield Unchecked("message-ttl", hop.queue, f"{ttl}, not above the tolerance of {tolerance_ms:g} ms")
        if marks.hidden & bit:
            yield Unchecked("message-ttl", hop.queue, f"{_ttl(of_queue)}; the rows may be too late to show it")
        if marks.late & bit:
            yield Unchecked("message-ttl", hop.queue, f"{_ttl(of_queue)}; it died later than that")
        if marks.unfilled & bit:
            why = f"{limit_text(of_queue)}; the log shows fewer messages there"
            yield Unchecked("max-length", hop.queue, why)
    if marks.late & 1 << min(len(hops), HOPS_MARKED_MAX) and len(hops) <= HOPS_MARKED_MAX:
        yield Unchecked("message-ttl", queue, f"{_ttl(settings[queue])}; it was delivered later than that")
    if marks.flag:
        yield Unchecked("redelivered", queue, "the log does not show how many copies came, or no delivery before it")


def _ttl(settings: Settings) -> str:
    setting = settings.values.get(MESSAGE_TTL)
    return OWN_TTL if setting is None else str(setting)


def _which(settings: Settings, ttl_us: int) -> str:
    """Return which of the two TTLs counted: that of the queue, unless the message had a smaller one."""
    of_queue = settings.message_ttl_ms
    return _ttl(settings) if of_queue is not None and of_queue * _MS_US == ttl_us else OWN_TTL


def _ms(duration_us: int) -> str:
    return f"{duration_us // _MS_US:,} ms"
