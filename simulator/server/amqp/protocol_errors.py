"""What can be wrong with a client's bytes, and what RabbitMQ makes of it."""

from __future__ import annotations

from typing import Any

from dlx.amqp_errors import Refusal
from dlx.erlang_printing import Atom, printed
from dlx.releases import Release
from simulator.server.amqp.frames import BODY, CONTENT_HEADER, HEADER, HEARTBEAT, METHOD

_LINE = 80


class MalformedError(ValueError):
    """Bytes that are no table or properties: RabbitMQ's own parser crashes on them."""


class CannotDecodeError(MalformedError):
    """A method whose frame is longer or shorter than its fields."""


class NotUtf8Error(MalformedError):
    """A name in a method that is not UTF-8."""


class CrashError(Exception):
    """RabbitMQ's process crashes on it: the socket is closed without a word."""


class Fault(Exception):
    """What ends the connection: a refusal, and the offending method where there is one."""

    def __init__(self, refusal: Refusal, method: str = "") -> None:
        super().__init__(refusal.text)
        self.refusal = refusal
        self.method = method


class FatalFault(Fault):
    """A fault after which nobody knows where the next frame begins: nothing more is read."""


def fault(code: int, explanation: str, method: str = "") -> Fault:
    """A fault with RabbitMQ's reply code and text."""
    return Fault(Refusal(code, explanation), method)


def unexpected_frame(kind: int, payload: bytes, release: Release) -> Fault:
    """A frame that has no place where it came."""
    return fault(505, _beginning(kind, payload, release))


def misplaced(kind: int, payload: bytes, release: Release) -> Fault:
    """A frame of a known type where it has no place; or one that is of none, or too short for its type."""
    least = {METHOD: 4, HEADER: CONTENT_HEADER.size, BODY: 0}.get(kind)
    whole = not payload if kind == HEARTBEAT else least is not None and len(payload) >= least
    if whole:
        return unexpected_frame(kind, payload, release)
    return Fault(_frame_error(kind, payload, Atom("unknown_frame"), release))


def frame_too_large(kind: int, size: int, limit: int, release: Release) -> FatalFault:
    """A frame that exceeds the frame_max, in bytes of payload."""
    return FatalFault(_frame_error(kind, b"", (Atom("frame_too_large"), size, limit), release))


def no_frame_end(kind: int, payload: bytes, end: int, release: Release) -> FatalFault:
    """A frame that does not end with the octet that ends frames."""
    return FatalFault(_frame_error(kind, payload, (Atom("invalid_frame_end_marker"), end), release))


def cannot_decode(payload: bytes, method: str) -> Fault:
    """A method whose fields are not what its frame holds."""
    return fault(501, f"cannot decode {_numbers(payload)}", method)


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
    """Numbers, or where all are characters of Latin-1 a string that encodes to the bytes as they are."""
    shown = printed(list(data))
    if not shown.startswith('"'):
        return "0"
    return "".join(char if char.isascii() else chr(0xDC00 + ord(char)) for char in shown)


def _numbers(data: bytes) -> str:
    return f"<<{','.join(map(str, data))}>>"


def _in_lines(data: bytes, column: int) -> str:
    """The numbers in lines of 80 characters, as Erlang breaks them when ``column`` characters are before them."""
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
