"""The servers that the benchmarks measure: ``dlx serve`` in a process of its own, and a live one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

READY = re.compile(r"(amqp://\S+) (http://\S+)")


def live_urls() -> tuple[str | None, str | None]:
    """The AMQP and management addresses of the 4.3 in ``DLX_LIVE_SERVERS``, None for each without one."""
    given = os.environ.get("DLX_LIVE_SERVERS", "")
    for release, _, urls in (server.partition("=") for server in given.split(",")):
        if release == "4.3":
            amqp, _, management = urls.partition("|")
            return amqp, management or None
    return None, None


class Served:
    """A simulator of ``release`` on a free port, on wall or virtual time, while the block runs.

    Attributes:
        amqp_url, management_url: where it listens.
        ready_s: how long it took from its command to its ready line, in seconds.
        pid: its process.
    """

    def __init__(self, release: str, clock: str = "wall") -> None:
        dlx = str(Path(sys.executable).with_name("dlx"))
        command = [dlx, "serve", "--release", release, "--port", "0", "--management-port", "0", "--clock", clock]
        started = time.perf_counter()
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.pid = self._process.pid
        self.amqp_url, self.management_url = self._ready_urls()
        self.ready_s = time.perf_counter() - started

    def _ready_urls(self) -> tuple[str, str]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if found := READY.search(line):
                return found[1], found[2]
        raise RuntimeError(f"dlx serve ended with {self._process.wait()} before it was ready")

    def __enter__(self) -> Served:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(30)
