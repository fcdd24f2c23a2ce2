"""``dlx lint`` of a rules table of IBM MQ's dead-letter queue handler."""

from __future__ import annotations

import re

from simulator.cli.command_parts import DataError
from simulator.cli.lint_places import LintedFile, Placed
from simulator.json_reading import UTF8_MARK
from simulator.systems.ibm_mq.parser import KEYWORDS, parse
from simulator.systems.ibm_mq.rules_table import RulesTableError

_KEYWORD = "|".join(KEYWORDS)
_TABLE = re.compile(rf"\A\s*(\*|({_KEYWORD})\b)|\b({_KEYWORD}) *\(".encode(), re.IGNORECASE)
"""A comment or a keyword at its beginning, or anywhere a keyword with a value."""
_ASSUMED = ("the handler is started without arguments: they would name another queue than INPUTQ",)
_UNCHECKED = (
    "whether the queues exist, take messages, and are those of other handlers",
    "which messages arrive, and whether their puts succeed: `dlx simulate ibm_mq` plays that",
)


def is_rules_table(data: bytes) -> bool:
    """Return whether a file has a rules table: one that has its keywords, and is no JSON."""
    text = data.removeprefix(UTF8_MARK)
    return not text.lstrip().startswith((b"{", b"[", b'"')) and _TABLE.search(text) is not None


def lint_rules_table(name: str, data: bytes) -> LintedFile:
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
    findings = tuple(Placed(each.line, each.column, "warning", each.text) for each in parsed.warnings)
    rules = len(parsed.table.rules)
    return LintedFile(name, "ibm_mq", ("rules", rules), "IBM MQ's handler", findings, _ASSUMED, _UNCHECKED)
