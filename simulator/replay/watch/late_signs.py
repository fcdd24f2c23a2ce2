"""What a watcher has seen of late rows so far: more than one step shows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from dlx.deaths import EXPIRED
from simulator.replay.late_rows import estimated
from simulator.replay.lateness import NOT_LATE, Lateness

KEPT_US = 3_600_000_000
"""How long before the last row signs are kept."""
_SECOND_US = 1_000_000


class Waited(msgspec.Struct):
    """How many messages of a queue waited for their TTL, and when the first and the last of them were delivered."""

    vhost: str
    queue: str
    deaths: int
    from_us: int
    until_us: int


class LateSigns(msgspec.Struct):
    """The signs of late rows, as ``late_rows.estimated`` takes them.

    Attributes:
        from_us, until_us: the times of the first row and the last.
        shown: by file and second of a death, the row that showed it first.
        misfits: what times refuted, by file and line.
        waited: by virtual host and queue, what waited for its TTL.
    """

    from_us: int = 0
    until_us: int = 0
    shown: dict[str, dict[int, int]] = {}
    misfits: dict[str, dict[int, dict[str, Any]]] = {}
    waited: dict[str, Waited] = {}

    def read(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Take note of rows of the log."""
        for row in rows:
            time_us = row["time_us"]
            self.from_us = min(self.from_us or time_us, time_us)
            self.until_us = max(self.until_us, time_us)
            died_s = max((each for each in row["x_death_times"] or () if each is not None), default=None)
            if died_s is not None and died_s * _SECOND_US <= time_us:
                of_file = self.shown.setdefault(row["file"], {})
                of_file[died_s] = min(of_file.get(died_s, time_us), time_us)

    def judged(self, verdicts: Iterable[Mapping[str, Any]]) -> bool:
        """Take note of verdicts on rows that had none before; tell whether times refute any of them."""
        found = False
        for row in verdicts:
            if row["misfit"] is not None:
                found = True
                names = ("file", "vhost", "time_us")
                misfit = {name: row[name] for name in names} | row["misfit"]
                self.misfits.setdefault(row["file"], {})[row["line"]] = misfit
            elif row["verdict"] in ("agree", "ambiguous") and row["new_hops"]:
                for hop in row["hops"][-row["new_hops"] :]:
                    if hop["reason"] == EXPIRED:
                        self._waited(row["vhost"], hop["queue"], row["time_us"])
        return found

    def _waited(self, vhost: str, queue: str, time_us: int) -> None:
        known = self.waited.setdefault(f"{vhost}\n{queue}", Waited(vhost, queue, 0, time_us, time_us))
        known.deaths += 1
        known.from_us, known.until_us = min(known.from_us, time_us), max(known.until_us, time_us)

    def lateness(self) -> Lateness:
        """Return how late rows may be, as far as that shows by now, and forget what is long ago."""
        since_us = self.until_us - KEPT_US
        for file, of_file in self.shown.items():
            self.shown[file] = {died: shown_us for died, shown_us in of_file.items() if shown_us >= since_us}
        for file, of_lines in self.misfits.items():
            self.misfits[file] = {line: row for line, row in of_lines.items() if row["time_us"] >= since_us}
        misfits = [row for of_lines in self.misfits.values() for row in of_lines.values()]
        if not misfits:
            return NOT_LATE
        shown = [
            {"file": file, "died_s": died_s, "shown_us": shown_us}
            for file, of_file in self.shown.items()
            for died_s, shown_us in of_file.items()
        ]
        waited = map(msgspec.structs.asdict, self.waited.values())
        return estimated(misfits, shown, waited, (self.from_us, self.until_us))
