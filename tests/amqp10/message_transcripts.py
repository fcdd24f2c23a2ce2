"""Messages that go from AMQP 1.0 to AMQP 0-9-1 and back: what clients of both see, played on any server.

``python -m tests.amqp10.message_transcripts RELEASE AMQP_PORT MANAGEMENT_PORT`` records a real server of 4.0 or 4.3.
"""

from __future__ import annotations

import base64
import datetime
import json
import re
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pika
import pika.data
import pytest
from pika import BasicProperties
from proton import (
    Data,
    Described,
    byte,
    char,
    decimal32,
    float32,
    int32,
    short,
    symbol,
    timestamp,
    ubyte,
    uint,
    ulong,
    ushort,
)

from dlx import field_values
from simulator.server.amqp.tables import encode_table
from simulator.server.amqp10 import frames
from simulator.server.amqp10.frames import Accepted, Codec, Composite, Header, Modified, Properties, Rejected, Released
from tests.amqp10.wire import WireClient

RECORDED = Path(__file__).parent / "recorded"
RELEASES = ("4.0", "4.3")
UUID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
ANNOTATIONS, APPLICATION, DATA, SEQUENCE, VALUE, FOOTER = 0x72, 0x74, 0x75, 0x76, 0x77, 0x78
CREDIT, WINDOW = 500, 100_000
_NOW = re.compile(r"timestamp\((?!1700000000)\d{13}\)|datetime\.datetime\(20(?!23)[^)]*\)")
_CODEC = Codec()


def section(code: int, value: Any) -> bytes:
    return _CODEC.encode(Described(ulong(code), value))


def texts(*elements: str) -> Any:
    return frames.array(Data.STRING, elements)


def shown(value: Any) -> str:
    """Return a section as text, its fields in the order of their names."""
    if isinstance(value, Composite):
        fields = {name: getattr(value, name) for name in value.__struct_fields__ if getattr(value, name) is not None}
        return f"{type(value).__name__} {fields}"
    content = value.value
    return f"{int(value.descriptor):x} {sorted(content.items(), key=repr) if isinstance(content, dict) else content!r}"


class Link:
    """A client of AMQP 1.0 with one session, which keeps the transfers that it did not ask for."""

    def __init__(self, port: int, vhost: str) -> None:
        self.wire = WireClient(port, timeout_s=10)
        self.tell = self.wire.send
        self.kept: list[tuple[Any, bytes]] = []
        self.handles = self.sent = 0
        self.wire.open(vhost)
        self.next_id = self.wire.begin(window=WINDOW).next_outgoing_id or 0

    def until(self, kind: type[Composite]) -> tuple[Any, bytes]:
        """Return the next frame of this kind. Raises ``ConnectionError`` where the server ends something."""
        for place, (found, _) in enumerate(self.kept):
            if type(found) is kind:
                return self.kept.pop(place)
        while True:
            _, found, payload = self.wire.receive()
            if type(found) is kind:
                return found, payload
            if isinstance(found, (frames.Detach, frames.End, frames.Close)):
                raise ConnectionError(f"{type(found).__name__} {found.error and found.error.condition}")
            if isinstance(found, frames.Transfer):
                self.kept.append((found, payload))

    def sender(self, address: str) -> int:
        handle, self.handles = self.handles, self.handles + 1
        target = frames.Target(address=address)
        self.tell(
            frames.Attach(
                name=str(handle), handle=handle, role=False, source=frames.Source(), target=target,
                snd_settle_mode=2, rcv_settle_mode=0, initial_delivery_count=0,
            )
        )  # fmt: skip
        self.until(frames.Flow)
        return handle

    def receiver(self, address: str, credit: int = CREDIT) -> int:
        handle, self.handles = self.handles, self.handles + 1
        source = frames.Source(address=address)
        self.tell(
            frames.Attach(
                name=str(handle), handle=handle, role=True, source=source, target=frames.Target(),
                snd_settle_mode=0, rcv_settle_mode=0,
            )
        )  # fmt: skip
        attached = self.until(frames.Attach)[0]
        self.tell(
            frames.Flow(
                next_incoming_id=self.next_id, incoming_window=WINDOW, next_outgoing_id=self.sent,
                outgoing_window=WINDOW, handle=handle, delivery_count=attached.initial_delivery_count,
                link_credit=credit,
            )
        )  # fmt: skip
        return handle

    def detach(self, handle: int) -> None:
        self.tell(frames.Detach(handle=handle, closed=True))
        self.until(frames.Detach)

    def send(self, handle: int, message: bytes) -> str:
        """Send a message and return the name of its outcome."""
        self._transfer(handle, message, settled=False)
        return type(self.until(frames.Disposition)[0].state).__name__

    def send_settled(self, handle: int, message: bytes) -> None:
        self._transfer(handle, message, settled=True)

    def _transfer(self, handle: int, message: bytes, *, settled: bool) -> None:
        number, self.sent = self.sent, self.sent + 1
        tag = str(number).encode()
        transfer = frames.Transfer(
            handle=handle, delivery_id=number, delivery_tag=tag, message_format=0, settled=settled
        )
        self.tell(transfer, message)

    def receive(self) -> tuple[Any, list[str]]:
        """Return the next transfer and its sections as texts."""
        transfer, payload = self.until(frames.Transfer)
        self.next_id = (self.next_id + 1) % 2**32
        return transfer, [shown(value) for value in self.wire.sections(payload)]

    def settle(self, transfer: Any, state: Composite) -> None:
        self.tell(frames.Disposition(role=True, first=transfer.delivery_id, settled=True, state=state))


