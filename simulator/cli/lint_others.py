"""``dlx lint`` of files of other systems: which file is whose, and one report of all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import click

from simulator.cli.command_parts import DataError
from simulator.cli.given_source import Source, StandardInput, named
from simulator.cli.lint_activemq_xml import is_activemq_xml, lint_activemq_xml
from simulator.cli.lint_places import PLACED_FORMATS, LintedFile
from simulator.cli.lint_rules_table import is_rules_table, lint_rules_table

_KINDS = ((is_activemq_xml, lint_activemq_xml), (is_rules_table, lint_rules_table))
_Lint = Callable[[str, bytes], LintedFile]


def is_of_another_system(source: Source) -> bool:
    """Return whether the source is a file of another system than RabbitMQ; one that cannot be read is not."""
    return _kind(_data(source)) is not None


def lint_others(sources: Sequence[Source], form: str, counted: Collection[str]) -> int:
    """Lint files of other systems, print what was found, and return the exit code.

    Args:
        sources: what was given, all of it of other systems.
        form: the form of the report.
        counted: the severities of findings that make the exit code 1.

    Raises:
        DataError: a file that its system refuses, if it is the only one; of several it is told, and hides no other.
        click.UsageError: definitions among the sources, or another form.
    """
    if form not in PLACED_FORMATS:
        raise click.UsageError(f"--format {form}: a file of another system has {', '.join(PLACED_FORMATS)}")
    given = {source: _data(source) for source in sources}
    kinds = {source: _kind(data) for source, data in given.items()}
    if None in kinds.values():
        raise click.UsageError("files of other systems have reports of another form than definitions: lint them apart")
    reports, statuses = [], [0]
    for source, lint_one in kinds.items():
        assert lint_one is not None
        try:
            reports.append(lint_one(named(source), given[source]))
        except DataError as error:
            if len(given) == 1:
                raise
            error.show()
            statuses.append(error.exit_code)
    if reports:
        click.echo(PLACED_FORMATS[form](reports), nl=False)
    return max(*statuses, int(any(found.severity in counted for report in reports for found in report.findings)))


def _data(source: Source) -> bytes:
    """Return what is in a file or standard input; nothing for a server, which has definitions."""
    if isinstance(source, StandardInput):
        return source.data
    if not isinstance(source, Path):
        return b""
    try:
        return source.read_bytes()
    except OSError:
        return b""


def _kind(data: bytes) -> _Lint | None:
    return next((lint_one for is_one, lint_one in _KINDS if is_one(data)), None)
