"""A client that sends any octets and writes down what the server answers, line by line."""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import time
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

import pika.frame
from pika import spec

HEADER_091 = b"AMQP\x00\x00\x09\x01"
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_END = 0xCE
PROBE_CHANNEL = 2000
PUT_OFF_S = ((10, 6.5), (3, 2.5))  # how long RabbitMQ puts an end off, and how long that looks at least
TIMEOUT_S = 15  # longer than any of RabbitMQ's own
SIGN_OF_LIFE = f"{PROBE_CHANNEL}: channel.open-ok"
FATE = re.compile(r"^(alive|eof|waiting)|\.close ")
LAST_LINES = (SIGN_OF_LIFE, "0: connection.close-ok")


def frame(kind: int, channel: int, payload: bytes, end: int = FRAME_END) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + bytes([end])


def method(channel: int, wanted: spec.amqp_object.Method) -> bytes:
    return pika.frame.Method(channel, wanted).marshal()


def content_header(channel: int, size: int, properties: spec.BasicProperties | None = None) -> bytes:
    return pika.frame.Header(channel, size, properties or spec.BasicProperties()).marshal()


def publish(channel: int, queue: str, body: bytes, properties: spec.BasicProperties | None = None) -> bytes:
    """The frames of one message to a queue by the default exchange; the body in one frame."""
    start = method(channel, spec.Basic.Publish(exchange="", routing_key=queue))
    return start + content_header(channel, len(body), properties) + (frame(BODY, channel, body) if body else b"")


class Wire:
    """One connection. ``log`` has a line for each frame that was read, and the connection's end.

    ``settle_s``: how long a server may take for what it does beside the answer to the probe;
    RabbitMQ's channels are processes of their own.
    """

    def __init__(self, url: str, vhost: str, settle_s: float = 0.5) -> None:
        parts = urlsplit(url)
        self.user, self.password = unquote(parts.username or "guest"), unquote(parts.password or "guest")
        self.vhost = vhost
        self.log: list[str] = []
        self.ended = False
        self.waited_s = 0.0  # how long a case already took to wait for the server
        self.fate_only = False  # where the rest is a race between RabbitMQ's processes
        self.patience_s: float = TIMEOUT_S
        self.quiet = False  # a case whose last answer has come sets this
        self.settle_s = settle_s
        self._buffer = b""
        self.socket = socket.create_connection((parts.hostname or "", parts.port or 5672), TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_error: object) -> None:
        self.socket.close()

    def close(self) -> None:
        """End well: when this returns, the server has deleted what was exclusive."""
        self.send(method(0, spec.Connection.Close(200, "", 0, 0)))
        while not self.ended and self.next() != "0: connection.close-ok":
            pass

    # Sending

    def send(self, *octets: bytes) -> None:
        """Send, whatever the server thinks of it: that it closed is found on reading."""
        with contextlib.suppress(OSError):
            self.socket.sendall(b"".join(octets))

    def start(self) -> None:
        """As far as ``connection.start``."""
        self.send(HEADER_091)
        self.expect("connection.start")

    def start_ok(
        self, mechanism: str = "PLAIN", response: bytes | None = None, properties: dict[str, object] | None = None
    ) -> None:
        if response is None:
            response = f"\0{self.user}\0{self.password}".encode()
        capabilities = {"consumer_cancel_notify": True, "authentication_failure_close": True}
        given = {"capabilities": capabilities} if properties is None else properties
        self.send(method(0, spec.Connection.StartOk(given, mechanism, response)))

    def tune(self) -> None:
        """As far as ``connection.tune``."""
        self.start()
        self.start_ok()
        self.expect("connection.tune")

    def tune_ok(self, channel_max: int = 2047, frame_max: int = 131072, heartbeat: int = 0) -> None:
        self.send(method(0, spec.Connection.TuneOk(channel_max, frame_max, heartbeat)))

    def open(self, channel_max: int = 2047, frame_max: int = 131072, heartbeat: int = 0) -> None:
        """An open connection."""
        self.tune()
        self.tune_ok(channel_max, frame_max, heartbeat)
        self.send(method(0, spec.Connection.Open(self.vhost)))
        self.expect("connection.open-ok")

    def channel(self, number: int = 1, **tuned: int) -> None:
        """An open connection with an open channel."""
        self.open(**tuned)
        self.open_channel(number)

    def open_channel(self, number: int) -> None:
        self.send(method(number, spec.Channel.Open()))
        self.expect(f"{number}: channel.open-ok")

    def queue(self, name: str, channel: int = 1, **given: object) -> None:
        """A queue, declared; ``given`` as in ``pika.spec.Queue.Declare``."""
        self.send(method(channel, spec.Queue.Declare(queue=name, **given)))
        self.expect(f"{channel}: queue.declare-ok")

    def purge(self, name: str, channel: int = 1) -> None:
        self.send(method(channel, spec.Queue.Purge(queue=name)))
        self.expect(f"{channel}: queue.purge-ok")

    def get(self, queue: str, channel: int = 1, no_ack: bool = False) -> str:
        """The answer to ``basic.get``."""
        self.send(method(channel, spec.Basic.Get(queue=queue, no_ack=no_ack)))
        answer = self.next()
        return answer if "get-empty" in answer else f"{answer} {self.next()}"

    # Reading

    def expect(self, start: str) -> str:
        """The next line, which starts so; it is part of the way there and not logged."""
        line = self.next()
        if not line.removeprefix("0: ").startswith(start):
            raise AssertionError(f"wanted {start}, got {line}, after {self.log}")
        self.log.pop()
        return line

    def next(self, timeout_s: float = TIMEOUT_S, *, answering: bool = True) -> str:
        """The next line. Answers what wants an answer of every client, the closes, unless told not to."""
        line = self._read(timeout_s)
        self.log.append(line)
        if not answering:
            return line
        if line.startswith("0: connection.close "):
            self.send(method(0, spec.Connection.CloseOk()))
        elif ": channel.close " in line:
            self.send(method(int(line.partition(":")[0]), spec.Channel.CloseOk()))
        return line

    def drain(self) -> list[str]:
        """All lines until the connection ends, or has answered the last thing asked and is quiet: ``alive``.

        An end that the server put off says by how many seconds: ``eof after 3 s``.
        """
        began = time.monotonic()
        while not (self.ended or self.quiet):
            self.quiet = self.next(self.patience_s) in LAST_LINES
        took_s = self.waited_s + time.monotonic() - began
        while not self.ended and self.next(self.settle_s) != "waiting":
            pass
        if self.quiet and self.log[-1] == "waiting":
            self.log[-1], self.ended = "alive", False
        elif self.log[-1] == "eof":
            self.log[-1] += next((f" after {late} s" for late, least_s in PUT_OFF_S if took_s > least_s), "")
        lines = [line for line in self.log if line != SIGN_OF_LIFE]
        return [line for line in lines if FATE.search(line)] if self.fate_only else lines

    def body(self) -> bytes:
        """The payload of the next frame, which is a body frame."""
        kind, _, payload = self._frame(TIMEOUT_S)
        assert kind == BODY, told(kind, payload)
        return payload

    def probe(self) -> None:
        """Ask for a sign of life."""
        self.send(method(PROBE_CHANNEL, spec.Channel.Open()))

    def _read(self, timeout_s: float) -> str:
        try:
            kind, channel, payload = self._frame(timeout_s)
        except TimeoutError:
            self.ended = True
            return "waiting"
        except EOFError:
            self.ended = True
            return "eof" if not self._buffer else f"eof after {self._buffer[:16]!r}"
        if kind == ord("A"):
            return f"header {'.'.join(map(str, payload))}"
        return f"{channel}: {told(kind, payload)}"

    def _frame(self, timeout_s: float) -> tuple[int, int, bytes]:
        """The next frame: type, channel, payload. A protocol header is one of type ``A`` with its last octets."""
        self.socket.settimeout(timeout_s)
        while True:
            buffer = self._buffer
            if buffer[:4] == b"AMQP" and len(buffer) >= 8:
                self._buffer = buffer[8:]
                return ord("A"), 0, buffer[4:8]
            if len(buffer) >= 7 and len(buffer) >= 8 + int.from_bytes(buffer[3:7], "big"):
                kind, channel, size = struct.unpack(">BHI", buffer[:7])
                self._buffer = buffer[size + 8 :]
                return kind, channel, buffer[7 : size + 7]
            try:
                got = self.socket.recv(1 << 20)
            except ConnectionResetError:
                got = b""
            if not got:
                raise EOFError
            self._buffer += got


