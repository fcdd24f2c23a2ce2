"""Frames that are none: wrong end, wrong type, wrong size, methods that nobody knows."""

from __future__ import annotations

import struct

from pika import spec

from tests.faults.cases.registry import DECLARE, running
from tests.faults.wire import BODY, HEARTBEAT, METHOD, content_header, frame, method


def _frames(name: str, *octets: bytes) -> None:
    running(f"frame: {name}", *octets)


_frames("wrong end octet, method", frame(METHOD, 1, DECLARE[7:-1], end=0))
_frames("wrong end octet, short body", frame(BODY, 1, b"short", end=0xCD))
_frames("wrong end octet, long body", frame(BODY, 1, b"\x00\x01 a body longer than sixteen", end=0xFF))
_frames("wrong end octet, channel 0", frame(HEARTBEAT, 0, b"", end=0))
for _type in (0, 4, 5, 7, 9, 65, 206, 255):
    _frames(f"type {_type} on channel 1", frame(_type, 1, b"x"))
_frames("type 5 on channel 0", frame(5, 0, b"x"))
_frames("type 5, no payload, channel 1", frame(5, 1, b""))
_frames("type 5, text", frame(5, 1, b"some text"))
_frames("type 5, text of 16 octets", frame(5, 1, b"0123456789abcdef"))
_frames("type 5, text of 17 octets", frame(5, 1, b"0123456789abcdefg"))
_frames("type 5, octets that are no text", frame(5, 1, b"\x00\x01\x02\xff\xfe"))
_frames("type 5, text with quotes", frame(5, 1, b'say "hi" \\ '))
_frames("type 5, text with a line feed", frame(5, 1, b"a\nb\tc\re"))
_frames("type 5, UTF-8", frame(5, 1, "größe".encode()))
_frames("type 5, latin-1", frame(5, 1, "größe".encode("latin-1")))
_frames("type 5, escape and delete", frame(5, 1, b"a\x1bb\x7fc"))
_frames("type 8 with payload on channel 1", frame(HEARTBEAT, 1, b"beat"))
_frames("empty method frame", frame(METHOD, 1, b""))
_frames("method frame of three octets", frame(METHOD, 1, b"\0\x32\0"))
_frames("unknown class", frame(METHOD, 1, struct.pack(">HH", 99, 10)))
_frames("unknown class, with arguments", frame(METHOD, 1, struct.pack(">HH", 99, 10) + b"arguments"))
_frames("unknown method of queue", frame(METHOD, 1, struct.pack(">HH", 50, 99)))
_frames("class 0 method 0", frame(METHOD, 1, bytes(4)))
_frames("class file of 0-8", frame(METHOD, 1, struct.pack(">HH", 70, 10)))
_frames("method cut short", frame(METHOD, 1, DECLARE[7:-1][:-2]))
_frames("method with no arguments at all", frame(METHOD, 1, DECLARE[7:-1][:4]))
_frames("method with octets too many", frame(METHOD, 1, DECLARE[7:-1] + b"more"))
_frames("short string longer than its frame", frame(METHOD, 1, DECLARE[7:-1][:6] + b"\xff" + DECLARE[7:-1][7:]))
_frames("one octet above frame_max with its fudge", struct.pack(">BHI", BODY, 1, 131_073) + b"x" * 100)
_frames("4 GB announced", struct.pack(">BHI", BODY, 1, 2**32 - 1) + b"x" * 100)
_frames("4 GB announced on channel 0", struct.pack(">BHI", METHOD, 0, 2**32 - 1))
_frames(
    "as large as frame_max",
    method(1, spec.Basic.Publish(exchange="", routing_key="q")),
    content_header(1, 131_064),
    frame(BODY, 1, b"x" * 131_064),
)
_frames(
    "eight octets above frame_max",
    method(1, spec.Basic.Publish(exchange="", routing_key="q")),
    content_header(1, 131_072),
    frame(BODY, 1, b"x" * 131_072),
)
