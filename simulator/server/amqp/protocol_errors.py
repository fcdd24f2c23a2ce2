"""Errors in the bytes of a client, and how RabbitMQ answers them."""

from __future__ import annotations

from typing import Any

from dlx.amqp_errors import Refusal
from dlx.erlang_printing import Atom, printed
from dlx.releases import Release
from simulator.server.amqp.frames import BODY, CONTENT_HEADER, HEADER, HEARTBEAT, METHOD

_LINE = 80


class MalformedError(ValueError):
    """A table or properties that cannot be read: RabbitMQ's own parser crashes on them."""


class CannotDecodeError(MalformedError):
    """A method whose frame is longer or shorter than its fields."""


class NotUtf8Error(MalformedError):
    """A name in a method that is not UTF-8."""


class CrashError(Exception):
    """RabbitMQ's process crashes on the bytes: the socket is closed without a word."""


class ProtocolError(Exception):
    """Ends the connection with a refusal, which names the offending method where there is one."""

    def __init__(self, refusal: Refusal, method: str = "") -> None:
        super().__init__(refusal.text)
        self.refusal = refusal
        self.method = method


class FatalFault(ProtocolError):
    """A fault after which the start of the next frame is unknown: nothing more is read."""


def unexpected_frame(kind: int, payload: bytes, release: Release) -> ProtocolError:
    """Return the fault of a frame that is not expected where it came."""
    return ProtocolError(Refusal(505, _beginning(kind, payload, release)))


def misplaced(kind: int, payload: bytes, release: Release) -> ProtocolError:
    """Return the fault of a frame that is not expected, is of an unknown type, or is too short for its type."""
    least = {METHOD: 4, HEADER: CONTENT_HEADER.size, BODY: 0}.get(kind)
    whole = not payload if kind == HEARTBEAT else least is not None and len(payload) >= least
    if whole:
        return unexpected_frame(kind, payload, release)
    return ProtocolError(_frame_error(kind, payload, Atom("unknown_frame"), release))


def frame_too_large(kind: int, size: int, limit: int, release: Release) -> FatalFault:
    """Return the fault of a frame whose payload of ``size`` bytes exceeds the limit."""
    return FatalFault(_frame_error(kind, b"", (Atom("frame_too_large"), size, limit), release))


def no_frame_end(kind: int, payload: bytes, end: int, release: Release) -> FatalFault:
    """Return the fault of a frame that does not end with the frame-end octet."""
    return FatalFault(_frame_error(kind, payload, (Atom("invalid_frame_end_marker"), end), release))


def cannot_decode(payload: bytes, method: str) -> ProtocolError:
    """Return the fault of a method whose frame is longer or shorter than its fields."""
    return ProtocolError(Refusal(501, f"cannot decode {_numbers(payload)}"), method)


def _frame_error(kind: int, payload: bytes, problem: Any, release: Release) -> Refusal:
    beginning = _beginning(kind, payload, release) + ": "
    return Refusal(501, beginning + printed(problem, len(beginning) - beginning.rfind("\n") - 1))


def _beginning(kind: int, payload: bytes, release: Release) -> str:
    text = f"type {kind}, {'all' if len(payload) <= 16 else 'first 16'} octets = "
    snippet = payload[:16]
    if release.error_text_encoding == "bytes" and not snippet.isascii():
        shown = f"<<{_as_latin_1(snippet)}>>"
    else:
        shown = printed(snippet)
    return text + (_in_lines(snippet, len(text)) if shown[2:3].isdigit() else shown)


def _as_latin_1(data: bytes) -> str:
    """Print bytes as a string that encodes to the same bytes if all are printable Latin-1, else as numbers."""
    shown = printed(list(data))
    if not shown.startswith('"'):
        return "0"
    return "".join(char if char.isascii() else chr(0xDC00 + ord(char)) for char in shown)


def _numbers(data: bytes) -> str:
    return f"<<{','.join(map(str, data))}>>"


def _in_lines(data: bytes, column: int) -> str:
    """Print the numbers in lines of 80 characters, as Erlang does after ``column`` characters."""
    room = left = max(8, _LINE - 2 - column)
    text = "<<"
    for place, number in enumerate(data):
        part = f"{number}," if place < len(data) - 1 else str(number)
        if len(part) >= left:
            text += "\n" + " " * (column + 2)
            left = room
        text += part
        left -= len(part)
    return text + ">>"
