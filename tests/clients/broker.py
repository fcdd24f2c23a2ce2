"""What a suite runs against: a broker that is given by its URLs, or a simulator started for the run."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import SplitResult, quote, urlsplit

from simulator.testing.brokers.servers import ManagementError
from tests.live.servers import LiveServer, NoSuchServerError, given

Named = tuple[str, str]  # ``queues`` or ``exchanges``, and a name
READY_SECONDS = 60
STOP_SECONDS = 60


@dataclass(frozen=True)
class Broker:
    """Where clients find it. The suites log in as guest and work in the virtual host ``/``.

    ``tls_port`` is where it takes AMQP with TLS; ``None`` if it does not.
    """

    server: LiveServer
    tls_port: int | None = None

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

    @property
    def env(self) -> dict[str, str]:
        """What tells a suite where it is; each reads some of it."""
        host, port = self.amqp.hostname or "127.0.0.1", str(self.amqp.port or 5672)
        return {
            "AMQP_URL": self.url, "URL": self.url, "AMQP_PORT": port,
            "RABBITMQ_HOST": host, "RABBITMQ_5672_TCP": port,
            "RABBITMQ_5671_TCP": str(self.tls_port or 1), "AMQPS_PORT": str(self.tls_port or 1),  # 1: nobody listens
            "DLX_MANAGEMENT_URL": self.management, "DLX_CLIENTS_URL": self.url,
            "DLX_MANAGEMENT_PORT": str(urlsplit(self.management).port),
            "DLX_CLIENTS_RELEASE": self.release,
        }  # fmt: skip

    @property
    def release(self) -> str:
        """As ``expected.toml`` names it."""
        return self.server.release

    def __str__(self) -> str:
        return self.server.version

    def named(self) -> set[Named]:
        """The queues and exchanges of the virtual host ``/``."""
        kinds = ("queues", "exchanges")
        return {(kind, row["name"]) for kind in kinds for row in self.server.api("GET", f"{kind}/%2F")}

    def delete(self, named: Iterable[Named]) -> None:
        for kind, name in named:
            with suppress(ManagementError):  # gone by itself meanwhile
                self.server.api("DELETE", f"{kind}/%2F/{quote(name, safe='')}")


@dataclass(frozen=True)
class Certificates:
    """The files of a broker with TLS: its certificate and key, and the CA of its clients' certificates."""

    cert: Path
    key: Path
    ca: Path

    @property
    def options(self) -> tuple[str, ...]:
        """What ``dlx serve`` is given."""
        files = (f"--tls-cert={self.cert}", f"--tls-key={self.key}", f"--tls-ca={self.ca}")
        return (*files, "--tls-port=0", "--management-tls-port=0")


@dataclass(frozen=True)
class Service:
    """Another system than RabbitMQ, simulated, and the URL of its HTTP API."""

    system: str
    url: str

    @property
    def env(self) -> dict[str, str]:
        """What tells a suite where it is."""
        return {"DLX_CLIENTS_URL": self.url}

    @property
    def release(self) -> str:
        """As ``expected.toml`` would name it."""
        return self.system

    def __str__(self) -> str:
        return f"simulated {self.system}"


def given_broker(amqp_url: str, management_url: str = "") -> Broker:
    """The broker at ``amqp_url``. Raises ``NoSuchServerError`` where no management API answers."""
    return Broker(given([f"{amqp_url}|{management_url}" if management_url else amqp_url])[0])


@contextmanager
def simulator(release: str, log: Path, *options: str, tls: Certificates | None = None) -> Iterator[Broker]:
    """`dlx serve` on free ports; what it says goes to ``log``. Raises ``NoSuchServerError`` if it does not start."""
    options += () if tls is None else tls.options
    with _serving(["--release", release, "--management-port", "0", *options], log) as line:
        urls = [re.search(scheme + r"://[^\s\"',]+", line) for scheme in ("amqp", "http")]
        if None in urls:
            raise _without_urls(line, log)
        broker = given_broker(*(found[0] for found in urls if found))
        encrypted = re.search(r"amqps://\S+", line)
        yield broker if encrypted is None else replace(broker, tls_port=urlsplit(encrypted[0]).port)


@contextmanager
def service(system: str, log: Path) -> Iterator[Service]:
    """`dlx serve SYSTEM` on a free port, its time standing still. Raises ``NoSuchServerError`` if it does not start."""
    with _serving([system, "--clock", "virtual"], log) as line:
        if not line.startswith("http"):
            raise _without_urls(line, log)
        yield Service(system, line.strip())


@contextmanager
def _serving(options: Sequence[str], log: Path) -> Iterator[str]:
    """The first line that `dlx serve` prints, which says that it listens; it is stopped afterwards."""
    command = [str(Path(sys.executable).with_name("dlx")), "serve", *options, "--port", "0"]
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True)
    with process:
        try:
            yield _first_line(process)
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise AssertionError(f"dlx serve did not stop within {STOP_SECONDS} s of SIGTERM") from None


def _first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    timer = threading.Timer(READY_SECONDS, process.kill)
    timer.start()
    line = process.stdout.readline()
    timer.cancel()
    return line


def _without_urls(line: str, log: Path) -> NoSuchServerError:
    return NoSuchServerError(f"dlx serve printed '{line.strip()}' and no URLs; {log}:\n{log.read_text()[-2000:]}")