class Player:
    """Clients of both protocols on one server, and what they saw."""

    def __init__(self, port: int, vhost: str, wait: Callable[[float], Any]) -> None:
        self.port, self.vhost, self.wait = port, vhost, wait
        self.lines: list[str] = []
        self.reconnect()

    def reconnect(self) -> None:
        self.connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port, self.vhost))
        self.channel = self.connection.channel()
        self.link = Link(self.port, self.vhost)

    def close(self) -> None:
        if self.connection.is_open:
            self.connection.close()
        self.link.wire.close()

    def say(self, *words: Any) -> None:
        self.lines.append(_NOW.sub("NOW", " ".join(map(str, words))))

    def declare(self, queue: str, kind: str, **arguments: Any) -> None:
        named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
        self.channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind, **named})

    def get(self, queue: str) -> None:
        """Get a message by AMQP 0-9-1."""
        try:
            for _ in range(100):
                method, properties, body = self.channel.basic_get(queue, auto_ack=True)
                if method is not None:
                    break
                time.sleep(0.02)  # on a real server, a message that was settled when sent is on its way
        except pika.exceptions.AMQPError as error:
            self.say("  got", type(error).__name__, getattr(error, "reply_code", ""))
            self.close()
            self.reconnect()
            return
        assert method is not None, queue
        basic = {name: value for name, value in sorted(vars(properties).items()) if value is not None}
        headers = sorted((basic.pop("headers", None) or {}).items())
        self.say("  got", method.exchange, method.routing_key, method.redelivered, basic, headers, body)


BODY = section(DATA, b"hello")
ENCODED = section(VALUE, "text") + section(FOOTER, {symbol("x-f"): 1})
FIELDS = {
    "string": "text", "symbol": symbol("sy"), "bytes": b"\1\xff", "text bytes": b"bin", "byte": byte(-1),
    "ubyte": ubyte(200), "short": short(-5), "ushort": ushort(60_000), "int": int32(-7), "uint": uint(2**32 - 1),
    "long": -9, "ulong": ulong(8), "great ulong": ulong(2**64 - 1), "float": float32(1.5), "double": 2.5,
    "true": True, "null": None, "time": timestamp(1_700_000_000_999),
}  # fmt: skip
NESTED = {
    "x-a": "v", "x-opt-b": ulong(1), "x-list": ["a", 1, int32(2), None, True],
    "x-map": {symbol("k"): "v", "k2": uint(1), "m": {"n": [1]}}, "x-array": texts("p", "q"), "x-basic-type": "ty",
    "x-death": "d", "x-exchange": "e", "x-routing-key": "r",
    "x-opt-rabbitmq-received-time": timestamp(1_700_000_000_123),
}  # fmt: skip


