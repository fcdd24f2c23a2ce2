"""The broker that a suite runs against: one that is given by its URLs, or a simulator started for the run."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, quote, urlsplit

from simulator.testing.brokers.servers import ManagementError
from tests.live.servers import LiveServer, NoSuchServerError, given

Named = tuple[str, str]  # ``queues`` or ``exchanges``, and a name
READY_SECONDS = 60
STOP_SECONDS = 60


@dataclass(frozen=True)
class Broker:
    """Where clients find it. The suites log in as guest and work in the virtual host ``/``."""

    server: LiveServer

    @property
    def amqp(self) -> SplitResult:
        return urlsplit(self.server.amqp_url)

    @property
    def url(self) -> str:
        """The AMQP URL without a virtual host: clients differ in what they take a trailing slash for."""
        return f"amqp://{self._login}@{self.amqp.hostname}:{self.amqp.port or 5672}"

    @property
    def management(self) -> str:
        """The management URL with user and password in it."""
        parts = urlsplit(self.server.management_url)
        login = parts.netloc.rpartition("@")[0] or self._login
        return f"{parts.scheme}://{login}@{parts.netloc.rpartition('@')[2]}"

    @property
    def _login(self) -> str:
        return f"{self.amqp.username or 'guest'}:{self.amqp.password or 'guest'}"

    def named(self) -> set[Named]:
        """The queues and exchanges of the virtual host ``/``."""
        kinds = ("queues", "exchanges")
        return {(kind, row["name"]) for kind in kinds for row in self.server.api("GET", f"{kind}/%2F")}

    def delete(self, named: Iterable[Named]) -> None:
        for kind, name in named:
            with suppress(ManagementError):  # gone by itself meanwhile
                self.server.api("DELETE", f"{kind}/%2F/{quote(name, safe='')}")


def given_broker(amqp_url: str, management_url: str = "") -> Broker:
    """The broker at ``amqp_url``. Raises ``NoSuchServerError`` where no management API answers."""
    return Broker(given([f"{amqp_url}|{management_url}" if management_url else amqp_url])[0])


@contextmanager
def simulator(release: str, log: Path, *options: str) -> Iterator[Broker]:
    """`dlx serve` on free ports; what it says goes to ``log``. Raises ``NoSuchServerError`` if it does not start."""
    command = [str(Path(sys.executable).with_name("dlx")), "serve", "--release", release]
    command += ["--port", "0", "--management-port", "0", *options]
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True)
    with process:
        try:
            yield _ready(process, log)
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise AssertionError(f"dlx serve did not stop within {STOP_SECONDS} s of SIGTERM") from None


def _ready(process: subprocess.Popen[str], log: Path) -> Broker:
    """The broker whose URLs stand in the first line it prints, which says that it listens."""
    assert process.stdout is not None
    timer = threading.Timer(READY_SECONDS, process.kill)
    timer.start()
    line = process.stdout.readline()
    timer.cancel()
    urls = [re.search(scheme + r"://[^\s\"',]+", line) for scheme in ("amqp", "http")]
    if None in urls:
        raise NoSuchServerError(f"dlx serve printed '{line.strip()}' and no URLs; {log}:\n{log.read_text()[-2000:]}")
    return given_broker(*(found[0] for found in urls if found))
