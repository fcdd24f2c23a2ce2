"""A pytest plugin that writes down what a run of the tests did, for the process that started it.

``--witness FILE`` gets lines of ``WHAT<tab>VALUE``: ``start`` and ``failed`` with a test, ``foreign``
with a module of the project that was imported from another tree, ``end`` with the number of tests
that passed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

OURS = ("dlx", "simulator", "tests")


class Witness:
    """Writes each line at once, as a run that hangs is killed."""

    def __init__(self, file: Path, root: Path) -> None:
        self._file = file
        self._root = root
        self._passed = 0

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test begins."""
        self._say("start", nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test, or its setup or teardown, is done."""
        self._passed += report.when == "call" and report.passed
        if report.failed:
            self._say("failed", report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """All is done."""
        for path in foreign(self._root):
            self._say("foreign", path)
        self._say("end", str(self._passed))

    def _say(self, what: str, value: str) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(f"{what}\t{value}\n")


def foreign(root: Path) -> list[str]:
    """The files outside of ``root`` from which modules of the project were imported."""
    loaded = list(sys.modules.items())
    files = [getattr(module, "__file__", None) for name, module in loaded if name.partition(".")[0] in OURS]
    return sorted({file for file in files if file and not Path(file).resolve().is_relative_to(root.resolve())})


def pytest_addoption(parser: pytest.Parser) -> None:
    """The plugin's option."""
    parser.addoption("--witness", metavar="FILE", required=True, help="where to write what the run did")


def pytest_configure(config: pytest.Config) -> None:
    """Begin to watch."""
    config.pluginmanager.register(Witness(Path(config.getoption("--witness")), config.rootpath))
