"""Reads the value of each keyword of a rules table: which values it takes, and what they mean.

A reader takes a pair and gives the value; it raises ``ValueProblem`` with what is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from simulator.systems.ibm_mq.constants import known_names, number_of
from simulator.systems.ibm_mq.entries import KeywordValue, did_you_mean
from simulator.systems.ibm_mq.rules_table import (
    ANY,
    DEST_Q,
    DEST_Q_MGR,
    OUT_OF_RANGE,
    REPLY_Q,
    REPLY_Q_MGR,
    VALUE_TOO_LONG,
    Action,
    PutAuthority,
)

NUMBER_MAX = 999_999_999
NAME_LENGTH = 48
# The names that a keyword with numbers knows, by the start of the name.
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "APPLTYPE": ("MQAT_",),
    "FEEDBACK": ("MQFB_", "MQRC_"),  # a report can say a reason code
    "MSGTYPE": ("MQMT_",),
    "PERSIST": ("MQPER_",),
    "REASON": ("MQRC_", "MQFB_"),
}
LENGTHS: Mapping[str, int] = {
    "APPLIDAT": 32,
    "APPLNAME": 28,
    "DESTQ": NAME_LENGTH,
    "DESTQM": NAME_LENGTH,
    "FORMAT": 8,
    "REPLYQ": NAME_LENGTH,
    "REPLYQM": NAME_LENGTH,
    "USERID": 12,
}

# What needs no quotes; wildcards are for patterns only.
_BARE = re.compile(r"[A-Za-z0-9./_%?*]*")
_NAME = re.compile(r"[A-Za-z0-9./_%]+")
# Names of numbers share their first letters, so they have to be more alike than others to be near.
_ALIKE = 0.85
_DIGITS = re.compile(r"-?[0-9]+")


class ValueProblem(Exception):
    """A value that its keyword does not take; ``at`` is an index into the entry."""

    def __init__(self, at: int, text: str, code: str | None = None) -> None:
        super().__init__(text)
        self.at, self.text, self.code = at, text, code


Reader = Callable[[KeywordValue], Any]


def pattern_text(pair: KeywordValue, length: int) -> str:
    """Read a text with wildcards, without trailing blanks. Only its ``*`` may make it longer than the field."""
    if not pair.quoted:
        bare = _BARE.match(pair.value)
        if bare is not None and bare.end() < len(pair.value):
            raise _needs_quotes(pair, bare.end())
    elif not pair.value.isprintable():
        raise ValueProblem(pair.value_at, f"{pair.keyword} holds a character that cannot be printed")
    text = folded(pair).rstrip(" ")
    characters = len(text) - text.count("*")
    if characters > length:
        raise ValueProblem(
            pair.value_at,
            f"{pair.keyword} has {characters} characters; allowed: {length}, not counting *",
            VALUE_TOO_LONG,
        )
    return text


def _needs_quotes(pair: KeywordValue, at: int) -> ValueProblem:
    return ValueProblem(
        pair.value_at + at,
        f"{pair.value[at]!r} needs quotes around the value of {pair.keyword}; "
        "without quotes are allowed letters, digits, . / _ % and the wildcards ? *",
    )


def pattern_number(pair: KeywordValue, families: tuple[str, ...]) -> int | None:
    """Read a number or the name of one; ``None`` for ``*``."""
    text = folded(pair)
    if text == ANY:
        return None
    allowed = f"0 to {NUMBER_MAX}, a name that begins with {' or '.join(families)}, * as the whole value"
    named = number_of(text, families)
    return _number(pair, 0, allowed, meant(text, families)) if named is None else named


def meant(text: str, families: tuple[str, ...]) -> str:
    """Return a question for the name that was likely meant: of another family, without its family, or misspelt."""
    own = text.partition("_")[2] if text.startswith("MQ") else text
    same = [family + own for family in families if family + own in known_names()[family]]
    if same:
        return f"did you mean {' or '.join(same)}? "
    return did_you_mean(text, (name for family in families for name in known_names()[family]), _ALIKE)


def number(pair: KeywordValue, least: int) -> int:
    """Read a number; names and wildcards are not allowed."""
    return _number(pair, least, f"{least} to {NUMBER_MAX}")


def _number(pair: KeywordValue, least: int, allowed: str, meant: str = "") -> int:
    if not _DIGITS.fullmatch(pair.value):
        raise ValueProblem(pair.value_at, f"{pair.keyword} is {pair.value!r}; {meant}allowed: {allowed}")
    # More digits than the largest number has need no conversion, which Python limits.
    digits = pair.value.lstrip("0") or "0"
    if len(digits) > len(str(NUMBER_MAX)) or digits.startswith("-") or int(digits) < least:
        problem = f"{pair.keyword} is {_shortened(pair.value)}; allowed: {allowed}"
        raise ValueProblem(pair.value_at, problem, OUT_OF_RANGE)
    return int(digits)


def wait_s(pair: KeywordValue) -> int | None:
    """Read WAIT: ``None`` for YES, 0 for NO, else seconds."""
    text = folded(pair)
    if text in ("YES", "NO"):
        return None if text == "YES" else 0
    return _number(pair, 0, f"YES, NO, 0 to {NUMBER_MAX}")


def word(pair: KeywordValue, words: tuple[str, ...]) -> str:
    """Read one of a few words."""
    text = folded(pair)
    if text not in words:
        problem = f"{pair.keyword} is {pair.value!r}; {did_you_mean(text, words)}allowed: {', '.join(words)}"
        raise ValueProblem(pair.value_at, problem)
    return text


def name(pair: KeywordValue, kind: str, *, symbols: tuple[str, ...] = (), blank: bool = True) -> str:
    """Read the name of a queue or queue manager, one of the symbols, or the empty text where a blank is allowed."""
    text = folded(pair).rstrip(" ")
    if text in symbols or (blank and not text):
        return text
    if not _NAME.fullmatch(text):
        allowed = [f"a {kind} of letters, digits and . / _ %", *symbols, *(["' '"] if blank else [])]
        raise ValueProblem(pair.value_at, f"{pair.keyword} is {pair.value!r}; allowed: {', '.join(allowed)}")
    if len(text) > NAME_LENGTH:
        problem = f"{pair.keyword} has {len(text)} characters; allowed: {NAME_LENGTH}"
        raise ValueProblem(pair.value_at, problem, VALUE_TOO_LONG)
    return text


def folded(pair: KeywordValue) -> str:
    """Return the value as it counts: without quotes, and in upper case unless it was quoted."""
    return pair.value if pair.quoted else pair.value.upper()


def _shortened(text: str) -> str:
    return text if len(text) <= 20 else f"{text[:17]}..."


CONTROL_READERS: Mapping[str, Reader] = {
    "INPUTQ": partial(name, kind="queue name"),
    "INPUTQM": partial(name, kind="queue manager's name"),
    "RETRYINT": partial(number, least=0),
    "WAIT": wait_s,
}
_TEXT_READERS: dict[str, Reader] = {
    keyword: partial(pattern_text, length=length) for keyword, length in LENGTHS.items()
}
_NUMBER_READERS: dict[str, Reader] = {
    keyword: partial(pattern_number, families=families) for keyword, families in FAMILIES.items()
}
PATTERN_READERS: Mapping[str, Reader] = _TEXT_READERS | _NUMBER_READERS
ACTION_READERS: Mapping[str, Reader] = {
    "ACTION": partial(word, words=tuple(Action)),
    "FWDQ": partial(name, kind="queue name", symbols=(DEST_Q, REPLY_Q), blank=False),
    "FWDQM": partial(name, kind="queue manager's name", symbols=(DEST_Q_MGR, REPLY_Q_MGR)),
    "HEADER": partial(word, words=("YES", "NO")),
    "PUTAUT": partial(word, words=tuple(PutAuthority)),
    "RETRY": partial(number, least=1),
}
