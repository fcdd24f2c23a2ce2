"""The time of a case on a server: real, or that of a virtual clock (``dlx serve --clock virtual``)."""

from __future__ import annotations

import time
from typing import Any, Protocol

from simulator.testing.brokers.servers import ManagementError, Server


class TimeOnServer(Protocol):
    """The time that passes in a case."""

    def now_s(self) -> float:
        """Return the time in seconds, since whenever."""

    def wait(self, seconds: float) -> None:
        """Let time pass. Raises ``ManagementError`` if the server refuses."""


class RealTime:
    """Time as it passes."""

    now_s = staticmethod(time.monotonic)
    wait = staticmethod(time.sleep)


class ServerWithClock(Protocol):
    """A server whose management API has a clock."""

    def api(self, method: str, path: str, body: object = None) -> Any:
        """Call the management API; return its answer. Raises ``ManagementError``."""


class VirtualTime:
    """The time of a server's virtual clock. It is that of all virtual hosts."""

    def __init__(self, server: ServerWithClock) -> None:
        self._server = server

    def now_s(self) -> float:
        """Return the server's time in seconds."""
        now_us: int = self._server.api("GET", "clock")["now_us"]
        return now_us / 1_000_000

    def wait(self, seconds: float) -> None:
        """Move the clock on; the server does what is due meanwhile."""
        self._server.api("POST", "clock/advance", {"milliseconds": seconds * 1_000})


def has_virtual_clock(server: Server) -> bool:
    """Return whether a server has a clock that can be moved, as RabbitMQ has not. Raises ``OSError``."""
    try:
        found = server.api("GET", "clock")
    except (ManagementError, ValueError):
        return False
    return isinstance(found, dict) and found.get("virtual") is True
