"""Selectors of JMS as ActiveMQ reads them: conditions on headers and properties, in a part of SQL-92.

Where a broker's grammar is not that of JMS, this is the broker's: NOT belongs to what
stands right behind it, so that ``NOT a = 1`` is ``(NOT a) = 1``.

Source: activemq-client, SelectorParser.jj, and the checks of ComparisonExpression.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache
from typing import Any

import msgspec

from simulator.systems.activemq import selector_values as values
from simulator.systems.activemq.messages import Message
from simulator.systems.activemq.selector_values import COMPARISONS, EvaluationError, Value

_SPACE = re.compile(r"(?:[ \t\n\r\f]|--[^\n\r]*[\n\r]|/\*.*?\*/)*", re.DOTALL)
_TOKEN = re.compile(
    r"""(?P<decimal>\d+\.\d*(?:E[+-]?\d+)?|\.\d+(?:E[+-]?\d+)?|\d+E[+-]?\d+)
    | (?P<hexadecimal>0X[0-9A-F]+)
    | (?P<octal>0[0-7]*)
    | (?P<whole>[1-9]\d*)L?
    | (?P<text>'(?:[^']|'')*')
    | (?P<word>[A-Z_$][A-Z0-9_$]*)
    | (?P<sign><>|<=|>=|[=<>()+\-*/%,])""",
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_RESERVED = frozenset(
    ["AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE", "XPATH", "XQUERY"]
)
CONVERTING = "convert_string_expressions:"
"""Begins a selector that reads a text as a number, or truth value, where it is compared with one."""
_CONSTANTS = {"TRUE": True, "FALSE": False, "NULL": None}


class SelectorError(ValueError):
    """A selector that cannot be read; the text says where."""


class UnknownSelectionError(Exception):
    """What a selector selects is not known here: the text says of which message, and why."""


class Selector(msgspec.Struct, frozen=True):
    """A selector, as it was written."""

    text: str

    def __post_init__(self) -> None:
        _read(self.text)

    def selects(self, message: Message) -> bool:
        """Return whether it selects the message. One on which a broker fails does not.

        Raises ``UnknownSelectionError`` where it asks for an XPATH in a body that looks like XML.
        """
        try:
            return _read(self.text)(message) is True
        except EvaluationError:
            return False


def parse_selector(text: str | None) -> Selector | None:
    """Read a selector; none, or an empty one, selects everything.

    Raises ``SelectorError`` with the place and what would be right there.
    """
    return None if text is None or not text.strip() else Selector(text)


@lru_cache(maxsize=1000)
def _read(text: str) -> Value:
    return _Parser(text.removeprefix(CONVERTING), converts=text.startswith(CONVERTING)).read()


class _Token(msgspec.Struct, frozen=True):
    """A token: its kind (``sign`` for reserved words, ``end``, ``unknown``), its text, and where it begins."""

    kind: str
    text: str
    at: int


class _Part(msgspec.Struct, frozen=True):
    """A part of a selector: its value, and what a broker knows of it before there is a message."""

    value: Value
    boolean: bool = False
    property: bool = False
    constant: bool = False
    known: Any = None


def _condition(value: Value) -> _Part:
    return _Part(value, boolean=True)


def _constant(known: Any) -> _Part:
    return _Part(lambda message: known, boolean=known is None or isinstance(known, bool), constant=True, known=known)


class _Parser:
    """Reads a selector from left to right, what binds loosest first."""

    def __init__(self, text: str, *, converts: bool) -> None:
        self._text, self._converts = text, converts
        self._tokens = _tokens(text)
        self._next = next(self._tokens)

    def read(self) -> Value:
        condition = self._truth(self._or())
        if self._next.kind != "end":
            raise self._error("the end, AND or OR")
        return condition

    def _advance(self) -> _Token:
        token = self._next
        self._next = next(self._tokens)
        return token

    def _take(self, *signs: str) -> str | None:
        if self._next.kind == "unknown":
            raise self._error("a name, a value or an operator")
        if self._next.kind != "sign" or self._next.text not in signs:
            return None
        return self._advance().text

    def _expect(self, sign: str) -> None:
        if self._take(sign) is None:
            raise self._error(sign)

    def _error(self, expected: str) -> SelectorError:
        return SelectorError(f"'{self._text}', character {self._next.at + 1}: expected {expected}")

    def _truth(self, part: _Part) -> Value:
        if part.boolean:
            return part.value
        if part.property:
            return values.truth(part.value)
        raise self._error("a comparison before it")

    def _or(self) -> _Part:
        left = self._and()
        while self._take("OR"):
            left = _condition(values.either(self._truth(left), self._truth(self._and())))
        return left

    def _and(self) -> _Part:
        left = self._equality()
        while self._take("AND"):
            left = _condition(values.both(self._truth(left), self._truth(self._equality())))
        return left

    def _equality(self) -> _Part:
        left = self._comparison()
        while sign := self._take("=", "<>", "IS"):
            if sign == "IS":
                negative = self._take("NOT") is not None
                self._expect("NULL")
                found = values.equal(left.value, lambda message: None)
            else:
                negative = sign == "<>"
                right = self._comparison()
                self._check_equality(left, right)
                found = values.equal(left.value, right.value, converts=self._converts)
            left = _condition(values.negated(found) if negative else found)
        return left

    def _check_equality(self, left: _Part, right: _Part) -> None:
        if any(part.constant and part.known is None for part in (left, right)):
            raise self._error("IS NULL or IS NOT NULL instead of a comparison with NULL")
        if left.constant and right.constant and left.boolean and not right.boolean:
            raise self._error("two constants of one type")

    def _comparison(self) -> _Part:
        left = self._sum()
        while sign := self._take(*COMPARISONS, "LIKE", "BETWEEN", "IN", "NOT"):
            negative = sign == "NOT"
            if negative:
                sign = self._take("LIKE", "BETWEEN", "IN")
            if sign == "LIKE":
                found = self._like(left)
            elif sign == "IN":
                found = self._in(left)
            elif sign == "BETWEEN":
                left = _condition(self._between(left, negative=negative))
                continue
            elif sign is None:
                raise self._error("LIKE, BETWEEN or IN")
            else:
                right = self._sum()
                found = self._ordered(self._number(left), sign, self._number(right))
            left = _condition(values.negated(found) if negative else found)
        return left

    def _number(self, part: _Part) -> Value:
        """Return the value of what has an order: no text, truth value or NULL that is written here, no comparison."""
        if part.boolean or (part.constant and isinstance(part.known, str)):
            raise self._error("a number or a property on both sides of a comparison before it")
        return part.value

    def _between(self, left: _Part, *, negative: bool) -> Value:
        value = self._number(left)
        low = self._number(self._sum())
        self._expect("AND")
        high = self._number(self._sum())
        if negative:
            return values.either(self._ordered(value, "<", low), self._ordered(value, ">", high))
        return values.both(self._ordered(value, ">=", low), self._ordered(value, "<=", high))

    def _ordered(self, left: Value, sign: str, right: Value) -> Value:
        return values.ordered(left, sign, right, converts=self._converts)

    def _in(self, left: _Part) -> Value:
        if not left.property:
            raise self._error("a property in front of IN")
        self._expect("(")
        texts = [self._string()]
        while self._take(","):
            texts.append(self._string())
        self._expect(")")
        return values.among(left.value, texts)

    def _like(self, left: _Part) -> Value:
        pattern, escape = self._string(), ""
        if self._take("ESCAPE"):
            escape = self._string()
            if len(escape) != 1:
                raise self._error("one character behind ESCAPE")
        return values.like(left.value, pattern, escape)

    def _string(self) -> str:
        if self._next.kind != "text":
            raise self._error("a text in single quotes")
        return self._advance().text[1:-1].replace("''", "'")

    def _sum(self) -> _Part:
        left = self._product()
        while sign := self._take("+", "-"):
            left = _Part(values.counted(left.value, sign, self._product().value))
        return left

    def _product(self) -> _Part:
        left = self._factor()
        while sign := self._take("*", "/", "%"):
            left = _Part(values.counted(left.value, sign, self._factor().value))
        return left

    def _factor(self) -> _Part:
        if self._take("+"):
            return self._factor()
        if self._take("-"):
            return _Part(values.minus(self._factor().value))
        if self._take("NOT"):
            return _condition(values.negated(self._truth(self._factor())))
        if self._take("XPATH"):
            return _condition(_xpath(self._string()))
        if self._take("XQUERY"):
            self._string()
            return _condition(lambda message: False)  # no broker of 5.17 evaluates one
        if self._take("("):
            inner = self._or()
            self._expect(")")
            return inner
        if word := self._take(*_CONSTANTS):
            return _constant(_CONSTANTS[word])
        if self._next.kind == "text":
            return _constant(self._string())
        if self._next.kind in ("sign", "end"):
            raise self._error("a name or a value")
        token = self._advance()
        if token.kind == "word":
            return _Part(values.named(token.text), property=True)
        return _constant(_number(token))


def _xpath(expression: str) -> Value:
    """Return whether an XPath is met. A body that is not XML meets none, nor does a missing body."""

    def met(message: Message) -> bool:
        if not message.text.lstrip().startswith("<"):
            return False
        raise UnknownSelectionError(
            f"XPATH '{expression}' is not evaluated here, and the body of {message.message_id} looks like XML"
        )

    return met


def _number(token: _Token) -> int | float | Decimal:
    if token.kind == "decimal":
        return float(token.text)
    number = int(token.text, {"hexadecimal": 16, "octal": 8}.get(token.kind, 10))
    return number if number < 2**63 else Decimal(number)


def _tokens(text: str) -> Iterator[_Token]:
    """Yield the tokens, then what cannot be one, or the end, for ever. A token takes as many characters as it can."""
    at = _end_of(_SPACE, text, 0)
    while found := _TOKEN.match(text, at):
        kind = str(found.lastgroup)
        token = found[kind]
        if kind == "word" and token.upper() in _RESERVED:
            kind, token = "sign", token.upper()
        yield _Token(kind, token, at)
        at = _end_of(_SPACE, text, found.end())
    while True:
        yield _Token("unknown" if at < len(text) else "end", text[at:], at)


def _end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return at if found is None else found.end()
