"""Character sets by their numbers at IBM (CCSIDs), and Python's codecs for them.

Most CCSIDs are code pages that Python calls by the same number; the table has those that
it calls by another name, and the reasons why others cannot be read.

Source: IBM MQ's documentation of code page conversion, and of CodedCharSetId in MQMD.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping

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
_EBCDIC = "Python has no codec for this EBCDIC; 37 and 500 agree with it in the characters of names of queues"
_NO_CODEC: Mapping[int, str] = {
    0: "MQCCSI_Q_MGR means the character set of the queue manager; give its number",
    -1: "MQCCSI_EMBEDDED says that the data names its character set; an MQDLH has a character set of its own",
    -2: "MQCCSI_INHERIT means the character set of the structure before it, the queue manager's for an MQMD; "
    "give its number",
    **dict.fromkeys((277, 278, 280, 284, 285, 297, 871, 1047), _EBCDIC),
    **dict.fromkeys(range(1141, 1150), _EBCDIC),
}


class UnknownCharacterSetError(ValueError):
    """A CCSID for which Python has no codec; the text says why, and what would do."""


def codec_of(coded_char_set_id: int) -> str:
    """Return Python's name of a character set. Raises ``UnknownCharacterSetError``."""
    name = _CODECS.get(coded_char_set_id, f"cp{coded_char_set_id:03}")
    try:
        return codecs.lookup(name).name
    except LookupError:
        why = _NO_CODEC.get(coded_char_set_id)
    if why is None:
        why = f"no codec for it; there are codecs for {LATIN_1} (Latin-1), {UTF_8} (UTF-8), 37 and 500 (EBCDIC)"
    raise UnknownCharacterSetError(f"CCSID {coded_char_set_id}: {why}")
