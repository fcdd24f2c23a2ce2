"""Frames of STOMP 1.0 to 1.2, as ActiveMQ reads and writes them.

It escapes by the version that was agreed on, but reads ``\\n``, ``\\c`` and ``\\\\`` in every version. It minds a
content-length in SEND alone.

Source: activemq-stomp, StompWireFormat.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

Version = Literal["1.0", "1.1", "1.2"]
VERSIONS: tuple[Version, ...] = ("1.2", "1.1", "1.0")
HEART_BEAT = b"\n"

_COMMAND_MAX, _HEADER_MAX, _HEADERS_MAX, _BODY_MAX = 1 << 10, 10 << 10, 1_000, 100 << 20
_HEAD_END = re.compile(rb"\n\r?\n")
_BLANKS = bytes(range(33))
_HEAD_MAX = _COMMAND_MAX + _HEADER_MAX * 100
_ESCAPES = {"\\n": "\n", "\\c": ":", "\\\\": "\\"}
_RETURN = {"\\r": "\r"}
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


class StompError(Exception):
    """What a client did wrong: the text of an ERROR frame.

    Attributes:
        fatal: whether the broker closes the connection.
        kind: the class of Java's exception, with which the frame's body begins.
    """

    def __init__(
        self, text: str, *, fatal: bool = False, kind: str = "org.apache.activemq.transport.stomp.ProtocolException"
    ) -> None:
        super().__init__(text)
        self.text, self.fatal, self.kind = text, fatal, kind


class ClientDropped(Exception):
    """What a client sent makes a broker fail: it closes the connection without a word."""


class Frame(msgspec.Struct, frozen=True):
    """One frame. Headers are without escapes; of those of one name the first is here."""

    command: str
    headers: Mapping[str, str] = {}
    body: bytes = b""

    def encoded(self, version: Version) -> bytes:
        """Return the frame as a server sends it."""
        lines = "".join(f"{name}:{_escaped(value, version)}\n" for name, value in self.headers.items())
        return f"{self.command}\n{lines}\n".encode(errors="surrogateescape") + self.body + b"\0\n"


class FrameReader:
    """Reads the frames of one client.

    Attributes:
        version: the one that was agreed on; until then headers are read as in 1.0.
    """

    def __init__(self) -> None:
        self.version: Version = "1.0"
        self._left = bytearray()
        self._head: tuple[str, dict[str, str]] | None = None
        self._length: int | None = None

    def read(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that are complete with these bytes; heart-beats are passed over.

        Raises ``StompError``, after which no more can be read.
        """
        self._left += data
        while self._head is not None or self._read_head():
            assert self._head is not None
            end = self._left.find(0) if self._length is None else self._length
            if max(end, len(self._left) if end < 0 else 0) > _BODY_MAX:
                raise StompError("The maximum data length was exceeded", fatal=True)
            if end < 0 or len(self._left) <= end:
                return
            if self._left[end]:
                text = "content-length bytes were read and there was no trailing null byte"
                raise StompError(text, fatal=True)
            command, headers = self._head
            body = bytes(self._left[:end])
            del self._left[: end + 1]
            self._head = self._length = None
            yield Frame(command, headers, body)

    def _read_head(self) -> bool:
        """Read a command and its headers, if they have come. Return whether they have."""
        del self._left[: len(self._left) - len(self._left.lstrip(_BLANKS))]
        found = _HEAD_END.search(self._left)
        if found is None:
            if len(self._left) > _HEAD_MAX:
                raise StompError("The maximum header length was exceeded", fatal=True)
            return False
        lines = self._left[: found.start()].split(b"\n")
        del self._left[: found.end()]
        command = lines[0].strip(_BLANKS).decode(errors="replace")
        if len(command) > _COMMAND_MAX:
            raise StompError("The maximum command length was exceeded", fatal=True)
        headers = self._headers(lines[1:])
        length = headers.get("content-length") if command == "SEND" else None
        self._head, self._length = (command, headers), None if length is None else _content_length(length)
        return True

    def _headers(self, lines: list[bytearray]) -> dict[str, str]:
        headers: dict[str, str] = {}
        for line in map(self._line, lines):
            if len(line) > _HEADER_MAX:
                raise StompError("The maximum header length was exceeded", fatal=True)
            if len(headers) > _HEADERS_MAX:
                raise StompError("The maximum number of headers was exceeded", fatal=True)
            name, _, value = line.decode(errors="replace").partition(":")
            value = _read_escapes(value, self.version)
            headers.setdefault(name, value.strip() if self.version == "1.0" else value)
        return headers

    def _line(self, line: bytearray) -> bytearray:
        return line if self.version == "1.1" else line.removesuffix(b"\r")


def _content_length(text: str) -> int:
    if _WHOLE.fullmatch(text.strip()) is None:
        raise StompError("Specified content-length is not a valid integer", fatal=True)
    length = int(text)
    if length < 0:
        raise ClientDropped
    if length > _BODY_MAX:
        raise StompError("The maximum data length was exceeded", fatal=True)
    return length


def _read_escapes(text: str, version: Version) -> str:
    known = _ESCAPES | (_RETURN if version == "1.2" else {})
    return re.sub(r"\\.", lambda found: known.get(found[0], found[0]), text) if "\\" in text else text


def _escaped(text: str, version: Version) -> str:
    if version == "1.0":
        return text
    written = {plain: escape for escape, plain in (_ESCAPES | (_RETURN if version == "1.2" else {})).items()}
    return re.sub(r"[\\\n:\r]", lambda found: written.get(found[0], found[0]), text)
