"""Runs a redrive and kills this very process at the n-th thing that it does: ``python killed.py N ARGUMENT...``."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from simulator.cli.main import main
from simulator.redrive import execute, journal

left = int(sys.argv[1])


def step() -> None:
    """Kill, if it is time."""
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)


def watched(what: Callable[..., Any]) -> Callable[..., Any]:
    """Return what does the same, and may be killed before and after it."""

    def done(*args: Any, **named: Any) -> Any:
        step()
        found = what(*args, **named)
        step()
        return found

    return done


for owner, name in (
    (journal.Journal, "write"),
    (execute.Execution, "_publish"),
    (execute.Execution, "_acknowledge"),
    (execute.Execution, "_give_back"),
    (execute.Execution, "_consume"),
):
    setattr(owner, name, watched(getattr(owner, name)))
sys.exit(main(sys.argv[2:]))