def annotated(**values: Any) -> bytes:
    return section(ANNOTATIONS, {symbol(f"x-{name.replace('_', '-')}"): value for name, value in values.items()})


MESSAGES: dict[str, bytes] = {
    "body alone": BODY,
    "empty header": _CODEC.encode(Header()) + BODY,
    "header": _CODEC.encode(Header(durable=True, priority=3, ttl=100_000)) + BODY,
    "not durable": _CODEC.encode(Header(durable=False, priority=0)) + BODY,
    "properties": _CODEC.encode(
        Properties(
            message_id="m", user_id=b"guest", to="/queues/x", subject="subject", reply_to="/queues/a%2Fb",
            correlation_id="c", content_type="text/plain", content_encoding="gzip",
            absolute_expiry_time=timestamp(1_700_000_000_123), creation_time=timestamp(1_700_000_000_999),
            group_id="g", group_sequence=7, reply_to_group_id="rg",
        )
    ) + BODY,
    "ids of uuid": _CODEC.encode(Properties(message_id=UUID, correlation_id=UUID)) + BODY,
    "ids of ulong": _CODEC.encode(Properties(message_id=ulong(5), correlation_id=ulong(2**64 - 1))) + BODY,
    "ids of bytes": _CODEC.encode(Properties(message_id=b"\1\2", correlation_id=b"abc")) + BODY,
    "long ids": _CODEC.encode(Properties(message_id="x" * 256, correlation_id="y" * 300)) + BODY,
    "reply to no queue": _CODEC.encode(Properties(reply_to="some where")) + BODY,
    "long texts": _CODEC.encode(Properties(reply_to="/queues/" + "z" * 300, group_id="g" * 256)) + BODY,
    "long content type": _CODEC.encode(Properties(content_type="c" * 256)) + BODY,
    "application properties": section(APPLICATION, FIELDS) + BODY,
    "annotations": section(ANNOTATIONS, {symbol(name): value for name, value in NESTED.items()}) + BODY,
    "basic": annotated(basic_priority=ubyte(4), basic_expiration="70000", basic_delivery_mode=ubyte(2)) + BODY,
    "basic mode 1": annotated(basic_delivery_mode=ubyte(1)) + BODY,
    "same names": annotated(message_id="ann", k="ann") + _CODEC.encode(Properties(message_id=b"id"))
    + section(APPLICATION, {"x-message-id": "app", "x-k": "app", "CC": "app", "BCC": "app"}) + BODY,
    "cc": annotated(cc=["one", "two"]) + BODY,
    "two data sections": section(DATA, b"ab") + section(DATA, b"cd"),
    "data and footer": section(DATA, b"ab") + section(FOOTER, {symbol("x-f"): 1}),
    "no data": section(DATA, b""),
    "value": _CODEC.encode(Properties(subject="x")) + section(VALUE, "text"),
    "value of bytes": section(VALUE, b"bin"),
    "value null": section(VALUE, None),
    "value map and footer": section(VALUE, {"a": [1, None]}) + section(FOOTER, {symbol("x-f"): 1}),
    "sequences": section(SEQUENCE, [1]) + section(SEQUENCE, [2, "a"]),
    "much data": section(DATA, b"z" * 300),
    "wide size": b"\0\x53\x75\xb0\0\0\0\3abc",
    "delivery annotations": section(0x71, {symbol("x-d"): 1}) + BODY,
    "no number": section(APPLICATION, {"nan": float("nan"), "k": "v"}) + BODY,
    "decimal": section(APPLICATION, {"d": decimal32(7), "k": "v"}) + BODY,
    "uuid": section(APPLICATION, {"u": UUID, "k": "v"}) + BODY,
    "char": section(APPLICATION, {"c": char("x"), "k": "v"}) + BODY,
    "ulong in a list": annotated(l=[ulong(1)]) + BODY,
    "ulong and array in a map": annotated(m={"a": ulong(1), symbol("b"): texts("p")}) + BODY,
    "map by numbers": annotated(m={1: 2}) + BODY,
    "before 1970": _CODEC.encode(Properties(creation_time=timestamp(-1_500)))
    + section(APPLICATION, {"time": timestamp(-1_500)}) + BODY,
    "long name": section(APPLICATION, {"k" * 256: 1, "k": 1}) + BODY,
}  # fmt: skip


