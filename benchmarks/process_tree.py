"""What the processes below this one use, by a word of their command lines. Linux only."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

TICKS = os.sysconf("SC_CLK_TCK")
LOOKS_EVERY_S = 0.2


class Used(NamedTuple):
    """What one process used: CPU seconds, and megabytes at its most."""

    command: str
    cpu_seconds: float
    megabytes: float


class Usage:
    """Looks at the processes below this one all the time that the block runs. A context manager.

    Afterwards a process may be gone, and whoever waited for it: so what each has used is kept as it was seen last.
    """

    def __init__(self) -> None:
        self._before = _seen()
        self._last = dict(self._before)
        self._over = threading.Event()
        self._looking = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._looking.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._looking.join()
        self._last |= _seen()

    def cpu_seconds(self, word: str) -> float:
        """Return the CPU time since the block began of processes whose command has the word."""
        return sum(
            used.cpu_seconds - (self._before[key].cpu_seconds if key in self._before else 0)
            for key, used in self._last.items()
            if word in used.command
        )

    def largest_megabytes(self, word: str) -> float:
        """Return the peak memory of the largest process whose command has the word."""
        return max((used.megabytes for used in self._last.values() if word in used.command), default=0)

    def _look(self) -> None:
        while not self._over.wait(LOOKS_EVERY_S):
            self._last |= _seen()


def _seen() -> dict[tuple[int, str], Used]:
    """Return what the processes below this one have used, by their numbers and when they began."""
    found = {}
    for process in _below(os.getpid()):
        with suppress(OSError):
            fields = _stat(process)
            cpu_seconds = (int(fields[11]) + int(fields[12])) / TICKS
            found[process, fields[19]] = Used(_command(process), cpu_seconds, _peak_megabytes(process))
    return found


def _peak_megabytes(process: int) -> float:
    status = Path(f"/proc/{process}/status").read_text()
    peaks = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")]
    return max(peaks, default=0) / 1024


def _command(process: int) -> str:
    return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")


def _stat(process: int) -> list[str]:
    """Return the fields of ``/proc/PID/stat`` behind the command, from the state on."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def _below(process: int) -> Iterator[int]:
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):
                parents.setdefault(int(_stat(int(folder.name))[1]), []).append(int(folder.name))
    waiting = [process]
    while waiting:
        found = parents.get(waiting.pop(), [])
        yield from found
        waiting += found
