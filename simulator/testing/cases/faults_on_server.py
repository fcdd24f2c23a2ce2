"""Faults on request (docs/how-to/faults.md) in the virtual host of a case on a server, which must be simulated."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from simulator.server.faults.fault import Fault, RaiseAlarm
from simulator.testing.brokers.servers import ManagementError, Server
from simulator.testing.cases.file_format import SetFaults

_VHOST_OF_A_CASE = (None, "/")


class VhostWithFaults(Protocol):
    """A virtual host, and the management API of its server."""

    vhost: str

    def api(self, method: str, path: str, body: object = None) -> Any:
        """Call the management API; return its answer. Raises ``ManagementError``."""


def has_faults(server: Server) -> bool:
    """Return whether a server has faults on request, as RabbitMQ has not. Raises ``OSError`` if it does not answer."""
    try:
        return isinstance(server.api("GET", "faults"), list)
    except (ManagementError, ValueError):
        return False


def need_faults(asked: Sequence[str]) -> str:
    """Return why a case with these faults cannot be run on a server that has none."""
    return f"it asks for the fault {' and '.join(asked)}; faults need dlx serve"


class FaultsOnServer:
    """The faults that a case has set. They strike in its virtual host alone, but an alarm stops every publisher.

    Attributes:
        ever: whether any was set so far.
    """

    def __init__(self, broker: VhostWithFaults) -> None:
        self.ever = False
        self._broker = broker
        self._set: list[tuple[int, Fault]] = []

    def follow(self, step: SetFaults) -> None:
        """Have faults strike, or none any more. Raises ``ManagementError`` if the server refuses."""
        if step.clear:
            self.clear()
        for fault in step.set:
            asked = msgspec.to_builtins(fault)
            if not isinstance(fault, RaiseAlarm) and asked["vhost"] in _VHOST_OF_A_CASE:
                asked["vhost"] = self._broker.vhost
            self.ever = True
            self._set.append((self._broker.api("POST", "faults", asked)["id"], fault))

    def clear(self, *, alarms: bool = True) -> None:
        """Forget the faults; without ``alarms`` only those of deliveries and confirms."""
        for number, fault in list(self._set):
            if alarms or not isinstance(fault, RaiseAlarm):
                self._set.remove((number, fault))
                with contextlib.suppress(ManagementError):  # another client may have cleared it
                    self._broker.api("DELETE", f"faults/{number}")