def by_0_9_1(player: Player) -> None:
    """Send messages by AMQP 1.0 and get them by AMQP 0-9-1."""
    for kind in ("classic", "quorum"):
        player.declare(kind, kind)
        for name, message in MESSAGES.items():
            player.say(kind, name, player.link.send(player.link.sender(f"/queues/{kind}"), message))
            player.get(kind)
            player.channel.queue_purge(kind)


def by_1_0(player: Player) -> None:
    """Send and receive messages by AMQP 1.0."""
    link = player.link
    for kind in ("classic", "quorum"):
        player.declare(kind, kind)
        sender, receiver = link.sender(f"/queues/{kind}"), link.receiver(f"/queues/{kind}")
        for name, message in MESSAGES.items():
            link.send_settled(sender, message)
            transfer, sections = link.receive()
            player.say(kind, name, *sections)
            link.settle(transfer, Accepted())
        link.detach(receiver)


def of_0_9_1(player: Player) -> None:
    """Publish messages by AMQP 0-9-1 and receive them by AMQP 1.0."""
    nested = {"a": {"b": [None]}}
    at = datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC)
    headers: dict[str, Any] = {
        "text": "t", "int": 1, "long": 2**40, "small long": field_values.Long(9), "bool": True, "void": None,
        "double": 1.5, "float": field_values.Float32(1.5), "bytes": b"\1\xff", "nul": "a\0b", "much": "z" * 4_097,
        "time": at, "array": [1, "a"], "table": {"a": 1}, "byte": field_values.SignedByte(-1),
        "ubyte": field_values.UnsignedByte(200), "short": field_values.Short(-3),
        "ushort": field_values.UnsignedShort(7), "uint": field_values.UnsignedInt(8), "x": field_values.Binary(b"x"),
        "late": field_values.Timestamp(10**12),
    }  # fmt: skip
    annotations = {
        "x-s": "t", "x-i": 1, "x-l": [1, "a", [2]], "x-t": nested, "x-time": at, "x-n": None, "x-exchange": "e",
        "x-routing-key": "r", "x-first-death-queue": "q", "x-death": [{"count": 1}], "x-opt-deaths": "d",
    }  # fmt: skip
    brought = {
        "properties": _CODEC.encode(Properties(message_id="old")), "footer": section(FOOTER, {symbol("x-f"): 1}),
        "app-properties": section(APPLICATION, {"k": 1}), "message-annotations": annotated(z=1),
    }  # fmt: skip
    urn = f"urn:uuid:{UUID}"
    messages = {
        "nothing": (BasicProperties(), b"hello"),
        "no body": (BasicProperties(), b""),
        "all": (
            BasicProperties(
                content_type="text/plain", content_encoding="gzip", delivery_mode=2, priority=5, correlation_id="c",
                reply_to="a/b c", expiration="+0100000", message_id="m", timestamp=1_700_000_000, type="ty",
                user_id="guest", app_id="app", cluster_id="cl",
            ),
            b"x",
        ),
        "ids of uuid": (BasicProperties(message_id=urn, correlation_id=urn.replace("aabb", "AABB")), b"x"),
        "mode 1": (BasicProperties(delivery_mode=1, priority=0), b"x"),
        "reply to": (BasicProperties(reply_to="é~._-/%"), b"x"),
        "headers": (BasicProperties(headers=headers), b"x"),
        "x-headers": (BasicProperties(headers=annotations), b"x"),
        "cc": (BasicProperties(headers={"CC": ["c1", "c2"], "BCC": ["b1"]}), b"x"),
        "encoded body": (BasicProperties(type="amqp-1.0"), ENCODED),
        "encoded data": (BasicProperties(type="amqp-1.0"), section(DATA, b"abc")),
        "sections": (BasicProperties(headers={f"x-amqp-1.0-{name}": value for name, value in brought.items()}), b"x"),
        "decimal in a table": (BasicProperties(headers={"d": {"a": Decimal("1.5")}}), b"x"),
    }  # fmt: skip
    for kind in ("classic", "quorum"):
        player.declare(kind, kind)
        receiver = player.link.receiver(f"/queues/{kind}")
        for name, (properties, body) in messages.items():
            player.channel.basic_publish("", kind, body, properties)
            returns = [Released(), Modified(delivery_failed=True)] if name == "nothing" else []
            for outcome in (*returns, Accepted()):
                transfer, sections = player.link.receive()
                player.say(kind, name, *sections)
                player.link.settle(transfer, outcome)
        player.link.detach(receiver)


