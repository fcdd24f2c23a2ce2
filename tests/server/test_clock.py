"""Wall time and virtual time."""

from __future__ import annotations

import pytest

from simulator.clock import VirtualClock, WallClock, duration_us


def test_virtual_time_stands_still_until_it_is_moved() -> None:
    clock = VirtualClock(start_us=1_000)
    assert clock.now_us() == clock.now_us() == 1_000
    assert clock.wait_s(1_001) is None
    assert clock.wait_s(1_000) == 0
    assert clock.advance(days=1, hours=1, minutes=1, seconds=1, milliseconds=1) == 1_000 + 90_061_001_000
    assert clock.now_us() == 90_061_002_000


def test_virtual_time_jumps_forward_only() -> None:
    clock = VirtualClock(start_us=1_000)
    assert clock.jump(5_000)
    assert clock.now_us() == 5_000
    assert not clock.jump(4_000)
    assert not clock.jump(None)
    assert clock.now_us() == 5_000


def test_virtual_time_can_run() -> None:
    clock = VirtualClock(start_us=0, rate=3600)
    first, second = clock.now_us(), clock.now_us()
    assert second > first
    wait_s = clock.wait_s(clock.now_us() + 3_600_000_000)
    assert wait_s is not None
    assert 0.5 < wait_s <= 1


def test_wall_time_never_goes_back() -> None:
    clock = WallClock()
    times = [clock.now_us() for _ in range(1000)]
    assert times == sorted(times)
    assert times[0] > 1_700_000_000_000_000
    assert clock.wait_s(times[0]) == 0
    wait_s = clock.wait_s(clock.now_us() + 10_000_000)
    assert wait_s is not None
    assert 9 < wait_s <= 10


def test_time_is_not_turned_back() -> None:
    with pytest.raises(ValueError, match="forward"):
        VirtualClock().advance(hours=-1)
    with pytest.raises(ValueError, match="rate"):
        VirtualClock(rate=-1)
    assert duration_us(hours=1.5) == 5_400_000_000
