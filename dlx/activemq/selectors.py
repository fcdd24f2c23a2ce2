"""Selectors of JMS: conditions on the headers and properties of a message, in a part of SQL-92.

Text compares with text and numbers with numbers; any other comparison, and any with
a property that the message lacks, is unknown, and what is unknown is not selected.

Source: Java Message Service 1.1, 3.8.1; activemq-client, SelectorParser.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from dlx.activemq.messages import Message

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)[lLfFdD]?
    | (?P<text>'(?:[^']|'')*')
    | (?P<word>[A-Za-z_$][\w$.]*)
    | (?P<sign><>|<=|>=|!=|[=<>()+\-*/,])
    )""",
    re.VERBOSE,
)
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_SUMS: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub}
_PRODUCTS: dict[str, Callable[[Any, Any], Any]] = {"*": operator.mul, "/": operator.truediv}
_RESERVED = frozenset({"AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE"})
Value = Callable[[Message], Any]
"""What a part of a selector comes to for a message; ``None`` is unknown."""


class SelectorError(ValueError):
    """A selector that cannot be read; the text says where."""


class Selector(msgspec.Struct, frozen=True):
    """A selector, as it was written."""

    text: str

    def __post_init__(self) -> None:
        _read(self.text)

    def selects(self, message: Message) -> bool:
        """Return whether it selects the message."""
        return _read(self.text)(message) is True


def parse_selector(text: str | None) -> Selector | None:
    """Read a selector; none, or an empty one, selects everything.

    Raises ``SelectorError`` with the place and what would be right there.
    """
    return None if text is None or not text.strip() else Selector(text)


@lru_cache(maxsize=1000)
def _read(text: str) -> Value:
    return _Parser(text).read()


def _header(name: str) -> Value:
    headers: dict[str, Value] = {
        "JMSMessageID": lambda message: message.message_id,
        "JMSPriority": lambda message: message.priority,
        "JMSTimestamp": lambda message: message.timestamp_ms,
        "JMSExpiration": lambda message: message.expiration_ms,
        "JMSDeliveryMode": lambda message: "PERSISTENT" if message.persistent else "NON_PERSISTENT",
        "JMSDestination": lambda message: str(message.destination),
        "JMSRedelivered": lambda message: message.redelivery_counter > 0,
        "JMSXDeliveryCount": lambda message: message.redelivery_counter + 1,
    }
    return headers.get(name, lambda message: message.properties.get(name))


