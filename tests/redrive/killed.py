"""Kills a redrive at the n-th thing that it writes, to its connection or to its journal: before it, or in the midst."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from pika.adapters.utils import io_services_utils

from simulator.redrive.journal import RedriveJournal

HALVES = 2


class Killed(BaseException):
    """The process would be gone now. ``through`` is what it has written before."""

    def __init__(self, through: bytes) -> None:
        super().__init__()
        self.through = through


class Death:
    """Strikes at one step. The first steps are the first write: not yet begun, and half done.

    Attributes:
        struck: whether it has struck.
    """

    def __init__(self, step: int) -> None:
        self._write, self._half = divmod(step, HALVES)
        self.struck = False

    def writes(self, data: bytes) -> bytes:
        """Return what is written: all. Raises ``Killed`` where it strikes, and ever after."""
        if self.struck:
            raise Killed(b"")
        self._write -= 1
        if self._write < 0:
            self.struck = True
            raise Killed(data[: len(data) * self._half // HALVES])
        return data


def kill_this_process_at(step: int) -> None:
    """Have this process kill itself at that step, as ``kill -9`` does."""
    death = Death(step)

    def watched(write: Callable[..., Any]) -> Callable[..., Any]:
        def written(to: Any, data: bytes) -> Any:
            try:
                death.writes(data)
            except Killed as killed:
                if killed.through:
                    write(to, killed.through)
                os.kill(os.getpid(), signal.SIGKILL)
            return write(to, data)

        return written

    RedriveJournal._put = watched(RedriveJournal._put)  # type: ignore[method-assign]
    transport = io_services_utils._AsyncTransportBase
    transport._sigint_safe_send = staticmethod(watched(transport._sigint_safe_send))  # type: ignore[method-assign]


def in_a_process_of_its_own(act: Callable[[], int], out: int) -> int:
    """Do something in a copy of this process whose output goes to that file; return its exit code, or -9."""
    child = os.fork()
    if not child:
        try:
            os.dup2(out, 1)
            os.dup2(out, 2)
            sys.stdout = os.fdopen(1, "w", closefd=False)
            code = act()
            sys.stdout.flush()
            os._exit(code)
        finally:
            os._exit(70)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
