"""Header and body frames that are not what was announced, and what is published when they are."""

from __future__ import annotations

from pika import BasicProperties, spec

from tests.faults.cases.registry import DECLARE, PUBLISH, content, header, header_payload
from tests.faults.wire import BODY, HEADER, METHOD, frame, method, publish

content("header without publish", header(1))
content("body without publish", frame(BODY, 1, b"x"))
content("method instead of header", PUBLISH, DECLARE)
content("body instead of header", PUBLISH, frame(BODY, 1, b"x"))
content("publish twice", PUBLISH, PUBLISH)
content("header twice", PUBLISH, header(1), header(1))
content("method instead of body", PUBLISH, header(1), DECLARE)
content("channel.close instead of body", PUBLISH, header(1), method(1, spec.Channel.Close(200, "", 0, 0)))
content("heartbeat on channel 0 in between", PUBLISH, frame(8, 0, b""), header(1), frame(8, 0, b""), frame(3, 1, b"x"))
content("body longer than announced", PUBLISH, header(3), frame(BODY, 1, b"four"))
content("body longer in its second frame", PUBLISH, header(3), frame(BODY, 1, b"fo"), frame(BODY, 1, b"ur"))
content("body after a header of size 0", PUBLISH, header(0), frame(BODY, 1, b"x"))
content("empty body frame after a header of size 0", PUBLISH, header(0), frame(BODY, 1, b""))
content("empty body frames in between", PUBLISH, header(2), *[frame(3, 1, b)[:] for b in (b"", b"o", b"", b"k")])
content("one octet a frame", PUBLISH, header(4), *[frame(BODY, 1, bytes([octet])) for octet in b"four"])
content("header of class queue", PUBLISH, header(1, 50))
content("header of class 0", PUBLISH, header(1, 0))
content("header with a weight", PUBLISH, header(1, 60, 1))
content("header cut short", PUBLISH, frame(HEADER, 1, bytes(11)))
content("header without flags", PUBLISH, frame(HEADER, 1, header_payload(1, properties=b"")), frame(BODY, 1, b"x"))
content("header without flags, no body", PUBLISH, frame(HEADER, 1, header_payload(0, properties=b"")))
content("body of 512 MB announced", PUBLISH, header(536_870_912))
content("body of 512 MB and one announced", PUBLISH, header(536_870_913))
content("body of 2^64 - 1 announced", PUBLISH, header(2**64 - 1))
content("body on another open channel", PUBLISH, header(1), frame(BODY, 2, b"x"), channels=(1, 2))
content("body on a channel not open", PUBLISH, header(1), frame(BODY, 2, b"x"))
content(
    "two channels interleaved",
    *(PUBLISH, publish(2, "none", b"two"), header(3), frame(BODY, 1, b"one")),
    channels=(1, 2),
)
content("basic.return with content from the client", method(1, spec.Basic.Return(312, "x", "", "q")), header(0))


content(
    "routing key of invalid UTF-8",
    frame(METHOD, 1, b"\0\x3c\0\x28\0\0\0\x02\xff\xfe\0"),
    header(1),
    frame(BODY, 1, b"x"),
)
content(
    "exchange of invalid UTF-8", frame(METHOD, 1, b"\0\x3c\0\x28\0\0\x02\xff\xfe\0\0"), header(1), frame(BODY, 1, b"x")
)
content("immediate", frame(METHOD, 1, b"\0\x3c\0\x28\0\0\0\x01q\x02"), header(1), frame(BODY, 1, b"x"))
content("immediate, to no queue", frame(METHOD, 1, b"\0\x3c\0\x28\0\0\0\x04none\x02"), header(0))
content(
    "to no exchange", method(1, spec.Basic.Publish(exchange="none", routing_key="q")), header(1), frame(BODY, 1, b"x")
)
content(
    "to no exchange, twice",
    *[method(1, spec.Basic.Publish(exchange="none", routing_key="q")), header(1), frame(BODY, 1, b"x")] * 2,
)
content(
    "mandatory to no queue",
    method(1, spec.Basic.Publish(exchange="", routing_key="none", mandatory=True)),
    header(1),
    frame(BODY, 1, b"x"),
)
content("property user-id by pika", publish(1, "q", b"x", BasicProperties(user_id="other")))
