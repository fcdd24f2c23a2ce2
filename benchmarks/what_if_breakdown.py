"""Where ``dlx whatif`` spends its processor time: each step of a question, beside one replay of the same log.

    python benchmarks/what_if_breakdown.py [--rounds 3] [--rows 10000]

The logs and questions are those of ``what_if_speed.py``. A round does everything once, in an order that turns
from round to round; printed is the median of each step, in seconds, and relative to one replay.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

from what_if_speed import ROWS, Question, cpu_s, questions

from simulator.capture import SCHEMA
from simulator.replay import replay_files
from simulator.replay.engines.gc_tuning import seldom_collecting
from simulator.replay.rows.tables import select
from simulator.whatif.both_sides import Playbacks, compare
from simulator.whatif.local import read_log, what_if_files
from simulator.whatif.log import Captured
from simulator.whatif.sides import prepared, side_of
from simulator.whatif.stories import Story

RELEASE = "4.3"
REPLAY = "one replay by itself"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=ROWS)
    options = parser.parse_args()
    for asking in questions(options.rows):
        steps = Steps(asking)
        rounds = [measured(steps.all(), number) for number in range(options.rounds)]
        found = {what: statistics.median(each[what] for each in rounds) for what in rounds[0]}
        print(f"{asking.what}: {steps.messages:,} messages, {len(asking.log.to_list()):,} rows")
        for what, seconds in found.items():
            print(f"  {what:<62}{seconds:>8.2f} s{seconds / found[REPLAY]:>8.2f}", flush=True)


def measured(steps: dict[str, Callable[[], object]], turn: int) -> dict[str, float]:
    """Do each step once, beginning with another one each turn, and return what it took in their own order."""
    names = list(steps)
    first = turn % len(names)
    with seldom_collecting():  # as the commands do
        took = {what: cpu_s(steps[what]) for what in names[first:] + names[:first]}
    return {what: took[what] for what in names}


class Steps:
    """The steps of a question. Each can be done by itself: what those before it give is made beforehand."""

    def __init__(self, asking: Question) -> None:
        _, self.log, one, other, self.work, _ = asking
        self.sides = side_of(one, RELEASE), side_of(other, RELEASE)
        self.prepared = self._prepare()
        self.stories = self._read()
        self.messages = len(self.stories)

    def all(self) -> dict[str, Callable[[], object]]:
        """Return the steps, by what they are."""
        return {
            "the rows into Python, and nothing else": self._rows,
            REPLAY: self._replay,
            "both sides as brokers take them, and two brokers": self._prepare,
            "replay, and the stories of all messages": self._read,
            "both plays of all messages": self._play,
            "the whole question": lambda: what_if_files(self.log, *self.sides),
        }

    def _rows(self) -> object:
        found = select(f"SELECT {', '.join(SCHEMA.names)} FROM {{log}} ORDER BY vhost, message, time_us", log=self.log)
        return sum(1 for _ in found.rows())

    def _replay(self) -> object:
        return replay_files(self.log, self.sides[0].definitions, RELEASE, verdicts=self.work / "verdicts.parquet")

    def _prepare(self) -> tuple:
        found = tuple(prepared(side) for side in self.sides)
        for side in found:
            side.broker  # noqa: B018 (made once)
        return found

    def _read(self) -> list[Story]:
        return read_log(self.log, self.prepared[0])

    def _play(self) -> object:
        log = Captured.of(self.log).overview.log(self.prepared[0])
        return compare(self.stories, Playbacks(*self.prepared, "ack", log))


if __name__ == "__main__":
    main()
