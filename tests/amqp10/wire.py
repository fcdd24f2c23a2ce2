"""A raw client of AMQP 1.0: frames out, frames in, nothing decided."""

from __future__ import annotations

import socket
import ssl
from typing import Any

from simulator.server.amqp.connection import AMQP_1_0, AMQP_1_0_SASL
from simulator.server.amqp10.frames import (
    HEADER,
    SASL,
    Begin,
    Close,
    Codec,
    Composite,
    Detach,
    End,
    Open,
    SaslInit,
    frame,
)

Frame = tuple[int, Any, bytes]


class WireClient:
    """One connection. ``codec`` encodes and decodes; frames come as channel, performative and payload."""

    def __init__(self, port: int, timeout_s: float = 5, tls: ssl.SSLContext | None = None) -> None:
        self.codec = Codec()
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self._buffer = b""

    def close(self) -> None:
        """Close the socket without a word."""
        self.socket.close()

    def open(self, vhost: str = "/", user: str = "guest", **fields: Any) -> Open:
        """Log in by PLAIN and open the connection; return the server's open."""
        self.log_in(SaslInit(mechanism="PLAIN", initial_response=f"\0{user}\0{user}".encode()))
        self.socket.sendall(AMQP_1_0)
        self.take(8)
        self.send(Open(container_id="client", hostname=f"vhost:{vhost}", **fields))
        answer = self.receive()[1]
        assert isinstance(answer, Open), answer
        return answer

    def log_in(self, login: SaslInit) -> tuple[Any, Any]:
        """Log in; return the mechanisms that the server offers, and the outcome."""
        self.socket.sendall(AMQP_1_0_SASL)
        self.take(8)
        _, offered, _ = self.receive()
        self.socket.sendall(frame(self.codec, 0, login, kind=SASL))
        return offered, self.receive()[1]

    def begin(self, channel: int = 0, window: int = 10_000) -> Begin:
        """Begin a session; return the server's begin."""
        self.send(Begin(next_outgoing_id=0, incoming_window=window, outgoing_window=window), channel=channel)
        answer = self.until(Begin)[-1][1]
        assert isinstance(answer, Begin), answer
        return answer

    def send(self, performative: Composite, payload: bytes = b"", channel: int = 0) -> None:
        """Send a frame."""
        self.socket.sendall(frame(self.codec, channel, performative, payload))

    def receive(self) -> Frame:
        """Return the next frame that is no heartbeat. Raises ``TimeoutError`` and ``EOFError``."""
        while True:
            size, words, _, channel = HEADER.unpack(self.take(HEADER.size))
            body = self.take(size - HEADER.size)[4 * words - HEADER.size :]
            if body:
                performative, length = self.codec.decode(body)
                return channel, performative, body[length:]

    def until(self, kind: type[Composite]) -> list[Frame]:
        """Return the frames up to one of that kind, or to one that ends the link, the session or the connection."""
        found = [self.receive()]
        while not isinstance(found[-1][1], (kind, Detach, End, Close)):
            found.append(self.receive())
        return found

    def sections(self, payload: bytes) -> list[Any]:
        """Return the sections of a message."""
        found = []
        while payload:
            section, length = self.codec.decode(payload)
            found.append(section)
            payload = payload[length:]
        return found

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        while len(self._buffer) < count:
            data = self.socket.recv(1 << 16)
            if not data:
                raise EOFError
            self._buffer += data
        taken, self._buffer = self._buffer[:count], self._buffer[count:]
        return taken
