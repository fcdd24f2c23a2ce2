r"""Translates the patterns of policies from PCRE to Python's ``regex``, which knows nearly all of PCRE.

Rewrites whatever ``regex`` reads otherwise or not at all: settings before the pattern such as
``(*UTF8)``, quotations ``\Q...\E``, characters by number (``\x{6f}``, ``\o{157}``), ``\N``, ``\H``, ``\V``, and
names of groups in quotes, braces or angles. Refuses repetitions beyond PCRE's limit and names given twice.
Pattern and name are bytes, each of them a character, unless the settings say that they are UTF-8.
Leaves these as ``regex`` has them: lookbehinds of any length, ``a{,3}``, ``[:lower:]`` by itself, unknown escapes.

Source: pcrepattern(3); the servers themselves (tests/live/test_patterns.py).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import regex

_SETTING = "UTF8?|UCP|CR|LF|CRLF|ANYCRLF|ANY|BSR_ANYCRLF|BSR_UNICODE|NO_START_OPT|NO_AUTO_POSSESS|LIMIT_MATCH=[0-9]+"
# These three are compiled where they are used, and kept by ``re``: a broker without policies needs none of them.
_SETTINGS = rf"(?:\(\*(?:{_SETTING})\))*"
_TOKEN = r"""(?xs)
      \\Q (?P<quoted> .*? ) (?: \\E | \Z )
    | \\x\{ (?P<hexadecimal> [0-9A-Fa-f]+ ) \}
    | \\o\{ (?P<octal> [0-7]+ ) \}
    | (?P<end_of_quote> \\E )
    | (?P<repeated_names> \(\?J\) )
    | (?P<no_newline> \\N (?!\{U) )
    | (?P<no_blank> \\H )
    | (?P<no_line_break> \\V )
    | \(\?'(?P<group> \w+ )'
    | \\k(?:\{(?P<same_as> \w+ )\}|<(?P<same_in_angles> \w+ )>|'(?P<same_in_quotes> \w+ )')
    | \\ .
    """
_OUTSIDE = r"""(?xs)  # what repeats or names groups, outside of escapes and classes
      \\ .
    | \[ \^? \]? (?: \\ . | \[: [^\]]* :\] | [^\]\\] )* \]
    | \{ (?P<least> [0-9]+ ) (?: , (?P<most> [0-9]* ) )? \}
    | \(\? P? [<'] (?P<name> [A-Za-z_]\w* ) [>']
    """
_REPEATED_MAX = 65_535
_REPETITION = re.compile(r"[*+?{]")
_LENGTHY = re.compile(r"\)[*+?{]|\(\?|\\[0-9gk]")
_IN_WORDS = {
    "end_of_quote": "",
    "repeated_names": "",
    "no_newline": r"[^\n]",
    "no_blank": r"[^\h]",
    "no_line_break": r"[^\n\v\f\r\x85]",
}


class PatternError(ValueError):
    """A pattern that cannot be read: why, in the words of ``regex``, and at which character."""

    def __init__(self, why: str, position: int = 0) -> None:
        super().__init__(why)
        self.why, self.position = why, position


class Compiled(NamedTuple):
    """A pattern to look for in names. A search for one that is ``brief`` cannot take long, whatever the name."""

    expression: regex.Pattern[str]
    utf: bool
    brief: bool

    def search(self, name: str, timeout_s: float) -> regex.Match[str] | None:
        """Look for the pattern anywhere in the name. Raises ``TimeoutError``."""
        characters = _characters(name, self.utf)
        if self.brief:  # to watch the time would take ten times as long as the search
            return self.expression.search(characters)
        return self.expression.search(characters, timeout=timeout_s)


@lru_cache(maxsize=4096)
def compiled(pattern: str) -> Compiled:
    """Return the pattern, ready to search with. Raises ``PatternError`` for one that cannot be read."""
    import regex  # takes an eighth of a server's start; most have no policies

    settings = re.match(_SETTINGS, pattern)
    start = settings.end() if settings else 0
    utf = "(*UTF" in pattern[:start]
    most = 0x10FFFF if utf else 0xFF
    written = re.sub(_TOKEN, lambda token: _rewritten(token, most), _characters(pattern[start:], utf))
    _check_limits(written, repeated_names="(?J)" in pattern or "(?|" in pattern)
    try:
        return Compiled(regex.compile(written), utf, _is_brief(written))
    except regex.error as error:
        raise PatternError(error.msg, error.pos or 0) from None


def _check_limits(written: str, *, repeated_names: bool) -> None:
    """Refuse what only PCRE refuses: long repetitions, and names of groups twice. Raises ``PatternError``."""
    names: set[str] = set()
    for token in re.finditer(_OUTSIDE, written):
        least, most, name = token.group("least", "most", "name")
        for number, start in ((least, token.start("least")), (most, token.start("most"))):
            digits = next((n for n in range(len(number or "")) if int(number[: n + 1]) > _REPEATED_MAX), None)
            if digits is not None:
                raise PatternError("number too big in {} quantifier", start + digits + 1)
        if least and most and int(most) < int(least):
            raise PatternError("numbers out of order in {} quantifier", token.end() - 1)
        if name in names and not repeated_names:
            raise PatternError("two named subpatterns have the same name", token.end() - 1)
        names |= {name} - {None}


def _is_brief(written: str) -> bool:
    """Tell whether the pattern has at most two repetitions, each of one character, and no extension like ``(?R)``."""
    return len(_REPETITION.findall(written)) <= 2 and not _LENGTHY.search(written)


def _characters(text: str, utf: bool) -> str:
    return text if utf or text.isascii() else text.encode("utf-8", "surrogatepass").decode("latin-1")


def _rewritten(token: re.Match[str], most: int) -> str:
    kind = token.lastgroup
    if kind == "quoted":
        return "".join(map(_literally, token["quoted"]))
    if kind in ("hexadecimal", "octal"):
        return _literally(_character(int(token[kind], 16 if kind == "hexadecimal" else 8), most))
    if kind == "group":
        return f"(?<{token['group']}>"
    if kind in ("same_as", "same_in_angles", "same_in_quotes"):
        return f"(?P={token[kind]})"
    return token[0] if kind is None else _IN_WORDS[kind]


def _literally(character: str) -> str:
    """Return a pattern for the character itself, fit for use inside and outside of a character class."""
    return character if character.isalnum() or ord(character) > 255 else f"\\x{ord(character):02x}"


def _character(number: int, most: int) -> str:
    if number > most:
        raise PatternError("character value in \\x{} or \\o{} is too large")
    return chr(number)
