"""Reads the messages of a file that ``dmpmqmsg`` (formerly ``qload``) unloaded from a queue.

A message is lines with ``A``, one for each field of its MQMD, and lines with its data behind them: ``X`` and
hexadecimal digits, ``S`` and a string in quotation marks, ``T`` and a line of text. ``N`` begins a message whose MQMD
was left out. Lines with ``*`` are comments; the first one says which program wrote the file.

Source: IBM MQ's documentation of dmpmqmsg and of the three-letter codes in its output; the published source of qload
(EPL 1.0), where it reads and writes them. No queue manager was asked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

import msgspec

from simulator.systems.ibm_mq.entries import did_you_mean
from simulator.systems.ibm_mq.mqdlh import LITTLE_ENDIAN, DeadMessage

_WRITTEN_BY = ("* QLOAD", "* DMPMQMSG")
_ENDLESS = -1
_TENTH_S = 0.1
_INTEGER_MAX = 2**31
_HEX = re.compile(r" *((?:[0-9A-Fa-f]{2})*) *(?:<.*>)?")
_STRING = re.compile(r' *"((?:[^"~]|~["~])*)"')
_ESCAPED = re.compile(r'~(["~])')


class UnloadedQueueError(ValueError):
    """A line that ``dmpmqmsg`` would not have written; the text says which, and what would be right."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")


class UnloadedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as it lay on its queue.

    Attributes:
        message: its MQMD and data; the ids are hexadecimal digits.
        expiry_s: what was left of its Expiry; ``None``: it lives for ever.
    """

    message: DeadMessage
    expiry_s: float | None


def read_unloaded(text: str) -> list[UnloadedMessage]:
    """Return the messages of a file, in their order. Raises ``UnloadedQueueError`` at the first line that is wrong."""
    return [_message(fields, data) for fields, data in _messages(text)]


# Lines


def _messages(text: str) -> Iterator[tuple[dict[str, int | str], bytes]]:
    """Yield the fields and the data of each message."""
    fields: dict[str, int | str] = {}
    data: bytes | None = None
    begun = 0
    for number, line in _lines(text):
        kind, rest = line[0], line[1:]
        if kind in "AN" and (data is not None or (kind == "N" and not begun)):
            if data is not None:
                yield fields, data
            fields, data, begun = {}, None, number
        if kind == "A":
            begun = begun or number
            name, value = _field(number, line)
            fields[name] = value
        elif kind in _DATA and begun:
            data = (data or b"") + _DATA[kind](number, rest)
        elif kind != "N" or begun != number:
            raise UnloadedQueueError(number, f"expected {_expected(begun, data)}, got {line[:20]!r}")
    if data is not None:
        yield fields, data
    elif begun:
        raise UnloadedQueueError(begun, "expected data (a line with X, S or T) behind the fields of this message")


def _expected(begun: int, data: bytes | None) -> str:
    if not begun:
        return "a message, which begins with a field (A) or with N"
    return "a field (A) or data (X, S, T)" if data is None else "data (X, S, T) or the next message (A, N)"


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are neither empty nor comments, numbered from 1."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    if not lines[first].startswith(_WRITTEN_BY):
        instead = "; amqsbcg wrote this one" if lines[first].startswith("AMQSBCG0") else ""
        problem = f"expected a file of dmpmqmsg, whose first line begins with {' or '.join(map(repr, _WRITTEN_BY))}"
        raise UnloadedQueueError(first + 1, problem + instead)
    yield from ((number, line) for number, line in enumerate(lines, 1) if line and line[0] != "*")


# Fields of the MQMD


def _integer(value: str, length: int) -> int:
    if not re.fullmatch(r"-?[0-9]{1,10}", value) or not -_INTEGER_MAX <= int(value) < _INTEGER_MAX:
        raise ValueError(f"a number of {length * 8} bits")
    return int(value)


def _tenths(value: str, length: int) -> int:
    tenths = _integer(value, length)
    if tenths < _ENDLESS:
        raise ValueError(f"{_ENDLESS} for ever, or tenths of a second")
    return tenths


def _characters(value: str, length: int) -> str:
    if len(value) > length:
        raise ValueError(f"at most {length} characters")
    return value.rstrip(" ")


def _digits(value: str, length: int) -> str:
    if not re.fullmatch(rf"(?:[0-9A-Fa-f]{{2}}){{0,{length}}}", value):
        raise ValueError(f"at most {length} bytes, as pairs of hexadecimal digits")
    return value.upper().ljust(2 * length, "0")


def _shown(value: str, length: int) -> str:
    """Read characters that stand as hexadecimal digits."""
    return bytes.fromhex(_digits(value, length)).decode("latin-1").rstrip(" \0")


_Reader = Callable[[str, int], int | str]
# How each field is read, and how many bytes it has.
_FIELDS: Mapping[str, tuple[_Reader, int]] = {
    **dict.fromkeys(
        ("VER", "RPT", "MST", "FDB", "ENC", "CCS", "PRI", "PER", "BOC", "PAT", "MSQ", "OFF", "MSF", "ORL"),
        (_integer, 4),
    ),
    "EXP": (_tenths, 4),
    **dict.fromkeys(("FMT", "PTD", "PTT"), (_characters, 8)),
    **dict.fromkeys(("RTQ", "RTM"), (_characters, 48)),
    **dict.fromkeys(("MSI", "COI", "GRP"), (_digits, 24)),
    "USR": (_characters, 12),
    "ACC": (_digits, 32),
    "AID": (_characters, 32),
    "AIX": (_shown, 32),
    "PAN": (_characters, 28),
    "AOD": (_characters, 4),
    "AOX": (_shown, 4),
}


def _field(number: int, line: str) -> tuple[str, int | str]:
    name, value = line[2:5], line[6:]
    if line[1:2] != " " or line[5:6].strip() or name not in _FIELDS:
        meant = did_you_mean(name.upper(), _FIELDS)
        raise UnloadedQueueError(number, f"no field {line[1:].strip()[:20]!r}; {meant}expected {', '.join(_FIELDS)}")
    read, length = _FIELDS[name]
    try:
        return name, read(value.strip(" ") if read is not _characters else value, length)
    except ValueError as error:
        raise UnloadedQueueError(number, f"{name} is {value[:60]!r}; expected {error}") from None


# Data


def _hexadecimal(number: int, rest: str) -> bytes:
    found = _HEX.fullmatch(rest)
    if found is None:
        problem = "expected pairs of hexadecimal digits behind X, and nothing else but the same data between < and >"
        raise UnloadedQueueError(number, f"{problem}, got {rest.strip()[:20]!r}")
    return bytes.fromhex(found[1])


def _string(number: int, rest: str) -> bytes:
    if not rest.strip(" "):
        return b""
    found = _STRING.fullmatch(rest.rstrip(" "))
    if found is None:
        problem = 'expected a string in quotation marks behind S, with ~" and ~~ for " and ~'
        raise UnloadedQueueError(number, f"{problem}, got {rest.strip()[:20]!r}")
    return _ESCAPED.sub(r"\1", found[1]).encode()


def _line_of_text(_: int, rest: str) -> bytes:
    return f"{rest[1:]}\n".encode()


_DATA: Mapping[str, Callable[[int, str], bytes]] = {"X": _hexadecimal, "S": _string, "T": _line_of_text}


def _message(fields: Mapping[str, int | str], data: bytes) -> UnloadedMessage:
    """Return a message; what a file leaves out is as in an MQMD that nobody filled."""

    def number(name: str, default: int) -> int:
        return int(fields.get(name, default))

    def text(name: str) -> str:
        return str(fields.get(name, ""))

    expiry = number("EXP", _ENDLESS)
    return UnloadedMessage(
        message=DeadMessage(
            data=data,
            format=text("FMT"),
            encoding=number("ENC", LITTLE_ENDIAN),
            coded_char_set_id=number("CCS", 0),
            msg_id=text("MSI"),
            correl_id=text("COI"),
            msg_type=number("MST", 8),
            persistence=number("PER", 2),
            priority=max(number("PRI", 0), 0),
            feedback=number("FDB", 0),
            put_appl_type=number("PAT", 0),
            put_appl_name=text("PAN"),
            user_identifier=text("USR"),
            appl_identity_data=text("AID") or text("AIX"),
            reply_to_q=text("RTQ"),
            reply_to_q_mgr=text("RTM"),
        ),
        expiry_s=None if expiry == _ENDLESS else max(expiry, 1) * _TENTH_S,
    )
