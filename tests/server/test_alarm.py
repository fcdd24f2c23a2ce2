"""When the queues are measured: an alarm comes soon after they hold too much, in whatever pieces bytes come in."""

from __future__ import annotations

import pytest

from simulator.broker import Broker
from simulator.server.alarm import Alarm

LIMIT = 1 << 20


@pytest.mark.parametrize("chunk", [10_000, 65_536, 262_144, 1_048_000])
def test_it_comes_soon_after_the_limit(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The queues hold a little less than what came in: frames, and what is still on its way."""
    alarm, came = Alarm(Broker("4.3"), LIMIT), 0
    monkeypatch.setattr(alarm, "held_bytes", lambda: came - 50_000)
    while not alarm.check():
        came += chunk
        alarm.received(chunk)
        assert came <= LIMIT + 50_000 + LIMIT // 16 + 2 * chunk
    assert alarm.active


def test_the_queues_are_not_measured_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    alarm, measured = Alarm(Broker("4.3"), LIMIT), 0

    def nearly_full() -> int:
        nonlocal measured
        measured += 1
        return LIMIT

    monkeypatch.setattr(alarm, "held_bytes", nearly_full)
    for _ in range(2_000):
        alarm.received(1_048)
        assert not alarm.check()
    assert 1 < measured <= 17
