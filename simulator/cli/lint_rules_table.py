"""``dlx lint`` of a rules table of IBM MQ's dead-letter queue handler."""

from __future__ import annotations

import re

from dlx.ibm_mq.parser import parse
from dlx.ibm_mq.rules_table_errors import RulesTableError
from simulator.cli.command_parts import DataError
from simulator.cli.lint_places import LintedFile, Placed

_ACTION = re.compile(rb"\bACTION *\(", re.IGNORECASE)
_ASSUMED = ("the handler is started without arguments: they would name another queue than INPUTQ",)
_UNCHECKED = (
    "whether the queues exist, take messages, and are those of other handlers",
    "which messages arrive, and whether their puts succeed: `dlx simulate ibm_mq` plays that",
)


def is_rules_table(data: bytes) -> bool:
    """Return whether a file has a rules table: one that names an ACTION, and is no JSON."""
    return not data.lstrip().startswith((b"{", b"[")) and _ACTION.search(data) is not None


def lint_rules_table(name: str, data: bytes) -> LintedFile:
    """Lint one table. Raises ``DataError`` for one that the handler refuses."""
    try:
        parsed = parse(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: expected UTF-8, got the byte {error.object[error.start]:#04x}") from error
    except RulesTableError as error:
        raise DataError("\n".join(f"{name}: {problem}" for problem in error.problems)) from error
    findings = tuple(Placed(each.line, each.column, "warning", each.text) for each in parsed.warnings)
    rules = len(parsed.table.rules)
    return LintedFile(name, "ibm_mq", ("rules", rules), "IBM MQ's handler", findings, _ASSUMED, _UNCHECKED)
