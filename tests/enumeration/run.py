"""Goes through a space, or a part of it, with several processes."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import time
from collections.abc import Iterator
from itertools import islice

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from dlx.releases import release
from tests.enumeration.check import Verdict, check
from tests.enumeration.space import Space, Topology
from tests.enumeration.tally import Tally

BATCH = 20

_Task = tuple[str, int, list[Topology]]


def enumerated(space: Space, jobs: int, part: tuple[int, int]) -> Tally:
    """Check the topologies of a space, or the share ``part`` of them; ends early when an invariant is broken."""
    total = sum(1 for _ in _share(space, part))
    tally = Tally(space.release.name, space.queues, space.all())
    began = time.monotonic()
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
        console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty(),
        redirect_stdout=sys.stdout.isatty(),
    )  # fmt: skip
    with bar, multiprocessing.get_context("spawn").Pool(jobs, _leave_interrupts) as pool:
        task = bar.add_task(f"{space.queues} queues in {space.release.name}", total=total)
        for batch in pool.imap_unordered(_checked, _tasks(space, part)):
            for verdicts in batch:
                tally.add(verdicts)
            bar.advance(task, len(batch))
            if tally.faulty:
                break
    tally.seconds = time.monotonic() - began
    return tally


def _leave_interrupts() -> None:
    """Ctrl-C is for the process that the workers belong to."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _share(space: Space, part: tuple[int, int]) -> Iterator[Topology]:
    number, of = part
    return islice(space.topologies(), number - 1, None, of)


def _tasks(space: Space, part: tuple[int, int]) -> Iterator[_Task]:
    topologies = _share(space, part)
    while batch := list(islice(topologies, BATCH)):
        yield space.release.name, space.queues, batch


def _checked(task: _Task) -> list[list[Verdict]]:
    name, queues, topologies = task
    space = Space(queues, release(name))
    return [check(space, topology) for topology in topologies]
