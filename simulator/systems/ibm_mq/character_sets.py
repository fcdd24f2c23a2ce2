"""Character sets by their numbers at IBM (CCSIDs), and codecs for them.

Most CCSIDs are code pages that Python calls by the same number; a table has those that it calls by another name, and
the reasons why others cannot be read. ``ebcdic.toml`` has the EBCDIC of countries and of z/OS UNIX. 1141 to 1149 are
these, and 500, with the euro in the place of the currency sign.

Source: IBM MQ's documentation of code page conversion, and of CodedCharSetId in MQMD; IBM's code pages.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import msgspec

LATIN_1, UTF_8 = 819, 1208

_CODECS: Mapping[int, str] = {
    367: "ascii",
    LATIN_1: "latin-1",
    UTF_8: "utf-8",
    # ISO 8859
    912: "iso8859-2",
    913: "iso8859-3",
    914: "iso8859-4",
    915: "iso8859-5",
    1089: "iso8859-6",
    813: "iso8859-7",
    916: "iso8859-8",
    920: "iso8859-9",
    921: "iso8859-13",
    923: "iso8859-15",
    # Windows, with the euro
    5346: "cp1250",
    5347: "cp1251",
    5348: "cp1252",
    5349: "cp1253",
    5350: "cp1254",
    # Japan, China, Korea
    943: "cp932",
    954: "euc_jp",
    5050: "euc_jp",
    33722: "euc_jp",
    970: "euc_kr",
    1363: "cp949",
    1383: "gb2312",
    1386: "gbk",
    1392: "gb18030",
    5488: "gb18030",
    878: "koi8-r",
    1168: "koi8-u",
}
_EURO = dict(zip(range(1141, 1150), (273, 277, 278, 280, 284, 285, 297, 500, 871), strict=True))
"""What each CCSID with a euro is without."""
_NO_CODEC: Mapping[int, str] = {
    0: "MQCCSI_Q_MGR means the character set of the queue manager; give its number",
    -1: "MQCCSI_EMBEDDED says that the data names its character set; an MQDLH has a character set of its own",
    -2: "MQCCSI_INHERIT means the character set of the structure before it, the queue manager's for an MQMD; "
    "give its number",
}


class UnknownCharacterSetError(ValueError):
    """A CCSID for which Python has no codec; the text says why, and what would do."""


def codec_of(coded_char_set_id: int) -> codecs.CodecInfo:
    """Return the codec of a character set. Raises ``UnknownCharacterSetError``."""
    characters = _ebcdic(coded_char_set_id)
    if characters is not None:
        return _codec(f"CCSID {coded_char_set_id}", characters)
    try:
        return codecs.lookup(_CODECS.get(coded_char_set_id, f"cp{coded_char_set_id:03}"))
    except LookupError:
        why = _NO_CODEC.get(coded_char_set_id)
    if why is None:
        why = f"no codec for it; there are codecs for {LATIN_1} (Latin-1), {UTF_8} (UTF-8), 37 and 500 (EBCDIC)"
    raise UnknownCharacterSetError(f"CCSID {coded_char_set_id}: {why}")


class _Difference(msgspec.Struct, frozen=True):
    """The bytes, as hexadecimal digits, that mean other characters than in CCSID 500."""

    bytes: str
    characters: str


@cache
def _differences() -> dict[str, _Difference]:
    table = resources.files(__package__).joinpath("ebcdic.toml").read_bytes()
    return msgspec.toml.decode(table, type=dict[str, _Difference])


def _ebcdic(coded_char_set_id: int) -> str | None:
    """Return what the 256 bytes of an EBCDIC mean; ``None`` for one that Python has, or that is none."""
    if coded_char_set_id in _EURO:
        base = _EURO[coded_char_set_id]
        return (_ebcdic(base) or _basic()).replace("¤", "€")
    difference = _differences().get(str(coded_char_set_id))
    if difference is None:
        return None
    characters = [*_basic()]
    for byte, character in zip(bytes.fromhex(difference.bytes), difference.characters, strict=True):
        characters[byte] = character
    return "".join(characters)


def _basic() -> str:
    return bytes(range(256)).decode("cp500")


def _codec(name: str, characters: str) -> codecs.CodecInfo:
    table = codecs.charmap_build(characters)

    def encode(text: str, errors: str = "strict") -> tuple[bytes, int]:
        return codecs.charmap_encode(text, errors, table)

    def decode(data: Any, errors: str = "strict") -> tuple[str, int]:
        return codecs.charmap_decode(data, errors, characters)

    return codecs.CodecInfo(encode, decode, name=name)
