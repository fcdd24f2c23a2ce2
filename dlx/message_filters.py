"""Filters that a consumer of AMQP 1.0 sets on a stream: by properties, or by an SQL expression.

An expression is plain data: nested tuples. Text and binary are one kind here, bytes; an unknown value is ``None``.

Source: rabbit_amqp_filter_prop.erl, rabbit_amqp_filter_sql.erl, rabbit_amqp_sql_lexer.xrl, rabbit_amqp_sql_parser.yrl.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from math import trunc
from typing import Any
from urllib.parse import quote
from uuid import UUID

import msgspec

from dlx.deaths import seconds
from dlx.message import Message
from dlx.sql_values import COMPARISONS, SUMS, joined, negated

Expression = tuple[Any, ...]

PROPERTY_NAMES = (
    "message_id", "user_id", "to", "subject", "reply_to", "correlation_id", "content_type", "content_encoding",
    "absolute_expiry_time", "creation_time", "group_id", "group_sequence", "reply_to_group_id",
)  # fmt: skip
_DEFAULT_PRIORITY = 4


class Filtered(msgspec.Struct, kw_only=True):
    """What filters see of a message: ``properties`` by ``PROPERTY_NAMES``; ``now_ms`` is the time for ``UTC()``."""

    properties: Mapping[str, Any]
    application_properties: Mapping[str, Any]
    priority: int | None = None
    now_ms: int = 0


class SqlError(ValueError):
    """An SQL expression that a server does not take."""


def accepts(expression: Expression, message: Filtered) -> bool:
    """Return whether a filter lets the message through: a ``("property", …)`` or a ``("sql", …)``."""
    kind, *rest = expression
    if kind == "sql":
        return _value(rest[0], message) is True
    return all(_holds(section, pairs, message) for section, pairs in rest)


def filtered(message: Message, now_ms: int) -> Filtered:
    """Return what filters see of a message. Source: mc_amqpl.erl convert_to."""
    sent = message.amqp10
    if sent is not None:
        properties, application = sent.properties, sent.application_properties
    else:
        properties = dict(_converted(message.properties))
        headers = message.headers or {}
        application = {name: value for name, value in headers.items() if is_application_property(name, value)}
    priority = message.properties.get("priority")
    return Filtered(properties=properties, application_properties=application, priority=priority, now_ms=now_ms)


def _converted(properties: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the properties of AMQP 1.0 that basic properties become."""
    for name, of_amqp10 in _CONVERTED.items():
        value = properties.get(name)
        if value is not None:
            yield of_amqp10, value
    for name in ("message_id", "correlation_id"):
        value = properties.get(name)
        if value is not None:
            yield name, UUID(value) if URN_OF_UUID.fullmatch(value) else value
    if properties.get("reply_to") is not None:
        yield "reply_to", f"/queues/{quote(properties['reply_to'], safe='')}"
    created_s = seconds(properties.get("timestamp"))
    if created_s is not None:
        yield "creation_time", created_s * 1_000


URN_OF_UUID = re.compile(r"urn:uuid:[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_CONVERTED = {
    "user_id": "user_id",
    "content_type": "content_type",
    "content_encoding": "content_encoding",
    "app_id": "group_id",
}


def is_application_property(name: str, value: Any) -> bool:
    """Return whether a header of AMQP 0-9-1 becomes an application property. Source: mc_amqpl.erl convert_to."""
    return not name.startswith("x-") and not isinstance(value, Mapping | list | tuple)


def plain(value: Any) -> Any:
    """Return a value of a message as filters compare it: text, symbols and UUIDs are bytes; lists and maps are ()."""
    if isinstance(value, str):
        return value.encode(errors="surrogateescape")
    if value is None or isinstance(value, bool | bytes):
        return value
    if isinstance(value, int | float):
        return float(value) if isinstance(value, float) else int(value)
    return value.bytes if isinstance(value, UUID) else ()


# Property filters


