"""What a test says of dead letters. A failure tells the lives of the messages it is about.

The broker may be the fixture ``dlx_broker``, a server of ``simulator.serve(...,
management_port=0)``, a ``simulator.lives.RecordingBroker``, or anything that has one
as ``.broker``.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from dlx.consumer import DeathHistory
from dlx.deaths import REASONS
from simulator.testing.inspection import Contents, Inspection, inspect


def assert_dead_lettered(broker: Any, *, to: str, reason: str | None = None, times: int | None = None) -> None:
    """Dead letters are in the queue ``to``, ready to be delivered.

    On a real server this waits up to five seconds for them. It reads them and gives
    them back, so they are redelivered afterwards, and a quorum queue counts that.

    Args:
        broker: the broker.
        to: the name of the queue.
        reason: of their last death: ``rejected``, ``expired``, ``maxlen`` or ``delivery_limit``; by default any.
        times: how many they are, exactly; by default at least one.

    Raises:
        AssertionError: they are not there, or not as many.
        ValueError: there is no such reason, or ``times`` is negative.
    """
    __tracebackhide__ = True
    if reason is not None and reason not in REASONS:
        raise ValueError(f"expected a reason of {', '.join(REASONS)}, got {reason!r}")
    if times is not None and times < 0:
        raise ValueError(f"expected times to be 0 or more, got {times}")
    inspection = inspect(broker)
    wrong: list[str] = []
    for _ in inspection.attempts():
        wrong = _not_there(inspection, to, reason, times)
        if not wrong:
            return
    _fail(wrong, inspection.evidence())


def assert_nothing_lost(broker: Any) -> None:
    """Every copy that was routed to a queue is still in one, or was acknowledged.

    A publish that was returned, unroutable or refused by a full queue is no loss: its
    publisher can know. A message that a consumer rejects where there is no dead-letter
    exchange is one, and so is what is purged.

    A real server has counters only. They are compared once they are up to date, which
    takes six seconds or more: how often publishes were routed to queues, how many
    copies were acknowledged, how many are left. That does not see who was lost; that a
    lost copy is outweighed by a dead letter that went to two queues; publishes that a
    full queue refused, which count as lost; nor the counters of queues that were deleted.

    Raises:
        AssertionError: a copy was lost.
        ValueError: the lives of the first messages are not kept, so nobody can tell.
    """
    __tracebackhide__ = True
    lost = inspect(broker).losses()
    if lost:
        _fail(["expected that nothing is lost, but:"], lost)


def assert_settles(broker: Any, *, within: timedelta | float) -> None:
    """Left alone for ``within``, the broker comes to rest: after it, nothing happens to any message.

    On the simulator the time is virtual, and it has passed afterwards; what would
    happen later is tried on a copy. On a real server this returns when the depths of
    all queues have stayed the same for a second; it does not see what a longer time to
    live still holds back.

    Args:
        broker: the broker.
        within: a ``timedelta``, or seconds.

    Raises:
        AssertionError: something still happens.
        ValueError: ``within`` is negative.
    """
    __tracebackhide__ = True
    span = within if isinstance(within, timedelta) else timedelta(seconds=within)
    if span < timedelta(0):
        raise ValueError(f"expected a time that is not negative, got {within!r}")
    unrest = inspect(broker).unrest(span // timedelta(microseconds=1))
    if unrest:
        _fail([f"expected the broker to come to rest within {span.total_seconds():g} s, but then:"], unrest)


def _not_there(inspection: Inspection, to: str, reason: str | None, times: int | None) -> list[str]:
    """What is wrong with the dead letters in the queue, in lines; none when nothing is."""
    contents = inspection.contents(to)
    if contents is None:
        known = ", ".join(map(repr, inspection.queues()))
        return [f"expected dead letters in the queue {to!r}, but there is none; the queues are {known or 'none'}"]
    fitting = [history for history in contents.histories if history and reason in (None, _last_reason(history))]
    if len(fitting) == times or (times is None and fitting):
        return []
    wanted = "at least 1 dead letter" if times is None else f"{times} dead letter{'s' * (times != 1)}"
    why = f" ({reason})" if reason else ""
    return [f"expected {wanted}{why} in the queue {to!r}, found {len(fitting)}", *_besides(contents, fitting)]


def _last_reason(history: DeathHistory) -> str:
    return history.deaths[0].reason


def _besides(contents: Contents, fitting: list[DeathHistory]) -> list[str]:
    """What else is in the queue."""
    others = [history for history in contents.histories if history not in fitting]
    alive = sum(not history for history in others)
    lines = [f"also there: {history.path}" for history in others if history]
    if alive:
        lines.append(f"also there: {alive} that did not die")
    if contents.others:
        lines.append(f"also there: {contents.others} that {'is' if contents.others == 1 else 'are'} not ready")
    return lines


def _fail(wrong: Iterable[str], evidence: Iterable[str]) -> None:
    __tracebackhide__ = True
    raise AssertionError("\n".join([*wrong, *evidence]))
