"""What the processes below this one have used, by a word of their command lines. Linux only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(word: str) -> float:
    """Return the CPU time of processes whose command has the word, and of their children that have ended."""
    used = 0
    for process in _below(os.getpid()):
        with suppress(OSError):
            if word in _command(process):
                used += sum(map(int, _stat(process)[11:15]))
    return used / TICKS


def largest_megabytes(word: str) -> float:
    """Return the peak memory of the largest process whose command has the word."""
    peaks = [0]
    for process in _below(os.getpid()):
        with suppress(OSError):
            if word in _command(process):
                status = Path(f"/proc/{process}/status").read_text()
                peaks += [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")]
    return max(peaks) / 1024


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
