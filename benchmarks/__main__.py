"""Run the benchmarks at small sizes, and put what they found into the table of docs/evidence/performance.md.

    python -m benchmarks [startup import_speed …]

Those beside a live server run where DLX_LIVE_SERVERS names a 4.3. Rows that this run does not measure stay as they are.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # each benchmark is a script as well, and finds the others beside it

from figures import Figure, show, with_figures  # noqa: E402

DOCUMENT = HERE.parent / "docs" / "evidence" / "performance.md"
WITH_FIGURES = (
    "startup",
    "import_speed",
    "idle_memory",
    "routing_speed",
    "broker_speed",
    "delayed_speed",
    "broker_at_scale",
    "what_if_speed",
    "record_speed",
)


def main() -> None:
    """Measure, print, and write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"leave the others out: {', '.join(WITH_FIGURES)}")
    names = parser.parse_args().names
    if unknown := sorted({*names} - {*WITH_FIGURES}):
        parser.error(f"no benchmark with figures is called {', '.join(unknown)}; there are {', '.join(WITH_FIGURES)}")
    found: list[Figure] = []
    for name in names or WITH_FIGURES:
        figures = importlib.import_module(name).figures()
        show(figures)
        found += figures
    DOCUMENT.write_text(with_figures(DOCUMENT.read_text(), found, last_run()))


def last_run() -> str:
    """The day, and the load of the machine."""
    load = os.getloadavg()[2]
    return f"Last run: {datetime.date.today()}, with a load of {load:.0f} on {os.cpu_count()} processors."


if __name__ == "__main__":
    main()
