"""The part of the pytest plugin that lints what the tests declare: ``--dlx-lint``.

Like the rest of the plugin, it loads nothing but pytest until a run has the option.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from simulator.lint_reports.baseline import Known
    from simulator.lint_reports.formats import Linted
    from simulator.lint_reports.project import Settled
    from simulator.testing.brokers.broker_under_test import Broker
    from simulator.testing.declared import Watched

_TELL = "tell"
_AT_LEAST = {"error": "an error", "warning": "an error or a warning", "note": "anything"}
_LEVELS = tuple(_AT_LEAST)
_FORMS = {".sarif": "sarif", ".xml": "junit", ".json": "json"}
"""The form of a report by the ending of its name; others are text."""
_SENT = "dlx_lint"
_FIXTURES = {"dlx_broker", "dlx_session_broker"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options to the group ``dlx``."""
    group = parser.getgroup("dlx", "dead letters (dlx)")
    group.addoption(
        "--dlx-lint",
        action="store_const",
        const=_TELL,
        help="lint what the tests declare on dlx_broker and dlx_session_broker, and tell it at the end",
    )
    for level in _LEVELS:  # an option each: one with an optional value would take the path behind it
        group.addoption(
            f"--dlx-lint={level}",
            action="store_const",
            const=level,
            dest="dlx_lint",
            help=f"the same, and fail the run if {_AT_LEAST[level]} is found",
        )
    group.addoption(
        "--dlx-lint-report",
        action="append",
        default=[],
        metavar="FILE",
        help="write what --dlx-lint finds to FILE: SARIF, JUnit or JSON if it ends in .sarif, .xml or .json, else "
        "text; repeatable",
    )
    group.addoption(
        "--dlx-lint-baseline",
        metavar="FILE",
        help="leave out what FILE has, which --dlx-lint-report FILE.json or dlx lint --format json wrote",
    )
    parser.addini("dlx_lint", "lint what the tests declare, and fail from this severity on: error, warning or note")


def pytest_configure(config: pytest.Config) -> None:
    """Prepare, in a run that lints. Raises ``pytest.UsageError`` for a wrong option or file."""
    configured = config.getini("dlx_lint")
    if configured and configured not in _LEVELS:
        raise pytest.UsageError(
            f"dlx_lint in the configuration: expected {', '.join(_LEVELS[:-1])} or {_LEVELS[-1]}, got {configured!r}"
        )
    given = config.getoption("dlx_lint")
    reports, baseline = config.getoption("dlx_lint_report"), config.getoption("dlx_lint_baseline")
    if given is None and (reports or baseline) and not configured:
        raise pytest.UsageError(f"--dlx-lint-{'report' if reports else 'baseline'}: give --dlx-lint, too")
    if (given is not None or configured) and not config.getoption("collectonly"):
        level = configured or None if given in (None, _TELL) else given
        config.stash[_LINT] = _Lint(config, level)
        config.pluginmanager.register(config.stash[_LINT], "dlx-lint")


@contextlib.contextmanager
def watched(config: pytest.Config, broker: Broker) -> Iterator[None]:
    """Note what tests declare on the broker, in a run that lints."""
    lint = config.stash.get(_LINT, None)
    if lint is None:
        yield
        return
    from simulator.testing.declared import Watched

    one = Watched(broker)
    lint.brokers.append(one)
    try:
        yield
    finally:
        lint.brokers.remove(one)
        lint.declarations.take(one)


