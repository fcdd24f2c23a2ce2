"""Print values as RabbitMQ does in its error texts: Erlang terms, as ``io_lib`` formats them with ``~p``.

A term here is an ``Atom``, ``bytes`` (a binary), an ``int``, a ``float``, a ``tuple``, a
``list`` or a ``dict`` (a map). ``field_term`` and ``json_term`` make one of an AMQP field
value and of a JSON value.

Source: io_lib_pretty.erl and io_lib.erl of Erlang; rabbit_binary_parser.erl for how RabbitMQ
holds field values.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from dlx.field_values import type_name

LINE = 80
_ALIGNED = -1
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\b": "\\b", "\f": "\\f", "\x1b": "\\e"}
_ESCAPED = {quote: str.maketrans({**_ESCAPES, quote: f"\\{quote}", "\\": "\\\\"}) for quote in "\"'"}
# What io_lib does not print, and not all that it does, whose class of a million characters takes 5 ms to compile; this
# one takes 0.5 ms, where it is first used. ``re`` keeps it.
_UNPRINTABLE = r"[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]"
_BINARY_IN_TEXT = re.compile(r'<<("(?:[^"\\\\]|\\\\.)*")(?:/utf8)?>>')
_UNKNOWN_IN_TEXT = re.compile(r"\[(.*)\] are not recognised policy settings", re.DOTALL)
_KEY_IN_TEXT = re.compile(r'\{"([^"]*)",')
_ERROR_IN_TEXT = re.compile(r'\{"([^"]*)",\s*(\d+)\}')
_PLAIN_ATOM = re.compile(r"[a-z][a-zA-Z0-9_@]*\Z")


class Atom(str):
    """An Erlang atom."""


class Octets(bytes):
    """A binary that is printed octet by octet, as ``~p`` does, and not by its characters, as ``~tp`` does."""


def as_octets(term: Any) -> Any:
    """Return the term with binaries that are printed octet by octet."""
    match term:
        case bytes():
            return Octets(term)
        case tuple():
            return tuple(map(as_octets, term))
        case list():
            return [as_octets(item) for item in term]
        case dict():
            return {as_octets(key): as_octets(item) for key, item in term.items()}
    return term


def field_term(value: Any) -> Any:
    """Return the term in which RabbitMQ holds an AMQP field value, without its type."""
    match value:
        case bool():
            return Atom("true" if value else "false")
        case None:
            return Atom("undefined")
        case str():
            return value.encode("utf-8", "surrogateescape")
        case bytes():
            return bytes(value)
        case datetime():
            return int(value.timestamp())
        case Decimal():
            return _decimal_term(value)
        case Mapping():
            return [(_binary(key), Atom(type_name(item)), field_term(item)) for key, item in value.items()]
        case list() | tuple():
            return [(Atom(type_name(item)), field_term(item)) for item in value]
        case float():
            return float(value)
    return int(value)


def _binary(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _decimal_term(value: Decimal) -> tuple[int, int]:
    """Return how many digits stand after the decimal point, and all digits as an integer."""
    exponent = value.as_tuple().exponent
    scale = max(0, -exponent) if isinstance(exponent, int) else 0
    return scale, int(value.scaleb(scale))


def json_term(value: Any) -> Any:
    """Return the term of a JSON value, as the management API and ``rabbitmqctl`` decode it; atoms stay as they are."""
    match value:
        case Atom():
            return value
        case bool():
            return Atom("true" if value else "false")
        case None:
            return Atom("null")
        case str():
            return _binary(value)
        case Mapping():
            return {_binary(key): json_term(value[key]) for key in sorted(value, key=_binary)}
        case list() | tuple():
            return [json_term(item) for item in value]
    return value


def printed(term: Any, column: int = 0, line: int = LINE) -> str:
    """Return the term as ``~p`` prints it when ``column`` characters stand before it on its line.

    A term that does not fit into ``line`` columns is broken into lines, indented to ``column``.
    """
    for tag_indent in (_ALIGNED, 4):
        with contextlib.suppress(_TooFarRightError):
            return _Layout(line, tag_indent).broken(term, column + 1, 0)
    return _Layout(line, 1).broken(term, column + 1, 0)


def in_plain_text(text: str) -> str:
    """Return an error text with JSON's strings and objects for binaries and maps, and errors in patterns in words."""
    text = _BINARY_IN_TEXT.sub(r"\1", text).replace("#{", "{").replace(" => ", ": ")
    text = _UNKNOWN_IN_TEXT.sub(lambda found: _unknown_settings(_KEY_IN_TEXT.findall(found[1])), text)
    return _ERROR_IN_TEXT.sub(r"\1 at character \2", text)


def _unknown_settings(keys: list[str]) -> str:
    return f"there {'are no policy settings' if len(keys) > 1 else 'is no policy setting'} {', '.join(keys)}"


def _flat(term: Any) -> str:
    match term:
        case Atom():
            return term if _PLAIN_ATOM.match(term) else "'" + _escaped(term, "'") + "'"
        case bytes():
            return _flat_binary(term)
        case float():
            return _float(term)
        case tuple():
            return "{" + ",".join(map(_flat, term)) + "}"
        case dict():
            return "#{" + ",".join(f"{_flat(key)} => {_flat(item)}" for key, item in term.items()) + "}"
        case list():
            return _flat_list(term)
    return str(int(term))


def _flat_list(term: list[Any]) -> str:
    if term and all(type(item) is int and _printable(item) for item in term):
        return '"' + _escaped("".join(map(chr, term)), '"') + '"'
    return "[" + ",".join(map(_flat, term)) + "]"


