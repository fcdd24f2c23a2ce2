"""Writes a rules table as text that reads back as the same table.

Values at their defaults are left out. Numbers in patterns are written by name if they have
one. Lines are at most 72 characters long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from simulator.systems.ibm_mq.constants import name_of
from simulator.systems.ibm_mq.entries import LENGTH_MAX
from simulator.systems.ibm_mq.keyword_values import FAMILIES, LENGTHS
from simulator.systems.ibm_mq.rules_table import ANY, Action, Control, Pattern, PutAuthority, Rule, RulesTable

_INDENT = "  "
# What reads back as itself without quotes: a text in which nothing is folded.
_BARE = re.compile(r"[A-Z0-9./_%?*]+")


def print_table(table: RulesTable) -> str:
    """Write a table as text, one entry after the other, each on lines of its own."""
    entries = [list(_control(table.control)), *(list(_rule(rule)) for rule in table.rules)]
    return "".join(_wrapped(pairs) for pairs in entries if pairs)


def _control(control: Control) -> Iterator[str]:
    default = Control()
    if control.inputq:
        yield _pair("INPUTQ", control.inputq)
    if control.inputqm:
        yield _pair("INPUTQM", control.inputqm)
    if control.retryint_s != default.retryint_s:
        yield _pair("RETRYINT", str(control.retryint_s))
    if control.wait_s is not None:
        yield _pair("WAIT", str(control.wait_s or "NO"))


def _rule(rule: Rule) -> Iterator[str]:
    yield from _pattern(rule.pattern)
    yield _pair("ACTION", rule.action)
    if rule.action == Action.FWD:
        yield _name_pair("FWDQ", rule.fwdq)
        if rule.fwdqm:
            yield _name_pair("FWDQM", rule.fwdqm)
        if not rule.header:
            yield _pair("HEADER", "NO")
    if rule.putaut != PutAuthority.DEF:
        yield _pair("PUTAUT", rule.putaut)
    if rule.retry != 1:
        yield _pair("RETRY", str(rule.retry))


def _pattern(pattern: Pattern) -> Iterator[str]:
    for keyword in sorted((*LENGTHS, *FAMILIES)):
        value = getattr(pattern, keyword.lower())
        if isinstance(value, int):
            yield _pair(keyword, name_of(value, FAMILIES[keyword]) or str(value))
        elif value not in (None, ANY):
            yield _pair(keyword, value)


def _pair(keyword: str, value: str) -> str:
    if _BARE.fullmatch(value):
        return f"{keyword}({value})"
    quoted = value.replace("'", "''") or " "
    return f"{keyword}('{quoted}')"


def _name_pair(keyword: str, value: str) -> str:
    return f"{keyword}({value})" if value.startswith("&") else _pair(keyword, value)


def _wrapped(pairs: list[str]) -> str:
    """Put the pairs on as many lines as they need; a pair is broken only where it is longer than a line."""
    lines = _broken(pairs[0])
    for pair in pairs[1:]:
        if len(lines[-1]) + len(pair) < LENGTH_MAX - len(" +"):
            lines[-1] += f" {pair}"
        else:
            lines[-1] += " +"
            lines += _broken(_INDENT + pair)
    return "\n".join(lines) + "\n"


def _broken(line: str) -> list[str]:
    """Break a line that may be too long, before characters that are not blanks."""
    lines = []
    while len(line) > LENGTH_MAX - len(" +"):
        cut = LENGTH_MAX - len(" +")
        while line[cut] == " ":
            cut -= 1
        lines.append(line[:cut] + "+")
        line = _INDENT + line[cut:]
    return [*lines, line]
