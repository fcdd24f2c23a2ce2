"""Reads JSON from outside, with a limit of its own to how deeply lists and objects are nested.

Python's limit differs by its version and by how deeply the reader itself was called.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any

import msgspec

DEPTH_MAX = 400
UTF8_MARK = b"\xef\xbb\xbf"
"""What editors may write before a text in UTF-8."""
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_BYTE = re.compile(r"\(byte (\d+)\)")
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


class NestedTooDeeplyError(msgspec.DecodeError):
    """Lists and objects are nested more than ``depth_max`` deep."""

    def __init__(self, depth_max: int) -> None:
        super().__init__(f"nested more than {depth_max} deep")


def why_not_utf8(data: bytes) -> str | None:
    """Return what is wrong with the encoding of a text, as its first bytes tell, and how to mend it; or ``None``."""
    if data.startswith(_UTF16_MARKS):
        return "text in UTF-16; expected UTF-8: `iconv -f UTF-16 -t UTF-8 FILE` makes it that"
    return None


def read_json(data: bytes, depth_max: int = DEPTH_MAX) -> Any:
    """Decode a JSON document.

    Raises:
        NestedTooDeeplyError: lists and objects are nested more than ``depth_max`` deep.
        msgspec.DecodeError: ``data`` is not JSON.
        UnicodeDecodeError: a string is not UTF-8.
    """
    if is_too_deep(data, depth_max):
        raise NestedTooDeeplyError(depth_max)
    return msgspec.json.decode(data)


def where_broken(data: bytes, error: Exception) -> str:
    """Return the line and column where the parser stopped, both from 1; what ends too early stopped at its end."""
    found = _BYTE.search(str(error))
    before = data[: int(found[1])] if found else data.rstrip()
    line, column = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
    return f"line {line}, column {column}"


def is_too_deep(data: bytes, depth_max: int = DEPTH_MAX) -> bool:
    """Return whether lists and objects in JSON, which may be broken, are nested more than ``depth_max`` deep."""
    if data.count(b"[") + data.count(b"{") <= depth_max:
        return False
    unescaped = data.replace(rb"\\", b"").replace(rb"\"", b"")
    outside_strings = b"".join(unescaped.split(b'"')[::2])
    brackets = outside_strings.translate(None, _NO_BRACKETS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > depth_max
