"""The capture: play the scenarios under the tracing plugin, and keep its log and the definitions."""

from __future__ import annotations

import gzip
import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from examples.workload.broker import Broker, Unavailable
from examples.workload.scenarios import SCENARIOS
from examples.workload.stage import Stage

LOG_TIMEOUT_S = 30


class VhostExists(Exception):
    """The virtual host to create is there already."""


@contextmanager
def traced_vhost(broker: Broker) -> Iterator[str]:
    """A fresh virtual host with tracing on; gives the trace's name and takes all away at the end.

    Raises VhostExists.
    """
    management, vhost = broker.management, broker.vhost
    trace = "".join(c if c.isalnum() else "-" for c in vhost)
    settings = {
        "format": "json",
        "pattern": "#",
        "tracer_connection_username": broker.user,
        "tracer_connection_password": broker.password,
    }
    if any(entry["name"] == vhost for entry in management.get("vhosts")):
        raise VhostExists(f"virtual host {vhost!r} exists: delete it, or name another one with --vhost")
    management.call("PUT", "vhosts", vhost)
    try:
        rights = {"configure": ".*", "write": ".*", "read": ".*"}
        management.call("PUT", "permissions", vhost, broker.user, body=rights)
        with suppress(Unavailable):  # the log of a run that was killed
            management.call("DELETE", "trace-files", f"{trace}.log")
        management.call("PUT", "traces", vhost, trace, body=settings)
        yield trace
    finally:
        for path in (("traces", vhost, trace), ("trace-files", f"{trace}.log"), ("vhosts", vhost)):
            with suppress(Unavailable):  # the first failure says more than its consequences
                management.call("DELETE", *path)


def play(broker: Broker, messages: int, seed: int, stage: type[Stage] = Stage) -> dict[str, int]:
    """Play all scenarios, some at a time; returns how many messages each published."""

    def play_one(name: str, scenario: Callable[[Stage], None]) -> tuple[str, int]:
        began = time.monotonic()
        own = stage(name, messages, seed, broker)
        try:
            scenario(own)
        finally:
            own.close()
        print(f"  {name}: {time.monotonic() - began:.1f} s", file=sys.stderr)
        return name, own.published

    with ThreadPoolExecutor(max_workers=stage.at_once) as pool:
        return dict(pool.map(play_one, *zip(*[row[:2] for row in SCENARIOS], strict=True)))


def wait_for_quiet(broker: Broker, trace: str) -> None:
    """Wait until the log has kept its size for a second; raises Unavailable if it never does."""
    sizes = [-1]
    deadline = time.monotonic() + LOG_TIMEOUT_S
    while len(sizes) < 5 or len(set(sizes[-5:])) > 1:
        time.sleep(0.25)
        files = broker.management.get("trace-files")
        sizes.append(next((file["size"] for file in files if file["name"] == f"{trace}.log"), 0))
        if time.monotonic() > deadline:
            raise Unavailable(f"{trace}.log still grows after {LOG_TIMEOUT_S} s")


def collect(broker: Broker, trace: str) -> tuple[bytes, Any]:
    """End the trace, whose log must be quiet; returns that log and the virtual host's definitions."""
    # Before the export: the trace has a queue of its own.
    broker.management.call("DELETE", "traces", broker.vhost, trace)
    definitions = broker.management.get("definitions", broker.vhost)
    return broker.management.call("GET", "trace-files", f"{trace}.log"), definitions


def save(out: Path, log: bytes, definitions: Any, compressed: bool = False) -> None:
    """Write ``trace.log`` (or ``trace.log.gz``) and ``definitions.json`` into a directory."""
    out.mkdir(parents=True, exist_ok=True)
    if compressed:
        _write(out / "trace.log.gz", gzip.compress(log, mtime=0))
    else:
        _write(out / "trace.log", log)
    text = json.dumps(definitions, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    _write(out / "definitions.json", text.encode())


def _write(path: Path, data: bytes) -> None:
    """Write beside, then rename, so that nobody reads half a file."""
    beside = path.with_name(path.name + ".partial")
    beside.write_bytes(data)
    beside.replace(path)
