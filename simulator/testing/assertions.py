"""Assertions about dead letters. A failure shows the histories of the messages it is about.

The broker may be the fixture ``dlx_broker``, a server of ``simulator.serve(...,
management_port=0)``, a ``simulator.message_history.RecordingBroker``, or anything that has one
as ``.broker``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias

from dlx.consumer import DeathHistory
from dlx.deaths import REASONS
from simulator.testing.brokers.inspection import PATHS_SHOWN, Inspection, path_of

if TYPE_CHECKING:
    from simulator.broker import Broker as SimulatedBroker
    from simulator.server.in_process import Server
    from simulator.testing.brokers.broker_under_test import Broker


__tracebackhide__ = True  # pytest shows the line of the test instead


class HasBroker(Protocol):
    """Something that has a broker of the simulator, such as a ``Trial``."""

    @property
    def broker(self) -> SimulatedBroker: ...


Checked: TypeAlias = "Broker | Server | SimulatedBroker | HasBroker"
"""What can be checked: the fixture, a server, and a broker that records, or what has one."""


def assert_dead_lettered(broker: Checked, *, to: str, reason: str | None = None, times: int | None = None) -> None:
    """Assert that dead letters are in the queue ``to``, ready to be delivered.

    On a real server this waits up to five seconds for them. An empty queue has to stay
    empty for a second, another number has to be seen twice; later messages are missed.
    It reads the messages and gives them back, so they are redelivered afterwards, and a
    quorum queue counts that.

    Args:
        broker: the broker.
        to: the name of the queue.
        reason: of their last death: ``rejected``, ``expired``, ``maxlen`` or ``delivery_limit``; by default any.
        times: how many they are, exactly; by default at least one.

    Raises:
        AssertionError: they are not there, or not as many, or there is no such queue.
        TypeError: ``times`` is not a whole number.
        ValueError: there is no such reason, or ``times`` is negative.
        RuntimeError: the broker is stopped.
    """
    if reason is not None and reason not in REASONS:
        raise ValueError(f"expected a reason of {', '.join(REASONS)}, got {reason!r}")
    if times is not None:
        _check_times(times)
    inspection = inspect(broker)
    wrong = inspection.wait_until_right(lambda: _not_there(inspection, to, reason, times), times)
    if wrong:
        _fail(wrong, inspection.evidence())


def assert_nothing_lost(broker: Checked) -> None:
    """Assert that every copy that was routed to a queue is still in one, or was acknowledged.

    A publish that was returned, unroutable or refused by a full queue is not a loss: its
    publisher can know. A message that a consumer rejects where there is no dead-letter
    exchange is a loss, and so is a purged message.

    A real server has counters only. They are compared once they are up to date, which
    takes six seconds or more: how often publishes were routed to queues, how many
    copies were acknowledged, how many are left. That does not show which message was lost,
    or that a dead letter that went to two queues makes up for a lost copy. Publishes that a
    full queue refused count as lost, and the counters of deleted queues are not seen.

    Raises:
        AssertionError: a copy was lost.
        ValueError: the histories of the first messages are not kept, so nobody can tell.
        RuntimeError: the broker is stopped.
    """
    lost = inspect(broker).losses()
    if lost:
        _fail(["expected that nothing is lost, but:"], lost)


def assert_settles(broker: Checked, *, within: timedelta | float) -> None:
    """Assert that the broker, left alone for ``within``, comes to rest: after that, nothing happens to any message.

    On the simulator the time is virtual, and it has passed afterwards; what would
    happen later is tried on a copy. On a real server this returns when the depths of
    all queues have stayed the same for a second, or for ``within`` if that is shorter;
    it does not see what a longer time to live still holds back.

    Args:
        broker: the broker.
        within: a ``timedelta``, or seconds.

    Raises:
        AssertionError: something still happens.
        TypeError: ``within`` is not a time.
        ValueError: ``within`` is negative or infinite, or ends after the year 9999.
        RuntimeError: the broker is stopped.
    """
    span = _span(within)
    unrest = inspect(broker).unrest(span // timedelta(microseconds=1))
    if unrest:
        _fail([f"expected the broker to come to rest within {span.total_seconds():g} s, but then:"], unrest)


def _check_times(times: int) -> None:
    if isinstance(times, bool) or not isinstance(times, int):
        raise TypeError(f"expected times to be a whole number, got {times!r}")
    if times < 0:
        raise ValueError(f"expected times to be 0 or more, got {times}")


def _span(within: timedelta | float) -> timedelta:
    if isinstance(within, bool) or not isinstance(within, timedelta | int | float):
        raise TypeError(f"expected within to be a timedelta or seconds, got {within!r}")
    try:
        span = within if isinstance(within, timedelta) else timedelta(seconds=within)
    except (OverflowError, ValueError):
        raise ValueError(f"expected within to be a finite time, got {within!r}") from None
    if span < timedelta(0):
        raise ValueError(f"expected within to be a time that is not negative, got {within!r}")
    return span


def _not_there(inspection: Inspection, to: str, reason: str | None, times: int | None) -> list[str]:
    """Return lines that say what is wrong with the dead letters in the queue; no lines if nothing is."""
    contents = inspection.contents(to)
    if contents is None:  # waiting for it is no use
        _fail([_not_readable(to, inspection.queues())], inspection.evidence())
    fitting: list[DeathHistory] = []
    others: list[DeathHistory] = []
    for history in contents.histories:
        fits = history and reason in (None, _last_reason(history))
        (fitting if fits else others).append(history)
    if len(fitting) == times or (times is None and fitting):
        return []
    wanted = "at least 1 dead letter" if times is None else f"{times} dead letter{'s' * (times != 1)}"
    why = f" ({reason})" if reason else ""
    return [f"expected {wanted}{why} in the queue {to!r}, found {len(fitting)}", *_besides(others, contents.others)]


def _not_readable(to: str, queues: list[str]) -> str:
    if to in queues:
        return f"expected dead letters in the queue {to!r}, but it is exclusive: only its own connection can read it"
    known = f"the queues are {', '.join(map(repr, queues))}" if queues else "there are no queues"
    return f"expected dead letters in the queue {to!r}, but it does not exist; {known}"


def _last_reason(history: DeathHistory) -> str:
    return history.deaths[0].reason


def _besides(others: list[DeathHistory], unready: int | None) -> list[str]:
    """Return lines that say what else is in the queue."""
    paths = Counter(path_of(history) for history in others if history)
    lines = [f"also there: {path}{f' ({count} times)' * (count > 1)}" for path, count in paths.most_common(PATHS_SHOWN)]
    if len(paths) > PATHS_SHOWN:
        lines.append(f"also there: dead letters that came on {len(paths) - PATHS_SHOWN:,} more paths")
    alive = sum(not history for history in others)
    if alive:
        lines.append(f"also there: {alive} that did not die")
    if unready:
        lines.append(f"also there: {unready} that {'is' if unready == 1 else 'are'} not ready")
    return lines


def _fail(wrong: Iterable[str], evidence: Iterable[str]) -> NoReturn:
    raise AssertionError("\n".join([*wrong, *evidence]))


# Inspects whatever broker the assertions are given: simulated or real.


def inspect(broker: Any) -> Inspection:
    """Return the inspection of a broker that the assertions accept. Raises ``TypeError`` for anything else."""
    # Imported here: whoever tests on the simulator needs no client, and on a server no simulator.
    from simulator.testing.brokers.running_server import ServerBroker

    if isinstance(broker, ServerBroker):
        from simulator.testing.brokers.inspect_server import ServerInspection

        return ServerInspection(broker)
    from simulator.testing.brokers.inspect_simulator import SimulatorInspection, subject

    return SimulatorInspection(subject(broker))
