"""``dlx lint`` of a rules table of IBM MQ's dead-letter queue handler."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click
import msgspec

from dlx.ibm_mq.parser import parse
from dlx.ibm_mq.rules_table_errors import Problem, RulesTableError
from simulator.cli.command_parts import DataError

_ACTION = re.compile(rb"\bACTION *\(", re.IGNORECASE)
_ASSUMED = ("the handler is started without arguments: they would name another queue than INPUTQ",)
_UNCHECKED = (
    "whether the queues exist, take messages, and are those of other handlers",
    "which messages arrive, and whether their puts succeed: `dlx simulate ibm_mq` plays that",
)


class LintedTable(msgspec.Struct, frozen=True):
    """What lint found in a rules table: by the source's name, with the number of its rules."""

    source: str
    rules: int
    findings: tuple[Problem, ...]


def is_rules_table(source: object) -> bool:
    """Return whether the source is a file with a rules table: one that names an ACTION, and is no JSON."""
    if not isinstance(source, Path):
        return False
    try:
        data = source.read_bytes()
    except OSError:
        return False
    return not data.lstrip().startswith((b"{", b"[")) and _ACTION.search(data) is not None


def lint_table(source: Path) -> LintedTable:
    """Lint one table. Raises ``DataError`` for one that the handler refuses."""
    name = click.format_filename(source)
    try:
        parsed = parse(source.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: expected UTF-8, got the byte {error.object[error.start]:#04x}") from error
    except RulesTableError as error:
        raise DataError("\n".join(f"{name}: {problem}" for problem in error.problems)) from error
    return LintedTable(name, len(parsed.table.rules), parsed.warnings)


def _text(reports: Sequence[LintedTable]) -> str:
    lines: list[str] = []
    for each in reports:
        lines += [f"warning {each.source}: {problem}" for problem in each.findings]
        count = len(each.findings)
        found = f"{count} warning{'' if count == 1 else 's'}" if count else "no findings"
        lines.append(f"{each.source}: {found} in {each.rules} rule{'' if each.rules == 1 else 's'} of IBM MQ's handler")
    lines += [f"Assumed: {each}" for each in _ASSUMED] + [f"Not checked: {each}" for each in _UNCHECKED]
    return "".join(f"{line}\n" for line in lines)


def _json(reports: Sequence[LintedTable]) -> str:
    documents = [
        {
            "source": each.source,
            "system": "ibm_mq",
            "rules": each.rules,
            "findings": [
                {"severity": "warning", "line": found.line, "column": found.column, "message": found.text}
                for found in each.findings
            ],
            "assumed": _ASSUMED,
            "unchecked": _UNCHECKED,
        }
        for each in reports
    ]
    return msgspec.json.encode(documents[0] if len(documents) == 1 else {"reports": documents}).decode() + "\n"


def _github(reports: Sequence[LintedTable]) -> str:
    return "".join(
        f"::warning file={each.source},line={found.line},col={found.column},title=rules table::{found.text}\n"
        for each in reports
        for found in each.findings
    )


TABLE_FORMATS: Mapping[str, Callable[[Sequence[LintedTable]], str]] = {"text": _text, "json": _json, "github": _github}
"""Return the text of reports, with its last newline."""


def lint_tables(sources: Sequence[Path], form: str, fail_on: str | None) -> int:
    """Lint rules tables and print what was found; return the exit code. Raises ``DataError`` and usage errors."""
    if form not in TABLE_FORMATS:
        raise click.UsageError(f"--format {form}: a rules table has {', '.join(TABLE_FORMATS)}")
    reports = [lint_table(source) for source in sources]
    click.echo(TABLE_FORMATS[form](reports), nl=False)
    return int(fail_on != "lost" and any(report.findings for report in reports))