def deaths(player: Player) -> None:
    """Dead-letter messages of both protocols; see them by both."""
    link = player.link
    player.channel.exchange_declare("dead", "fanout")
    rich = (
        _CODEC.encode(Header(durable=True, ttl=90_000, priority=3))
        + section(ANNOTATIONS, {symbol("x-cc"): ["nowhere"], symbol("x-mine"): 1, symbol("x-first-death-queue"): "q"})
        + _CODEC.encode(Properties(message_id="id", subject="s"))
        + section(APPLICATION, {"k": uint(1)})
        + section(VALUE, "value")
        + section(FOOTER, {symbol("x-f"): 1})
    )
    headers = {"CC": ["nowhere"], "BCC": ["hidden"], "x-mine": 1, "k": 2}
    basic = BasicProperties(expiration="90000", delivery_mode=2, headers=headers, message_id="id")
    for kind in ("classic", "quorum"):
        first, expiring, second, cycle = (f"{kind}-{name}" for name in ("first", "expiring", "second", "cycle"))
        player.declare(first, kind, dead_letter_exchange="", dead_letter_routing_key=expiring)
        player.declare(expiring, kind, dead_letter_exchange="", dead_letter_routing_key=second, message_ttl=50)
        player.declare(second, kind, dead_letter_exchange="dead")
        player.declare(cycle, kind, dead_letter_exchange="", dead_letter_routing_key=cycle)
        for queue in (f"{kind}-a", f"{kind}-b"):
            player.declare(queue, kind)
            player.channel.queue_bind(queue, "dead")
        sends: dict[str, Callable[[str], None]] = {
            "1.0": lambda queue: link.send_settled(link.sender(f"/queues/{queue}"), rich),
            "0-9-1": lambda queue: player.channel.basic_publish("", queue, b"body", basic),
        }
        receivers = [link.receiver(f"/queues/{queue}") for queue in (first, second, f"{kind}-a", cycle)]
        for protocol, send in sends.items():
            send(first)
            for place in ("first", "second", "dead"):
                transfer, sections = link.receive()
                player.say(kind, protocol, place, *sections)
                link.settle(transfer, Accepted() if place == "dead" else Rejected())
                if place == "first":
                    player.wait(0.2)
            player.get(f"{kind}-b")
            player.channel.queue_purge(f"{kind}-b")
            send(cycle)
            for outcome in (Rejected(), Rejected(), Accepted()):
                transfer, sections = link.receive()
                player.say(kind, protocol, "cycle", *sections)
                link.settle(transfer, outcome)
        for receiver in receivers:
            link.detach(receiver)


