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
from typing import Any

import msgspec

from simulator.generate import Wish, generate

EXAMPLE = Path(__file__).parent.parent / "examples" / "captured-4.3"
DEFINITIONS = EXAMPLE / "definitions.json"
EXCHANGES = {"orders": "topic", "retry": "direct"}
LADDERS, BINDINGS = 60, 10_000
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
        wide = folder / "wide.json"
        wide.write_bytes(msgspec.json.encode(wide_definitions()))
        for name, definitions in (("the example's topology", DEFINITIONS), ("10,000 bindings", wide)):
            print(name)
            rates = []
            for diversity in ("low", "high"):
                logs = folder / f"{definitions.stem}-{diversity}"
                logs.mkdir()
                generate(Wish(definitions.read_bytes(), options.events, diversity=diversity), logs)
                seconds, megabytes = measured(sorted(logs.glob("log-*.parquet")), options.runs, definitions=definitions)
                rates.append(options.events / seconds)
                what = f"{options.events:,} events, diversity {diversity}"
                show(what, seconds, megabytes, f"{rates[-1]:>10,.0f} rows/s")
            print(f"diverse relative to alike: {rates[1] / rates[0]:.2f}")


def wide_definitions() -> dict[str, Any]:
    """Sixty retry ladders behind one topic exchange with 10,000 bindings."""
    queues: dict[str, dict[str, Any]] = {}
    bindings = []
    for number in range(LADDERS):
        work, wait = f"work.{number}", f"wait.{number}"
        queues[work] = {"x-dead-letter-exchange": "retry", "x-dead-letter-routing-key": wait}
        queues[wait] = {"x-message-ttl": 1000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": work}
        bindings.append(("retry", wait, wait))
    for number in range(BINDINGS - LADDERS):
        words = ("*.paid", "*.sent", "#.failed", "eu.*")[number % 4]
        bindings.append(("orders", f"work.{number % LADDERS}", f"tenant{number // 4}.{words}"))
    of_host = {"vhost": "/", "durable": True, "auto_delete": False, "internal": False, "arguments": {}}
    return {
        "rabbitmq_version": "4.3.0",
        "vhosts": [{"name": "/"}],
        "exchanges": [{**of_host, "name": name, "type": kind} for name, kind in EXCHANGES.items()],
        "queues": [{**of_host, "name": name, "arguments": arguments} for name, arguments in queues.items()],
        "bindings": [
            {**of_host, "source": source, "destination": queue, "destination_type": "queue", "routing_key": key}
            for source, queue, key in bindings
        ],
    }


def measured(
    logs: list[Path], runs: int, out: Path | None = None, definitions: Path = DEFINITIONS
) -> tuple[float, float]:
    """The median of the seconds, and of the megabytes, that a replay takes."""
    command = [*DLX, "replay", *map(str, logs), "--definitions", str(definitions), "--engine", "local", "--json"]
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
