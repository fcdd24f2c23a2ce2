"""Reads JSON from outside, with a limit of its own to how deeply lists and objects are nested.

Python's limit differs by its version and by how deeply the reader itself was called.
Servers until 3.10 read more than JSON, and which one of equal keys counts differs by release: ``read_json_as``.
"""

from __future__ import annotations

import json
import re
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec

from dlx.releases import Release
from dlx.value_kinds import value_kind
from simulator.files import FileContentError

DEPTH_MAX = 400
SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"
"""The dialect of JSON Schema that schemas of files are in."""
UTF8_MARK = b"\xef\xbb\xbf"
"""What editors may write before a text in UTF-8."""
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_BYTE = re.compile(r"\(byte (\d+)\)")
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
# What a lenient server reads, token by token; a comma behind nothing stays, and the parser refuses it.
_LENIENT_TOKEN = rb"""(?xs)
      (?P<string> "(?: [^"\\] | \\. )*+" | '(?: [^'\\] | \\. )*+' )
    | (?P<comment> /\*.*?\*/ | //[^\n]* )
    | [\[{] (?: [ \t\r\n] | /\*.*?\*/ | //[^\n]* )*+ ,
    | (?P<comma> , (?= (?: [ \t\r\n] | /\*.*?(?:\*/|\Z) | //[^\n]* )*+ [\]}] ) )
    | /\*.*
    """
_IN_STRING = rb"""(?xs)
      \\ (?: ["\\/bfnrt] | u (?! [dD][89a-fA-F] ) [0-9a-fA-F]{4} | u[dD][89abAB].. \\u[dD][c-fC-F].. )
    | (?P<surrogate> \\u[dD][89a-fA-F][0-9a-fA-F]{2} )
    | (?P<apostrophe> \\' )
    | (?P<backslash> \\ )
    | (?P<quote> " )
    | (?P<control> [\x00-\x1f] )
    """


class NestedTooDeeplyError(msgspec.DecodeError):
    """Lists and objects are nested more than ``depth_max`` deep."""

    def __init__(self, depth_max: int) -> None:
        super().__init__(f"nested more than {depth_max} deep")


def why_not_utf8(data: bytes) -> str | None:
    """Return what is wrong with the encoding of a text, going by its first bytes, and how to mend it; or ``None``."""
    if data.startswith(_UTF16_MARKS):
        return "text in UTF-16; expected UTF-8: `iconv -f UTF-16 -t UTF-8 FILE` converts it"
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


def read_json_as(data: bytes, release: Release, depth_max: int = DEPTH_MAX) -> Any:
    """Decode a JSON document as servers of the release do. Raises as ``read_json``."""
    try:
        document = read_json(data, depth_max)
    except (msgspec.DecodeError, UnicodeDecodeError):
        if not release.json_lenient:
            raise
        return read_json(strict_json(data)[0], depth_max)
    return read_first_of_equal_keys(data, document) if release.json_equal_keys == "first" else document


def read_first_of_equal_keys(data: bytes, document: Any) -> Any:
    """Return a JSON document, which was read already, with the first of equal keys in an object, and not the last."""
    if may_have_equal_keys(data, document):
        return json.loads(data, object_pairs_hook=_with_first_of_equal_keys)
    return document


def strict_json(data: bytes) -> tuple[bytes, dict[str, int]]:
    """Return a text that lenient servers read as JSON in JSON's own form, and the things in it that others refuse.

    The things are named in the plural, each with the byte where the first of them is. What no server reads stays,
    for ``read_json`` to refuse.

    Source: jsx_decoder.erl; servers of 3.8.9 and 3.10.8.
    """
    found: dict[str, int] = {}

    def rewritten(token: re.Match[bytes]) -> bytes:
        if token["comma"]:
            found.setdefault("trailing commas", token.start())
            return b" "
        if token["comment"]:
            found.setdefault("comments", token.start())
            return re.sub(rb"[^\n]", b" ", token[0])
        return _strict_string(token[0], token.start(), found) if token["string"] else token[0]

    if data.startswith(UTF8_MARK):
        data = b"   " + data.removeprefix(UTF8_MARK)  # places stay the same
        found["byte-order marks"] = 0
    return re.sub(_LENIENT_TOKEN, rewritten, data), found


def _strict_string(quoted: bytes, start: int, found: dict[str, int]) -> bytes:
    text = quoted[1:-1].decode(errors="replace").encode()
    if text != quoted[1:-1]:
        found.setdefault("bytes that are not UTF-8", start)
    if quoted[:1] == b"'":
        found.setdefault("strings in single quotes", start)

    def rewritten(part: re.Match[bytes]) -> bytes:
        kind = part.lastgroup
        if kind in ("surrogate", "apostrophe", "backslash"):
            found.setdefault("escapes that JSON does not have", start + 1 + part.start())
        elif kind == "control":
            found.setdefault("control characters in strings", start + 1 + part.start())
            return b"\\u%04x" % ord(part[0])
        return part[0] if kind is None else _IN_JSON[kind]

    return b'"' + re.sub(_IN_STRING, rewritten, text) + b'"'


_IN_JSON = {"surrogate": b"\\ufffd", "apostrophe": b"'", "backslash": b"\\\\", "quote": b'\\"'}


def may_have_equal_keys(data: bytes, document: Any) -> bool:
    """Return whether an object may have had a key twice: then fewer colons are left when it is written again."""
    return b"\\u003" in data or data.count(b":") != msgspec.json.encode(document).count(b":")


def _with_first_of_equal_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, value in pairs:
        kept.setdefault(key, value)
    return kept


def where_broken(data: bytes, error: Exception) -> str:
    """Return the line and column where the parser stopped, both from 1; what ends too early stopped at its end."""
    found = _BYTE.search(str(error))
    return place_of(data, int(found[1]) if found else len(data.rstrip()))


def place_of(data: bytes, at: int) -> str:
    """Return the line and column of a byte of a text, both from 1."""
    before = data[:at]
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


def read_json_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file. Raises ``FileContentError``: it cannot be read, or holds something else."""
    return read_json_object_and_text(path)[0]


def read_json_object_and_text(path: Path) -> tuple[dict[str, Any], bytes]:
    """Return the JSON object in a file, and its text. Raises as ``read_json_object``."""
    data = b""
    try:
        data = path.read_bytes().removeprefix(UTF8_MARK)
        document = read_json(data)
    except OSError as error:
        raise FileContentError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise FileContentError(f"{path}: expected UTF-8, got the byte {error.object[error.start]:#04x}") from error
    except NestedTooDeeplyError as error:
        raise FileContentError(f"{path}: {error}") from error
    except msgspec.DecodeError as error:
        raise FileContentError(f"{path}: {where_broken(data, error)}: not JSON: {error}") from error
    if not isinstance(document, dict):
        raise FileContentError(f"{path}: expected an object, got {value_kind(document)}")
    return document, data
