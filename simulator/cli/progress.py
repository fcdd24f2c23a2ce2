"""Shows progress on stderr: the current task, its rows so far and the time it has taken."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class Show(Protocol):
    """Shows the current task and its rows so far; where it is known of how many, as a bar."""

    def __call__(self, what: str, rows: int, of: int | None = None, /) -> None: ...


LINES_APART_S = 5.0
"""How often a line says how far a long command is, where there is no terminal."""


@contextmanager
def progress(what: str, counted: str = "rows", *, lines: bool = False) -> Iterator[Show]:
    """Show progress, at first ``what``, until the block ends.

    If stderr is not a terminal, shows nothing, or with ``lines`` a line every few seconds.
    """
    if not sys.stderr.isatty():
        yield _Lines(counted) if lines else _silent
        return
    # A file name may contain brackets, which rich would read as markup.
    text = TextColumn("{task.description}", markup=False)
    with Progress(
        SpinnerColumn(), text, BarColumn(), TimeElapsedColumn(), console=Console(stderr=True), transient=True
    ) as bar:
        task = bar.add_task(what, total=None)

        began = time.monotonic()

        def show(what: str, rows: int, of: int | None = None) -> None:
            left = _time_left(began, rows, of) if lines else ""
            said = f"{what}: {rows:,} {counted}{_share(rows, of)}{left}"
            bar.update(task, description=said, completed=rows, total=of or None)

        yield show


@contextmanager
def countdown(what: str, seconds: float) -> Iterator[Callable[[int], None]]:
    """Show ``what``, a bar that is full after that many seconds, and the number of histories tried so far.

    Shows nothing if stderr is not a terminal.
    """
    if not sys.stderr.isatty():
        yield lambda tried: None
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    began = time.monotonic()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=seconds)

        def show(tried: int) -> None:
            bar.update(task, completed=time.monotonic() - began, description=f"{what}: {tried:,} histories")

        yield show


class _Lines:
    """Prints a line on stderr every few seconds: the rows so far, of how many, and how long the rest takes."""

    def __init__(self, counted: str) -> None:
        self._counted = counted
        self._began = self._said = time.monotonic()

    def __call__(self, what: str, rows: int, of: int | None = None) -> None:
        if time.monotonic() - self._said < LINES_APART_S:
            return
        self._said = time.monotonic()
        left = _time_left(self._began, rows, of)
        print(f"{what}: {rows:,} {self._counted}{_share(rows, of)}{left}", file=sys.stderr, flush=True)


def _share(rows: int, of: int | None) -> str:
    return f" of {of:,} ({100 * rows // of} %)" if of else ""


def _time_left(began: float, rows: int, of: int | None) -> str:
    """Say how long the rest takes at the pace so far; nothing where that is unknown."""
    if not rows or not of or rows >= of:
        return ""
    left_s = (time.monotonic() - began) / rows * (of - rows)
    return f", about {left_s / 60:.0f} min left" if left_s > 90 else f", about {left_s:.0f} s left"


def _silent(what: str, rows: int, of: int | None = None) -> None:
    """Show nothing."""
