"""One fault tried: a copy of the tree with the fault in it, and the tests run there.

The copy has no bytecode and no virtual environment. Its root comes first on
PYTHONPATH, so that it is imported, by subprocesses too, and not what is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from tests.mutants.listed import BadListError, Fault

COPIED = ("dlx", "simulator", "tests", "setup.cfg", "pyproject.toml")
# What is tried after a fault's own tests, whatever the fault: the rules and the broker, in under a minute.
WIDE = (
    "tests/rules",
    "tests/broker/test_classic.py",
    "tests/broker/test_quorum.py",
    "tests/broker/test_machine.py",
    "tests/broker/test_dead_letter_retries.py",
    "tests/broker/test_single_active.py",
    "tests/broker/test_transactions.py",
    "tests/broker/test_stream.py",
    "tests/vectors/test_recorded.py",
    "tests/differential/test_recorded.py",
)
HANG_S = 60.0  # for a fault that is said to hang: its tests take seconds otherwise
_LEFT_OUT = shutil.ignore_patterns("__pycache__", ".hypothesis", "*.pyc")
_WHERE = "import dlx, simulator; print(dlx.__file__, simulator.__file__, sep='\\n')"


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a fault: ``by`` is the first test that failed or, where it ``hung``, that did not end."""

    fault: Fault
    outcome: Literal["caught", "survived", "hung"]
    by: str = ""
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        """Whether the tests noticed."""
        return self.outcome == "caught" or (self.outcome == "hung" and self.fault.hangs)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What a run of tests did: the first failed or unended test, or how many passed."""

    failed: str | None = None
    hung: str | None = None
    passed: int = 0


@contextmanager
def copy_of(root: Path) -> Iterator[Path]:
    """A copy of what the tests need of the tree, in a directory that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="dlx-mutant-") as folder:
        copy = Path(folder).resolve() / "tree"
        copy.mkdir()
        for name in COPIED:
            if (root / name).is_dir():
                shutil.copytree(root / name, copy / name, ignore=_LEFT_OUT)
            elif (root / name).exists():
                shutil.copy2(root / name, copy / name)
        yield copy


def check_unmutated(root: Path, tests: Sequence[str], timeout_s: float) -> int:
    """How many tests pass in a copy without a fault.

    Raises ``BadListError`` where one does not, or where not the copy is imported: then a
    fault that is "caught" would mean nothing.
    """
    with copy_of(root) as copy:
        command = [sys.executable, "-c", _WHERE]
        shown = subprocess.run(command, cwd="/", env=_environment(copy), capture_output=True, text=True, check=True)
        for file in shown.stdout.splitlines():
            if not Path(file).resolve().is_relative_to(copy):
                raise BadListError(f"the copy is not what is imported, but {file}")
        run = run_tests(copy, tests, timeout_s)
    if run.failed or run.hung:
        raise BadListError(f"the tree itself, without any fault, does not pass {run.failed or run.hung}")
    return run.passed


def tried(fault: Fault, root: Path, timeout_s: float, wide: Sequence[str] = WIDE) -> Result:
    """Put the fault into a copy and run its tests there, then the ``wide`` ones. Raises ``BadListError``."""
    start = time.monotonic()
    if fault.hangs:
        timeout_s = min(timeout_s, HANG_S)
    with copy_of(root) as copy:
        (copy / fault.file).write_text(fault.applied(copy), encoding="utf-8")
        for tests in (fault.tests, wide):
            try:
                run = run_tests(copy, tests, timeout_s)
            except BadListError as error:
                raise BadListError(f"fault {fault.name}: {error}") from error
            if run.hung is not None:
                return Result(fault=fault, outcome="hung", by=run.hung, seconds=time.monotonic() - start)
            if run.failed is not None:
                return Result(fault=fault, outcome="caught", by=run.failed, seconds=time.monotonic() - start)
    return Result(fault=fault, outcome="survived", seconds=time.monotonic() - start)


def run_tests(copy: Path, tests: Sequence[str], timeout_s: float) -> Run:
    """Run test files of a copy until one fails, for at most so many seconds.

    Raises ``BadListError`` where no test could be run, so that none has judged the fault.
    """
    told = copy.parent / "told"
    told.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=short", "-p", "no:cacheprovider"]
    command += ["--hypothesis-seed=0", "-p", "tests.mutants.witness", "--witness", str(told), *tests]
    try:
        done = subprocess.run(
            command, cwd=copy, env=_environment(copy), capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        return Run(hung=(_told(told, "start") or ["the collection of tests"])[-1])
    foreign, failed, passed = (_told(told, what) for what in ("foreign", "failed", "end"))
    if foreign:
        raise BadListError(f"not the copy was imported, but {foreign[0]}")
    if done.returncode == 1 and failed:
        return Run(failed=failed[0])
    if done.returncode != 0 or not int(passed[0]):
        last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise BadListError(f"no test could be run (pytest ended with {done.returncode}):\n{last}")
    return Run(passed=int(passed[0]))


def _environment(copy: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTEST_ADDOPTS", "DLX_LIVE_SERVERS")}
    return kept | {"PYTHONPATH": str(copy)}


def _told(file: Path, what: str) -> list[str]:
    if not file.exists():
        return []
    lines = [line.partition("\t") for line in file.read_text(encoding="utf-8").splitlines()]
    return [value for kind, _, value in lines if kind == what]
