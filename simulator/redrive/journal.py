"""The journal of a redrive: what was planned, sent and settled, so that a killed one can go on.

A first line of JSON says what the user asked the redrive for. An object for each run says when it
began, and a list for each step of each message what has happened or is about to:

    stays      it is not brought back
    sent       it may have been published
    confirmed  the broker has it where it goes; nothing is left to do but to acknowledge it
    settled    it was acknowledged, and the broker has heard so
    refused    no queue took it, or one refused it: it stays
    twin       another message that is equal to it waits in the queue, too
    back       it was settled, and waits in the queue again: a broker that crashed has lost its acknowledgement

Lines are written before what they announce is done, so that after a kill the journal knows more than
has happened, and never less. ``JournalTotals`` adds them up.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import socket
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import msgspec

from simulator.capture.schema import Observation
from simulator.files import beside
from simulator.json_values import canonical_json

# What has become of the messages of a redrive, added up from the lines of its journal.
#
# A message is known again by its fingerprint. Messages of the same fingerprint are equal in all that
# a consumer can see, and mostly it does not matter which of them is which. It matters after a kill:
# of two that are equal, one was confirmed, and it is unknown whether its acknowledgement was heard. The
# one that waits now may be either. Such a message is published again: rather doubled than lost. So is one
# that an earlier process settled and that waits again, since the broker crashed and lost its acknowledgement.


Step = Literal["stays", "sent", "confirmed", "settled", "refused", "twin", "back"]
WITHOUT_ID = "?"
"""Begins the fingerprints of messages that have no ``message_id``: others may be equal to them."""


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """A run began: when (microseconds since 1970), by whom, and how many messages were ready in the queue."""

    begun_us: int
    by: str
    ready: int


class Line(msgspec.Struct, frozen=True, array_like=True):
    """One step of one message.

    Attributes:
        step: what has happened, or is about to.
        fingerprint, id: of the message.
        fate: what was predicted for it, where it is ``sent`` or ``stays``.
        note: where it was sent, or why it stays.
        at_us: when, in microseconds since 1970.
    """

    step: Step
    fingerprint: str
    id: str
    fate: str = ""
    note: str = ""
    at_us: int = 0


class JournalTotals:
    """Adds up the lines of all runs.

    Attributes:
        begun: the beginning of the last run; ``None`` before the first.
        at_start: how many messages were in the queue when the first run began; ``None`` before.
        moved: the fates of the messages that the broker has where they go.
        settled: how many of them are known to have left the queue.
        possible_duplicates: ids of messages that may be there twice, as far as the runs that began know.
    """

    def __init__(self) -> None:
        self.begun: Begun | None = None
        self.at_start: int | None = None
        self.moved: Counter[str] = Counter()
        self.settled = 0
        self.possible_duplicates: list[str] = []
        self._sent: _Lines = {}  # without an answer
        self._unacknowledged: deque[Line] = deque()  # "sent" lines of what is confirmed and not settled, in that order
        self._to_acknowledge: Counter[str] = Counter()  # those of earlier runs that were not met so far
        self._gone: dict[str, str] = {}  # fingerprints and fates of what earlier processes settled
        self._stay: _Lines = {}
        self._stayed_before: _Lines = {}  # and which this run did not read again
        self._twins: set[str] = set()

    @property
    def stay(self) -> list[Line]:
        """The last line of each message that stays in the queue."""
        return [line for lines in (*self._stayed_before.values(), *self._stay.values()) for line in lines]

    @property
    def settled_before(self) -> int:
        """How many messages earlier processes settled that have not come back."""
        return len(self._gone)

    @property
    def fates(self) -> Counter[str]:
        """What was predicted for each message: where it was moved, or else when it was last read."""
        return self.moved + Counter(line.fate for line in self.stay)

    @property
    def refused(self) -> Counter[str]:
        """The messages that stay, by the reason: what was predicted for them, or who refused them."""
        return Counter(line.fate if line.step == "stays" else line.note for line in self.stay)

    @property
    def left(self) -> int:
        """How many of those at the start are still in the queue."""
        return max(0, (self.at_start or 0) - self.moved.total())

    def doubtful(self) -> list[str]:
        """Return the ids of messages that may or may not have been published: the next run cannot know."""
        lines = [line for each in self._sent.values() for line in each]
        lines += [line for line in self._unacknowledged if self.is_ambiguous(line.fingerprint)]
        return [line.id for line in lines]

    def is_ambiguous(self, mark: str) -> bool:
        """Return whether there may be several messages of that fingerprint."""
        return mark.startswith(WITHOUT_ID) or mark in self._twins

    def to_look_at(self, ready: int) -> int:
        """Return how many of the messages that are ready now may have been there at the start."""
        return ready if self.at_start is None else min(ready, max(0, self.at_start - self.settled))

    def take_confirmed(self, mark: str) -> bool:
        """Return whether an earlier run published it, so that it needs its acknowledgement alone, and count it off."""
        if not self._to_acknowledge[mark]:
            return False
        self._to_acknowledge[mark] -= 1
        return True

    def was_settled(self, mark: str) -> bool:
        """Return whether an earlier process settled it, and no other is equal: the broker lost its acknowledgement."""
        return mark in self._gone and not self.is_ambiguous(mark)

    def begin(self, begun: Begun) -> None:
        """Count the beginning of a run, for which what the one before it left open are possible duplicates."""
        self.possible_duplicates += self.doubtful()
        self._sent.clear()
        self.begun = begun
        if self.at_start is None:
            self.at_start = begun.ready
        self._begin_with_unacknowledged(self.at_start - self.settled - begun.ready)
        for mark, lines in self._stay.items():
            self._stayed_before.setdefault(mark, []).extend(lines)
        self._stay.clear()

    def _begin_with_unacknowledged(self, gone: int) -> None:
        """Count off what was confirmed and not settled: that many have left the queue, the first ones."""
        known = Counter[str]()
        for number, line in enumerate(self._unacknowledged):
            if not self.is_ambiguous(line.fingerprint):
                known[line.fingerprint] += 1
            elif number < gone:
                self.settled += 1
            else:  # it is published again, and counts once
                self.moved[line.fate] -= 1
        self._unacknowledged = deque(line for line in self._unacknowledged if line.fingerprint in known)
        self._to_acknowledge = known

    def note(self, line: Line, *, earlier: bool = False) -> None:
        """Count one step, of this process or an ``earlier`` one.

        Raises:
            LookupError: the step that comes before it is missing.
        """
        mark = line.fingerprint
        if line.step in ("stays", "sent") and mark in self._stayed_before:
            _taken(self._stayed_before, mark)
        if line.step == "stays":
            self._stay.setdefault(mark, []).append(line)
        elif line.step == "sent":
            self._sent.setdefault(mark, []).append(line)
        elif line.step == "twin":
            self._twins.add(mark)
        elif line.step == "settled":
            fate = self._settled(mark).fate
            if earlier:
                self._gone[mark] = fate
        elif line.step == "back":
            self.settled -= 1
            self.moved[self._gone.pop(mark)] -= 1
            self.possible_duplicates.append(line.id)
        else:
            self._answered(line)

    def _settled(self, mark: str) -> Line:
        self.settled += 1
        for number, line in enumerate(self._unacknowledged):  # mostly the first
            if line.fingerprint == mark:
                del self._unacknowledged[number]
                return line
        raise LookupError(mark)

    def _answered(self, line: Line) -> None:
        sent = _taken(self._sent, line.fingerprint)
        if line.step == "refused":
            self._stay.setdefault(line.fingerprint, []).append(msgspec.structs.replace(line, fate=sent.fate))
        else:
            self.moved[sent.fate] += 1
            self._unacknowledged.append(sent)


_Lines = dict[str, list[Line]]


def _taken(table: _Lines, mark: str) -> Line:
    lines = table[mark]
    line = lines.pop(0)
    if not lines:
        del table[mark]
    return line


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


class RedriveRequest(msgspec.Struct, frozen=True):
    """What a redrive was asked for: only the same can go on with its journal."""

    server: str
    vhost: str
    queue: str
    to: str
    headers: str
    version: int = VERSION


def fingerprint(row: Observation) -> str:
    """Return what identifies a message: everything except how often it was returned."""
    broker_headers: dict[str, Any] = msgspec.json.decode(row.broker_headers)
    kept = {name: value for name, value in broker_headers.items() if name not in _COUNTS}
    parts = [
        row.exchange, row.routing_keys, row.message_id, row.expiration, row.properties, row.headers,
        canonical_json(kept), row.x_death, row.x_death_times,
    ]  # fmt: skip
    digest = hashlib.blake2b(canonical_json(parts).encode() + row.payload, digest_size=16)
    return digest.hexdigest() if row.message_id else WITHOUT_ID + digest.hexdigest()


class RedriveJournal:
    """The journal of one redrive, open for appending. A context manager.

    Attributes:
        path: its file.
        ledger: what all its lines add up to, those of this process included.
    """

    def __init__(self, path: Path, asked: RedriveRequest) -> None:
        """Open or begin it. Raises ``JournalError`` where it is another redrive's, or cannot be read or written."""
        self.path = path
        self.ledger = JournalTotals()
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
        """Write down that a run begins, and how many messages are ready in the queue."""
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

    def _refuse_foreign(self, asked: RedriveRequest) -> None:
        """Refuse a file without a whole line, unless it is the torn beginning of this very journal."""
        content = self.path.read_bytes()
        if b"\n" not in content and not msgspec.json.encode(asked).startswith(content):
            problem = "it does not begin like the journal of this redrive, and stays unchanged: give another --journal"
            raise JournalError(f"{self.path}:1: {problem}")

    def _read(self, asked: RedriveRequest) -> bool:
        """Read what earlier runs wrote; return whether that was anything at all."""
        end = 0
        for number, line in read_journal(self.path):
            if isinstance(line, RedriveRequest):
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
        # A torn line announced something that has not been done: the process was killed meanwhile.
        os.truncate(self.path, self.path.read_bytes().rfind(b"\n") + 1)
        return end > 0

    def _check(self, begun: RedriveRequest, asked: RedriveRequest) -> None:
        for name in RedriveRequest.__struct_fields__:
            was, now = getattr(begun, name), getattr(asked, name)
            if was != now:
                problem = f"the journal was begun with {name} {was!r}, and this is {now!r}: give another --journal"
                raise JournalError(f"{self.path}: {problem}")