def _flat_binary(data: bytes) -> str:
    if not data:
        return "<<>>"
    try:
        text = data.decode("latin-1" if isinstance(data, Octets) else "utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    if re.search(_UNPRINTABLE, text):
        return "<<" + ",".join(map(str, data)) + ">>"
    suffix = "/utf8" if not text.isascii() and text.encode() == data else ""
    return '<<"' + _escaped(text, '"') + f'"{suffix}>>'


def _printable(code: int) -> bool:
    return 0 <= code <= 255 and not re.match(_UNPRINTABLE, chr(code))


def _escaped(text: str, quote: str) -> str:
    return text.translate(_ESCAPED[quote])


def _float(value: float) -> str:
    """Return the shortest digits that read back as the number, with an exponent where that is shorter."""
    mantissa, _, exponent = f"{Decimal(repr(value)):e}".partition("e")
    digits = mantissa.replace(".", "").lstrip("-").rstrip("0") or "0"
    sign = "-" if mantissa.startswith("-") else ""
    place = int(exponent or 0) + 1 if digits != "0" else 1
    return sign + _placed(digits, place)


def _placed(digits: str, place: int) -> str:
    length = len(digits)
    if 0 < place < length:
        return f"{digits[:place]}.{digits[place:]}"
    plain = "0." + "0" * -place + digits if place <= 0 else digits + "0" * (place - length) + ".0"
    scientific = f"{digits[0]}.{digits[1:] or '0'}e{place - 1}"
    return plain if place == 0 or len(plain) <= len(scientific) else scientific


def _is_atomic(term: Any, flat: str) -> bool:
    """Return whether the term stays on one line and may share it with the item before it."""
    if isinstance(term, bytes):
        return flat.startswith('<<"') or not term
    return not isinstance(term, list | tuple | dict) or not term or flat.startswith('"')


class _TooFarRightError(Exception):
    """A tuple would begin in the right half of the line."""


class _Layout:
    """Breaks terms into lines that end before ``line``.

    ``tag_indent`` is the indent of the rest of a tuple below the atom that it begins with:
    a number of columns, or as far as the item after the atom (``_ALIGNED``).
    Columns count from 1; ``closing`` brackets follow a term on its line.
    """

    def __init__(self, line: int, tag_indent: int) -> None:
        self.line = line
        self.tag_indent = tag_indent

    def broken(self, term: Any, column: int, closing: int) -> str:
        """Return the term in lines."""
        flat = _flat(term)
        if isinstance(term, bytes) or _is_atomic(term, flat) or len(flat) < self.line - column - closing:
            return flat
        if isinstance(term, dict):
            pairs = [_Pair(key, value) for key, value in term.items()]
            return "#{" + self._items(pairs, column + 2, closing) + "}"
        if isinstance(term, tuple) and len(term) > 1 and isinstance(term[0], Atom):
            return "{" + self._tagged(term, column, closing) + "}"
        opening, end = "[]" if isinstance(term, list) else "{}"
        return opening + self._items([_Item(item) for item in term], column + 1, closing) + end

    def _tagged(self, term: tuple[Any, ...], column: int, closing: int) -> str:
        tag, items = _flat(term[0]), [_Item(item) for item in term[1:]]
        behind, indent = column + len(tag) + 2, self.tag_indent
        if 0 < indent < len(tag) + 2:
            self._check(column + indent, self.line // 2)
            return tag + self._items(items, column + indent, closing, behind)
        self._check(behind, self.line // 2 - 1)
        return tag + "," + self._items(items, behind, closing)

    def _check(self, column: int, last: int) -> None:
        if column > last and self.tag_indent != 1:
            raise _TooFarRightError

    def _items(self, items: Sequence[_Item | _Pair], column: int, closing: int, at: int | None = None) -> str:
        """Return the items in lines: atomic ones share lines, any other begins one, as does the item after it.

        ``at`` is the column at which the text before the first item ends.
        """
        text, comma = "", "" if at is None else ","
        at = column if at is None else at
        for number, item in enumerate(items):
            after = closing + 1 if number == len(items) - 1 else 0
            size = len(item.flat) + len(comma)
            if item.atomic and size < self.line - at - (after or len(comma)):
                text, at = text + comma + item.flat, at + size
            else:
                text += f",\n{' ' * (column - 1)}" if comma else ""
                text += item.broken(self, column, after)
                fits = item.atomic and len(item.flat) < self.line - column - after
                at = column + len(item.flat) if fits else self.line
            comma = ","
        return text


class _Item:
    """An item of a list or tuple."""

    def __init__(self, item: Any) -> None:
        self._item = item
        self.flat = _flat(item)
        self.atomic = _is_atomic(item, self.flat)

    def broken(self, layout: _Layout, column: int, closing: int) -> str:
        """Return the item in lines."""
        return layout.broken(self._item, column, closing)


class _Pair:
    """A key of a map with its value."""

    def __init__(self, key: Any, value: Any) -> None:
        self._key, self._value = _flat(key), value
        flat = _flat(value)
        self.flat = f"{self._key} => {flat}"
        self.atomic = _is_atomic(key, self._key) and _is_atomic(value, flat)

    def broken(self, layout: _Layout, column: int, closing: int) -> str:
        """Return the pair in lines: a value that does not fit begins a line of its own."""
        if len(self.flat) < layout.line - column - closing:
            return self.flat
        indent = layout.tag_indent if layout.tag_indent > 0 else 4
        value = layout.broken(self._value, column + indent, closing)
        return f"{self._key} =>\n{' ' * (column + indent - 1)}{value}"
