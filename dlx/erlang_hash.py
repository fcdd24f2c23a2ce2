"""Compute Erlang's hash of terms, which shows in the ``properties_key`` of bindings.

A binding with arguments is named by its routing key and a hash of the arguments,
such as ``a.b~c8kv6Q``: ``phash2``, which is the same on every machine.

Source: rabbit_mgmt_format.erl pack_binding_props, args_hash; erl_term_hashing.c make_hash2.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote_plus

from dlx.erlang_printing import Atom, field_term
from dlx.topology import Binding

_WORD = 0xFFFFFFFF
_GOLDEN = 0x9E3779B9
# Each kind of term is mixed in with a multiple of the golden number.
_LIST_END, _ATOM, _STRING, _TUPLE, _NEGATIVE, _POSITIVE, _FLOAT, _BINARY = 2, 3, 4, 9, 10, 11, 12, 13
_EMPTY_LIST = 3468870702


def properties_key(binding: Binding) -> str:
    """Return the key that names the binding among those with the same source and destination."""
    if not binding.arguments:
        return _quoted(binding.routing_key) or "~"
    return f"{_quoted(binding.routing_key)}~{arguments_hash(binding.arguments)}"


def _quoted(text: str) -> str:
    return quote_plus(text).replace("~", "%7E")


def arguments_hash(arguments: Mapping[str, Any]) -> str:
    """Return the hash of a binding's arguments in its ``properties_key``."""
    digest = struct.pack(">I", phash2(field_term(dict(sorted(arguments.items())))))
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def phash2(term: Any) -> int:
    """Return ``erlang:phash2(Term, 1 bsl 32)`` of atoms, integers, floats, bytes (binaries), tuples and lists."""
    if isinstance(term, Atom):
        return _atom(term)
    value, waiting = 0, [term]
    while waiting:
        term = waiting.pop()
        if isinstance(term, tuple):
            value = _mixed(len(term), 0, _TUPLE, value)
            waiting.extend(reversed(term))
        elif isinstance(term, list):
            value = _list(term, value, waiting)
        else:
            value = _scalar(term, value)
    return value


def _scalar(term: Any, value: int) -> int:
    if isinstance(term, Atom):
        return _mixed(_atom(term), 0, _ATOM, value) if value else _atom(term)
    if isinstance(term, bytes):
        return _block(term, (_BINARY * _GOLDEN + value) & _WORD)
    if isinstance(term, float):
        low, high = struct.unpack("<II", struct.pack("<d", term + 0.0))
        return _mixed(high, low, _FLOAT, value)
    return _integer(int(term), value)


def _integer(number: int, value: int) -> int:
    if -(1 << 27) <= number < 1 << 27:
        if number < 0:
            value = _mixed(-number, 0, 1, value)
        return _mixed(number, 0, 1, value)
    kind = _NEGATIVE if number < 0 else _POSITIVE
    number = abs(number)
    while number:
        value = _mixed(number & _WORD, number >> 32 & _WORD, kind, value)
        number >>= 64
    return value


def _list(items: list[Any], value: int, waiting: list[Any]) -> int:
    """Hash bytes at the front by fours, as in a string, then the first other item, and the rest as a list."""
    count = next((n for n, item in enumerate(items) if type(item) is not int or not 0 <= item < 256), len(items))
    for start in range(0, count, 4):
        value = _mixed(int.from_bytes(bytes(items[start : min(start + 4, count)]), "big"), 0, _STRING, value)
    if count < len(items):
        waiting += [items[count + 1 :], items[count]]
        return value
    return _mixed(2, 0, _LIST_END, value) if value else _EMPTY_LIST


def _atom(name: str) -> int:
    value = 0
    for byte in name.encode("latin-1"):
        value = ((value << 4) + byte) & _WORD
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high
    return value


def _block(data: bytes, value: int) -> int:
    if not data:
        return value
    first = second = _GOLDEN
    end = len(data) - len(data) % 12
    for start in range(0, end, 12):
        x, y, z = struct.unpack_from("<III", data, start)
        first, second, value = _mix((first + x) & _WORD, (second + y) & _WORD, (value + z) & _WORD)
    rest = data[end:].ljust(11, b"\0")
    first = (first + int.from_bytes(rest[:4], "little")) & _WORD
    second = (second + int.from_bytes(rest[4:8], "little")) & _WORD
    value = (value + len(data) + (int.from_bytes(rest[8:], "little") << 8)) & _WORD
    return _mix(first, second, value)[2]


def _mixed(one: int, other: int, kind: int, value: int) -> int:
    constant = kind * _GOLDEN
    return _mix((constant + one) & _WORD, (constant + other) & _WORD, value)[2]


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    """Mix three words as Bob Jenkins' hash does."""
    for right, left, again in ((13, 8, 13), (12, 16, 5), (3, 10, 15)):
        a = (a - b - c) & _WORD ^ c >> right
        b = (b - c - a) & _WORD ^ (a << left & _WORD)
        c = (c - a - b) & _WORD ^ b >> again
    return a, b, c
