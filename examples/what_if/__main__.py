"""The command line, from the root of the repository:

    python -m examples.what_if --url amqp://guest:guest@localhost:5672/ \\
        --management-url http://localhost:15672 --out recorded

writes for each run ``recorded/RUN/definitions.json`` and ``recorded/RUN/fates.json``, and for the
first, ``own``, the log as well, and what the queues held in the end. What is published depends on
``--seed`` and ``--messages`` alone.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from pathlib import Path

from examples.what_if.recording import as_json, record
from examples.what_if.topology import RUNS
from examples.workload.broker import Unavailable


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.what_if")
    parser.add_argument("--url", required=True)
    parser.add_argument("--management-url", required=True)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--vhost", default="dlx-what-if")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--messages", type=int, default=240)
    parser.add_argument("--runs", nargs="*", default=list(RUNS), choices=list(RUNS))
    given = parser.parse_args()
    for name in given.runs:
        print(f"{name} ...", file=sys.stderr)
        folder = given.out / name
        folder.mkdir(parents=True, exist_ok=True)
        try:
            recording = record(
                given.url,
                given.management_url,
                given.vhost,
                RUNS[name],
                seed=given.seed,
                messages=given.messages,
                left=folder / "left.parquet",
            )
        except Unavailable as error:
            print(f"python -m examples.what_if: {error}", file=sys.stderr)
            return 69
        text = json.dumps(recording.definitions, indent=1, sort_keys=True)
        (folder / "definitions.json").write_text(text + "\n", encoding="utf-8")
        (folder / "fates.json").write_text(as_json(recording), encoding="utf-8")
        if name == "own":
            (folder / "trace.log.gz").write_bytes(gzip.compress(recording.log, mtime=0))
        else:
            (folder / "left.parquet").unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
