"""What a step costs does not grow with what the state holds."""

from __future__ import annotations

from pathlib import Path

from simulator.replay.watch.state import WatchState

DUE = 10


def instructions_of_a_step(folder: Path, messages: int) -> int:
    """Return how many instructions SQLite runs to find the rows of ten messages among so many."""
    ran = 0

    def count() -> None:
        nonlocal ran
        ran += 1

    with WatchState(folder, "test") as state:
        state.add((f"/\nm-{number}", 0, "log", number, "", "", None, None, None, 0, 1, 0) for number in range(messages))
        state.add((f"/\nm-{number}", 1, "log", number, "", "", None, None, None, 1, 0, 0) for number in range(DUE))
        state._database.set_progress_handler(count, 1)
        rows = state.due(1, 1_000)
        state._database.set_progress_handler(None, 1)
    assert len(rows) == 2 * DUE
    return ran


def test_rows_that_are_due_are_found_without_reading_the_others(tmp_path: Path) -> None:
    """A watch of days holds millions of rows, of which a step judges few."""
    few, many = (instructions_of_a_step(tmp_path / str(each), each) for each in (100, 10_000))
    assert many < 2 * few
