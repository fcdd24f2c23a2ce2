"""The archive of a redrive that discards: what it took out of the queue, whole, so that it can be put back.

A first line of JSON says where the messages come from, and then there is a line for each: its id and its deaths for
people, its properties in base64 as AMQP encodes them, so that no type is lost, and its body, as text or in base64.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from pika.exceptions import NackError, UnroutableError
from pika.spec import Basic, BasicProperties

from simulator.capture.client_rows import delivered_row
from simulator.capture.connected import connected, exact_values
from simulator.redrive.execute import Moving, OnAnswer, RedrivePublisher
from simulator.redrive.journal import JournalError, file_errors
from simulator.redrive.peek import placed
from simulator.redrive.plan import Planned, properties_carried
from simulator.redrive.prediction import Kind, Prediction
from simulator.redrive.server import ServerAddress
from simulator.redrive.waiting import WaitingMessage, waiting

_FIRST_LINE_MAX = 10_000
_LEFT_OUT = ("x-delivery-count", "x-acquired-count", "CC", "BCC")


class ArchiveOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Where the messages of an archive come from."""

    archive_of: str
    vhost: str
    server: str


class ArchivedMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message.

    Attributes:
        message: its id.
        deaths: its deaths, the oldest first.
        exchange, routing_key: as it was delivered.
        properties: as AMQP encodes them, in base64.
        body: its body, where it is text.
        body_base64: its body, where it is not.
    """

    message: str
    deaths: str
    exchange: str
    routing_key: str
    properties: str
    body: str | None = None
    body_base64: str = ""

    @property
    def payload(self) -> bytes:
        """Its body."""
        return base64.b64decode(self.body_base64) if self.body is None else self.body.encode()

    @property
    def decoded(self) -> BasicProperties:
        """Its properties."""
        found = BasicProperties()
        with exact_values(to_publish=True):
            found.decode(base64.b64decode(self.properties))
        return found


def archive_path(journal: Path) -> Path:
    """Return where the archive of a journal is."""
    return journal.with_name(f"{journal.name}.archive.jsonl")


class Archive:
    """An archive, open for appending, which only its owner may read. A context manager.

    Raises ``JournalError`` where it cannot be written.
    """

    def __init__(self, path: Path, origin: ArchiveOrigin) -> None:
        self.path = path
        with file_errors(path):
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            if not os.fstat(self._file).st_size:
                self._put([origin])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._file)

    def keep(self, messages: Iterable[Moving]) -> None:
        """Write messages down. They are on the disk when this returns. Raises ``JournalError`` where they are not."""
        with file_errors(self.path):
            self._put(map(_archived, messages))

    def _put(self, lines: Iterable[msgspec.Struct]) -> None:
        data = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
        while data:
            data = data[os.write(self._file, data) :]
        os.fsync(self._file)


def _archived(moving: Moving) -> ArchivedMessage:
    row, message = moving.delivery.row, moving.planned.message
    properties = base64.b64encode(b"".join(moving.delivery.properties.encode())).decode()
    body: dict[str, str] = {}
    try:
        body["body"] = row.payload.decode()
    except UnicodeDecodeError:
        body["body_base64"] = base64.b64encode(row.payload).decode()
    return ArchivedMessage(
        message=message.id,
        deaths=message.deaths.path,
        exchange=row.exchange,
        routing_key=row.routing_keys[0] if row.routing_keys else "",
        properties=properties,
        **body,
    )


class ArchivePublisher(RedrivePublisher):
    """Puts messages into an archive in place of publishing them."""

    def __init__(self, archive: Archive, rate: float | None, on_answer: OnAnswer) -> None:
        super().__init__(rate, on_answer)
        self._archive = archive

    def open(self, channel: Any, on_ready: Callable[[], None]) -> None:
        """Begin: nothing is published."""
        on_ready()

    def describe(self, moving: Moving) -> str:
        """Say where a message goes."""
        return f"the archive {self._archive.path}"

    def publish(self, moving: Moving) -> None:
        """Take a message."""
        self._number += 1
        self._sent[self._number] = moving

    def flush(self) -> None:
        """Write down what was taken. Raises ``JournalError``."""
        taken = list(self._sent.values())
        self._archive.keep(taken)
        self._sent.clear()
        self._on_answer(taken, [])


class DiscardPlanner:
    """Plans to discard the messages that are chosen."""

    def __init__(self, only: Callable[[WaitingMessage], bool]) -> None:
        self._only = only

    def planned(self, message: WaitingMessage, *, exceeds_limit: bool = False) -> Planned:
        """Return what is planned for the next message."""
        chosen = self._only(message)
        fate = Prediction(Kind.DISCARDED if chosen else Kind.NOT_SELECTED)
        return Planned(message, None, message.headers, {}, fate, chosen)

    def instead_of(self, planned: Planned) -> None:
        """Return nothing: there is no other address."""


# Puts archived messages back.


def read_archive(path: Path) -> tuple[ArchiveOrigin, list[ArchivedMessage]]:
    """Return where the messages of an archive come from, and the messages.

    A torn last line is of a message that was not taken out of its queue. Raises ``JournalError``.
    """
    with file_errors(path):
        first, *lines = path.read_bytes().split(b"\n")[:-1] or [b""]
    found: list[ArchivedMessage] = []
    try:
        origin = msgspec.json.decode(first, type=ArchiveOrigin)
        for line in lines:
            found.append(msgspec.json.decode(line, type=ArchivedMessage))
    except msgspec.DecodeError as error:
        at = len(found) + (2 if found else 1)
        raise JournalError(f"{path}:{at}: not a line of an archive of dlx redrive --discard: {error}") from error
    return origin, found


def origin_of(path: Path) -> ArchiveOrigin | None:
    """Return where the messages of an archive come from; ``None`` for a file that is none, or cannot be read."""
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.readline(_FIRST_LINE_MAX), type=ArchiveOrigin)
    except (OSError, msgspec.DecodeError):
        return None


def as_waiting(message: ArchivedMessage, queue: str) -> WaitingMessage:
    """Return an archived message as it waited in its queue."""
    method = Basic.Deliver("", 0, False, message.exchange, message.routing_key)
    return waiting(delivered_row(queue, method, message.decoded, message.payload))


def waiting_in_archive(path: Path) -> tuple[ArchiveOrigin, list[WaitingMessage]]:
    """Return where the messages of an archive waited, and the messages. Raises ``JournalError``."""
    origin, archived = read_archive(path)
    found = [as_waiting(each, origin.archive_of) for each in archived]
    for line, message in enumerate(found, 2):
        placed(message.row, str(path), origin.vhost, line)
    return origin, found


def put_back_path(archive: Path) -> Path:
    """Return the file that says which messages of an archive were put back: a number a line, from 1 on.

    A number stands there before its message is sent, and its line ends once the queue has the message. So one whose
    line has no end, or a question mark, which the next run sets, was on its way when a run was killed.
    """
    return archive.with_name(f"{archive.name}.put-back")


def numbers_put_back(archive: Path) -> tuple[set[int], list[int]]:
    """Return the numbers of the messages that were put back, and those of the messages that may have been.

    Raises ``JournalError``.
    """
    path = put_back_path(archive)
    if not path.exists():
        return set(), []
    with file_errors(path):
        *lines, torn = path.read_text().split("\n")
    lines += [f"{torn}?"] * bool(torn)
    for at, line in enumerate(lines, 1):
        if not line.removesuffix("?").isdecimal():
            raise JournalError(f"{path}:{at}: expected the number of a message that was put back, found {line!r}")
    sent = [int(line.removesuffix("?")) for line in lines if line.endswith("?")]
    return {int(line) for line in lines if not line.endswith("?")}, sent


def put_back(
    server: ServerAddress,
    queue: str,
    archive: Path,
    messages: Collection[tuple[int, ArchivedMessage]],
    on_row: Callable[[int, int], None] = lambda rows, of: None,
    stop: Callable[[], bool] = bool,
) -> int:
    """Publish archived messages to a queue, one after the other, each confirmed; return how many.

    They keep their headers, without the counts of the queue, and without CC and BCC, or other queues would get them,
    too. If this is killed, the next run leaves out what was put back, but for the one that was on its way: that may
    be there twice then.

    Args:
        server, queue: where to.
        archive: the file that the messages are from.
        messages: which, each with its number.
        on_row: gets how many were put back, of how many.
        stop: tells whether to stop.

    Raises:
        CaptureUnavailable: the server does not answer, or refuses.
        JournalError: a queue refused one, or it cannot be written down that it was put back.
    """
    assert server.amqp_url is not None
    done = 0
    with file_errors(put_back_path(archive)):
        file = os.open(put_back_path(archive), os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        _end_torn_line(archive, file)
        with exact_values(to_publish=True), connected(server.amqp_url, server.vhost) as (connection, _):
            channel = connection.channel()
            channel.confirm_delivery()
            for number, message in messages:
                if stop():
                    break
                properties = message.decoded
                kept = {name: value for name, value in (properties.headers or {}).items() if name not in _LEFT_OUT}
                sent = properties_carried(properties, kept)
                begun = _write(archive, file, str(number))
                try:
                    channel.basic_publish("", queue, message.payload, sent, mandatory=True)
                except (NackError, UnroutableError) as error:
                    os.ftruncate(file, begun)
                    why = "the queue is gone" if isinstance(error, UnroutableError) else "the queue refuses it"
                    raise JournalError(f"{archive}: {message.message!r} was not put back: {why}") from error
                _write(archive, file, "\n")
                done += 1
                on_row(done, len(messages))
    finally:
        if not os.fstat(file).st_size:  # nothing was put back so far
            put_back_path(archive).unlink(missing_ok=True)
        os.close(file)
    return done


def _end_torn_line(archive: Path, file: int) -> None:
    """Mark the message that was on its way when an earlier run was killed."""
    size = os.fstat(file).st_size
    if size and os.pread(file, 1, size - 1) != b"\n":
        _write(archive, file, "?\n")


def _write(archive: Path, file: int, text: str) -> int:
    """Append a text, and return how long the file was before, in bytes. Raises ``JournalError``."""
    with file_errors(put_back_path(archive)):
        size = os.fstat(file).st_size
        os.write(file, text.encode())
    return size
