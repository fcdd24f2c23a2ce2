"""Message properties octet by octet: flags, values, and header tables of garbage."""

from __future__ import annotations

import struct

from tests.faults.cases.registry import PUBLISH, content, header_payload
from tests.faults.wire import BODY, HEADER, frame


def _properties(name: str, octets: bytes) -> None:
    """Message properties as they are sent: flags and values."""
    content(
        f"properties: {name}", PUBLISH, frame(HEADER, 1, header_payload(1, properties=octets)), frame(BODY, 1, b"x")
    )


def _flags(*bits: int) -> bytes:
    return struct.pack(">H", sum(1 << bit for bit in bits))


def _headers(octets: bytes) -> bytes:
    """The property ``headers``: its flag, the table's length, the table."""
    return _flags(13) + struct.pack(">I", len(octets)) + octets


_properties("all flags, no values", b"\xff\xfe")
_properties("all flags and more flags to come", b"\xff\xff")
_properties("more flags to come, none there", b"\0\x01")
_properties("more flags, empty", b"\0\x01\0\0")
_properties("flag bit 1, which means nothing", _flags(1))
_properties("cluster-id", _flags(2) + b"\x01c")
_properties("values without flags", b"\0\0garbage")
_properties("content-type cut short", _flags(15) + b"\x09text")
_properties("content-type of invalid UTF-8", _flags(15) + b"\x02\xff\xfe")
_properties("delivery-mode 0", _flags(12) + b"\0")
_properties("delivery-mode 3", _flags(12) + b"\x03")
_properties("delivery-mode 255", _flags(12) + b"\xff")
_properties("delivery-mode missing", _flags(12))
_properties("priority 255", _flags(11) + b"\xff")
_properties("expiration of letters", _flags(8) + b"\x03abc")
_properties("expiration empty", _flags(8) + b"\x00")
_properties("expiration negative", _flags(8) + b"\x02-1")
_properties("expiration with a fraction", _flags(8) + b"\x031.5")
_properties("expiration with a blank", _flags(8) + b"\x02 1")
_properties("expiration with a plus", _flags(8) + b"\x06+10000")
_properties("expiration too large", _flags(8) + b"\x0a4294967296")
_properties("user-id of another", _flags(4) + b"\x05other")
_properties("user-id one's own", _flags(4) + b"\x05guest")
_properties("headers empty", _headers(b""))
_properties("headers longer than the frame", _flags(13) + struct.pack(">I", 1000) + b"\x01aV")
_properties("headers with an unknown field type", _headers(b"\x01aZ"))
_properties("headers with a key cut short", _headers(b"\x09a"))
_properties("headers with a value cut short", _headers(b"\x01aS\0\0\0\x09x"))
_properties("headers with the same key twice", _headers(b"\x01aI\0\0\0\x01\x01aI\0\0\0\x02"))
_properties("headers with an empty key", _headers(b"\x00I\0\0\0\x01"))
_properties("headers with a key of 129 octets", _headers(b"\x81" + b"k" * 129 + b"V"))
_properties("headers with a key of invalid UTF-8", _headers(b"\x02\xff\xfeI\0\0\0\x01"))
_properties("headers with a long string of invalid UTF-8", _headers(b"\x01aS\0\0\0\x02\xff\xfe"))
_properties("headers with a boolean 2", _headers(b"\x01at\x02"))
_properties("headers with NaN", _headers(b"\x01ad\x7f\xf8\0\0\0\0\0\0"))
_properties("headers with infinity", _headers(b"\x01ad\x7f\xf0\0\0\0\0\0\0"))
_properties("headers with a float that is infinite", _headers(b"\x01af\x7f\x80\0\0"))
_properties("headers with a decimal", _headers(b"\x01aD\x02\0\0\x01\x00"))
_properties("headers with a decimal of scale 255", _headers(b"\x01aD\xff\0\0\x01\x00"))
_properties("headers with an array of garbage", _headers(b"\x01aA\0\0\0\x01Z"))
_properties("headers with an unsigned long", _headers(b"\x01aL\xff\xff\xff\xff\xff\xff\xff\xff"))
_properties("CC that is no array", _headers(b"\x02CCS\0\0\0\x01q"))
_properties("CC with an integer in it", _headers(b"\x02CCA\0\0\0\x05I\0\0\0\x01"))
_properties("BCC that is no array", _headers(b"\x03BCCI\0\0\0\x01"))
_properties("x-death that is no array", _headers(b"\x07x-deathS\0\0\0\x01q"))
_properties("x-death array of integers", _headers(b"\x07x-deathA\0\0\0\x05I\0\0\0\x01"))
