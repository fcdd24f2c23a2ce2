"""Streams: as dead-letter targets and by themselves, read by offset."""

from collections.abc import Sequence
from typing import Any

from tests.differential.operations import (
    Ack,
    Bind,
    Consume,
    Count,
    Get,
    Nack,
    OpenConnection,
    PurgeQueue,
    Qos,
    ReadStream,
    Scenario,
    SelectConfirms,
    Wait,
)
from tests.differential.words import Part, exchange, fan, publish, queue, quorum, rejected, scenario, stream
from tests.real_servers import since
from tests.vectors.amqp import Field

FROM_39 = since("3.9")
FROM_40 = since("4.0")
CONFIRMED = SelectConfirms()
PROPERTIES: dict[str, Any] = {
    "content_type": "t", "message_id": "m", "correlation_id": "c", "delivery_mode": 2, "priority": 3,
    "timestamp": 1700000000, "type": "y", "app_id": "p", "reply_to": "r", "expiration": "60000",
}  # fmt: skip


def of_streams(name: str, *parts: Part, releases: Sequence[str] = FROM_39) -> Scenario:
    """A scenario of the releases that have streams."""
    return scenario(name, CONFIRMED, *parts, releases=releases)


SCENARIOS = [
    of_streams(
        "read from the first",
        stream("s"), publish("s", "1", "2", "3"), ReadStream("s"), ReadStream("s", "first"),
    ),
    of_streams(
        "read from an offset",
        stream("s"), publish("s", *"12345"), ReadStream("s", 3), ReadStream("s", 100), ReadStream("s", "next"),
    ),
    of_streams(
        "properties and headers",
        stream("s"),
        publish("s", headers={"a": 1, "b": "text", "c": True, "d": 1.5, "e": Field("l", 5), "n": None}, **PROPERTIES),
        ReadStream("s"),
    ),
    of_streams(
        "long expirations",
        stream("s"), publish("s", "1", expiration="99999999999"), publish("s", "2", expiration="4294967296"),
        publish("s", "3", expiration="007"), publish("s", "4", expiration="0"), ReadStream("s"),
    ),
    *(
        of_streams(
            f"a decimal as {where}",
            stream("s"), queue("q"), exchange("x"), Bind("x", "s"), Bind("x", "q"),
            publish(exchange="x", headers=headers), OpenConnection("b"), Count("q", "b"),
        )
        for where, headers in (
            ("header", {"a": Field("D", [2, 314])}),
            ("x-header", {"x-a": Field("D", [2, 314])}),
            ("item", {"x-a": [Field("D", [2, 314])]}),
            ("item of a header that streams leave out", {"a": [Field("D", [2, 314])]}),
            ("field of a claimed death", {"x-death": [{"queue": Field("D", [2, 314])}]}),
        )
    ),
    of_streams("without properties", stream("s"), publish("s"), publish("s", headers={}), ReadStream("s")),
    of_streams(
        "nested headers",
        stream("s"),
        publish("s", headers={"x-a": [1, "b"], "x-t": {"k": 1}, "plain": [1], "t": {"k": 1}, "CC": ["k"], "x-i": 5}),
        ReadStream("s"),
    ),
    of_streams("basic.get", stream("s"), publish("s"), Get("s")),
    of_streams("consume without prefetch", stream("s"), Consume("s", "c")),
    of_streams("consume with no_ack", stream("s"), Qos(10), Consume("s", "c", no_ack=True)),
    of_streams(
        "bad offsets",
        stream("s"), Qos(10), Consume("s", "c", arguments={"x-stream-offset": "nope"}), Qos(10),
        Consume("s", "c", arguments={"x-stream-offset": "5D"}),
    ),
    of_streams("purge", stream("s"), publish("s"), PurgeQueue("s")),
    of_streams(
        "consume and acknowledge",
        stream("s"), publish("s", *"1234"), Qos(2), Consume("s", "c", arguments={"x-stream-offset": "first"}),
        Ack(multiple=True), publish("s", "5"), Ack(multiple=True),
    ),
    of_streams(
        "nack",
        stream("s"), publish("s", "1", "2"), Qos(1), Consume("s", "c", arguments={"x-stream-offset": "first"}),
        Nack(requeue=True),
    ),
    of_streams(
        "dead letters of a rejection",
        stream("s"), queue("q", dlx="", dlrk="s"),
        publish("q", "1", headers={"a": 1}, expiration="60000", message_id="m"), publish("q", "2"), rejected("q", 2),
        Wait(100), ReadStream("s"),
    ),
    of_streams(
        "dead letters with arrays",
        stream("s"), queue("q", dlx="", dlrk="s"),
        publish("q", headers={"x-a": [1], "b": [2], "CC": ["k"], "BCC": ["l"]}), rejected("q"), Wait(100),
        ReadStream("s"), releases=FROM_40,
    ),
    of_streams(
        "dead letters of a chain",
        stream("s"), queue("r", dlx="", dlrk="s"), quorum("q", dlx="", dlrk="r"), publish("q"), rejected("q"),
        rejected("r"), Wait(100), ReadStream("s"), releases=FROM_40,
    ),
    of_streams(
        "at-least-once into a stream",
        stream("s"), quorum("q", dlx="", dlrk="s", overflow="reject-publish", dead_letter_strategy="at-least-once"),
        publish("q"), rejected("q"), Wait(200), ReadStream("s"), releases=FROM_40,
    ),
    of_streams(
        "a stream and a queue",
        fan("x", "q"), stream("s"), [fan("x", "r")], publish("", exchange="x"), Count("r"),
    ),
]  # fmt: skip