def read_journal(path: Path) -> Iterator[tuple[int, RedriveRequest | Begun | Line]]:
    """Yield the whole lines of a journal, with their numbers. Raises ``JournalError`` for any other line."""
    for number, text in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
        try:
            yield number, _decoded(text, first=number == 1)
        except msgspec.DecodeError as error:
            raise JournalError(f"{path}:{number}: not a line of a journal: {error}") from error


def has_begun(path: Path) -> bool:
    """Return whether a journal is there and has a run that came as far as to the messages. Raises ``JournalError``."""
    return path.exists() and any(isinstance(line, Begun) for _, line in read_journal(path))


def _decoded(text: bytes, *, first: bool) -> RedriveRequest | Begun | Line:
    if first:
        return msgspec.json.decode(text, type=RedriveRequest)
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


# The audit file of a redrive: what became of each message, when, and at whose hands, as lines of JSON.


def audit_path(journal: Path) -> Path:
    """Return where the audit file of a journal is."""
    return journal.with_name(f"{journal.name}.audit.jsonl")


def write_audit(journal: Path) -> Path:
    """Write the audit file of a journal, whole, and return its path.

    Raises:
        JournalError: the journal cannot be read, or the audit file not written.
    """
    path = audit_path(journal)
    with file_errors(path), beside(path, private=True) as part:  # as the journal
        part.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in audit(journal)))
    return path