class _Parser:
    """Reads a selector from left to right, what binds loosest first."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._tokens = list(self._split())
        self._next = 0

    def _split(self) -> Any:
        at = 0
        while self._text[at:].strip():
            found = _TOKEN.match(self._text, at)
            if found is None:
                place = at + len(self._text[at:]) - len(self._text[at:].lstrip()) + 1
                raise SelectorError(f"'{self._text}', character {place}: expected a name, a value or an operator")
            at = found.end()
            kind = str(found.lastgroup)
            token = found[kind]
            if kind == "word" and token.upper() in _RESERVED:
                kind, token = "sign", token.upper()
            yield kind, token, found.start(kind)

    def read(self) -> Value:
        value = self._or()
        if self._next < len(self._tokens):
            raise self._error("the end, AND or OR")
        return value

    def _peek(self) -> str | None:
        kind, token, _ = self._tokens[self._next] if self._next < len(self._tokens) else ("end", "", 0)
        return token if kind == "sign" else None

    def _take(self, *signs: str) -> str | None:
        token = self._peek()
        if token not in signs:
            return None
        self._next += 1
        return token

    def _expect(self, sign: str) -> None:
        if self._take(sign) is None:
            raise self._error(sign)

    def _error(self, expected: str) -> SelectorError:
        ended = self._next >= len(self._tokens)
        place = len(self._text) if ended else self._tokens[self._next][2]
        return SelectorError(f"'{self._text}', character {place + 1}: expected {expected}")

    def _or(self) -> Value:
        left = self._and()
        while self._take("OR"):
            left = _either(left, self._and())
        return left

    def _and(self) -> Value:
        left = self._not()
        while self._take("AND"):
            left = _both(left, self._not())
        return left

    def _not(self) -> Value:
        return _negated(self._not()) if self._take("NOT") else self._comparison()

    def _comparison(self) -> Value:
        left = self._sum()
        sign = self._take(*_COMPARISONS)
        if sign is not None:
            return _compared(left, sign, self._sum())
        if self._take("IS"):
            negative = self._take("NOT") is not None
            self._expect("NULL")
            return lambda message: (left(message) is None) != negative
        negative = self._take("NOT") is not None
        found = self._range(left)
        return _negated(found) if negative else found

    def _range(self, left: Value) -> Value:
        sign = self._take("BETWEEN", "IN", "LIKE")
        if sign == "BETWEEN":
            low = self._sum()
            self._expect("AND")
            return _both(_compared(left, ">=", low), _compared(left, "<=", self._sum()))
        if sign == "IN":
            self._expect("(")
            texts = [self._string()]
            while self._take(","):
                texts.append(self._string())
            self._expect(")")
            return lambda message: None if left(message) is None else left(message) in texts
        if sign == "LIKE":
            pattern = _pattern(self._string(), self._string() if self._take("ESCAPE") else "")
            return lambda message: bool(pattern.fullmatch(value)) if isinstance(value := left(message), str) else None
        return left

    def _string(self) -> str:
        kind, token, _ = self._tokens[self._next] if self._next < len(self._tokens) else ("end", "", 0)
        if kind != "text":
            raise self._error("a text in single quotes")
        self._next += 1
        return str(token)[1:-1].replace("''", "'")

    def _sum(self) -> Value:
        left = self._product()
        while sign := self._take(*_SUMS):
            left = _counted(left, _SUMS[sign], self._product())
        return left

    def _product(self) -> Value:
        left = self._factor()
        while sign := self._take(*_PRODUCTS):
            left = _counted(left, _PRODUCTS[sign], self._factor())
        return left

    def _factor(self) -> Value:
        if self._take("("):
            inner = self._or()
            self._expect(")")
            return inner
        if sign := self._take("+", "-"):
            return _counted(lambda message: 0, _SUMS[sign], self._factor())
        if constant := self._take("TRUE", "FALSE", "NULL"):
            known = {"TRUE": True, "FALSE": False, "NULL": None}[constant]
            return lambda message: known
        kind, token, _ = self._tokens[self._next] if self._next < len(self._tokens) else ("end", "", 0)
        if kind == "text":
            text = self._string()
            return lambda message: text
        if kind not in ("number", "word"):
            raise self._error("a name or a value")
        self._next += 1
        if kind == "word":
            return _header(token)
        number = float(token) if any(each in token for each in ".eE") else int(token)
        return lambda message: number


def _kind(value: Any) -> type:
    return float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)


def _compared(left: Value, sign: str, right: Value) -> Value:
    def compare(message: Message) -> bool | None:
        one, other = left(message), right(message)
        if one is None or other is None or _kind(one) is not _kind(other):
            return None
        if _kind(one) is not float and sign not in ("=", "<>", "!="):
            return None
        return _COMPARISONS[sign](one, other)

    return compare


def _counted(left: Value, count: Callable[[Any, Any], Any], right: Value) -> Value:
    def result(message: Message) -> Any:
        one, other = left(message), right(message)
        numbers = _kind(one) is float and _kind(other) is float
        return count(one, other) if numbers and not (count is operator.truediv and other == 0) else None

    return result


def _both(left: Value, right: Value) -> Value:
    def both(message: Message) -> bool | None:
        found = (left(message), right(message))
        return False if False in found else None if None in found else True

    return both


def _either(left: Value, right: Value) -> Value:
    def either(message: Message) -> bool | None:
        found = (left(message), right(message))
        return True if True in found else None if None in found else False

    return either


def _negated(value: Value) -> Value:
    return lambda message: None if value(message) is None else not value(message)


def _pattern(text: str, escape: str) -> re.Pattern[str]:
    """Translate a pattern of LIKE: ``%`` is any text and ``_`` any character."""
    parts, characters = [], iter(text)
    for each in characters:
        if each == escape:
            parts.append(re.escape(next(characters, escape)))
        else:
            parts.append({"%": ".*", "_": "."}.get(each, re.escape(each)))
    return re.compile("".join(parts), re.DOTALL)
