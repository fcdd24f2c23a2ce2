"""Shows progress on stderr: the current task, its rows so far and the time it has taken."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

Show = Callable[[str, int], None]
"""Shows the current task and its rows so far."""


@contextmanager
def progress(what: str) -> Iterator[Show]:
    """Show progress, at first ``what``, until the block ends. Shows nothing if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield _silent
        return
    # A file name may contain brackets, which rich would read as markup.
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)

        def show(what: str, rows: int) -> None:
            bar.update(task, description=f"{what}: {rows:,} rows")

        yield show


@contextmanager
def countdown(what: str, seconds: float) -> Iterator[Callable[[int], None]]:
    """Show ``what``, a bar that is full after so many seconds, and the number of histories tried so far.

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


def _silent(what: str, rows: int) -> None:
    """Show nothing."""
