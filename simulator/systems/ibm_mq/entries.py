"""The entries of a rules table: their continued lines joined, and taken apart into ``KEYWORD(value)`` pairs.

A line whose last non-blank is ``+`` goes on with the first non-blank of the next line,
one with ``-`` with its first column. Blank lines and comments (``*`` in column 1) do not
count, even between a line and its continuation. Each character keeps its place.

A tab counts as a blank, with a warning: IBM's documentation speaks of blanks alone, and does not mention tabs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from dlx.nearest_names import nearest
from simulator.systems.ibm_mq.rules_table import Problem

LENGTH_MAX = 72
BLANKS = " \t"


class LogicalLine(msgspec.Struct, frozen=True):
    """One entry: its text, and the line and column of each character and of the end."""

    text: str
    places: tuple[tuple[int, int], ...]

    def problem(self, at: int, text: str, code: str | None = None) -> Problem:
        """Return the problem at the character with the index ``at``."""
        return Problem(*self.places[at], text, code)


def logical_lines(text: str) -> Iterator[LogicalLine | Problem]:
    """Yield the entries from the top down. A continuation that nothing follows is a ``Problem``, the last."""
    joined, places, mark = "", [], ""
    for number, line in significant_lines(text):
        start = len(line) - len(line.lstrip(BLANKS)) if mark == "+" else 0
        mark = line[-1] if line[-1] in "+-" else ""
        piece = line[start : len(line) - len(mark)]
        joined += piece
        places += [(number, start + column) for column in range(1, len(piece) + 1)]
        if not mark:
            yield LogicalLine(joined, (*places, (number, len(line) + 1)))
            joined, places = "", []
    if mark:
        yield Problem(number, len(line), f"the table ends after the continuation mark {mark}; a line must follow")


def long_lines(text: str) -> Iterator[Problem]:
    """Yield a warning for each line of more than 72 characters; not every platform reads on."""
    for number, line in significant_lines(text):
        if len(line) > LENGTH_MAX:
            yield Problem(number, LENGTH_MAX + 1, f"the line has {len(line)} characters; {LENGTH_MAX} are portable")


def first_tab(text: str) -> Iterator[Problem]:
    """Yield a warning for the first tab of a table."""
    for number, line in significant_lines(text):
        if "\t" in line:
            what = "a tab counts as a blank here; the documentation speaks of blanks alone, and no handler was asked"
            yield Problem(number, line.index("\t") + 1, what)
            return


def significant_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are neither blank nor comments, numbered from 1, without trailing blanks."""
    for number, line in enumerate(text.split("\n"), 1):
        kept = line.removesuffix("\r").rstrip(BLANKS)
        if kept and not kept.startswith("*"):
            yield number, kept


_BLANKS = re.compile(r"[ \t]*")
_SEPARATORS = re.compile(r"[ \t,]*")
_KEYWORD = re.compile(r"[A-Za-z]+")
# Possessive: the first half of a doubled quote never ends the value.
_QUOTED = re.compile(r"'((?:[^']|'')*+)'")
_BARE = re.compile(r"[^()']*")
# What comments begin with elsewhere.
_COMMENT_SIGNS = tuple("*#/;-!")
_COMMENTS = "a comment is a line of its own, with * in its first column"


