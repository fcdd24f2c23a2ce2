"""What a replay spends on looking at a log as it comes: damage before it, and periods of definitions.

    python benchmarks/replay_looks.py [--events 200000] [--runs 3]

Two generated logs, one of similar messages and one of messages that hardly repeat, are replayed in
this process, the sides in turn. ``overview`` looks for rows that stand twice or out of order, and counts rows by their
places; the replay without it does nothing instead. ``late_bindings`` looks for bindings that were added later. With two
periods, the same definitions hold from the middle of the log on. The ratios of the medians are the figures.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from simulator.definitions import Definitions, read_definitions
from simulator.generate import Wish, generate
from simulator.replay import run
from simulator.replay.engines.local import local_engine
from simulator.replay.rows.damage import Overview

DEFINITIONS = Path(__file__).parent.parent / "examples" / "captured-4.3" / "definitions.json"
WITHOUT: dict[str, dict[str, Any]] = {
    "as it is": {},
    "without overview": {"overview": lambda *_: Overview()},
    "without late_bindings": {"late_bindings": lambda *_: ()},
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    definitions = read_definitions(DEFINITIONS)
    for diversity in ("low", "high"):
        with tempfile.TemporaryDirectory(prefix="dlx-benchmark-") as folder:
            generate(Wish(DEFINITIONS.read_bytes(), options.events, diversity=diversity), Path(folder))
            logs = sorted(Path(folder).glob("log-*.parquet"))
            replay_s(logs, definitions)  # so that no side pays for imports
            rounds = [dict(one_round(logs, definitions)) for _ in range(options.runs)]
        medians = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
        print(f"{options.events:,} events, diversity {diversity}")
        for name, seconds in medians.items():
            times = seconds / medians["as it is"]
            print(f"  {name:<24}{seconds:8.2f} s of processor time  {times:6.3f} times as it is")


def one_round(logs: Sequence[Path], definitions: Definitions) -> Iterator[tuple[str, float]]:
    """Yield the seconds of each side."""
    for name, instead in WITHOUT.items():
        with replaced(instead):
            yield name, replay_s(logs, definitions)
    yield "two periods", replay_s(logs, definitions, periods=2)


@contextmanager
def replaced(instead: dict[str, Any]) -> Iterator[None]:
    """Have a replay do something else in the place of some steps."""
    with ExitStack() as stack:
        for name, step in instead.items():
            stack.enter_context(patch.object(run, name, step))
        yield


def replay_s(logs: Sequence[Path], definitions: Definitions, periods: int = 1) -> float:
    """The seconds of processor time that a replay takes."""
    with tempfile.TemporaryDirectory(prefix="dlx-benchmark-") as name:
        work, began = Path(name), time.process_time()
        prepared = run.prepare(logs, work, definitions=definitions)
        middle_us = (prepared.from_us + prepared.until_us) // 2
        changes = [(middle_us, definitions)] * (periods - 1)
        with local_engine(work) as engine:
            run.run_replay(engine, prepared, definitions, work, rules="4.3", changes=changes)
        return time.process_time() - began


if __name__ == "__main__":
    main()
