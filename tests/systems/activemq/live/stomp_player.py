"""Plays STOMP to a broker: what each step sends, and all that came back before the next one.

A step is a frame that a client sends, bytes that are none, a socket that is broken, or time that passes. Texts of
its headers may name what came before: ``<ack of B>`` and ``<id of B>`` are the headers of the last MESSAGE with the
body B, ``<now+500>`` is the time in half a second, milliseconds since 1970.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

Step = dict[str, Any]
Answer = dict[str, Any]

ANSWERED_WITHIN_S = 20
QUIET_S = 0.6
"""How long nothing has come where a broker has no more to say."""


class Line(Protocol):
    """A connection to a broker."""

    def send(self, data: bytes) -> None:
        """Send bytes."""

    def read(self, wait_s: float) -> bytes | None:
        """Return what has come, or comes in that time; ``None`` where the broker has closed the connection."""

    def close(self) -> None:
        """Break the connection."""


class Place(Protocol):
    """Where a broker is, with its time."""

    def connect(self) -> Line:
        """Open a connection."""

    def wait(self, ms: int) -> None:
        """Let time pass."""

    def now_ms(self) -> int:
        """Return the time, milliseconds since 1970."""


class Socket:
    """A connection over TCP."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWERED_WITHIN_S)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def read(self, wait_s: float) -> bytes | None:
        self._socket.settimeout(wait_s)
        try:
            return self._socket.recv(1 << 20) or None
        except TimeoutError:
            return b""
        except OSError:
            return None

    def close(self) -> None:
        self._socket.close()


class Server:
    """A broker on a port of this machine."""

    def __init__(self, port: int) -> None:
        self._port = port

    def connect(self) -> Line:
        return Socket(self._port)

    def wait(self, ms: int) -> None:
        time.sleep(ms / 1000)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class Client:
    """One connection of a case: what it has received and not told yet."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.closed = False
        self._version = "1.0"
        self._left = b""

    def send(self, data: bytes) -> None:
        """Send, to a broker that may be gone."""
        try:
            self.line.send(data)
        except OSError:
            self.closed = True

    def read(self, wait_s: float) -> list[Answer]:
        """Return the frames that have come, or come in that time; the last is ``closed`` where the broker closed."""
        if self.closed:
            return []
        data = self.line.read(wait_s)
        if data is None:
            self.closed = True
            return [{"closed": True}]
        self._left += data
        return self._frames()

    def _frames(self) -> list[Answer]:
        found: list[Answer] = []
        while self._left:
            if self._left.startswith(b"\n"):
                self._left = self._left[1:]
                found.append({"beat": True})
                continue
            head, end, rest = self._left.partition(b"\n\n")
            if not end:
                break
            command, *lines = head.decode().split("\n")
            headers = [line.partition(":") for line in lines]
            named = {name: self._read(value) for name, _, value in headers}
            length = int(named["content-length"]) if "content-length" in named else rest.find(b"\0")
            if length < 0 or len(rest) < length + 2:
                break
            assert rest[length : length + 2] == b"\0\n"
            self._left = rest[length + 2 :]
            if command == "CONNECTED":
                self._version = named["version"]
            body = rest[:length].decode("utf-8", "backslashreplace")
            found.append({"frame": command, "headers": named, "body": body})
        return found

    def _read(self, value: str) -> str:
        """Return what a header says, without what its version escapes."""
        escaped = {} if self._version == "1.0" else {"\\n": "\n", "\\c": ":", "\\\\": "\\", "\\r": "\r"}
        return re.sub(r"\\.", lambda found: escaped.get(found[0], found[0]), value)


class Talk:
    """One case as it is played.

    Attributes:
        answers: what came after each step, with the connection that it came to.
    """

    def __init__(self, place: Place, quiet_s: float = QUIET_S) -> None:
        self._place, self._quiet_s = place, quiet_s
        self._clients: dict[str, Client] = {}
        self._messages: dict[str, Mapping[str, str]] = {}
        self.answers: list[list[Answer]] = []

    def play(self, steps: Sequence[Step]) -> list[list[Answer]]:
        """Play the steps, and break the connections that are left. Return what came after each."""
        for step in steps:
            self.answers.append(self._play(step))
        for client in self._clients.values():
            client.line.close()
        return self.answers

    def _play(self, step: Step) -> list[Answer]:
        if "wait_ms" in step:
            self._place.wait(step["wait_ms"])
            return self._collect(None, None)
        name = step["connection"]
        if step.get("break"):
            self._clients.pop(name).line.close()
            return self._collect(None, None)
        if name not in self._clients:
            self._clients[name] = Client(self._place.connect())
        client = self._clients[name]
        headers = {key: self._filled(value) for key, value in step.get("headers", {}).items()}
        client.send(step["raw"].encode() if "raw" in step else encoded(step["frame"], headers, step.get("body", "")))
        asks = "<connected>" if step.get("frame") in ("CONNECT", "STOMP") else headers.get("receipt")
        return self._collect(client, asks)

    def _collect(self, asking: Client | None, asks: str | None) -> list[Answer]:
        """Read until the answer that was asked for has come, and then nothing more for a while.

        The simulator answers at once or not at all.
        """
        found: list[Answer] = []
        answers = asks is not None and not (asking and asking.closed) and self._quiet_s > 0
        until_s = time.monotonic() + ANSWERED_WITHIN_S * answers
        quiet_since_s = time.monotonic()
        while True:
            came = False
            for name, client in self._clients.items():
                for answer in client.read(0.01 if self._quiet_s else 0):
                    came = came or "beat" not in answer
                    if {"beat": True} in found and "beat" in answer:
                        continue
                    found.append(answer if "beat" in answer else {"connection": name, **answer})
                    if answer.get("frame") == "MESSAGE":
                        self._messages[answer["body"]] = answer["headers"]
                    if client is asking and _answers(answer, asks):
                        until_s = 0
            now_s = time.monotonic()
            quiet_since_s = now_s if came else quiet_since_s
            if not came and now_s >= until_s and now_s - quiet_since_s >= self._quiet_s:
                return found

    def _filled(self, text: str) -> str:
        def value(found: re.Match[str]) -> str:
            if found[1] is not None:
                return str(self._place.now_ms() + int(found[1]))
            assert found[3] in self._messages, f"the message {found[3]} has not come"
            return self._messages[found[3]]["message-id" if found[2] == "id" else found[2]]

        return re.sub(r"<(?:now\+(-?\d+)|(id|ack|reply-to) of (.+?))>", value, text)


def _answers(answer: Answer, asks: str | None) -> bool:
    if "closed" in answer or asks is None or answer.get("frame") == "ERROR":
        return True
    headers = answer.get("headers", {})
    return answer.get("frame") == "CONNECTED" if asks == "<connected>" else headers.get("receipt-id") == asks


def encoded(command: str, headers: Mapping[str, str], body: str) -> bytes:
    """Return a frame as a client sends it."""
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    return f"{command}\n{lines}\n{body}\0".encode()
