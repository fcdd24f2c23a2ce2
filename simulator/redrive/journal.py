"""The journal of a redrive: what was planned, sent and settled, so that a killed one can go on.

A line of JSON in front says what the redrive was asked for. An object for each run says when it
began, and a list for each step of each message what has happened or is about to:

    stays      it is not brought back
    sent       it may have been published
    confirmed  the broker has it where it goes; nothing is left to do but to acknowledge it
    settled    it was acknowledged, and the broker has heard so
    refused    no queue took it, or one refused it: it stays
    twin       another message that is equal to it waits in the queue, too
    back       it was settled, and waits in the queue again: a broker that crashed has lost its acknowledgement

Lines are written before what they announce is done, so that after a kill the journal knows more than
has happened, and never less. ``ledger`` adds them up.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from simulator.capture.schema import Observation
from simulator.json_values import canonical_json
from simulator.redrive.ledger import WITHOUT_ID, Begun, Ledger, Line, Step

VERSION = 2
_COUNTS = ("x-delivery-count", "x-acquired-count")


class JournalError(Exception):
    """A journal cannot be read or written, or is another redrive's; names the file and the line."""


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Turn what a file system refuses into a ``JournalError`` that names the file."""
    try:
        yield
    except OSError as error:
        raise JournalError(f"{path}: {error.strerror or error}") from error


class Asked(msgspec.Struct, frozen=True):
    """What a redrive was asked for: only the same can go on with its journal."""

    server: str
    vhost: str
    queue: str
    to: str
    headers: str
    version: int = VERSION


def fingerprint(row: Observation) -> str:
    """Return what tells a message from all that differ from it: everything but how often it was returned."""
    broker_headers: dict[str, Any] = msgspec.json.decode(row.broker_headers)
    kept = {name: value for name, value in broker_headers.items() if name not in _COUNTS}
    parts = [
        row.exchange, row.routing_keys, row.message_id, row.expiration, row.properties, row.headers,
        canonical_json(kept), row.x_death, row.x_death_times,
    ]  # fmt: skip
    digest = hashlib.blake2b(canonical_json(parts).encode() + row.payload, digest_size=16)
    return digest.hexdigest() if row.message_id else WITHOUT_ID + digest.hexdigest()


class Journal:
    """The journal of one redrive, open for appending. A context manager.

    Attributes:
        path: its file.
        ledger: what all its lines add up to, those of this process included.
    """

    def __init__(self, path: Path, asked: Asked) -> None:
        """Open or begin it. Raises ``JournalError`` where it is another redrive's, or cannot be read or written."""
        self.path = path
        self.ledger = Ledger()
        self._seen: set[str] = set()
        with file_errors(path):
            begun = path.exists() and path.stat().st_size > 0
            if begun:
                self._refuse_foreign(asked)
                begun = self._read(asked)
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        if not begun:
            self._append([asked])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._file)

    def begin(self, ready: int) -> None:
        """Write down that a run begins with so many messages that are ready in the queue."""
        begun = Begun(begun_us=_now_us(), by=_who(), ready=ready)
        self._append([begun])
        self._seen.clear()
        self.ledger.begin(begun)

    def seen(self, mark: str, message_id: str) -> None:
        """Note a message that this run was given: of two that are equal, a later run has to know."""
        if mark not in self._seen:
            self._seen.add(mark)
        elif not self.ledger.is_ambiguous(mark):
            self.write("twin", [(mark, message_id, "", "")])

    def write(self, step: Step, messages: Iterable[tuple[str, str, str, str]]) -> None:
        """Write down a step of messages: fingerprint, id, fate and note of each.

        It is in the file when this returns, whatever becomes of this process. Raises ``JournalError`` where it is not.
        """
        now_us = _now_us()
        lines = [Line(step, *each, now_us) for each in messages]
        self._append(lines)
        for line in lines:
            self.ledger.note(line)

    def _append(self, lines: Iterable[msgspec.Struct]) -> None:
        self._put(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))

    def _put(self, data: bytes) -> None:
        with file_errors(self.path):
            while data:
                data = data[os.write(self._file, data) :]

    def _refuse_foreign(self, asked: Asked) -> None:
        """Refuse a file without a whole line, unless it is the torn beginning of this very journal."""
        content = self.path.read_bytes()
        if b"\n" not in content and not msgspec.json.encode(asked).startswith(content):
            problem = "it does not begin like the journal of this redrive, and is left as it is: give another --journal"
            raise JournalError(f"{self.path}:1: {problem}")

    def _read(self, asked: Asked) -> bool:
        """Read what earlier runs wrote; return whether that was anything at all."""
        end = 0
        for number, line in read_journal(self.path):
            if isinstance(line, Asked):
                self._check(line, asked)
            elif isinstance(line, Begun):
                self.ledger.begin(line)
            else:
                try:
                    self.ledger.note(line, earlier=True)
                except LookupError as error:
                    problem = (
                        f"{line.step!r} of a message that was not {_BEFORE[line.step]!r} before: lines are missing"
                    )
                    raise JournalError(f"{self.path}:{number}: {problem}") from error
            end = number
        # What is torn announced something that has not been done: the process was killed meanwhile.
        os.truncate(self.path, self.path.read_bytes().rfind(b"\n") + 1)
        return end > 0

    def _check(self, begun: Asked, asked: Asked) -> None:
        for name in Asked.__struct_fields__:
            was, now = getattr(begun, name), getattr(asked, name)
            if was != now:
                problem = f"the journal was begun with {name} {was!r}, and this is {now!r}: give another --journal"
                raise JournalError(f"{self.path}: {problem}")


def read_journal(path: Path) -> Iterator[tuple[int, Asked | Begun | Line]]:
    """Yield the whole lines of a journal, with their numbers. Raises ``JournalError`` for one that is no such line."""
    for number, text in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
        try:
            yield number, _decoded(text, first=number == 1)
        except msgspec.DecodeError as error:
            raise JournalError(f"{path}:{number}: no line of a journal: {error}") from error


def _decoded(text: bytes, *, first: bool) -> Asked | Begun | Line:
    if first:
        return msgspec.json.decode(text, type=Asked)
    return msgspec.json.decode(text, type=Begun) if text.startswith(b"{") else _line.decode(text)


_line = msgspec.json.Decoder(Line)
_BEFORE = {"confirmed": "sent", "refused": "sent", "settled": "confirmed", "back": "settled"}


def _now_us() -> int:
    return time.time_ns() // 1_000


def _who() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user of a container who has no name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
