"""Selectors of the x-jms-topic exchange: Erlang terms, which clients for JMS compile from SQL, as text.

An evaluated term is an ``Atom``, a ``bool`` for the atoms true and false, ``None`` for undefined, or else a number,
``bytes``, a list or a tuple.

Source: rabbit_jms_topic_exchange.erl and sjx_evaluator.erl. What they do with headers of other types than text,
numbers and booleans was not seen; here these count as absent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from dlx.erlang_printing import Atom
from dlx.sql_values import COMPARISONS, SUMS, joined, negated

SELECTOR = "rjms_erlang_selector"
"""The argument of a binding that has the selector."""

_TOKEN = re.compile(
    r"""\s*(?:(?P<sign>[{}\[\],])
    | <<"(?P<binary>(?:[^"\\]|\\.)*)"(?:/utf8)?>>
    | "(?P<text>(?:[^"\\]|\\.)*)"
    | '(?P<quoted>(?:[^'\\]|\\.)*)'
    | (?P<atom>[a-z][\w@]*)
    | (?P<number>[-+]?\d+(?:\.\d+(?:[eE][-+]?\d+)?)?)
    | (?P<end>\.)(?=\s|\Z))""",
    re.VERBOSE,
)
_WORDS: Mapping[str, bool | None] = {"true": True, "false": False, "undefined": None}
_SELECTOR_ATOMS = frozenset(
    {*_WORDS, "not", "ident", "is_null", "not_null", "and", "or", "like", "not_like", "no_escape", "range"}
    | {"between", "not_between", "in", "not_in", "=", "<>", ">", "<", ">=", "<=", "+", "-", "*", "/"}
)
_Headers = Mapping[str, Any]


class SelectorError(ValueError):
    """A selector that is not an Erlang term, or a header for which it cannot be evaluated."""


@cache
def parsed(text: str) -> Any:
    """Return the term. Raises ``SelectorError``."""
    tokens = _tokens(text)
    term = _term(tokens, *next(tokens, ("", "")))
    if [kind for kind, _ in tokens] != ["end"]:
        raise SelectorError("expected a dot after the term")
    return term


def unknown_atom(text: str) -> str | None:
    """Return the first atom that has no meaning in a selector."""
    try:
        atoms = [found for kind, found in _tokens(text) if kind in ("atom", "quoted")]
    except SelectorError:
        return None
    return next((atom for atom in atoms if atom not in _SELECTOR_ATOMS), None)


def selects(arguments: Mapping[str, Any], headers: _Headers) -> bool:
    """Return whether the selector in a binding's arguments is true of a message with these headers.

    It is not true without a selector, or with one that is not a term. Raises ``SelectorError``.
    """
    text = arguments.get(SELECTOR)
    if not is_selector(text):
        return False
    return _value(parsed(text), headers) is True


def headers_in(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the headers that the selector in a binding's arguments looks at."""
    text = arguments.get(SELECTOR)
    waiting = [parsed(text)] if is_selector(text) else []
    while waiting:
        match waiting.pop():
            case ("ident", bytes() as name):
                yield name.decode(errors="surrogateescape")
            case tuple() as parts:
                waiting += parts


def is_selector(text: Any) -> bool:
    """Return whether that is the text of a term."""
    try:
        return isinstance(text, str) and (parsed(text), True)[1]
    except SelectorError:
        return False


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while text[at:].strip():
        found = _TOKEN.match(text, at)
        if found is None:
            raise SelectorError(f"expected an Erlang term, found {text[at : at + 20]!r}")
        kind = found.lastgroup or ""
        yield kind, re.sub(r"\\(.)", r"\1", found[kind]) if kind in ("binary", "text", "quoted") else found[kind]
        at = found.end()


def _term(tokens: Iterator[tuple[str, str]], kind: str, found: str) -> Any:
    match kind:
        case "binary":
            return found.encode()
        case "text":
            return list(map(ord, found))
        case "quoted" | "atom":
            return _WORDS[found] if found in _WORDS else Atom(found)
        case "number":
            return float(found) if "." in found else int(found)
        case "sign" if found in "{[":
            items = _items(tokens, "}" if found == "{" else "]")
            return tuple(items) if found == "{" else items
    raise SelectorError(f"expected an Erlang term, found {found!r}")


