"""``dlx lint`` of files of other systems: an ``activemq.xml``, or a rules table of IBM MQ's dead-letter handler."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import click
import msgspec

from simulator.cli.command_parts import DataError
from simulator.cli.given_source import Source, StandardInput, named
from simulator.json_reading import UTF8_MARK
from simulator.systems.activemq.activemq_xml import ConfigurationError
from simulator.systems.activemq.lint import lint as lint_activemq
from simulator.systems.ibm_mq.parser import KEYWORDS, parse
from simulator.systems.ibm_mq.rules_table import RulesTableError


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
        DataError: a file that its system refuses, if it is the only one; of several it is reported, and hides no other.
        click.UsageError: definitions among the sources, or another form.
    """
    if form not in _FORMATS:
        raise click.UsageError(f"--format {form}: a file of another system has {', '.join(_FORMATS)}")
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
        click.echo(_FORMATS[form](reports), nl=False)
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


# What is found in a file, and how it is printed: by line and column.


class _Placed(msgspec.Struct, frozen=True):
    """One finding: its place in the file, from line 1 and column 1, whether it is an error, and what it says."""

    line: int
    column: int
    severity: str
    message: str


class _LintedFile(msgspec.Struct, frozen=True):
    """What lint found in a file.

    Attributes:
        source: its name.
        system: whose file it is, as ``dlx simulate`` names it.
        counted: the kind of thing that was read, in the plural, and how many there were.
        whose: the system in words.
        findings: from the top of the file down.
        assumed, unchecked: what the answer rests on.
    """

    source: str
    system: str
    counted: tuple[str, int]
    whose: str
    findings: tuple[_Placed, ...]
    assumed: tuple[str, ...]
    unchecked: tuple[str, ...]


def _text(reports: Sequence[_LintedFile]) -> str:
    lines: list[str] = []
    for each in reports:
        lines += [
            f"{found.severity} {each.source}: line {found.line}, column {found.column}: {found.message}"
            for found in each.findings
        ]
        things, count = each.counted
        lines.append(f"{each.source}: {_sum(each.findings)} in {_number(count, things)} of {each.whose}")
    for said in dict.fromkeys(f"Assumed: {text}" for each in reports for text in each.assumed):
        lines.append(said)
    for said in dict.fromkeys(f"Not checked: {text}" for each in reports for text in each.unchecked):
        lines.append(said)
    return "".join(f"{line}\n" for line in lines)


def _sum(findings: Sequence[_Placed]) -> str:
    counts = Counter(each.severity for each in findings)
    return ", ".join(_number(counts[each], f"{each}s") for each in sorted(counts)) or "no findings"


def _number(count: int, things: str) -> str:
    one = f"{things[:-3]}y" if things.endswith("ies") else things[:-1]
    return f"{count} {one if count == 1 else things}"


def _json(reports: Sequence[_LintedFile]) -> str:
    documents = [
        {
            "source": each.source,
            "system": each.system,
            each.counted[0]: each.counted[1],
            "findings": msgspec.to_builtins(each.findings),
            "assumed": each.assumed,
            "unchecked": each.unchecked,
        }
        for each in reports
    ]
    return msgspec.json.encode(documents[0] if len(documents) == 1 else {"reports": documents}).decode() + "\n"


def _github(reports: Sequence[_LintedFile]) -> str:
    return "".join(
        f"::{found.severity} file={each.source},line={found.line},col={found.column},title={each.system}"
        f"::{found.message}\n"
        for each in reports
        for found in each.findings
    )


_FORMATS: Mapping[str, Callable[[Sequence[_LintedFile]], str]] = {"text": _text, "json": _json, "github": _github}
"""Return the text of reports, with its last newline."""


# An activemq.xml.


_XML_ASSUMED = ("the broker is ActiveMQ Classic 5.17, and the file is its whole configuration",)
_XML_UNCHECKED = (
    "what clients ask for: redelivery policies, time to live, persistence; selectors and message groups, which starve "
    "behind a page of messages for others (maxPageSize, 200 by default)",
    "whether anybody reads the dead-letter queues: `dlx simulate activemq` plays histories",
)


def _is_activemq_xml(data: bytes) -> bool:
    """Return whether a file has XML."""
    return data.removeprefix(UTF8_MARK).lstrip().startswith(b"<")


def _lint_activemq_xml(name: str, data: bytes) -> _LintedFile:
    """Lint one configuration. Raises ``DataError`` for one that no broker starts with."""
    try:
        linted = lint_activemq(data)
    except ConfigurationError as error:
        raise DataError(f"{name}: {error}") from error
    findings = tuple(
        _Placed(each.line, each.column, each.severity, f"{each.text}; {each.fix}") for each in linted.findings
    )
    unchecked = (*linted.not_simulated, *_XML_UNCHECKED)
    assumed = (*_XML_ASSUMED, *linted.assumed)
    return _LintedFile(
        name, "activemq", ("policies", linted.policies), "ActiveMQ's broker", findings, assumed, unchecked
    )


# A rules table of IBM MQ's dead-letter queue handler.


_KEYWORD = "|".join(KEYWORDS)
_TABLE = re.compile(rf"\A\s*(\*|({_KEYWORD})\b)|\b({_KEYWORD}) *\(".encode(), re.IGNORECASE)
"""A comment or a keyword at its beginning, or anywhere a keyword with a value."""
_TABLE_ASSUMED = ("the handler is started without arguments: they would name another queue than INPUTQ",)
_TABLE_UNCHECKED = (
    "whether the queues exist, take messages, and are those of other handlers",
    "which messages arrive, and whether their puts succeed: `dlx simulate ibm_mq` plays that",
)


def _is_rules_table(data: bytes) -> bool:
    """Return whether a file has a rules table: one that has its keywords, and is no JSON."""
    text = data.removeprefix(UTF8_MARK)
    return not text.lstrip().startswith((b"{", b"[", b'"')) and _TABLE.search(text) is not None


def _lint_rules_table(name: str, data: bytes) -> _LintedFile:
    """Lint one table. Raises ``DataError`` for one that the handler refuses."""
    try:
        parsed = parse(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{name}: line {line}: expected UTF-8, got the byte {error.object[error.start]:#04x}"
        ) from error
    except RulesTableError as error:
        raise DataError("\n".join(f"{name}: {problem}" for problem in error.problems)) from error
    findings = tuple(_Placed(each.line, each.column, "warning", each.text) for each in parsed.warnings)
    rules = len(parsed.table.rules)
    return _LintedFile(name, "ibm_mq", ("rules", rules), "IBM MQ's handler", findings, _TABLE_ASSUMED, _TABLE_UNCHECKED)


_KINDS = ((_is_activemq_xml, _lint_activemq_xml), (_is_rules_table, _lint_rules_table))
_Lint = Callable[[str, bytes], _LintedFile]


def _kind(data: bytes) -> _Lint | None:
    return next((lint_one for is_one, lint_one in _KINDS if is_one(data)), None)
