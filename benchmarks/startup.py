"""How long until there is a server to connect to, in milliseconds: elapsed, and of processor time.

    python benchmarks/startup.py [--runs 10] [--release 4.3] [--live-start 'COMMAND']

In a fresh interpreter ``import simulator``, the first ``simulator.serve()``, which
imports what a server needs, and the next one; and ``dlx serve`` from the shell to
its ready line. Processor time is the better measure on a busy machine.
``--live-start`` is a command that starts a real server and ends when it is ready,
run once to compare, such as ``tests/live/broker start 4.3``.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import time
from pathlib import Path

from figures import Figure
from served import Served

IN_PROCESS = """
import json, time
times = {}
def timed(name, work):
    before = time.perf_counter(), time.process_time()
    result = work()
    times[name] = time.perf_counter() - before[0], time.process_time() - before[1]
    return result
simulator = timed("import simulator", lambda: __import__("simulator"))
for name in "first simulator.serve()", "next simulator.serve()":
    timed(name, lambda: simulator.serve("RELEASE")).stop()
print(json.dumps(times))
"""
Times = tuple[float, float]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--release", default="4.3")
    parser.add_argument("--live-start", metavar="COMMAND")
    options = parser.parse_args()
    print(f"{'':<32}{'elapsed':>10}{'processor':>12}")
    for name, (elapsed, processor) in medians(options.release, options.runs).items():
        print(f"{name:<32}{elapsed:7,.0f} ms{processor:9,.0f} ms")
    if options.live_start:
        started = time.perf_counter()
        subprocess.run(shlex.split(options.live_start), check=True)
        print(f"{'a real server':<32}{1_000 * (time.perf_counter() - started):7,.0f} ms")


def figures() -> list[Figure]:
    """What a few starts take of processor time."""
    (_, imported), (_, first), (_, following), (_, command) = medians("4.3", 3).values()
    imports = imported + first - following
    served = f"{following:.0f} ms of processor time, plus {imports:.0f} ms once for imports"
    by = "`benchmarks/startup.py`"
    return [
        Figure("`simulator.serve()` in a fresh interpreter", "100 ms", served, by),
        Figure("`dlx serve`, from the shell to its ready line", "1 s", f"{command:.0f} ms of processor time", by),
    ]


def medians(release: str, runs: int) -> dict[str, Times]:
    """Milliseconds of each start: elapsed, and of processor time."""
    taken: dict[str, list[Times]] = {}
    for run in range(runs + 1):
        for name, times in once(release).items():
            if run:  # the first warms the disk's cache
                taken.setdefault(name, []).append(times)
    return {
        name: (
            1_000 * statistics.median(each[0] for each in several),
            1_000 * statistics.median(each[1] for each in several),
        )
        for name, several in taken.items()
    }


def once(release: str) -> dict[str, Times]:
    """Seconds of each start: elapsed, and of processor time."""
    program = [sys.executable, "-c", IN_PROCESS.replace("RELEASE", release)]
    printed = subprocess.run(program, check=True, capture_output=True, text=True).stdout
    with Served(release) as server:
        processor_s = processor_seconds(server.pid)
        return {**json.loads(printed), "dlx serve, to its ready line": (server.ready_s, processor_s)}


def processor_seconds(pid: int) -> float:
    """What a process has used so far (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


if __name__ == "__main__":
    main()
