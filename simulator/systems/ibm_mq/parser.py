"""Reads a rules table from its text.

Control data is an entry with control keywords only, and must be the first. All other
entries are rules. An entry is left at its first error of syntax; errors in its values are
all reported.

Source: IBM MQ's documentation of the rules table (control data, patterns and actions, conventions).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simulator.systems.ibm_mq.entries import (
    BLANKS,
    KeywordValue,
    LogicalLine,
    SyntaxProblem,
    first_tab,
    logical_lines,
    long_lines,
    pairs,
)
from simulator.systems.ibm_mq.keyword_values import (
    ACTION_READERS,
    CONTROL_READERS,
    PATTERN_READERS,
    Reader,
    ValueProblem,
    folded,
)
from simulator.systems.ibm_mq.lint import lint
from simulator.systems.ibm_mq.rules_table import (
    DEST_Q,
    INVALID_COMBINATION,
    KEYWORD_REPEATED,
    NO_INPUT,
    REPLY_Q,
    Action,
    Control,
    ParsedTable,
    Pattern,
    Problem,
    PutAuthority,
    Rule,
    RulesTable,
    RulesTableError,
)

_RULE_READERS: Mapping[str, Reader] = {**PATTERN_READERS, **ACTION_READERS}
KEYWORDS = tuple(sorted((*CONTROL_READERS, *_RULE_READERS)))
"""The keywords of a table."""
_NAMES = ("APPLNAME", "DESTQ", "DESTQM", "FWDQ", "FWDQM", "INPUTQ", "INPUTQM", "REPLYQ", "REPLYQM", "USERID")
_FORWARD_ONLY = ("FWDQ", "FWDQM", "HEADER")


def parse(text: str) -> ParsedTable:
    """Read a rules table. Raises ``RulesTableError`` with all its problems, and nothing else."""
    reading = _TableReader()
    for entry in logical_lines(text):
        reading.add(entry)
    if not reading.rule_lines and not reading.problems:
        reading.problems.append(Problem(1, 1, "the table has no rule; at least one is needed", NO_INPUT))
    if reading.problems:
        raise RulesTableError(sorted(reading.problems, key=lambda problem: (problem.line, problem.column)))
    table = RulesTable(control=reading.control, rules=tuple(reading.rules))
    warnings = (*long_lines(text), *first_tab(text), *reading.warnings, *lint(table, reading.rule_lines))
    return ParsedTable(table, tuple(reading.rule_lines), warnings)


class _TableReader:
    """The part of a table that has been read so far."""

    def __init__(self) -> None:
        self.control = Control()
        self.rules: list[Rule] = []
        self.rule_lines: list[int] = []
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self._entries = 0

    def add(self, entry: LogicalLine | Problem) -> None:
        """Take the next entry."""
        self._entries += 1
        if isinstance(entry, Problem):
            self.problems.append(entry)
            return
        start = len(entry.text) - len(entry.text.lstrip(BLANKS))
        try:
            found = pairs(entry, KEYWORDS)
        except SyntaxProblem as error:
            self.problems.append(error.problem)
            return
        if all(pair.keyword in CONTROL_READERS for pair in found):
            self._add_control(entry, found)
        else:
            self._add_rule(entry, found, start)

    def _add_control(self, entry: LogicalLine, found: list[KeywordValue]) -> None:
        if self._entries > 1:
            text = "control data must be the first entry of the table, and there is one only"
            self.problems.append(entry.problem(found[0].keyword_at, text, INVALID_COMBINATION))
            return
        values = self._values(entry, found, CONTROL_READERS)
        self.control = Control(**{_CONTROL_FIELDS[keyword]: value for keyword, value in values.items()})

    def _add_rule(self, entry: LogicalLine, found: list[KeywordValue], start: int) -> None:
        values = self._values(entry, found, _RULE_READERS)
        self.problems += _wrong_combinations(entry, found, start, values)
        self.rule_lines.append(entry.places[start][0])
        if not self.problems:
            self.rules.append(_rule(values))

    def _values(self, entry: LogicalLine, found: list[KeywordValue], readers: Mapping[str, Reader]) -> dict[str, Any]:
        """Return the values by keyword; those that are wrong are missing."""
        values: dict[str, Any] = {}
        seen: set[str] = set()
        for pair in found:
            problem = _misplaced(entry, pair, seen, readers)
            seen.add(pair.keyword)
            if problem is not None:
                self.problems.append(problem)
                continue
            try:
                values[pair.keyword] = readers[pair.keyword](pair)
            except ValueProblem as error:
                self.problems.append(entry.problem(error.at, error.text, error.code))
                continue
            if _is_folded(pair):
                text = f"{pair.keyword}({pair.value}) means {folded(pair)}: only quotes keep small letters"
                self.warnings.append(entry.problem(pair.value_at, text))
        return values


_CONTROL_FIELDS = {"INPUTQ": "inputq", "INPUTQM": "inputqm", "RETRYINT": "retryint_s", "WAIT": "wait_s"}


def _is_folded(pair: KeywordValue) -> bool:
    """Return whether the name counts as another one than is written: in upper case, since it is not quoted."""
    return pair.keyword in _NAMES and pair.value[:1] != "&" and pair.value != folded(pair)


def _misplaced(entry: LogicalLine, pair: KeywordValue, seen: set[str], readers: Mapping[str, Reader]) -> Problem | None:
    if pair.keyword not in readers:
        text = f"{pair.keyword} is control data; it is allowed in the first entry only, without keywords of rules"
        return entry.problem(pair.keyword_at, text, INVALID_COMBINATION)
    if pair.keyword in seen:
        text = f"{pair.keyword} is there twice; once in an entry is allowed"
        return entry.problem(pair.keyword_at, text, KEYWORD_REPEATED)
    return None


def _wrong_combinations(
    entry: LogicalLine, found: list[KeywordValue], start: int, values: Mapping[str, Any]
) -> Iterator[Problem]:
    at = {pair.keyword: pair.keyword_at for pair in reversed(found)}
    if "ACTION" not in at:
        text = f"the rule has no ACTION; allowed: {', '.join(Action)}"
        yield entry.problem(start, text, INVALID_COMBINATION)
    elif values.get("ACTION") == Action.FWD:
        if "FWDQ" not in at:
            text = f"ACTION(FWD) needs FWDQ; allowed: a queue name, {DEST_Q}, {REPLY_Q}"
            yield entry.problem(at["ACTION"], text, INVALID_COMBINATION)
    elif "ACTION" in values:
        for keyword in _FORWARD_ONLY:
            if keyword in at:
                text = f"{keyword} does not go with ACTION({values['ACTION']}); allowed: ACTION(FWD)"
                yield entry.problem(at[keyword], text, INVALID_COMBINATION)


def _rule(values: Mapping[str, Any]) -> Rule:
    pattern = {keyword.lower(): values[keyword] for keyword in PATTERN_READERS if keyword in values}
    return Rule(
        pattern=Pattern(**pattern),
        action=Action(values["ACTION"]),
        retry=values.get("RETRY", 1),
        fwdq=values.get("FWDQ", ""),
        fwdqm=values.get("FWDQM", ""),
        header=values.get("HEADER", "YES") == "YES",
        putaut=PutAuthority(values.get("PUTAUT", PutAuthority.DEF)),
    )
