"""``dlx serve`` in a process of its own, for the benchmarks."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

READY = re.compile(r"(amqp://\S+) (http://\S+)")


class Served:
    """A simulator of ``release`` on a free port, while the block runs.

    Attributes:
        amqp_url, management_url: where it listens.
        ready_s: how long it took from its command to its ready line, in seconds.
        pid: its process.
    """

    def __init__(self, release: str) -> None:
        dlx = str(Path(sys.executable).with_name("dlx"))
        command = [dlx, "serve", "--release", release, "--port", "0", "--management-port", "0"]
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