def reference(text: str) -> tuple[str, bytes]:
    """Return how a property filter compares text: with its end (``&s:``), its beginning (``&p:``) or all of it.

    Raises ``ValueError`` for another text that begins with ``&``, unless that is doubled.
    """
    for mark, how in (("&s:", "suffix"), ("&p:", "prefix")):
        if text.startswith(mark):
            return how, text.removeprefix(mark).encode()
    if text.startswith("&") and not text.startswith("&&"):
        raise ValueError(f"expected &s:, &p: or && at the beginning of {text!r}")
    return "is", text.removeprefix("&").encode()


def _holds(section: str, pairs: Sequence[tuple[str, str, Any]], message: Filtered) -> bool:
    if section == "properties":
        return all(_matches(how, wanted, plain(message.properties.get(name))) for name, how, wanted in pairs)
    held = message.application_properties
    return all(name in held and _matches(how, wanted, plain(held[name])) for name, how, wanted in pairs)


def _matches(how: str, wanted: Any, value: Any) -> bool:
    if wanted is None:
        return True
    if how == "is":
        return _equal(wanted, value)
    return isinstance(value, bytes) and (value.endswith(wanted) if how == "suffix" else value.startswith(wanted))


def _equal(one: Any, other: Any) -> bool:
    return _kind(one) == _kind(other) and bool(one == other)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float) else type(value).__name__


# SQL: tokens

_MAX_LENGTH, _MAX_TOKENS = 4_096, 200
_TOKEN = re.compile(
    r"""(?P<space>[ \t\f\n\r]+)
    | (?P<sign><>|!=|>=|<=|[=<>+\-*/%(),])
    | (?P<float>[0-9]+\.[0-9]+(?:E[+-]?[0-9]+)?)
    | (?P<binary>0x(?:[0-9A-F]{2})+)
    | (?P<integer>[0-9]+)
    | (?P<string>'(?:[^']|'')*'|"(?:[^"]|"")*")
    | (?P<section>[a-zA-Z][a-zA-Z_-]*\.[a-zA-Z][a-zA-Z0-9_]*)
    | (?P<delimited>\[(?:[^\[\]]|\[\[|\]\])*\])
    | (?P<word>[a-zA-Z][a-zA-Z0-9_]*)""",
    re.VERBOSE,
)
_KEYWORDS = frozenset({"AND", "OR", "NOT", "LIKE", "IN", "IS", "NULL", "ESCAPE", "UTC"})
_RESERVED = _KEYWORDS | {
    "TRUE", "FALSE", "EXISTS", "NAN", "INF", "LOWER", "UPPER", "LEFT", "RIGHT", "SUBSTRING", "DATE",
}  # fmt: skip
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def parse_sql(text: str) -> Expression:
    """Return an SQL expression as data. Raises ``SqlError``."""
    if len(text) > _MAX_LENGTH:
        raise SqlError(f"expected at most {_MAX_LENGTH} characters, found {len(text)}")
    tokens = _tokens(text)
    if len(tokens) > _MAX_TOKENS:
        raise SqlError(f"expected at most {_MAX_TOKENS} tokens, found {len(tokens)}")
    parser = _Parser(tokens)
    expression = parser.alternatives()
    if parser.next != _END:
        raise SqlError(f"expected the end, found {parser.next[1]!r}")
    return expression


_Token = tuple[str, Any]
_END: _Token = ("end", "")


def _tokens(text: str) -> list[_Token]:
    found, at = list[_Token](), 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise SqlError(f"expected no {text[at]!r}")
        at = match.end()
        if match.lastgroup != "space":
            found.append(_READERS[match.lastgroup or ""](match[0]))
    return found


def _read_word(word: str) -> _Token:
    if word in _KEYWORDS:
        return "keyword", word
    if word in ("TRUE", "FALSE"):
        return "literal", word == "TRUE"
    if word.upper() in _RESERVED:
        raise SqlError(f"expected no {word!r}: keywords are in capitals, and not all are supported")
    return "name", ("application", word)


def _read_section(path: str) -> _Token:
    section, _, name = path.partition(".")
    if section in ("application_properties", "a"):
        return "name", ("application", name)
    if section in ("properties", "p") and name in PROPERTY_NAMES:
        return "name", ("properties", name)
    if section in ("header", "h") and name == "priority":
        return "name", ("header", name)
    raise SqlError(f"expected no field {path!r}")


