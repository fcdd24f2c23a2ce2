"""Put deliberate faults into copies of the tree, one at a time, and see whether the tests catch them.

python -m tests.mutants                      all
python -m tests.mutants cycle-by-reason      those named
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from simulator.cli.command_parts import DataError
from simulator.cli.progress import progress
from simulator.files import write_whole
from tests.mutants import listed
from tests.mutants.document import document
from tests.mutants.listed import BadListError, Fault
from tests.mutants.trial import WIDE, Result, check_unmutated, copy_of, tried

ROOT = Path(__file__).parent.parent.parent
DOCUMENT = "docs/evidence/mutants.md"


def chosen(faults: Sequence[Fault], names: Sequence[str]) -> list[Fault]:
    """The faults of those names; all where none is given."""
    unknown = sorted(set(names) - {fault.name for fault in faults})
    if unknown:
        raise click.UsageError(f"no fault {unknown[0]!r}: see {DOCUMENT} for their names")
    return [fault for fault in faults if not names or fault.name in names]


def try_all(faults: Sequence[Fault], root: Path, wide: Sequence[str], timeout_s: float, jobs: int) -> Iterator[Result]:
    """What became of each fault, as soon as it is known."""
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty(),
        redirect_stdout=sys.stdout.isatty(),  # to stderr: right only if both are the terminal
    )  # fmt: skip
    with bar, ThreadPoolExecutor(jobs) as pool:
        task = bar.add_task("faults", total=len(faults))
        trials = [pool.submit(tried, fault, root, timeout_s, wide) for fault in faults]
        try:
            for trial in as_completed(trials):
                bar.advance(task)
                yield trial.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def line(result: Result) -> str:
    """A result for people."""
    shown = {"caught": "caught  ", "survived": "SURVIVED", "hung": "hangs   " if result.good else "HUNG    "}
    return f"{shown[result.outcome]}  {result.fault.name}" + (f"  by {result.by}" if result.by else "")


def as_json(results: Sequence[Result], unmutated: int, seconds: float) -> str:
    """The results for machines."""
    faults = [
        {
            "name": result.fault.name,
            "file": result.fault.file,
            "wrong": result.fault.wrong,
            "outcome": result.outcome,
            "caught": result.good,
            "by": result.by,
            "seconds": round(result.seconds, 1),
        }
        for result in results
    ]
    caught = sum(result.good for result in results)
    counts = {"total": len(results), "caught": caught, "tests_without_fault": unmutated, "seconds": round(seconds)}
    return msgspec.json.format(msgspec.json.encode(counts | {"faults": faults})).decode()


@click.command(help=(__doc__ or "").split("\n")[0])
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--jobs", default=2, show_default=True, type=click.IntRange(1), help="Faults at a time.")
@click.option("--timeout", "timeout_s", default=240.0, show_default=True, help="Seconds for one run of the tests.")
@click.option("--json", "machine", is_flag=True, help="Print one JSON object.")
@click.option("--write-docs", is_flag=True, help=f"Write {DOCUMENT}.")
@click.option("--root", default=ROOT, type=click.Path(exists=True, path_type=Path), help="Another tree.")
@click.option("--list", "folder", default=listed.FAULTS, type=click.Path(path_type=Path), help="Another list.")
@click.option("--wide", default=WIDE, multiple=True, help="Other tests to try after a fault's own; repeatable.")
def main(
    names: tuple[str, ...], jobs: int, timeout_s: float, machine: bool, write_docs: bool, root: Path, folder: Path,
    wide: tuple[str, ...],
) -> None:  # fmt: skip
    """Run and report; exit code 1 if a fault survives."""
    if write_docs and names:
        raise click.UsageError("--write-docs wants all faults, not some")
    began = time.monotonic()
    results: list[Result] = []
    try:
        subjects = listed.subjects(folder)
        faults = chosen([fault for subject in subjects for fault in subject.fault], names)
        with copy_of(root) as tree:  # which nobody edits meanwhile
            unmutated = _without_a_fault(faults, tree, wide, timeout_s)
            for result in try_all(faults, tree, wide, timeout_s, jobs):
                results.append(result)
                if not machine:
                    click.echo(line(result))
    except BadListError as error:
        raise DataError(str(error)) from error
    results.sort(key=lambda result: faults.index(result.fault))
    seconds, caught = time.monotonic() - began, sum(result.good for result in results)
    if machine:
        click.echo(as_json(results, unmutated, seconds))
    if write_docs:
        write_whole(root / DOCUMENT, document(subjects, results, unmutated))
    click.echo(f"{caught} of {len(results)} faults caught, {seconds:.0f} s", err=True)
    sys.exit(caught < len(results))


def _without_a_fault(faults: Sequence[Fault], tree: Path, wide: Sequence[str], timeout_s: float) -> int:
    """How many tests pass in the tree as it is, to which every fault fits. Raises ``BadListError``."""
    listed.check(faults, tree)
    tests = dict.fromkeys([*(test for fault in faults for test in fault.tests), *wide])
    with progress("the tree without a fault"):
        passed = check_unmutated(tree, list(tests), timeout_s)
    click.echo(f"without a fault {passed:,} tests pass", err=True)
    return passed


if __name__ == "__main__":
    click.UsageError.exit_code = 64
    main()
