"""A client's end of a connection without sockets: what it sends goes straight into the protocol."""

from __future__ import annotations

import struct
from typing import Any

from simulator.broker.broker import Broker
from simulator.broker.replies import Reply
from simulator.clock import VirtualClock
from simulator.server.amqp.connection import Connection, ServerSettings
from simulator.server.amqp.contents import DeliveryEncoder
from simulator.server.amqp.frames import BODY, CONTENT_HEADER, HEADER, METHOD, frame
from simulator.server.amqp.methods import NAMES, decode_fields, encode_method, encode_properties
from simulator.server.node import Node

HELLO = b"AMQP\0\0\x09\x01"
ALL_CAPABILITIES = dict.fromkeys(("authentication_failure_close", "consumer_cancel_notify", "connection.blocked"), True)
Got = tuple[int, str, dict[str, Any]]


def method(channel: int, name: str, **fields: Any) -> bytes:
    return frame(METHOD, channel, encode_method(name, fields))


def message(channel: int, routing_key: str, body: bytes = b"", **fields: Any) -> bytes:
    """The frames of a publish; ``properties`` among the fields."""
    properties = encode_properties(fields.pop("properties", {}))
    start = method(channel, "basic.publish", routing_key=routing_key, **fields)
    header = frame(HEADER, channel, CONTENT_HEADER.pack(60, 0, len(body)) + properties)
    return start + header + (frame(BODY, channel, body) if body else b"")


def read(data: bytes) -> list[Got]:
    """The frames in bytes: channel, the method's name (or ``header``, ``body`` ...), its fields."""
    found: list[Got] = []
    while data:
        if data.startswith(b"AMQP"):
            found.append((0, "protocol header", {"version": tuple(data[4:8])}))
            data = data[8:]
            continue
        kind, channel, size = struct.unpack(">BHL", data[:7])
        payload, data = data[7 : 7 + size], data[8 + size :]
        if kind == METHOD:
            name = NAMES[struct.unpack(">HH", payload[:4])]
            found.append((channel, name, decode_fields(name, payload)))
        else:
            found.append((channel, {HEADER: "header", BODY: "body"}.get(kind, "heartbeat"), {"payload": payload}))
    return found


class Peer:
    """One client of a node; ``says`` sends bytes and returns the frames that come back."""

    _last_id = 0

    def __init__(self, release: str = "4.3", node: Node | None = None, message_max_bytes: int | None = None) -> None:
        self.node = node or Node(Broker(release), VirtualClock(start_us=1_700_000_000_000_000))
        broker = self.node.broker
        settings = ServerSettings(
            release=broker.release,
            cluster_name=lambda: "rabbit@test",
            message_max_bytes=message_max_bytes or broker.max_message_size,
            contents=DeliveryEncoder(broker.release),
            broker=broker,
        )
        Peer._last_id += 1
        self.id = Peer._last_id
        self.connection = Connection(self.id, "test", settings, broker.authenticated)
        self.node.connections[self.id] = self  # type: ignore[assignment]
        self.commands: list[str] = []
        self._out = b""

    def says(self, *data: bytes) -> list[Got]:
        for command in self.connection.receive(b"".join(data)):
            self.commands.append(type(command).__name__)
            self.node.execute(command)
        self.node.has_output(self)  # type: ignore[arg-type]
        self.node.settle()
        return self.hears()

    def hears(self) -> list[Got]:
        """What came since."""
        out, self._out = self._out, b""
        return read(out)

    def greets(self, **capabilities: bool) -> list[Got]:
        self.says(HELLO)
        properties = {"capabilities": capabilities}
        response = {"mechanism": "PLAIN", "response": b"\0guest\0guest", "client_properties": properties}
        self.says(method(0, "connection.start-ok", **response))
        self.says(method(0, "connection.tune-ok", channel_max=2047, frame_max=131072, heartbeat=0))
        return self.says(method(0, "connection.open", virtual_host="/"))

    @classmethod
    def connected(cls, release: str = "4.3", **options: Any) -> Peer:
        """A client with channel 1 open."""
        peer = cls(release, **options)
        peer.greets(**ALL_CAPABILITIES)
        peer.says(method(1, "channel.open"))
        return peer

    def reply(self, reply: Reply) -> None:
        self.connection.reply(reply)

    def flush(self) -> None:
        self._out += self.connection.take()

    def alarm_changed(self, active: bool) -> None:
        pass


def names(frames: list[Got]) -> list[str]:
    return [name for _, name, _ in frames]


def closed(frames: list[Got]) -> tuple[str, int, str]:
    """The one frame that closes: its name, code and text."""
    assert len(frames) == 1, frames
    _, name, fields = frames[0]
    return name, fields["reply_code"], fields["reply_text"]
