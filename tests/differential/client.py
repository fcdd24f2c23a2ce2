"""A small synchronous AMQP 0-9-1 client that shows every frame.

``Connection.call`` sends a method and waits for its answer; whatever else arrives is kept in order in ``inbox``, by
channel. A close by the server is an answer like any other.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from tests.differential import wire

TIMEOUT_S = 20.0
FRAME_MAX = 131_072
_METHOD, _HEADER, _BODY, _HEARTBEAT = 1, 2, 3, 8
_END = b"\xce"
CAPABILITIES = ("consumer_cancel_notify", "basic.nack", "publisher_confirms", "exchange_exchange_bindings")
_ALWAYS = ("authentication_failure_close", "connection.blocked")


class ServerSilentError(Exception):
    """The server did not answer within ``TIMEOUT_S``."""


class Incoming(msgspec.Struct):
    """A method that the server sent, with its content if it has one."""

    method: str
    values: dict[str, Any]
    properties: dict[str, Any] = {}
    body: bytes = b""

    @property
    def is_close(self) -> bool:
        """Whether the channel or the connection is gone."""
        return self.method in ("channel.close", "connection.close", "connection lost")


LOST = Incoming("connection lost", {})


class Connection:
    """A connection to one virtual host.

    ``opened`` is the answer to the attempt: ``connection.open-ok``, or how the server refused. Channels are plain
    numbers; the caller opens them with ``call(number, "channel.open")``.
    """

    def __init__(
        self,
        url: str,
        vhost: str,
        user: str | None = None,
        password: str | None = None,
        capabilities: tuple[str, ...] = CAPABILITIES,
    ) -> None:
        parts = urlsplit(url)
        self.inbox: dict[int, list[Incoming]] = defaultdict(list)
        self.is_open = True
        self._socket = socket.create_connection((parts.hostname or "localhost", parts.port or 5672), TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()
        self._contents: dict[int, tuple[Incoming, int]] = {}  # by channel: what still misses so many bytes of body
        login = (user or unquote(parts.username or "guest"), password or unquote(parts.password or "guest"))
        self.opened = self._handshake(vhost, *login, capabilities)

    def _handshake(self, vhost: str, user: str, password: str, capabilities: tuple[str, ...]) -> Incoming:
        self._send_bytes(b"AMQP\x00\x00\x09\x01")
        if (start := self.wait(0, "connection.start")).is_close:
            return start
        able = dict.fromkeys((*_ALWAYS, *capabilities), True)
        self.send(
            0,
            "connection.start-ok",
            client_properties={"product": "dlx differential tests", "capabilities": able},
            mechanism="PLAIN",
            response=f"\0{user}\0{password}",
            locale="en_US",
        )
        if (tune := self.wait(0, "connection.tune")).is_close:
            return tune
        self.send(0, "connection.tune-ok", channel_max=tune.values["channel_max"], frame_max=FRAME_MAX, heartbeat=0)
        return self.call(0, "connection.open", vhost=vhost)

    # -- sending

    def call(self, channel: int, method: str, **values: Any) -> Incoming:
        """Send a method and wait for its answer, or for the close of the channel or connection.

        Raises ``ServerSilentError``.
        """
        self.send(channel, method, **values)
        answers = (f"{method}-ok", "basic.get-empty") if method == "basic.get" else (f"{method}-ok",)
        return self.wait(channel, *answers)

    def send(self, channel: int, method: str, **values: Any) -> None:
        """Send a method without waiting; nothing if the connection is gone."""
        self._send_frame(_METHOD, channel, wire.encode_method(method, values))

    def send_all(self, methods: Iterable[tuple[int, str, dict[str, Any]]]) -> None:
        """Send methods, each with its channel and its fields, in one piece."""
        frames = [_frame(_METHOD, at, wire.encode_method(name, values)) for at, name, values in methods]
        if frames:
            self._send_bytes(b"".join(frames))

    def publish(self, channel: int, properties: dict[str, Any], body: bytes, **values: Any) -> None:
        """``basic.publish`` with its content."""
        header = struct.pack(">HHQ", 60, 0, len(body)) + wire.encode_properties(properties)
        pieces = [(_METHOD, wire.encode_method("basic.publish", values)), (_HEADER, header)]
        size = FRAME_MAX - 8
        pieces += [(_BODY, body[at : at + size]) for at in range(0, len(body), size)]
        self._send_bytes(b"".join(_frame(kind, channel, payload) for kind, payload in pieces))

    def kill(self) -> None:
        """Cut the connection without a word."""
        self.is_open = False
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def close(self) -> None:
        """Close the connection as a client should; nothing if it is gone."""
        if self.is_open:
            self.call(0, "connection.close", code=200, text="bye")
            self.kill()

    def _send_frame(self, kind: int, channel: int, payload: bytes) -> None:
        self._send_bytes(_frame(kind, channel, payload))

    def _send_bytes(self, data: bytes) -> None:
        if self.is_open:
            self._socket.settimeout(TIMEOUT_S)
            try:
                self._socket.sendall(data)
            except OSError:
                self._lost()

    # -- receiving

    def pump(self, timeout_s: float = 0.0) -> None:
        """Take what has arrived into ``inbox``; wait up to ``timeout_s`` for something."""
        if self.is_open and self._fill(timeout_s):
            while self._take_frame() is not None:
                pass

    def wait(self, channel: int, *wanted: str) -> Incoming:
        """Wait for one of these methods, or for the close of the channel or connection.

        Raises ``ServerSilentError``.
        """
        return next(iter(self.answers([channel], *wanted).values()))

    def answers(self, channels: Sequence[int], *wanted: str) -> dict[int, Incoming]:
        """One of these methods on each of the channels, or its close; in order of arrival.

        Where the connection ends, that is the answer on the first of the channels without one, and the last answer.
        Raises ``ServerSilentError``.
        """
        found: dict[int, Incoming] = {}
        deadline = time.monotonic() + TIMEOUT_S
        while len(found) < len(channels):
            arrived = self._take_frame()
            if arrived is None and not self.is_open:
                return found | {_first_without(channels, found): LOST}
            if arrived is None:
                if not self._fill(deadline - time.monotonic()) and self.is_open:
                    raise ServerSilentError(f"no {' or '.join(wanted)} within {TIMEOUT_S:.0f} s")
                continue
            number, incoming = arrived
            if incoming is None:
                continue
            if incoming.method.startswith("connection.close"):
                self.inbox[number].pop()
                return found | {_first_without(channels, found): incoming}
            if number in channels and number not in found and (incoming.method in wanted or incoming.is_close):
                found[number] = self.inbox[number].pop()
        return found

    def _fill(self, timeout_s: float) -> bool:
        """Read once from the socket; whether anything came."""
        self._socket.settimeout(max(timeout_s, 0))
        try:
            data = self._socket.recv(262_144)
        except (TimeoutError, BlockingIOError):
            return False
        except OSError:
            data = b""
        if not data:
            self._lost()
        self._received += data
        return bool(data)

    def _lost(self) -> None:
        self.is_open = False
        self._socket.close()

    def _take_frame(self) -> tuple[int, Incoming | None] | None:
        """The next frame, and the method that it completes; ``None`` without a whole frame."""
        if len(self._received) < 7:
            return None
        kind, channel, size = struct.unpack_from(">BHI", self._received)
        if len(self._received) < size + 8:
            return None
        payload = bytes(self._received[7 : 7 + size])
        if self._received[7 + size] != _END[0]:
            raise ValueError(f"frame of kind {kind} on channel {channel} does not end with 0xCE")
        del self._received[: size + 8]
        return channel, self._completed(kind, channel, payload)

    def _completed(self, kind: int, channel: int, payload: bytes) -> Incoming | None:
        match kind:
            case 1:
                incoming = Incoming(*wire.decode_method(payload))
                if incoming.method in ("basic.deliver", "basic.return", "basic.get-ok"):
                    self._contents[channel] = (incoming, -1)
                    return None
            case 2:
                incoming, _ = self._contents.pop(channel)
                (missing,) = struct.unpack_from(">Q", payload, 4)
                incoming.properties = wire.decode_properties(payload, 12)
                if missing:
                    self._contents[channel] = (incoming, missing)
                    return None
            case 3:
                incoming, missing = self._contents.pop(channel)
                incoming.body += payload
                if missing > len(payload):
                    self._contents[channel] = (incoming, missing - len(payload))
                    return None
            case _:
                return None
        self._answer_close(channel, incoming)
        self.inbox[channel].append(incoming)
        return incoming

    def _answer_close(self, channel: int, incoming: Incoming) -> None:
        if incoming.method == "channel.close":
            self.send(channel, "channel.close-ok")
        elif incoming.method == "connection.close":
            self.send(0, "connection.close-ok")
            self._lost()


def _first_without(channels: Sequence[int], answered: Container[int]) -> int:
    return next(number for number in channels if number not in answered)


def _frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + _END
