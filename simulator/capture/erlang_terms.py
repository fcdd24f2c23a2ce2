"""Erlang terms as the text format of RabbitMQ's tracing plugin prints them.

Understands lists, tuples, binaries, atoms, strings, integers and floats, with any
white space between them. Values become Python ones: binary ``bytes``, atom
:class:`Atom` (``true``, ``false`` and ``undefined``: ``True``, ``False``, ``None``),
string ``str``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

MAX_DEPTH = 200


class TermError(ValueError):
    """Not a term: says what was expected and what is there."""


class Atom(str):
    """An Erlang atom."""

    __slots__ = ()


_SPACE = rb"[ \t\r\n]*"
_OPEN = re.compile(_SPACE + rb"(\[|\{|<<)" + _SPACE)
_NUMBER = re.compile(_SPACE + rb"(-?\d+)(\.\d+(?:[eE][+-]?\d+)?)?")
_ATOM = re.compile(_SPACE + rb"(?:([a-z][A-Za-z0-9_@]*)|'((?:[^'\\]|\\.)*)')", re.DOTALL)
_STRING = re.compile(_SPACE + rb'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_UTF8 = re.compile(_SPACE + rb"/utf8")
_SEPARATOR = re.compile(_SPACE + rb"(,|\]|\}|>>)" + _SPACE)
_ESCAPE = re.compile(rb"\\(?:x\{([0-9A-Fa-f]+)\}|x([0-9A-Fa-f]{2})|([0-7]{1,3})|\^(.)|(.))", re.DOTALL)
_NAMED = {b"b": 8, b"d": 127, b"e": 27, b"f": 12, b"n": 10, b"r": 13, b"s": 32, b"t": 9, b"v": 11}
_CONSTANTS: dict[bytes, bool | None] = {b"true": True, b"false": False, b"undefined": None}
_CLOSING = {b"[": b"]", b"{": b"}", b"<<": b">>"}


def parse_term(data: bytes, at: int = 0, depth: int = 0) -> tuple[Any, int]:
    """Parse the term that starts at ``at``; return it and where it ends.

    Raises:
        TermError: there is no whole term.
    """
    if opened := _OPEN.match(data, at):
        if depth == MAX_DEPTH:
            raise TermError(f"nested more than {MAX_DEPTH} deep")
        kind = opened[1]
        if kind == b"<<":
            segments, end = _sequence(data, opened.end(), b">>", _segment)
            return b"".join(segments), end
        items, end = _sequence(data, opened.end(), _CLOSING[kind], lambda d, p: parse_term(d, p, depth + 1))
        return (items if kind == b"[" else tuple(items)), end
    if number := _NUMBER.match(data, at):
        return (float if number[2] else int)(number[0]), number.end()
    if atom := _ATOM.match(data, at):
        name, quoted = atom[1], atom[2]
        if name in _CONSTANTS:
            return _CONSTANTS[name], atom.end()
        return Atom(_characters(quoted) if name is None else name.decode()), atom.end()
    if string := _STRING.match(data, at):
        return _characters(string[1]), string.end()
    raise _unexpected(data, at, "a term")


def _sequence(
    data: bytes, at: int, closing: bytes, item: Callable[[bytes, int], tuple[Any, int]]
) -> tuple[list[Any], int]:
    """Parse comma-separated items up to the closing bracket."""
    items: list[Any] = []
    separator = _SEPARATOR.match(data, at)
    while separator is None or separator[1] != closing:
        if items:
            if separator is None or separator[1] != b",":
                raise _unexpected(data, at, f"',' or '{closing.decode()}'")
            at = separator.end()
        value, at = item(data, at)
        items.append(value)
        separator = _SEPARATOR.match(data, at)
    # White space after the bracket is not part of the term.
    return items, separator.end(1)


def _segment(data: bytes, at: int) -> tuple[bytes, int]:
    """Parse one segment of a binary: a byte, or a string with or without ``/utf8``."""
    pieces = []
    while string := _STRING.match(data, at):  # a long string may be printed in pieces
        pieces.append(string[1])
        at = string.end()
    if pieces:
        if utf8 := _UTF8.match(data, at):
            return "".join(map(_characters, pieces)).encode("utf-8", "surrogatepass"), utf8.end()
        return b"".join(map(_octets, pieces)), at
    number = _NUMBER.match(data, at)
    if number is None or number[2] or not 0 <= int(number[1]) <= 255:
        raise _unexpected(data, at, "a byte or a string")
    return bytes([int(number[1])]), number.end()


def _characters(printed: bytes) -> str:
    """Decode the inside of a string of characters. RabbitMQ 4.0 writes those below 256 as single bytes."""
    try:
        text = printed.decode()
    except UnicodeDecodeError:
        text = printed.decode("latin-1")
    if b"\\" not in printed:
        return text
    return re.sub(_ESCAPE.pattern.decode(), lambda found: chr(_code(*found.groups())), text, flags=re.DOTALL)


def _octets(printed: bytes) -> bytes:
    """Decode the inside of a string of bytes."""
    if b"\\" not in printed:
        return printed
    return _ESCAPE.sub(lambda found: bytes([_code(*found.groups()) & 255]), printed)


def _code(braced: Any, hexadecimal: Any, octal: Any, control: Any, other: Any) -> int:
    """Return the code of one escaped character, from the groups of ``_ESCAPE``."""
    if braced or hexadecimal:
        return min(int(braced or hexadecimal, 16), 0x10FFFF)
    if octal:
        return int(octal, 8)
    if control:
        return ord(control) & 31
    name = other.encode() if isinstance(other, str) else other
    return _NAMED.get(name, ord(other))


def _unexpected(data: bytes, at: int, expected: str) -> TermError:
    found = data[at : at + 20].decode("utf-8", "backslashreplace")
    return TermError(f"expected {expected}, got {found!r}" if found else f"expected {expected}, got the end")
