"""What ``dlx lint`` costs for many equal services of three queues each: processor seconds and lines of text.

    python benchmarks/lint_speed.py [--services N ...] [--seconds S] [--lines N]

Each service has a work queue, a queue in which messages wait for the next try, and a queue for what failed. The exit
code is 1 where a size takes more seconds than ``--seconds``, or more lines than ``--lines``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any


def definitions(services: int) -> dict[str, Any]:
    """The definitions of so many services, equal up to their names."""
    document: dict[str, Any] = {
        "rabbit_version": "4.3.0",
        "vhosts": [{"name": "/"}],
        "exchanges": [{"name": "events", "vhost": "/", "type": "topic", "durable": True}],
        "queues": [],
        "bindings": [],
    }
    for number in range(services):
        name = f"service-{number}"
        for queue, arguments in {
            f"{name}.work": {
                "x-queue-type": "quorum",
                "x-dead-letter-exchange": f"{name}.dlx",
                "x-dead-letter-routing-key": "failed",
            },
            f"{name}.retry": {
                "x-message-ttl": 30_000,
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": f"{name}.work",
            },
            f"{name}.dead": {"x-max-length": 10_000},
        }.items():
            queue = {"name": queue, "vhost": "/", "durable": True, "auto_delete": False, "arguments": arguments}
            document["queues"].append(queue)
        document["exchanges"].append({"name": f"{name}.dlx", "vhost": "/", "type": "direct", "durable": True})
        for source, queue, key in (
            ("events", "work", f"{name}.#"),
            (f"{name}.dlx", "retry", "failed"),
            (f"{name}.dlx", "dead", "given-up"),
        ):
            document["bindings"].append(
                {
                    "source": source,
                    "vhost": "/",
                    "destination": f"{name}.{queue}",
                    "destination_type": "queue",
                    "routing_key": key,
                    "arguments": {},
                }
            )
    return document


def measured(services: int) -> tuple[float, int]:
    """The processor seconds of one run, and the lines of its text."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "definitions.json"
        source.write_text(json.dumps(definitions(services)))
        before = getrusage(RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, "-m", "simulator.cli.main", "lint", str(source)], capture_output=True, text=True
        )
        after = getrusage(RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        sys.exit(done.stderr)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, len(done.stdout.splitlines())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What `dlx lint` costs for many equal services.")
    parser.add_argument("--services", type=int, nargs="+", default=[1, 100, 2_000], metavar="N")
    parser.add_argument("--seconds", type=float, metavar="S", help="more processor seconds than that are too many")
    parser.add_argument("--lines", type=int, metavar="N", help="more lines than that are too many")
    asked = parser.parse_args()
    too_many = False
    for services in asked.services:
        seconds, lines = measured(services)
        print(f"{services:>6} services, {3 * services:>6} queues: {seconds:6.2f} s {lines:>7} lines")
        too_many |= asked.seconds is not None and seconds > asked.seconds
        too_many |= asked.lines is not None and lines > asked.lines
    sys.exit(too_many)


if __name__ == "__main__":
    main()