def audit(journal: Path) -> Iterator[dict[str, Any]]:
    """Yield a row for each step that a person may ask about later, in the order in which they were taken."""
    by = ""
    sent: dict[str, list[Line]] = {}
    for _, line in read_journal(journal):
        if isinstance(line, Begun):
            yield from _unanswered(sent, by)
            sent.clear()
            by = line.by
        elif isinstance(line, Line) and line.step == "sent":
            sent.setdefault(line.fingerprint, []).append(line)
        elif isinstance(line, Line) and line.step in _OUTCOMES:
            before = sent[line.fingerprint].pop(0) if line.step in ("confirmed", "refused") else line
            yield _row(line, _OUTCOMES[line.step], before, by)
    yield from _unanswered(sent, by)


def _unanswered(sent: dict[str, list[Line]], by: str) -> Iterator[dict[str, Any]]:
    for lines in sent.values():
        yield from (
            _row(line, "may have been moved: the run ended before the broker confirmed it", line, by) for line in lines
        )


_OUTCOMES = {"stays": "stays", "confirmed": "moved", "refused": "stays"}


def _row(line: Line, outcome: str, planned: Line, by: str) -> dict[str, Any]:
    at = datetime.fromtimestamp(line.at_us / 1e6, UTC)
    row = {"at": at.isoformat(timespec="milliseconds"), "by": by, "message": line.id, "outcome": outcome}
    to = planned.note if planned.step == "sent" else ""
    why = line.note if line.step in ("stays", "refused") else ""
    told = {"to": to, "predicted": planned.fate, "why": why}
    return row | {name: value for name, value in told.items() if value}
