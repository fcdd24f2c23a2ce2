"""Selectors of JMS as ActiveMQ reads them: conditions on headers and properties, in a part of SQL-92.

Where a broker's grammar is not that of JMS, this is the broker's: NOT belongs to what
stands right behind it, so that ``NOT a = 1`` is ``(NOT a) = 1``.

Values are texts, numbers, truth values, and ``None`` for what is unknown. A broker's
logic is not that of JMS in some points: values of two types are unequal and not
unknown, and of two operands only the left one makes a comparison unknown.

Source: activemq-client, SelectorParser.jj, ComparisonExpression, ArithmeticExpression, UnaryExpression,
PropertyExpression.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import lru_cache
from typing import Any

import msgspec

from simulator.systems.activemq.messages import Message

Value = Callable[[Message], Any]
"""What a part of a selector comes to for a message."""

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
            return truth(part.value)
        raise self._error("a comparison before it")

    def _or(self) -> _Part:
        left = self._and()
        while self._take("OR"):
            left = _condition(either(self._truth(left), self._truth(self._and())))
        return left

    def _and(self) -> _Part:
        left = self._equality()
        while self._take("AND"):
            left = _condition(both(self._truth(left), self._truth(self._equality())))
        return left

    def _equality(self) -> _Part:
        left = self._comparison()
        while sign := self._take("=", "<>", "IS"):
            if sign == "IS":
                negative = self._take("NOT") is not None
                self._expect("NULL")
                found = equal(left.value, lambda message: None)
            else:
                negative = sign == "<>"
                right = self._comparison()
                self._check_equality(left, right)
                found = equal(left.value, right.value, converts=self._converts)
            left = _condition(negated(found) if negative else found)
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
            left = _condition(negated(found) if negative else found)
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
            return either(self._ordered(value, "<", low), self._ordered(value, ">", high))
        return both(self._ordered(value, ">=", low), self._ordered(value, "<=", high))

    def _ordered(self, left: Value, sign: str, right: Value) -> Value:
        return ordered(left, sign, right, converts=self._converts)

    def _in(self, left: _Part) -> Value:
        if not left.property:
            raise self._error("a property in front of IN")
        self._expect("(")
        texts = [self._string()]
        while self._take(","):
            texts.append(self._string())
        self._expect(")")
        return among(left.value, texts)

    def _like(self, left: _Part) -> Value:
        pattern, escape = self._string(), ""
        if self._take("ESCAPE"):
            escape = self._string()
            if len(escape) != 1:
                raise self._error("one character behind ESCAPE")
        return like(left.value, pattern, escape)

    def _string(self) -> str:
        if self._next.kind != "text":
            raise self._error("a text in single quotes")
        return self._advance().text[1:-1].replace("''", "'")

    def _sum(self) -> _Part:
        left = self._product()
        while sign := self._take("+", "-"):
            left = _Part(counted(left.value, sign, self._product().value))
        return left

    def _product(self) -> _Part:
        left = self._factor()
        while sign := self._take("*", "/", "%"):
            left = _Part(counted(left.value, sign, self._factor().value))
        return left

    def _factor(self) -> _Part:
        if self._take("+"):
            return self._factor()
        if self._take("-"):
            return _Part(minus(self._factor().value))
        if self._take("NOT"):
            return _condition(negated(self._truth(self._factor())))
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
            return _Part(named(token.text), property=True)
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


# What the parts of a selector come to for a message: headers, comparisons, sums, and the logic of three values.


_HEADERS: dict[str, Value] = {
    "JMSMessageID": lambda message: message.message_id,
    "JMSPriority": lambda message: message.priority,
    "JMSTimestamp": lambda message: message.timestamp_ms,
    "JMSExpiration": lambda message: message.expiration_ms,
    "JMSDeliveryMode": lambda message: "PERSISTENT" if message.persistent else "NON_PERSISTENT",
    "JMSDestination": lambda message: str(message.original_destination or message.destination),
    "JMSRedelivered": lambda message: message.redelivery_counter > 0,
    "JMSXDeliveryCount": lambda message: message.redelivery_counter + 1,
    "JMSXGroupSeq": lambda message: message.properties.get("JMSXGroupSeq", 0),
    "JMSXGroupFirstForConsumer": lambda message: False,
}
_ORDERS: dict[str, Callable[[int], bool]] = {
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}
COMPARISONS = tuple(_ORDERS)


class EvaluationError(ValueError):
    """A sum of what cannot be added, or the like, on which a broker fails."""


def named(name: str) -> Value:
    """Return the value of a header, or of a property."""
    return _HEADERS.get(name, lambda message: message.properties.get(name))


def equal(left: Value, right: Value, *, converts: bool = False) -> Value:
    """Return whether two values are the same; unknown where only the left one is.

    ``converts``: whether a text is read as what it is compared with.
    """

    def compare(message: Message) -> bool | None:
        one, other = left(message), right(message)
        if one is None or other is None:
            return None if one is None and other is not None else one is other
        return _order(one, other, converts=converts) == 0

    return compare


def ordered(left: Value, sign: str, right: Value, *, converts: bool = False) -> Value:
    """Return whether one value is before, or behind, another; unknown where one is. ``converts`` as in ``equal``."""

    def compare(message: Message) -> bool | None:
        one = left(message)
        other = None if one is None else right(message)
        if other is None:
            return None
        order = _order(one, other, converts=converts)
        return order is not None and _ORDERS[sign](order)

    return compare


def among(left: Value, texts: list[str]) -> Value:
    """Return whether a text is one of these; unknown for anything but text."""
    return lambda message: found in texts if isinstance(found := left(message), str) else None


def like(left: Value, pattern: str, escape: str) -> Value:
    """Return whether a text is as the pattern: ``%`` is any text and ``_`` any character."""
    compiled = _pattern(pattern, escape)

    def compare(message: Message) -> bool | None:
        found = left(message)
        return None if found is None else isinstance(found, str) and compiled.fullmatch(found) is not None

    return compare


def truth(value: Value) -> Value:
    """Return a property as a truth value, which one of another type is not."""
    return lambda message: None if (found := value(message)) is None else found is True


def both(left: Value, right: Value) -> Value:
    """Return AND."""
    return _decided_by(left, right, decisive=False)


def either(left: Value, right: Value) -> Value:
    """Return OR."""
    return _decided_by(left, right, decisive=True)


def _decided_by(left: Value, right: Value, *, decisive: bool) -> Value:
    """Return this truth value where one of two has it, else unknown where one is unknown, else the other value."""

    def evaluate(message: Message) -> Any:
        one = left(message)
        if one is decisive:
            return decisive
        other = right(message)
        if other is decisive:
            return decisive
        return None if one is None or other is None else not decisive

    return evaluate


def negated(value: Value) -> Value:
    """Return NOT."""
    return lambda message: None if (found := value(message)) is None else not found


def minus(value: Value) -> Value:
    """Return a number with the other sign; unknown for anything but a number."""

    def evaluate(message: Message) -> Any:
        found = value(message)
        if isinstance(found, Decimal) and int(found) == 2**63:
            return -(2**63)
        return -found if _is_number(found) else None

    return evaluate


def counted(left: Value, sign: str, right: Value) -> Value:
    """Return a sum, a product or the like. ``+`` joins texts. Evaluating it raises ``EvaluationError``."""

    def evaluate(message: Message) -> Any:
        one = left(message)
        other = None if one is None else right(message)
        if other is None:
            return None
        if isinstance(one, str) and sign == "+":
            return one + (str(other).lower() if isinstance(other, bool) else str(other))
        if not _is_number(one) or not _is_number(other):
            raise EvaluationError(f"'{one}' {sign} '{other}'")
        return _COUNTS[sign](*(float(each) if isinstance(each, Decimal) else each for each in (one, other)))

    return evaluate


def _divided(one: Any, other: Any) -> float:
    if other:
        return float(one) / float(other)
    return math.copysign(math.inf, one) * math.copysign(1, other) if one else math.nan


_COUNTS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda one, other: one + other,
    "-": lambda one, other: one - other,
    "*": lambda one, other: one * other,
    "/": _divided,
    "%": lambda one, other: math.fmod(one, other) if other else math.nan,
}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _order(one: Any, other: Any, *, converts: bool = False) -> int | None:
    """Return below 0, 0 or above 0; ``None`` for values of two types, and for one beyond 64 bits, which has its own."""
    if converts and isinstance(one, str) != isinstance(other, str):
        one, other = (_as_one_of(other, one), other) if isinstance(one, str) else (one, _as_one_of(one, other))
    types = [float if type(each) is int else type(each) for each in (one, other)]
    if types[0] is not types[1]:
        return None
    if types[0] is float and (one != one or other != other):
        return int(one != one) - int(other != other)  # as Java orders them: values other than numbers come last
    return int(one > other) - int(one < other)


def _as_one_of(kind: Any, text: str) -> Any:
    """Return what a text says as a value of the same type as another one; the text where it is none."""
    if isinstance(kind, bool):
        return text.lower() == "true"
    form, read = (_WHOLE_TEXT, int) if isinstance(kind, int) else (_DECIMAL_TEXT, float)
    return read(text) if form.fullmatch(text) else text


_WHOLE_TEXT = re.compile(r"[+-]?[0-9]{1,18}")
_DECIMAL_TEXT = re.compile(r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*")


def _pattern(text: str, escape: str) -> re.Pattern[str]:
    parts, at = [], 0
    while at < len(text):
        if escape and text[at] == escape and text[at + 1 : at + 2] in ("%", "_", escape):
            parts.append(re.escape(text[at + 1]))
            at += 2
            continue
        parts.append({"%": ".*", "_": "."}.get(text[at], re.escape(text[at])))
        at += 1
    return re.compile("".join(parts), re.DOTALL)