class _Lint:
    """The hooks of a run that lints.

    Attributes:
        brokers: the brokers that run now.
        declarations: what was declared on those that are gone.

    Args:
        level: the least severity that fails the run; ``None`` if nothing does.
    """

    def __init__(self, config: pytest.Config, level: str | None) -> None:
        from simulator.testing.declared import Declarations

        self.brokers: list[Watched] = []
        self._config, self._level = config, level
        self.declarations = Declarations()
        self._found: Linted | None = None
        self._told: list[str] = []
        self._is_worker = hasattr(config, "workerinput")
        if not self._is_worker:
            self._known, self._project = _given_files(config)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Note what the test declared, before its fixtures end."""
        if not self.brokers or _FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            return
        from simulator.testing.declared import Test, Unanswered

        test = Test(item.nodeid, (item.location[1] or 0) + 1)
        for broker in self.brokers:
            try:
                broker.note(test)
            except Unanswered as error:
                self.declarations.unchecked.append(f"what {item.nodeid} declared: the server does not say: {error}")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Take what a worker of pytest-xdist sends at its end."""
        sent = getattr(node, "workeroutput", {}).get(_SENT)
        if sent is None:
            self.declarations.unchecked.append(f"what the tests of {node.gateway.id} declared: it crashed")
        else:
            self.declarations.receive(sent)

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """Lint, write the reports, and let the run fail if it has to; the JUnit file of the run is there after that."""
        for broker in self.brokers:  # those of a session that was interrupted
            self.declarations.take(broker)
        if self._is_worker:
            self._config.workeroutput[_SENT] = self.declarations.sent()  # type: ignore[attr-defined]
            yield
            return
        self._found = found = self.declarations.lint(self._known, self._project)
        for file in self._config.getoption("dlx_lint_report"):
            self._write(self._config.invocation_params.dir / file, found)
        counted = _LEVELS[: _LEVELS.index(self._level) + 1] if self._level else ()
        if session.exitstatus == pytest.ExitCode.OK and not {*found.severities}.isdisjoint(counted):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            self._told.append(f"The run fails: --dlx-lint={self._level}.")
        yield
        if self._config.getoption("xmlpath", None):
            self._add_suite(Path(self._config.getoption("xmlpath")), found, counted)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Tell what was found."""
        if self._found is None:
            return
        from simulator.lint_reports.formats import FORMATS, plain_text

        terminalreporter.section("dlx lint")
        if not (self.declarations.exports or self.declarations.unchecked):
            terminalreporter.write_line("No test that ran has dlx_broker or dlx_session_broker.")
            return
        colours = terminalreporter.hasmarkup
        terminalreporter.write(FORMATS["text"]([self._found], False) if colours else plain_text(self._found))
        for said in self._told:
            terminalreporter.write_line(said)

    def _write(self, path: Path, found: Linted) -> None:
        from simulator.files import write_whole
        from simulator.lint_reports.formats import FORMATS, plain_text

        form = _FORMS.get(path.suffix.lower())
        try:
            write_whole(path, FORMATS[form]([found], False) if form else plain_text(found))
        except OSError as error:
            self._told.append(f"--dlx-lint-report {path}: {error.strerror}")

    def _add_suite(self, path: Path, found: Linted, failing: Any) -> None:
        """Add a suite to the JUnit file of the run, for that is what servers of continuous integration show."""
        from xml.etree import ElementTree

        from simulator.lint_reports.formats import suite_of

        with contextlib.suppress(OSError):  # pytest has told that it could not write it
            tree = ElementTree.parse(path)
            tree.getroot().append(suite_of(found, failing))
            tree.write(path, encoding="utf-8", xml_declaration=True)


_LINT = pytest.StashKey[_Lint]()


def _given_files(config: pytest.Config) -> tuple[Known, Settled]:
    """Return the findings of an earlier run, and what the project's ``dlx.toml`` says."""
    from simulator.files import FileContentError
    from simulator.lint_reports.baseline import known_findings
    from simulator.lint_reports.project import NAME, settled

    baseline, project = config.getoption("dlx_lint_baseline"), config.rootpath / NAME
    here = config.invocation_params.dir
    for report in config.getoption("dlx_lint_report"):
        if not (here / report).parent.is_dir():
            raise pytest.UsageError(f"--dlx-lint-report: no folder {(here / report).parent}")
    try:
        return known_findings(here / baseline if baseline else None), settled(project if project.is_file() else None)
    except FileContentError as error:
        raise pytest.UsageError(str(error)) from error
