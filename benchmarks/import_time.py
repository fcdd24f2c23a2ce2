"""What ``import dlx`` costs a consumer, in median milliseconds of a fresh interpreter.

    python benchmarks/import_time.py [--runs N]

The interpreter's own start is measured beside it; the difference is the price.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

PROGRAMS = {
    "python -c pass": "pass",
    "import dlx": "import dlx",
    "dlx.death_history({})": "import dlx; dlx.death_history({})",
}


def measured_ms(runs: int) -> dict[str, float]:
    """The median of each program, run in turn so that a busy moment hits all of them."""
    taken: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for run in range(runs + 1):
        for name, code in PROGRAMS.items():
            started = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            if run:  # the first warms the disk's cache
                taken[name].append(1_000 * (time.perf_counter() - started))
    return {name: statistics.median(times) for name, times in taken.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What `import dlx` costs a consumer.")
    parser.add_argument("--runs", type=int, default=20, metavar="N", help="runs of each program (20)")
    medians = measured_ms(parser.parse_args().runs)
    base = next(iter(medians.values()))
    for name, ms in medians.items():
        print(f"{name:<24}{ms:8.1f} ms{ms - base:+8.1f} ms")


if __name__ == "__main__":
    main()
