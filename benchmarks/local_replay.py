"""How long ``dlx replay`` takes without Spark, from the shell: elapsed seconds, and memory at its most.

    python benchmarks/local_replay.py [--events 200000] [--runs 3]

The captured example with and without its report; and generated logs, of messages that resemble each
other and of messages of which hardly two are alike (the ratio of the two is the last figure). Each is
the median of some runs; start and imports are included.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from simulator.generate import Wish, generate

EXAMPLE = Path(__file__).parent.parent / "examples" / "captured-4.3"
DEFINITIONS = EXAMPLE / "definitions.json"
DLX = (sys.executable, "-m", "simulator.cli.main")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dlx-benchmark-") as name:
        folder = Path(name)
        example = [EXAMPLE / "trace.log.gz"]
        show("the captured example", *measured(example, options.runs))
        show("the captured example, with its report", *measured(example, options.runs, folder / "out"))
        rates = []
        for diversity in ("low", "high"):
            logs = folder / diversity
            logs.mkdir()
            generate(Wish(DEFINITIONS.read_bytes(), options.events, diversity=diversity), logs)
            seconds, megabytes = measured(sorted(logs.glob("log-*.parquet")), options.runs)
            rates.append(options.events / seconds)
            show(f"{options.events:,} events, diversity {diversity}", seconds, megabytes, f"{rates[-1]:>10,.0f} rows/s")
        print(f"diverse relative to alike: {rates[1] / rates[0]:.2f}")


def measured(logs: list[Path], runs: int, out: Path | None = None) -> tuple[float, float]:
    """The median of the seconds, and of the megabytes, that a replay takes."""
    command = [*DLX, "replay", *map(str, logs), "--definitions", str(DEFINITIONS), "--engine", "local", "--json"]
    both = [once([*command, *([] if out is None else ["--out", str(out)])]) for _ in range(runs)]
    return statistics.median(each[0] for each in both), statistics.median(each[1] for each in both)


def once(command: list[str]) -> tuple[float, float]:
    """The seconds and megabytes of a command."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return time.perf_counter() - began, used.ru_maxrss / 1024


def show(what: str, seconds: float, megabytes: float, more: str = "") -> None:
    """Print a line."""
    print(f"{what:<45}{seconds:>8.2f} s{megabytes:>8,.0f} MB{more}", flush=True)


if __name__ == "__main__":
    main()
