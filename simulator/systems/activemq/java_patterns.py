r"""Translates Java's regular expressions to Python's ``regex``, which reads most of them as Java does.

Rewrites quotations ``\Q...\E``, characters by number or name of a control (``\x{41}``, ``\07``, ``\cA``), ``\k<name>``,
``\z`` and references to groups that are not there, which match nothing; refuses what Java refuses and ``regex`` takes.
Leaves the names of ``\p{...}`` and ``\N{...}`` to ``regex``.

Source: java.util.regex.Pattern; a broker of 5.17 on Java 17 (tests/systems/activemq/recorded_configurations.json).
"""

from __future__ import annotations

import re
from functools import lru_cache

import regex

_TOKEN = re.compile(
    r"""
      \\Q (?P<quoted> .*? ) (?: \\E | \Z )
    | \\x\{ (?P<braced> [0-9A-Fa-f]{1,6} ) \}
    | \\ (?: x (?= [0-9A-Fa-f]{2} ) | u (?= [0-9A-Fa-f]{4} ) ) (?P<number> (?<=x) .. | (?<=u) .... )
    | \\0 (?P<octal> [0-3]?[0-7]{1,2} )
    | \\c (?P<control> . )
    | \\k< (?P<name> [A-Za-z][A-Za-z0-9]* ) >
    | \\ (?P<reference> [1-9] )
    | (?P<property> \\ (?: [pPN] \{ [^{}]* \} | [pP] [A-Z] ) )
    | \\ (?P<escaped> . )
    | \(\? (?P<group> .? .? )
    | (?P<repetition> \{ (?: [0-9]+ (?: ,[0-9]* )? \} )? )
    | (?P<sign> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = frozenset("ABDGHNPRSVWXZabdefhnprstvwz")
_NOT_IN_CLASSES = frozenset("ABGRXZbz")
_OTHERWISE = {"e": r"\x1b", "z": r"\Z"}
_GROUP = re.compile(r"[:=!>]|<[=!A-Za-z]|[idmsuxU-]")
_LITERAL_IN_CLASSES = "|~"


class JavaPatternError(ValueError):
    """A pattern that Java refuses, and why."""


@lru_cache(maxsize=1000)
def compiled(pattern: str) -> regex.Pattern[str]:
    """Return the pattern, ready to match a whole name with. Raises ``JavaPatternError``."""
    try:
        return regex.compile(_Translation(pattern).text, regex.V1 | regex.ASCII)
    except regex.error as error:
        raise JavaPatternError(error.msg) from error


class _Translation:
    """A pattern in the words of ``regex``."""

    def __init__(self, pattern: str) -> None:
        self._pattern, self._classes = pattern, 0
        self._groups = len(
            re.findall(r"\((?!\?)|\(\?<[A-Za-z]", re.sub(r"\\Q.*?(\\E|\Z)|\\.", "", pattern, flags=re.DOTALL))
        )
        self.text = "".join(self._rewritten(token) for token in _TOKEN.finditer(pattern))

    def _rewritten(self, token: re.Match[str]) -> str:
        kind, at = str(token.lastgroup), token.start()
        found = token[kind]
        match kind:
            case "quoted":
                return "".join(map(_literally, found))
            case "braced" | "number" | "octal":
                return self._numbered(int(found, 8 if kind == "octal" else 16), at)
            case "control":
                return _literally(chr(ord(found) ^ 64))
            case "name":
                return f"(?P={found})"
            case "reference":
                return self._reference(int(found), at)
            case "property":
                return found
            case "escaped":
                return self._escaped(found, at)
            case "group" if not self._classes:
                if not _GROUP.match(found):
                    raise self._error("a group of Java's behind '(?'", at)
            case "repetition" if not self._classes:
                if found == "{":
                    raise self._error("a number of repetitions in braces", at)
            case "sign":
                return self._sign(found, at)
        return token[0] if not self._classes else "".join(map(_in_class, token[0]))

    def _numbered(self, number: int, at: int) -> str:
        if number > 0x10FFFF:
            raise self._error("the number of a character", at)
        return _literally(chr(number))

    def _reference(self, group: int, at: int) -> str:
        if self._classes:
            raise self._error("no reference to a group in a class", at)
        return f"(?:\\{group})" if group <= self._groups else "(?!)"

    def _escaped(self, character: str, at: int) -> str:
        known = character in _ESCAPES and not (self._classes and character in _NOT_IN_CLASSES)
        if character.isascii() and character.isalnum() and not known:
            raise self._error("an escape of Java's", at)
        return _OTHERWISE.get(character, f"\\{character}")

    def _sign(self, sign: str, at: int) -> str:
        if sign == "\\":
            raise self._error("a character behind it", at)
        if sign == "[":
            self._classes += 1
        elif sign == "]" and self._classes and not re.search(r"\[\^?\Z", self._pattern[:at]):
            self._classes -= 1
        elif sign == "-" and self._classes and self._pattern[at - 1] == "-":
            return r"\-"  # two of them are an operator of ``regex``
        elif self._classes:
            return _in_class(sign)
        return sign

    def _error(self, expected: str, at: int) -> JavaPatternError:
        return JavaPatternError(f"expected {expected} at character {at + 1}")


def _in_class(sign: str) -> str:
    return f"\\{sign}" if sign in _LITERAL_IN_CLASSES else sign


def _literally(character: str) -> str:
    """Return a pattern for the character itself, inside and outside of a class."""
    return regex.escape(character) if character not in "&-~|" else f"\\{character}"
