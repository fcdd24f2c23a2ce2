r"""Translates the patterns of policies from PCRE, or PCRE2, to Python's ``regex``, which knows nearly all of both.

Rewrites whatever ``regex`` reads otherwise or not at all: settings before the pattern such as
``(*UTF8)``, quotations ``\Q...\E``, characters by number (``\x{6f}``, ``\o{157}``, ``\cA``), ``\N``, ``\H``, ``\V``,
``\C``, options such as ``(?U)`` and ``(?^)``, ``a{,3}``, references ``\g{1}``, and names of groups in quotes, braces
or angles. Refuses what only the libraries refuse, such as a lookbehind without a fixed length.
Pattern and name are bytes, each of them a character, unless the settings say that they are UTF-8.
Leaves some as ``regex`` has them: names of properties, backtracking verbs, recursion without an end.

Source: pcrepattern(3), pcre2pattern(3); the servers themselves (tests/live/test_patterns.py).
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    import regex

Library = Literal["PCRE", "PCRE2"]
"""What Erlang reads regular expressions with: PCRE until OTP 27, then PCRE2."""

_SETTING = (
    "UTF8?|UCP|CR|LF|CRLF|ANYCRLF|ANY|BSR_ANYCRLF|BSR_UNICODE|NO_START_OPT|NO_AUTO_POSSESS"
    "|LIMIT_(?:MATCH|RECURSION)=[0-9]+"
)
_SETTING_OF_PCRE2 = r"|NUL|NO_JIT|NO_DOTSTAR_ANCHOR|NOTEMPTY(?:_ATSTART)?|LIMIT_(?:DEPTH|HEAP)=[0-9]+"
# These are compiled where they are used, and kept by ``re``: a broker without policies needs none of them.
_TOKEN = r"""(?xs)
      \\Q (?P<quoted> .*? ) (?: \\E | \Z )
    | \\x\{ (?P<hexadecimal> [0-9A-Fa-f]+ ) \}
    | \\o\{ (?P<octal> [0-7]+ ) \}
    | (?P<no_number> \\[xo]\{ )
    | \\x (?P<two_digits> [0-9A-Fa-f]{0,2} )
    | \\ (?P<three_digits> [4-7][0-7]{2} )
    | \\c (?P<control> [\x20-\x7e] )
    | (?P<end_of_quote> \\E )
    | (?P<escape_character> \\e )
    | (?P<unsupported> \\[uULl] | \\N\{ (?! [ ]*[0-9]*[ ]* (?: ,[ ]*[0-9]*[ ]* )? \} ) )
    | \\ (?P<no_escape> [FIJMOTYijmqy] )
    | (?P<no_property> \\[pP] (?! [CLMNPSZ] | \{ ) | \\[pP]\{ (?! [^}]*\} ) )
    | \(\?'(?P<group> \w+ )'
    | \\k(?:\{(?P<same_as> \w+ )\}|<(?P<same_in_angles> \w+ )>|'(?P<same_in_quotes> \w+ )')
    | \\ .
    """
_REPETITIONS = {
    "PCRE": r"[*+?]|\{[0-9]+(?:,[0-9]*)?\}",
    "PCRE2": r"[*+?]|\{ *(?:[0-9]+ *(?:, *[0-9]* *)?|, *[0-9]+ *)\}",
}
_OUTSIDE = r"""(?xs)  # what stands outside of classes
      \\ (?P<number> [1-9][0-9]* )
    | \\g (?: < (?P<called> [-+]?\w+ ) > | ' (?P<called_in_quotes> [-+]?\w+ ) ' )
    | (?P<reference> \\g (?: (?P<to> -?[0-9]+ ) | \{ (?P<to_in_braces> -?[0-9]+ | [A-Za-z_]\w* ) \} )? )
    | (?P<assertion> [\^$] | \\[AbBGKzZ] )
    | \\ .
    | (?P<class> \[ \^?+ \]?+ (?: \\ . | \[: [^\]]* :\] | [^\]\\] )* \] )
    | \{ (?P<least> [0-9]+ ) (?: , (?P<most> [0-9]* ) )? \}
    | (?P<repetition_of_pcre2> \{ [ ]* (?P<from> [0-9]* ) [ ]* (?: (?P<comma> , ) [ ]* (?P<until> [0-9]* ) [ ]* )? \} )
    | \(\? P? [<'] (?P<name> [A-Za-z_]\w* ) [>']
    | (?P<lookbehind> \(\?<[=!] )
    | (?P<callout> \(\?C (?P<callout_number> [0-9]* ) \) )
    | \(\?\( (?: < (?P<if_named> \w+ ) > | ' (?P<if_named_in_quotes> \w+ ) ' ) \)
    | (?<! \(\? ) \(\? (?! [-+]?[0-9]+ \) | R\) ) (?P<options> [A-Za-z0-9^-]* ) (?P<options_end> [:)] )
    | (?P<capture> \( (?! [?*] ) )
    """
_OPTIONS = {"PCRE": "[imsxJUX-]*", "PCRE2": r"\^[imsxnJUr]*|(?:[imsxnJUr]|a[DSPTW]?)*(?:-(?:[imsxnJUr]|a[DSPTW]?)*)?"}
_IN_CLASS = r"""(?xs)
      (?P<kind> \\[dDwWsShvpP] (?: \{ [^}]* \} )? | \[: [^\]]* :\] | (?P<others> \\[HV] ) )
    | (?P<hyphen> - )
    | \\x [0-9a-f]{2}
    | \\ (?P<number> [1-9][0-9]{0,2} )
    | \\ (?P<letter> [ABGKRXZgkz] )
    | (?P<no_newline> \\N )
    | (?P<collated> \[ (?P<sign> [.=]) [^\]]* (?P=sign) (?= \] | \Z ) )
    | \\ . | .
    """
_WIDE = r"""(?xs)  # what a lookbehind is made of
      (?P<nothing> \(\?\# [^)]* \) | \(\? [a-z-]* \) | \\[AbBGKzZ] | [\^$] )
    | (?P<looking> \(\?<?[=!] )
    | (?P<opening> \( (?: \?\( [^)]* \) | \? (?: [a-z-]*: | [>|] | P?<\w+> ) )? )
    | (?P<end> \) )
    | (?P<branch> \| )
    | (?P<unlimited> \\X | \\[1-9] | \(\?P=\w+\) )
    | \\x[0-9a-f]{2} | \\[pP]\{[^}]*\} | \\R | \\. | \[ \^?+ \]?+ (?: \\ . | \[: [^\]]* :\] | [^\]\\] )* \] | .
    """
_REPEATED = r"""(?x)
    (?: (?P<open> [*+] | \{[0-9]+,\} ) | (?P<maybe> \? ) | \{ (?P<least> [0-9]+ ) (?: , (?P<most> [0-9]+ ) )? \} ) [+?]?
    """
_REPEATED_MAX = 65_535
_LOOKED_BACK_MAX = 255
_NAME_MAX = {"PCRE": 32, "PCRE2": 128}
_REPETITION = re.compile(r"[*+?{]")
_LENGTHY = re.compile(r"\)[*+?{]|\(\?|\\[0-9gk]")
_IN_WORDS = {
    "end_of_quote": "",
    "escape_character": r"\x1b",
}
_OTHERS = {r"\H": r"\x00-\x08\x0a-\x1f!-\x9f\xa1-\U0010ffff", r"\V": r"\x00-\x09\x0e-\x84\x86-\U0010ffff"}
_CHARACTERS = {r"\C": r"[\s\S]", r"\N": r"[^\n]", r"\H": r"[^\h]", r"\V": r"[^\n\v\f\r\x85]"}
_NO_GROUP = "reference to non-existent subpattern"


class PatternError(ValueError):
    """A pattern that cannot be read: why, in the words of ``regex`` or PCRE, and at which character."""

    def __init__(self, why: str, position: int = 0) -> None:
        super().__init__(why)
        self.why, self.position = why, position


class Compiled(NamedTuple):
    """A pattern to look for in names. A search for one that is ``brief`` cannot take long, whatever the name."""

    expression: regex.Pattern[str]
    utf: bool
    brief: bool

    def search(self, name: str, timeout_s: float) -> regex.Match[str] | None:
        """Look for the pattern anywhere in the name. Raises ``TimeoutError``, also for a recursion without an end."""
        characters = _characters(name, self.utf)
        if self.brief:  # to watch the time would take ten times as long as the search
            return self.expression.search(characters)
        try:
            return self.expression.search(characters, timeout=timeout_s)
        except MemoryError:
            raise TimeoutError from None


@lru_cache(maxsize=4096)
def compiled(pattern: str, library: Library) -> Compiled:
    """Return the pattern, ready to search with. Raises ``PatternError`` for one that cannot be read."""
    import regex  # takes an eighth of a server's start; most have no policies

    known = _SETTING + (_SETTING_OF_PCRE2 if library == "PCRE2" else "")
    settings = re.match(rf"(?:\(\*(?:{known})\))*", pattern)
    start = settings.end() if settings else 0
    utf = "(*UTF" in pattern[:start]
    written = _Translation(library, utf).of(_characters(pattern[start:], utf))
    try:
        return Compiled(regex.compile(written), utf, _is_brief(written))
    except regex.error as error:
        raise PatternError(error.msg, error.pos or 0) from None


def _is_brief(written: str) -> bool:
    """Return whether the pattern has at most two repetitions, each of one character, and no extension like ``(?R)``."""
    return len(_REPETITION.findall(written)) <= 2 and not _LENGTHY.search(written)


def _characters(text: str, utf: bool) -> str:
    return text if utf or text.isascii() else text.encode("utf-8", "surrogatepass").decode("latin-1")


class _Translation:
    """One pattern on its way to ``regex``: first its escapes, then what stands outside of classes."""

    def __init__(self, library: Library, utf: bool) -> None:
        self.library: Library = library
        self.utf = utf
        self.groups_before = self.groups = 0
        self.names: set[str] = set()
        self.repeated_names = False

    def of(self, pattern: str) -> str:
        """Raises ``PatternError``."""
        self.repeated_names = "(?J)" in pattern or "(?|" in pattern
        written = re.sub(_TOKEN, self._escape, pattern)
        tokens = list(re.finditer(_OUTSIDE, written))
        self.groups = sum(1 for token in tokens if token["capture"] or token["name"])
        return _with_checked_lookbehinds(re.sub(_OUTSIDE, self._outside, written), self.library)

    # Escapes

    def _escape(self, token: re.Match[str]) -> str:
        kind = token.lastgroup
        if kind is None:
            return token[0]
        value = token[kind]
        if kind == "quoted":
            return "".join(map(_literally, value))
        if kind == "two_digits" and not value and self.library == "PCRE2":
            raise PatternError("digits missing after \\x or in \\x{} or \\o{} or \\N{U+}", token.end())
        if kind in ("hexadecimal", "two_digits"):
            return self._character(int(value or "0", 16), token)
        if kind in ("octal", "three_digits"):
            return self._character(int(value, 8), token)
        if kind == "control":
            return _literally(chr(ord(value.upper()) ^ 64))
        if kind == "unsupported":
            raise PatternError("PCRE does not support \\L, \\l, \\N{name}, \\U, or \\u", token.start() + 1)
        if kind == "no_escape" and self.library == "PCRE2":
            raise PatternError("unrecognized character follows \\", token.end())
        if kind == "no_escape":
            return _literally(value)
        if kind == "no_number":
            raise PatternError("non-hex character in \\x{} (closing brace missing?)", token.end())
        if kind == "no_property":
            raise PatternError("malformed \\P or \\p sequence", token.end())
        if kind == "group":
            return f"(?<{value}>"
        return f"(?P={value})" if kind.startswith("same") else _IN_WORDS[kind]

    def _character(self, number: int, token: re.Match[str]) -> str:
        if number > (0x10FFFF if self.utf else 0xFF):
            raise PatternError("character value in \\x{} or \\o{} is too large", token.end() - 1)
        if self.utf and 0xD800 <= number <= 0xDFFF:
            raise PatternError("disallowed Unicode code point (>= 0xd800 && <= 0xdfff)", token.end() - 1)
        return _literally(chr(number))

    # Outside of classes

    def _outside(self, token: re.Match[str]) -> str:
        if token["number"]:
            return self._numbered(token)
        if token["reference"]:
            return self._reference(token)
        called = token["called"] or token["called_in_quotes"]
        if called:
            return f"(?{called})" if called.lstrip("+-").isdigit() else f"(?&{called})"
        if token["assertion"] or token["options_end"] == ")":
            self._check_not_repeated(token)
        if token["class"]:
            return self._class(token)
        if token["least"]:
            return _checked_repetition(token["least"], token["most"], token)
        if token["repetition_of_pcre2"]:
            return self._repetition_of_pcre2(token)
        condition = token["if_named"] or token["if_named_in_quotes"]
        if condition:
            return f"(?({condition})"
        if token["options_end"]:
            return self._options(token)
        if token["callout"] and int(token["callout_number"] or 0) > 255:
            raise PatternError("number after (?C is > 255", token.end() - 1)
        self._count_group(token)
        return "" if token["callout"] else _CHARACTERS.get(token[0], token[0])

    def _check_not_repeated(self, token: re.Match[str]) -> None:
        repetition = re.compile(_REPETITIONS[self.library]).match(token.string, token.end())
        if repetition:
            raise PatternError("nothing to repeat", repetition.end() - 1)

    def _numbered(self, token: re.Match[str]) -> str:
        """A reference to a group; where there are not that many, an octal number or a digit."""
        number = token["number"]
        if int(number) <= self.groups:
            return f"(?:\\{number})"
        if number[0] in "89" and self.library == "PCRE":
            return number
        if len(number) == 1 or number[0] in "89":
            raise PatternError(_NO_GROUP, token.end())
        return _octal(number)

    def _reference(self, token: re.Match[str]) -> str:
        to = token["to"] or token["to_in_braces"]
        if to is None:
            raise PatternError("a numbered reference must not be zero", token.start() + 1)
        if not to.lstrip("-").isdigit():
            return f"(?P={to})"
        number = self.groups_before + 1 + int(to) if to.startswith("-") else int(to)
        if not 0 < number <= self.groups:
            raise PatternError(_NO_GROUP, token.end())
        return f"(?:\\{number})"

    def _repetition_of_pcre2(self, token: re.Match[str]) -> str:
        """``{,3}``, and blanks in braces: PCRE takes them for text."""
        least, comma, most = token.group("from", "comma", "until")
        if self.library == "PCRE" or not (least or most):
            return "\\" + token[0].replace("}", "\\}")
        _checked_repetition(least or "0", most if comma else None, token)
        return "{" + (least or "0") + (comma or "") + (most or "") + "}"

    def _options(self, token: re.Match[str]) -> str:
        letters = token["options"]
        known = re.match(_OPTIONS[self.library], letters)
        assert known is not None
        if known.end() < len(letters):
            raise PatternError("unknown extension", token.start("options") + known.end())
        on, _, off = re.sub("a[DSPTW]?", "", letters).partition("-")
        heeded = set("imsx")  # the others decide how much is found, and not whether something is
        unset = heeded if on.startswith("^") else heeded & set(off)
        set_ = heeded & set(on) - set(off)
        words = "".join(sorted(set_)) + "".join(["-", *sorted(unset - set_)] if unset - set_ else [])
        return f"(?{words}{token['options_end']}" if words or token["options_end"] == ":" else ""

    def _count_group(self, token: re.Match[str]) -> None:
        name = token["name"]
        if name is not None:
            if len(name) > _NAME_MAX[self.library]:
                text = f"subpattern name is too long (maximum {_NAME_MAX[self.library]} characters)"
                raise PatternError(text, token.end() - 1)
            if name in self.names and not self.repeated_names:
                raise PatternError("two named subpatterns have the same name", token.end() - 1)
            self.names.add(name)
        self.groups_before += 1 if name is not None or token["capture"] else 0

    def _class(self, token: re.Match[str]) -> str:
        whole, start = token[0], token.start()
        if re.fullmatch(r"\[([:.=])[^\]]*\1\]", whole):
            raise PatternError("POSIX named classes are supported only within a class", start)

        opening = re.match(r"\[\^?\]?", whole)
        assert opening is not None
        inside, members = start + opening.end(), whole[opening.end() : -1]
        written = [opening[0]]
        before = "character" if opening[0].endswith("]") else ""  # whether a hyphen makes a range, or has made one
        for part in re.finditer(_IN_CLASS, members):
            is_last = part.end() == len(members)
            if part["hyphen"]:
                starts = before == "character" and not is_last
                written.append("-" if starts else "\\-")
                before = "range" if starts else "" if before == "range" else "character"
                continue
            if part["kind"]:
                self._check_no_range(part, before == "range", inside)
            written.append(self._member(part, inside))
            before = "" if part["kind"] or before == "range" else "character"
        return "".join(written) + "]"

    def _check_no_range(self, kind: re.Match[str], ends_range: bool, inside: int) -> None:
        """Raise ``PatternError`` for a range with a kind of characters at one end. A last hyphen makes none."""
        behind = kind.string[kind.end() :]
        if ends_range:
            raise PatternError("invalid range in character class", inside + kind.start() + 1)
        if self.library == "PCRE2" and behind.startswith("-") and behind != "-":
            raise PatternError("invalid range in character class", inside + kind.end() + 1)

    def _member(self, part: re.Match[str], inside: int) -> str:
        """Return what stands for a part of a class."""
        if part["collated"]:
            raise PatternError("POSIX collating elements are not supported", inside + part.start())
        if part["no_newline"]:
            raise PatternError("\\N is not supported in a class", inside + part.start() + 1)
        if part["others"]:
            return _OTHERS[part["others"]]
        if part["number"]:
            return part["number"] if part["number"][0] in "89" else _octal(part["number"])
        if part["letter"] and self.library == "PCRE2" and part["letter"] not in "gk":
            raise PatternError("escape sequence is invalid in character class", inside + part.end())
        return _literally(part["letter"]) if part["letter"] else part[0]


def _octal(number: str) -> str:
    """Return the character that up to three octal digits name, and the digits behind them."""
    digits = re.match("[0-7]{1,3}", number)
    assert digits is not None
    if int(digits[0], 8) > 255:
        raise PatternError("octal value is greater than \\377 in 8-bit non-UTF-8 mode")
    return _literally(chr(int(digits[0], 8))) + number[digits.end() :]


def _checked_repetition(least: str, most: str | None, token: re.Match[str]) -> str:
    """Return the repetition itself. Raises ``PatternError`` beyond PCRE's limit."""
    for number in (least, most or ""):
        digits = next((n for n in range(len(number)) if int(number[: n + 1]) > _REPEATED_MAX), None)
        if digits is not None:
            raise PatternError("number too big in {} quantifier", token.start() + token[0].index(number) + digits + 1)
    if most and int(most) < int(least):
        raise PatternError("numbers out of order in {} quantifier", token.end() - 1)
    return token[0]