def _items(tokens: Iterator[tuple[str, str]], close: str) -> list[Any]:
    items: list[Any] = []
    for kind, found in tokens:
        if (kind, found) == ("sign", close) and not items:
            return items
        items.append(_term(tokens, kind, found))
        kind, found = next(tokens, ("", ""))
        if (kind, found) == ("sign", close):
            return items
        if (kind, found) != ("sign", ","):
            break
    raise SelectorError(f"expected , or {close}")


# -- evaluation: ``None`` stands for an unknown truth and for an unknown value


def _value(term: Any, headers: _Headers) -> Any:
    match term:
        case ("not", of):
            return negated(_value(of, headers))
        case ("ident", bytes() as name):
            return _header(headers, name)
        case ("is_null" | "not_null" as which, of):
            return (_plain_or_header(of, headers) is None) is (which == "is_null")
        case (str() as sign, of):
            return _signed(sign, _value(of, headers))
        case ("and" | "or" as which, one, other):
            return joined(_value(one, headers), _value(other, headers), decides=which == "or")
        case (str() as which, of, ("range", low, high)):
            return _value((which, of, low, high), headers)
        case ("like", of, pattern, escape):
            return _is_like(_plain_or_header(of, headers), pattern, escape)
        case ("not_like", of, pattern, escape):
            return negated(_is_like(_plain_or_header(of, headers), pattern, escape))
        case ("between", *of):
            return _is_between(*(_value(each, headers) for each in of))
        case ("not_between", *of):
            return negated(_is_between(*(_value(each, headers) for each in of)))
        case (str() as sign, one, other):
            return _compared(sign, _value(one, headers), _value(other, headers))
    return term


def _header(headers: _Headers, name: bytes) -> Any:
    value = headers.get(name.decode(errors="surrogateescape"))
    if isinstance(value, str):
        return value.encode(errors="surrogateescape")
    return value if isinstance(value, bool | int | float) else None


def _plain_or_header(term: Any, headers: _Headers) -> Any:
    return _value(term, headers) if isinstance(term, tuple) and term[:1] == ("ident",) else term


def _signed(sign: str, value: Any) -> Any:
    if value is None:
        return None
    return -_number(value) if sign == "-" else _number(value) if sign == "+" else Atom("error")


def _compared(sign: str, one: Any, other: Any) -> Any:
    if one is None or other is None:
        return None
    if sign in ("in", "not_in"):
        if not isinstance(other, list):
            raise SelectorError(f"expected a list behind {sign}")
        return any(type(one) is type(each) and one == each for each in other) is (sign == "in")
    if sign in COMPARISONS:
        return COMPARISONS[sign](_order(one), _order(other))
    if sign not in SUMS:
        return Atom("error")
    if sign == "/" and _number(other) == 0:
        return Atom("nan" if one == 0 else "plus_infinity" if _number(one) > 0 else "minus_infinity")
    return SUMS[sign](_number(one), _number(other))


def _order(value: Any) -> tuple[int, Any]:
    """Return a key that sorts as Erlang does: numbers, atoms, tuples, lists, binaries."""
    match value:
        case bool():
            return 1, str(value).lower()
        case int() | float():
            return 0, value
        case str():
            return 1, str(value)
        case tuple():
            return 2, (len(value), [_order(each) for each in value])
        case list():
            return 3, [_order(each) for each in value]
    return 4, value


def _number(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SelectorError(f"expected a number, found {value!r}")
    return value


def _is_between(value: Any, low: Any, high: Any) -> bool | None:
    if value is None or low is None or high is None:
        return None
    return bool(_order(low) <= _order(value) <= _order(high))


def _is_like(value: Any, pattern: Any, escape: Any) -> bool | None:
    if value is None:
        return None
    if not (isinstance(value, bytes) and isinstance(pattern, bytes) and isinstance(escape, str | bytes)):
        raise SelectorError(f"expected text to compare with a pattern, found {value!r}")
    return re.fullmatch(_expression(pattern.decode("latin-1"), escape), value.decode("latin-1")) is not None


@cache
def _expression(pattern: str, escape: Any) -> str:
    """Return the regular expression of a pattern of SQL: % is any text, _ any character."""
    found, at = "", 0
    while at < len(pattern):
        if isinstance(escape, bytes) and pattern[at].encode("latin-1") == escape and at + 1 < len(pattern):
            at += 1
            found += re.escape(pattern[at])
        else:
            found += {"%": ".*", "_": "."}.get(pattern[at]) or re.escape(pattern[at])
        at += 1
    return found
