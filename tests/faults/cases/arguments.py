"""Tables, names and numbers in the arguments of methods."""

from __future__ import annotations

import struct

from tests.faults.cases.registry import running
from tests.faults.wire import METHOD, frame


def _arguments(name: str, table: bytes, length: int | None = None) -> None:
    """``queue.declare`` with an arguments table as it is sent, its length a lie if given."""
    payload = (
        struct.pack(">HHH", 50, 10, 0) + b"\x01t\x04" + struct.pack(">I", len(table) if length is None else length)
    )
    running(f"arguments: {name}", frame(METHOD, 1, payload + table))


def nested(depth: int, inner: bytes = b"") -> bytes:
    for _ in range(depth):
        inner = b"\x01nF" + struct.pack(">I", len(inner)) + inner
    return inner


_arguments("unknown field type", b"\x01aZ")
_arguments("table longer than the frame", b"\x01aV", 1000)
_arguments("table shorter than what is sent", b"\x01aV", 1)
_arguments("table length 2^32 - 1", b"\x01aV", 2**32 - 1)
_arguments("key longer than the table", b"\xffa")
_arguments("key without a value", b"\x01a")
_arguments("value cut short", b"\x01aI\0\0")
_arguments("inner table longer than the outer", b"\x01aF\0\0\0\xff")
_arguments("array of garbage", b"\x01aA\0\0\0\x02Z1")
_arguments("tables 100 deep", nested(100))
_arguments("tables 5000 deep", nested(5000))
_arguments("arrays 5000 deep", b"\x01a" + b"".join(b"A" + struct.pack(">I", 5 * n) for n in reversed(range(5000))))
_arguments("a key twice", b"\x01aI\0\0\0\x01\x01aI\0\0\0\x02")
_arguments("an empty key", b"\0I\0\0\0\x01")
_arguments("a key of invalid UTF-8", b"\x02\xff\xfeI\0\0\0\x01")
_arguments("an unknown argument", b"\x04whatI\0\0\0\x01")
_arguments("NaN", b"\x01ad\x7f\xf8\0\0\0\0\0\0")
_arguments("x-max-length NaN", b"\x0cx-max-lengthd\x7f\xf8\0\0\0\0\0\0")
_arguments("x-max-length void", b"\x0cx-max-lengthV")
_arguments("x-max-length decimal", b"\x0cx-max-lengthD\0\0\0\0\x01")
_arguments("x-max-length timestamp", b"\x0cx-max-lengthT\0\0\0\0\0\0\0\x01")
_arguments("x-max-length boolean", b"\x0cx-max-lengtht\x01")
_arguments("x-max-length binary", b"\x0cx-max-lengthx\0\0\0\x011")
_arguments("x-max-length string", b"\x0cx-max-lengthS\0\0\0\x011")
_arguments("x-max-length double", b"\x0cx-max-lengthd\x3f\xf0\0\0\0\0\0\0")
_arguments("x-dead-letter-exchange of invalid UTF-8", b"\x16x-dead-letter-exchangeS\0\0\0\x02\xff\xfe")
_arguments("x-queue-type of invalid UTF-8", b"\x0cx-queue-typeS\0\0\0\x02\xff\xfe")


def _named(name: str, queue: bytes) -> None:
    payload = struct.pack(">HHH", 50, 10, 0) + bytes([len(queue)]) + queue + b"\x04" + bytes(4)
    running(f"queue name: {name}", frame(METHOD, 1, payload))


_named("invalid UTF-8", b"\xff\xfe")
_named("UTF-8 cut in a character", b"gr\xc3")
_named("a surrogate in UTF-8", b"\xed\xa0\x80")
_named("overlong UTF-8", b"\xc0\x80")
_named("a zero octet", b"a\0b")
_named("a line feed", b"a\r\nb")
_named("only a line feed", b"\n")
_named("255 octets", b"n" * 255)
_named("amq. at the start", b"amq.mine")
_named("a blank", b" ")


def _method(name: str, class_id: int, method_id: int, arguments: bytes) -> None:
    running(f"method: {name}", frame(METHOD, 1, struct.pack(">HH", class_id, method_id) + arguments))


_method("exchange.declare, name of invalid UTF-8", 40, 10, b"\0\0\x02\xff\xfe\x06direct\x08\0\0\0\0")
_method("exchange.declare, type of invalid UTF-8", 40, 10, b"\0\0\x02ee\x02\xff\xfe\x08\0\0\0\0")
_method("exchange.declare, name with a line feed", 40, 10, b"\0\0\x03e\ne\x06direct\x04\0\0\0\0")
_method("exchange.declare, all bits", 40, 10, b"\0\0\x02ee\x06direct\xff\0\0\0\0")
_method("queue.bind, routing key of invalid UTF-8", 50, 20, b"\0\0\x01q\x0aamq.direct\x02\xff\xfe\0\0\0\0\0")
_method("basic.consume, tag of invalid UTF-8", 60, 20, b"\0\0\x01q\x02\xff\xfe\0\0\0\0\0")
_method("basic.consume, queue of invalid UTF-8", 60, 20, b"\0\0\x02\xff\xfe\x01c\0\0\0\0\0")
_method("basic.publish, routing key of invalid UTF-8, then no content", 60, 40, b"\0\0\0\x02\xff\xfe\0")
_method("basic.publish, exchange of invalid UTF-8, then no content", 60, 40, b"\0\0\x02\xff\xfe\x01q\0")
_method("basic.ack of an unknown tag", 60, 80, struct.pack(">QB", 99, 0))
_method("basic.ack of tag 0", 60, 80, struct.pack(">QB", 0, 0))
_method("basic.ack of tag 0, multiple", 60, 80, struct.pack(">QB", 0, 1))
_method("basic.ack of tag 2^64 - 1", 60, 80, struct.pack(">QB", 2**64 - 1, 0))
_method("basic.nack of an unknown tag", 60, 120, struct.pack(">QB", 99, 0))
_method("basic.reject of an unknown tag", 60, 90, struct.pack(">QB", 99, 0))
_method("basic.qos with a prefetch size", 60, 10, struct.pack(">IHB", 1, 1, 0))
_method("basic.cancel of an unknown tag", 60, 30, b"\x04none\0")
_method("basic.publish with immediate", 60, 40, b"\0\0\0\x01q\x02")