def routing(player: Player) -> None:
    """Route messages of AMQP 1.0 by headers."""
    player.channel.exchange_declare("headers", "headers")
    bindings: dict[str, dict[str, Any]] = {
        "text": {"s": "t"}, "int": {"i": 5}, "bool": {"b": True}, "null": {"n": None}, "uuid": {"u": None},
        "annotation": {"x-match": "all-with-x", "x-a": "v"}, "list": {"x-match": "all-with-x", "x-list": None},
        "x-cc": {"x-match": "all-with-x", "x-cc": None}, "CC": {"CC": None},
        "any": {"x-match": "any", "zz": 1, "f": 1.5},
    }  # fmt: skip
    for queue, arguments in bindings.items():
        player.channel.queue_declare(queue, durable=True)
        player.channel.queue_bind(queue, "headers", "", {"x-match": "all", **arguments})
    sender = player.link.sender("/exchanges/headers")
    values = {"s": "t", "i": uint(5), "b": True, "n": None, "u": UUID, "f": 1.5}
    messages = {name: section(APPLICATION, {name: value}) for name, value in values.items()}
    messages |= {
        "symbol": section(APPLICATION, {"s": symbol("t")}), "n of a number": section(APPLICATION, {"n": 1}),
        "float": section(APPLICATION, {"f": float32(1.5)}), "annotation": annotated(a="v"),
        "list": annotated(list=["a"]), "cc": annotated(cc=["a"]),
    }  # fmt: skip
    for name, head in messages.items():
        outcome = player.link.send(sender, head + BODY)
        found = [q for q in bindings if player.channel.queue_declare(q, passive=True).method.message_count]
        player.say(name, outcome, found)
        for queue in bindings:
            player.channel.queue_purge(queue)


def sizes(player: Player) -> None:
    """Fill queues that are limited in bytes."""
    messages = {
        "body": section(DATA, b"z" * 20), "value": section(VALUE, "z" * 20),
        "properties": _CODEC.encode(Properties(subject="s" * 10)) + section(DATA, b"z" * 20),
        "annotations": annotated(a="v") + section(DATA, b"z" * 20),
    }  # fmt: skip
    for kind in ("classic", "quorum"):
        player.declare(f"{kind}-drops", kind, max_length_bytes=60)
        player.declare(f"{kind}-rejects", kind, max_length_bytes=60, overflow="reject-publish")
        for queue in (f"{kind}-drops", f"{kind}-rejects"):
            sender = player.link.sender(f"/queues/{queue}")
            for name, message in messages.items():
                outcomes = []
                for _ in range(5):
                    outcomes.append(player.link.send(sender, message))
                    player.wait(0.05)
                left = player.channel.queue_declare(queue, passive=True).method.message_count
                player.say(queue, name, outcomes, left)
                player.channel.queue_purge(queue)
                player.wait(0.1)


SCENARIOS = (by_0_9_1, by_1_0, of_0_9_1, deaths, routing, sizes)


def transcript(
    scenario: Callable[[Player], None], port: int, management: str, wait: Callable[[float], Any]
) -> list[str]:
    """Play a scenario in a virtual host of its own and return what the clients saw."""
    vhost = f"messages-{uuid.uuid4()}"
    call(management, "PUT", f"vhosts/{vhost}", {})
    call(management, "PUT", f"permissions/{vhost}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    player = Player(port, vhost, wait)
    try:
        with pytest.MonkeyPatch.context() as patch:  # pika writes no floats, for one
            patch.setattr(pika.data, "encode_table", _written)
            scenario(player)
    finally:
        player.close()
        call(management, "DELETE", f"vhosts/{vhost}")
    return player.lines


def call(management: str, method: str, path: str, content: Any = None) -> Any:
    """Call the management API."""
    data = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(management.rstrip("/") + f"/api/{path}", data, method=method)
    request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.loads(answer.read() or b"null")


def _written(pieces: list[bytes], table: dict[str, Any]) -> int:
    encoded = encode_table(table)
    pieces.append(encoded)
    return len(encoded)


def recorded(release: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = json.loads((RECORDED / f"messages-{release}.json").read_text())
    return found


def main() -> None:
    release, port, management_port = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    found = {
        scenario.__name__: transcript(scenario, port, f"http://127.0.0.1:{management_port}", time.sleep)
        for scenario in SCENARIOS
    }
    (RECORDED / f"messages-{release}.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
