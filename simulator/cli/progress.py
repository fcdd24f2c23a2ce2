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


@contextmanager
def progress(what: str, counted: str = "rows") -> Iterator[Show]:
    """Show progress, at first ``what``, until the block ends. Shows nothing if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield _silent
        return
    # A file name may contain brackets, which rich would read as markup.
    text = TextColumn("{task.description}", markup=False)
    with Progress(
        SpinnerColumn(), text, BarColumn(), TimeElapsedColumn(), console=Console(stderr=True), transient=True
    ) as bar:
        task = bar.add_task(what, total=None)

        def show(what: str, rows: int, of: int | None = None) -> None:
            share = f" of {of:,} ({100 * rows // of} %)" if of else ""
            bar.update(task, description=f"{what}: {rows:,} {counted}{share}", completed=rows, total=of or None)

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


def _silent(what: str, rows: int, of: int | None = None) -> None:
    """Show nothing."""
