"""Times of a play as they follow from the moments of its message."""

from __future__ import annotations

from simulator.whatif.time_constraints import TimePlanner, Timetable

END_US = 1_000
TTLS_US = {("/", "wait"): 100}


def timetable() -> Timetable:
    """Published at 10, rejected at 30 into a queue with a TTL, delivered in the log 25 after that."""
    planner = TimePlanner([10, 30, 55, END_US], {10: 0, 30: 1, 55: 2}, 3, TTLS_US)
    planner.at(10)
    planner.as_late(10, 10, 30)
    planner.came(("/", "wait"), 30)
    planner.as_late(30, 30, 55)
    planner.happens(55)
    assert planner.sure
    return planner.timetable({})


def test_other_moments_have_their_own_sums() -> None:
    found = timetable().times((210, 270, 290, END_US))
    assert found is not None
    assert found[4:] == [270 + 100]


def test_another_order_of_what_was_planned_is_another_play() -> None:
    """A delivery when the TTL has ended is another play, and so is one in the moment in which it ends."""
    assert timetable().times((10, 30, 129, END_US)) is not None
    assert timetable().times((10, 30, 130, END_US)) is None
    assert timetable().times((10, 30, 131, END_US)) is None


def test_the_end_of_the_log_is_planned() -> None:
    assert timetable().times((10, 30, 55, 130)) is None


def test_a_time_that_nobody_planned_is_not_sure() -> None:
    planner = TimePlanner([10, 30, END_US], {10: 0, 30: 1}, 2, TTLS_US)
    planner.at(10)
    planner.happens(30)
    assert not planner.sure
