"""The checked-in captures, and the list of the rules that each exercises.

    python -m tests.replay.exercised        write the lists again, and say what has changed

A capture that is recorded again, or a change of the replay, must not lose a rule unnoticed: the test compares.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from simulator.capture import open_log
from simulator.definitions import Definitions, read_definitions
from simulator.replay import replay_table
from simulator.replay.coverage.totals import Coverage, table_coverage

ROOT = Path(__file__).parents[2]
LISTED = Path(__file__).with_name("exercised.json")


class Capture(NamedTuple):
    """A log of a real server with its definitions, and the release that wrote it."""

    folder: str
    release: str

    @property
    def log(self) -> Path:
        return ROOT / self.folder / "trace.log.gz"

    @property
    def definitions(self) -> Definitions:
        return read_definitions(ROOT / self.folder / "definitions.json")

    def replayed(self) -> pa.Table:
        return replay_table(open_log(self.log), self.definitions, self.release)

    def coverage(self) -> Coverage:
        return table_coverage(self.replayed(), self.definitions, self.release)


CAPTURES = (
    Capture("examples/captured-3.10", "3.10"),
    Capture("examples/captured-4.3", "4.3"),
    Capture("tests/replay/captures/3.8", "3.8"),
    Capture("tests/replay/captures/3.10", "3.10"),
    Capture("tests/replay/captures/4.3", "4.3"),
)


def listed() -> dict[str, list[str]]:
    """The rules that each capture is known to exercise, by its folder."""
    found: dict[str, list[str]] = json.loads(LISTED.read_text(encoding="utf-8"))
    return found


def write() -> None:
    """Write the lists again."""
    before = listed() if LISTED.exists() else {}
    now = {each.folder: [name for name, is_in in each.coverage().by_rule.items() if is_in] for each in CAPTURES}
    LISTED.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
    for folder, rules in now.items():
        known = before.get(folder, [])
        print(folder, len(rules), "new:", sorted({*rules} - {*known}), "lost:", sorted({*known} - {*rules}))


if __name__ == "__main__":
    write()