def _read_delimited(text: str) -> _Token:
    if _CONTROL.search(text):
        raise SqlError(f"expected no control character in {text!r}")
    return "name", ("application", text[1:-1].replace("[[", "[").replace("]]", "]"))


_READERS: Mapping[str, Callable[[str], _Token]] = {
    "sign": lambda text: ("sign", "<>" if text == "!=" else text),
    "float": lambda text: ("literal", float(text)),
    "binary": lambda text: ("literal", bytes.fromhex(text[2:])),
    "integer": lambda text: ("literal", int(text)),
    "string": lambda text: ("string", text[1:-1].replace(text[0] * 2, text[0])),
    "word": _read_word,
    "section": _read_section,
    "delimited": _read_delimited,
}


# SQL: the grammar


class _Parser:
    """Reads the tokens of one expression."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def next(self) -> _Token:
        """The token that comes next."""
        return self._tokens[self._at] if self._at < len(self._tokens) else _END

    def _take(self, *wanted: _Token) -> str:
        """Take the next token if it is one of these; return its text, else an empty one."""
        if self.next not in wanted:
            return ""
        self._at += 1
        return str(self._tokens[self._at - 1][1])

    def _keyword(self, word: str) -> bool:
        return bool(self._take(("keyword", word)))

    def _sign(self, sign: str) -> None:
        if not self._take(("sign", sign)):
            raise SqlError(f"expected {sign!r}, found {self.next[1]!r}")

    def alternatives(self) -> Expression:
        """Read what OR joins."""
        found = self._conjunction()
        while self._keyword("OR"):
            found = ("or", found, self._conjunction())
        return found

    def _conjunction(self) -> Expression:
        found = self._negation()
        while self._keyword("AND"):
            found = ("and", found, self._negation())
        return found

    def _negation(self) -> Expression:
        return ("not", self._negation()) if self._keyword("NOT") else self._comparison()

    def _comparison(self) -> Expression:
        first = self._at
        left = self._sum()
        is_name = self._at == first + 1 and left[0] == "name"
        sign = self._take(*(("sign", sign) for sign in COMPARISONS))
        if sign:
            return (sign, left, self._sum())
        if is_name and self._keyword("IS"):
            is_not = self._keyword("NOT")
            if not self._keyword("NULL"):
                raise SqlError(f"expected NULL, found {self.next[1]!r}")
            return _negated_if(is_not, ("is null", left))
        is_not = self._keyword("NOT")
        if self._keyword("LIKE"):
            return _negated_if(is_not, ("like", left, *self._pattern()))
        if self._keyword("IN"):
            return _negated_if(is_not, ("in", left, self._list()))
        if is_not:
            raise SqlError(f"expected LIKE or IN, found {self.next[1]!r}")
        return left

    def _pattern(self) -> tuple[str, str]:
        pattern, escape = self._string(), ""
        if self._keyword("ESCAPE"):
            escape = self._string()
            if len(escape) != 1:
                raise SqlError("expected one character behind ESCAPE")
        _wildcards_and_text(pattern, escape)
        return pattern, escape

    def _string(self) -> str:
        kind, text = self.next
        if kind != "string":
            raise SqlError(f"expected text, found {text!r}")
        self._at += 1
        return str(text)

    def _list(self) -> Expression:
        self._sign("(")
        items = [self._sum()]
        while self._take(("sign", ",")):
            items.append(self._sum())
        self._sign(")")
        return tuple(items)

    def _sum(self) -> Expression:
        found = self._product()
        while sign := self._take(("sign", "+"), ("sign", "-")):
            found = (sign, found, self._product())
        return found

    def _product(self) -> Expression:
        found = self._signed()
        while sign := self._take(("sign", "*"), ("sign", "/"), ("sign", "%")):
            found = (sign, found, self._signed())
        return found

    def _signed(self) -> Expression:
        sign = self._take(("sign", "+"), ("sign", "-"))
        return (f"unary {sign}", self._primary()) if sign else self._primary()

    def _primary(self) -> Expression:
        kind, value = self.next
        self._at += 1
        if kind == "literal":
            return ("literal", value)
        if kind == "string":
            return ("literal", value.encode(errors="surrogateescape"))
        if kind == "name":
            return ("name", *value)
        if (kind, value) == ("keyword", "UTC"):
            self._sign("(")
            self._sign(")")
            return ("utc",)
        if (kind, value) == ("sign", "("):
            inner = self.alternatives()
            self._sign(")")
            return inner
        raise SqlError(f"expected a value, found {value!r}")


def _negated_if(is_not: bool, expression: Expression) -> Expression:
    return ("not", expression) if is_not else expression


def _wildcards_and_text(pattern: str, escape: str) -> list[tuple[str, str]]:
    """Return the characters of a pattern, each with the wildcard that it is: % any text, _ any character.

    Raises ``SqlError``.
    """
    if _CONTROL.search(pattern):
        raise SqlError(f"expected no control character in {pattern!r}")
    found, characters = list[tuple[str, str]](), iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, None)
            if escaped is None:
                raise SqlError(f"expected a character behind {escape!r}")
            found.append(("", escaped))
        else:
            found.append((character if character in "%_" else "", character))
    return found


# SQL: values


def _value(expression: Expression, message: Filtered) -> Any:
    """Return the value of an expression; ``None`` where it is unknown."""
    match expression:
        case ("literal", value):
            return value
        case ("name", section, name):
            return _field(section, name, message)
        case ("utc",):
            return message.now_ms
        case ("not", of):
            return negated(_value(of, message))
        case ("and" | "or" as which, one, other):
            first, decides = _value(one, message), which == "or"
            return joined(first, None if first is decides else _value(other, message), decides=decides)
        case ("unary +" | "unary -" as sign, of):
            value = _value(of, message)
            return None if _kind(value) != "number" else -value if sign == "unary -" else value
        case ("is null", of):
            return _value(of, message) is None
        case ("in", of, items):
            value = _value(of, message)
            return None if value is None else any(_equal(_value(item, message), value) for item in items)
        case ("like", of, pattern, escape):
            return _is_like(_value(of, message), pattern, escape)
        case (sign, one, other):
            return _computed(sign, _value(one, message), _value(other, message))
    raise AssertionError(expression)


def _field(section: str, name: str, message: Filtered) -> Any:
    if section == "application":
        return plain(message.application_properties.get(name))
    if section == "header":
        return _DEFAULT_PRIORITY if message.priority is None else message.priority
    return plain(message.properties.get(name))


def _computed(sign: str, one: Any, other: Any) -> Any:
    if one is None or other is None:
        return None
    if sign in ("=", "<>"):
        return _equal(one, other) is (sign == "=")
    kinds = {_kind(one), _kind(other)}
    if sign in COMPARISONS:
        return kinds in ({"number"}, {"bytes"}) and bool(COMPARISONS[sign](one, other))
    if kinds != {"number"} or (sign in "/%" and not other):
        return None
    if sign == "%":
        return one - other * trunc(one / other) if isinstance(one, int) and isinstance(other, int) else None
    return SUMS[sign](one, other)


def _is_like(value: Any, pattern: str, escape: str) -> bool | None:
    """Return whether the value is like the pattern, where the server knows: only text may have several wildcards."""
    if not isinstance(value, bytes):
        return None
    subject: bytes = value
    like = _compiled(pattern, escape)
    if not isinstance(like, re.Pattern):
        start, *end = like
        if not end:
            return subject == start
        return len(subject) >= len(start) + len(end[0]) and subject.startswith(start) and subject.endswith(end[0])
    try:
        return like.search(subject.decode()) is not None
    except UnicodeDecodeError:
        return None


@cache
def _compiled(pattern: str, escape: str) -> re.Pattern[str] | tuple[bytes, ...]:
    """Return the texts before and behind the only %, or all of the text; a regular expression for more wildcards."""
    characters = _wildcards_and_text(pattern, escape)
    wildcards = [wildcard for wildcard, _ in characters if wildcard]
    if wildcards in ([], ["%"]):
        place = next((place for place, (wildcard, _) in enumerate(characters) if wildcard), None)
        text = [character for _, character in characters]
        parts = [text] if place is None else [text[:place], text[place + 1 :]]
        return tuple("".join(part).encode() for part in parts)
    expression = "".join({"%": ".*", "_": "."}.get(wildcard) or re.escape(text) for wildcard, text in characters)
    return re.compile(f"^{expression}$")