# Lookbehinds


def _with_checked_lookbehinds(written: str, library: Library) -> str:
    """Return the pattern itself. Raises ``PatternError`` for a lookbehind of a length that the library refuses."""
    for token in re.finditer(_OUTSIDE, written):
        if not token["lookbehind"]:
            continue
        branches, end = _branches(written, token.end())
        if all(least == most for least, most in branches):
            continue
        longest = max(most for _, most in branches)
        if library == "PCRE":
            raise PatternError("lookbehind assertion is not fixed length", end)
        if longest > _LOOKED_BACK_MAX:
            limited = "too long" if longest < inf else "not limited"
            raise PatternError(f"length of lookbehind assertion is {limited}", token.start())
    return written


def _branches(written: str, at: int) -> tuple[list[tuple[float, float]], int]:
    """Return the least and most characters of each alternative from here to the end of the group, and that end."""
    branches: list[tuple[float, float]] = [(0, 0)]
    while (token := re.compile(_WIDE).match(written, at)) and not token["end"]:
        at = token.end()
        least, most = 1.0, inf if token["unlimited"] else 2.0 if token[0] == "\\R" else 1.0
        if token["branch"]:
            branches.append((0, 0))
            continue
        if token["opening"] or token["looking"]:
            within, end = _branches(written, at)
            least, most = min(few for few, _ in within), max(many for _, many in within)
            at = end + 1
        if token["nothing"] or token["looking"]:
            least, most = 0, 0
        repeated = re.compile(_REPEATED).match(written, at)
        if repeated:
            at = repeated.end()
            times = int(repeated["least"] or 0)
            least *= times if repeated["least"] else repeated[0].startswith("+")
            most = (
                inf
                if repeated["open"] and most
                else most * (1 if repeated["maybe"] else int(repeated["most"] or times))
            )
        few, many = branches[-1]
        branches[-1] = few + least, many + most
    return branches, at


def _literally(character: str) -> str:
    """Return a pattern for the character itself, fit for use inside and outside of a character class."""
    return character if ord(character) > 255 else f"\\x{ord(character):02x}"