def told(kind: int, payload: bytes) -> str:
    """A frame in words: a method by its name and what matters of it, a body as it is."""
    if kind == HEARTBEAT:
        return "heartbeat"
    if kind == BODY:
        return f"body {payload[:40]!r}" if len(payload) <= 40 else f"body of {len(payload)}"
    if kind == HEADER:
        return f"header of {struct.unpack('>Q', payload[4:12])[0]}"
    decoded = spec.methods[struct.unpack(">I", payload[:4])[0]]()
    decoded.decode(payload, 4)
    return " ".join([_dashed(decoded.NAME), *_fields(decoded)])


def _dashed(name: str) -> str:
    """``Connection.CloseOk`` as the specification writes it: ``connection.close-ok``."""
    group, _, own = name.partition(".")
    return f"{group.lower()}." + "".join(f"-{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(own))


def _text(value: str | bytes) -> str:
    """A short string; pika leaves one that is no UTF-8 as octets."""
    return value if isinstance(value, str) else value.decode("utf-8", "backslashreplace")


def _fields(decoded: spec.amqp_object.Method) -> Iterator[str]:
    if isinstance(decoded, spec.Connection.Close | spec.Channel.Close):
        yield f"{decoded.reply_code} {_text(decoded.reply_text)} ({decoded.class_id},{decoded.method_id})"
    elif isinstance(decoded, spec.Basic.Return):
        yield f"{decoded.reply_code} {decoded.reply_text}"
    elif isinstance(decoded, spec.Connection.Tune):
        yield f"{decoded.channel_max} {decoded.frame_max} {decoded.heartbeat}"
    elif isinstance(decoded, spec.Basic.Deliver | spec.Basic.GetOk):
        yield f"{decoded.delivery_tag}" + (" redelivered" if decoded.redelivered else "")
    elif isinstance(decoded, spec.Basic.Ack | spec.Basic.Nack):
        yield f"{decoded.delivery_tag}" + (" multiple" if decoded.multiple else "")
    elif isinstance(decoded, spec.Queue.DeclareOk):
        yield f"{decoded.message_count} {decoded.consumer_count}"
