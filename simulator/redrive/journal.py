"""The journal of a redrive: what was planned, sent and settled, so that a killed one can go on.

A line of JSON for each step of each message, and one in front with what the redrive was
asked for. Lines are written before what they announce is done, so that after a kill the
journal knows more than has happened, and never less:

    sent       it may have been published
    confirmed  the broker has it where it goes; nothing is left to do but to acknowledge it
    settled    it was acknowledged, and the broker has heard so
    refused    no queue took it, or one refused it: it stays

A message is known again by its fingerprint: messages of the same fingerprint are equal in all
that a consumer can see, and it does not matter which of them is which.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import msgspec

from simulator.capture.schema import Observation
from simulator.json_values import canonical_json

VERSION = 1
Step = Literal["sent", "confirmed", "settled", "refused"]
_COUNTS = ("x-delivery-count", "x-acquired-count")


class JournalError(Exception):
    """A journal cannot be read, or is another redrive's; names the file and the line."""


class Asked(msgspec.Struct, frozen=True):
    """What a redrive was asked for: only the same can go on with its journal."""

    server: str
    vhost: str
    queue: str
    to: str
    headers: str
    version: int = VERSION


class Line(msgspec.Struct, frozen=True, array_like=True):
    """One step of one message: the step, its fingerprint, its id; where it was sent, or why it stays."""

    step: Step
    fingerprint: str
    id: str
    note: str = ""


class Counts(msgspec.Struct):
    """How many messages of each fingerprint have come to each step."""

    sent: Counter[str] = msgspec.field(default_factory=Counter)
    confirmed: Counter[str] = msgspec.field(default_factory=Counter)
    settled: Counter[str] = msgspec.field(default_factory=Counter)
    refused: Counter[str] = msgspec.field(default_factory=Counter)
    ids: dict[str, str] = {}

    def note(self, line: Line) -> None:
        """Count one step."""
        counts: Counter[str] = getattr(self, line.step)
        counts[line.fingerprint] += 1
        self.ids[line.fingerprint] = line.id

    def uncertain(self) -> list[str]:
        """Return the ids of messages that may have been published without anybody knowing."""
        found = []
        for fingerprint, sent in self.sent.items():
            found += [self.ids[fingerprint]] * (sent - self.confirmed[fingerprint] - self.refused[fingerprint])
        return found


def fingerprint(row: Observation) -> str:
    """Return what tells a message from all that differ from it: everything but how often it was returned."""
    broker_headers: dict[str, Any] = msgspec.json.decode(row.broker_headers)
    kept = {name: value for name, value in broker_headers.items() if name not in _COUNTS}
    parts = [
        row.exchange, row.routing_keys, row.message_id, row.expiration, row.properties, row.headers,
        canonical_json(kept), row.x_death, row.x_death_times,
    ]  # fmt: skip
    digest = hashlib.blake2b(canonical_json(parts).encode() + row.payload, digest_size=16)
    return digest.hexdigest()


class Journal:
    """The journal of one redrive, open for appending. A context manager."""

    def __init__(self, path: Path, asked: Asked) -> None:
        """Open or begin it. Raises ``JournalError`` where it is another redrive's, or broken."""
        self.path = path
        self.before = Counts()
        begun = path.exists() and path.stat().st_size > 0
        if begun:
            self._read(asked)
        self._unacknowledged = self.before.confirmed - self.before.settled
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        if not begun:
            os.write(self._file, msgspec.json.encode(asked) + b"\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._file)

    def take_confirmed(self, mark: str) -> bool:
        """Return whether a message of that fingerprint was published before and not acknowledged, and count it off."""
        if self._unacknowledged[mark] <= 0:
            return False
        self._unacknowledged[mark] -= 1
        return True

    def write(self, lines: Iterable[Line]) -> None:
        """Write down steps; they are in the file when this returns, whatever becomes of this process."""
        data = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
        while data:
            data = data[os.write(self._file, data) :]

    def _read(self, asked: Asked) -> None:
        raw = self.path.read_bytes().split(b"\n")
        whole, torn = raw[:-1], raw[-1]
        if torn:  # the process was killed within a line, which announced something that has not been done
            os.truncate(self.path, self.path.stat().st_size - len(torn))
        for number, text in enumerate(whole, 1):
            try:
                if number == 1:
                    self._check(msgspec.json.decode(text, type=Asked), asked)
                else:
                    self.before.note(msgspec.json.decode(text, type=Line))
            except msgspec.DecodeError as error:
                raise JournalError(f"{self.path}:{number}: no line of a journal: {error}") from error

    def _check(self, begun: Asked, asked: Asked) -> None:
        for name in Asked.__struct_fields__:
            was, now = getattr(begun, name), getattr(asked, name)
            if was != now:
                problem = f"the journal was begun with {name} {was!r}, and this is {now!r}: give another --journal"
                raise JournalError(f"{self.path}: {problem}")