class SyntaxProblem(Exception):
    """An entry that cannot be taken apart."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class KeywordValue(msgspec.Struct, frozen=True):
    """One ``KEYWORD(value)``.

    Attributes:
        keyword: in upper case.
        keyword_at: index of its first character in the entry.
        value: without its quotes and, unless it was quoted, without blanks around it.
        value_at: index of its first character, which may be the quote.
        quoted: whether it stood in quotes.
    """

    keyword: str
    keyword_at: int
    value: str
    value_at: int
    quoted: bool


def pairs(line: LogicalLine, keywords: tuple[str, ...]) -> list[KeywordValue]:
    """Take an entry apart into its pairs. Raises ``SyntaxProblem`` at the first character that does not fit."""
    found, at = [], _skip(_BLANKS, line.text, 0)
    while True:
        pair, end = _pair(line, at, keywords)
        found.append(pair)
        at = _skip(_SEPARATORS, line.text, end)
        if at == len(line.text):
            if "," in line.text[end:]:
                raise _unexpected(line, at, "a keyword after the comma")
            return found
        if at == end:
            raise _unexpected(line, at, "a blank or a comma between two keywords")


def _pair(line: LogicalLine, start: int, keywords: tuple[str, ...]) -> tuple[KeywordValue, int]:
    """Return the pair that starts there, and the index after it."""
    word = _KEYWORD.match(line.text, start)
    if word is None:
        comment = f"; {_COMMENTS}" if line.text[start : start + 1] in _COMMENT_SIGNS else ""
        raise _unexpected(line, start, f"a keyword: {', '.join(keywords)}", comment)
    keyword = word.group().upper()
    if keyword not in keywords:
        problem = f"no keyword is called {keyword}; {did_you_mean(keyword, keywords)}allowed: {', '.join(keywords)}"
        raise SyntaxProblem(line.problem(start, problem))
    opening = _skip(_BLANKS, line.text, word.end())
    if not line.text.startswith("(", opening):
        raise _unexpected(line, opening, f"( and a value after {keyword}")
    value_at = _skip(_BLANKS, line.text, opening + 1)
    value, quoted, end = _value(line, value_at, keyword, keywords)
    closing = _skip(_BLANKS, line.text, end)
    if not line.text.startswith(")", closing):
        raise _unexpected(line, closing, f") after the value of {keyword}")
    return KeywordValue(keyword, start, value, value_at, quoted), closing + 1


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the names that come near as a question with a blank behind it; empty if none does."""
    near = nearest(name, known, cutoff)
    return f"did you mean {' or '.join(near)}? " if near else ""


def _value(line: LogicalLine, at: int, keyword: str, keywords: tuple[str, ...]) -> tuple[str, bool, int]:
    """Return the value that starts there, whether it is quoted, and the index after it."""
    if line.text.startswith("'", at):
        quoted = _QUOTED.match(line.text, at)
        if quoted is None:
            raise SyntaxProblem(line.problem(at, f"the value of {keyword} lacks its closing quote '"))
        value, end = quoted.group(1).replace("''", "'"), quoted.end()
    else:
        end = _skip(_BARE, line.text, at)
        value, quoted = line.text[at:end].rstrip(BLANKS), None
        _check_closed(line, at, value, end, keyword, keywords)
    if not value and not quoted and not line.text.startswith(")", end):
        raise _unexpected(line, end, f"a value of {keyword}")
    if not value:
        problem = f"{keyword} has no value; at least one character is needed, and a blank in quotes is one: ' '"
        raise SyntaxProblem(line.problem(at, problem))
    return value, quoted is not None, end


def _check_closed(line: LogicalLine, at: int, value: str, end: int, keyword: str, keywords: tuple[str, ...]) -> None:
    """Raise ``SyntaxProblem`` where the value runs on into the next pair: the ) is missing in front of that."""
    *own, last = re.split(r"[ \t](?=[^ \t]*$)", value)
    if line.text.startswith("(", end) and last.upper() in keywords:
        behind = at + len(own[0].rstrip(BLANKS)) if own else at
        problem = f"expected ) after the value of {keyword}, in front of {last.upper()}"
        raise SyntaxProblem(line.problem(behind, problem))


def _skip(what: re.Pattern[str], text: str, at: int) -> int:
    found = what.match(text, at)
    return found.end() if found else at


def _unexpected(line: LogicalLine, at: int, expected: str, more: str = "") -> SyntaxProblem:
    found = repr(line.text[at]) if at < len(line.text) else "the end of the entry"
    return SyntaxProblem(line.problem(at, f"expected {expected}; found {found}{more}"))
