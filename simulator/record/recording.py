"""A recording: what clients declared, published and consumed, and what was lost, as a folder.

``recording.json`` is the ``Recording``, ``definitions.json`` all that was ever declared, as an export of definitions,
and ``trace.jsonl`` the publishes and deliveries, as a capture. No file has the body of a message, and only the trace
has the values of headers; routing keys are there, and of expirations the least and the most.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from dlx.deaths import X_DEATH
from dlx.routing import REPLY_TO
from simulator.capture.observe import BROKER_HEADERS
from simulator.files import write_whole
from simulator.json_values import text
from simulator.sources.reading import DEFINITIONS, RECORDING

FORMAT = 1
SAVE_S = 2
"""How often a recording is written while it goes on, in seconds of wall time."""
STORY_MAX = 8
"""How many sentences of a story an answer tells."""
TRACE = "trace.jsonl"
FILES = (RECORDING, DEFINITIONS, TRACE)
MANAGEMENT_API = 0  # the number of the connections that the management API has

NOT_PUBLISHED = "what was published in"
"""How the clause in ``not_seen`` begins where publishes were not recorded."""

Kind = Literal["queue", "exchange", "binding"]
SECTIONS: Mapping[Kind, str] = {"exchange": "exchanges", "queue": "queues", "binding": "bindings"}


class RecordingError(Exception):
    """A folder is not a recording, or a file in it is not what it should be; the text names the file."""


class ClientConnection(msgspec.Struct, kw_only=True):
    """A connection of a client.

    Attributes:
        number: by which the rest of the recording names it.
        name: as the client calls itself (``connection_name``), else the addresses of both ends.
        product, version: of the client library, as it gives them.
        vhost, user: where it connected, and as whom.
        opened_us, closed_us: microseconds since 1970, by the broker's clock; ``None`` while it is open.
    """

    number: int
    name: str
    product: str = ""
    version: str = ""
    vhost: str = "/"
    user: str = ""
    opened_us: int | None = None
    closed_us: int | None = None


class Declaration(msgspec.Struct, kw_only=True):
    """A queue, an exchange or a binding that was there at some time.

    Attributes:
        kind, vhost, name: which; the name of a binding is what ``binding_name`` returns.
        item: the object as an export of definitions has it; of a queue ``exclusive`` besides, where it was.
        first_us: when it was first declared, or first seen.
        times: how often clients declared it; 0 for what was there already, or came with definitions.
        connections: the numbers of the connections that declared it.
        gone_us: when it was first seen to be gone, for the last time; ``None`` for what is still there.
        replaces: the same object as it was declared before, with other settings.
    """

    kind: Kind
    vhost: str
    name: str
    item: dict[str, Any]
    first_us: int | None = None
    times: int = 0
    connections: list[int] = []
    gone_us: int | None = None
    replaces: list[dict[str, Any]] = []


class RecordedRefusal(msgspec.Struct, kw_only=True):
    """What the broker refused to a client: it closed the channel or the connection.

    Attributes:
        method: such as ``queue.declare``.
        code, text: such as 406 and the broker's words.
        connections: the numbers of the connections to which it happened.
        first_us, times: when it happened first, and how often.
    """

    vhost: str
    method: str
    code: int
    text: str
    connections: list[int] = []
    first_us: int | None = None
    times: int = 0


class RecordedPublishes(msgspec.Struct, kw_only=True):
    """What clients published to an exchange with a routing key.

    Attributes:
        exchange, routing_key: an empty exchange is the default exchange.
        times: how many messages.
        headers: how many of them had a header, by its name.
        least_expiration_ms, most_expiration_ms: of those with an expiration; ``None`` where none had one.
        persistent, mandatory, confirmed: how many were persistent, were mandatory, and went over a channel with
            publisher confirms.
        unroutable: how many no queue took; ``returned``: how many of these went back to their publisher.
        refused: how many a full queue refused (``basic.nack``).
        republished: how many had been delivered to a client before, as far as their ids or bodies show it;
            ``with_x_death``: how many of these carried the ``x-death`` they came with.
        counters: how many of the republished ones had a header of this name that counts up.
        connections: the numbers of the connections that published.
    """

    vhost: str
    exchange: str
    routing_key: str
    times: int = 0
    headers: dict[str, int] = {}
    least_expiration_ms: int | None = None
    most_expiration_ms: int | None = None
    persistent: int = 0
    mandatory: int = 0
    confirmed: int = 0
    unroutable: int = 0
    returned: int = 0
    refused: int = 0
    republished: int = 0
    with_x_death: int = 0
    counters: dict[str, int] = {}
    connections: list[int] = []

    def add(self, headers: Iterable[str], expiration: str, *, persistent: bool, by: int) -> None:
        """Count a message: the names of its headers, its expiration (empty without one) and its connection."""
        self.times += 1
        for name in headers:
            self.headers[name] = self.headers.get(name, 0) + 1
        if expiration.isdecimal():
            ms, least, most = int(expiration), self.least_expiration_ms, self.most_expiration_ms
            self.least_expiration_ms = ms if least is None else min(least, ms)
            self.most_expiration_ms = ms if most is None else max(most, ms)
        self.persistent += persistent
        if by not in self.connections:
            self.connections.append(by)

    def add_republished(self, headers: Mapping[str, Any], delivered: Mapping[str, Any]) -> None:
        """Count a message that had been delivered with the headers ``delivered``."""
        self.republished += 1
        self.with_x_death += X_DEATH in headers
        for name, value in headers.items():
            before = delivered.get(name, 0)
            counts = isinstance(value, int) and isinstance(before, int) and not isinstance(value, bool)
            if counts and value > before and name not in BROKER_HEADERS:
                self.counters[name] = self.counters.get(name, 0) + 1


class RecordedQueue(msgspec.Struct, kw_only=True):
    """What clients did with a queue.

    Attributes:
        entered, dead_letters: how many published messages and how many dead letters entered it.
        waiting: how many messages were in it at the end.
        held: how many of its dead letters at-least-once dead-lettering held at the end, since no queue took them. Of a
            server, how many it held at least in the last ten seconds.
        declared_before: how many of those that entered were published right after the same connection had declared
            the queue.
        consumers, consumers_max: how many consumers there were, and how many at once.
        prefetch: the different numbers of messages that consumers took in advance; 0 is any number.
        gets: how often a client polled it.
        deliveries, redeliveries: how many deliveries, and how many of them were marked as redelivered.
        automatic: how many deliveries counted as acknowledged when they were sent.
        acked, rejected, requeued: how the others ended: ``basic.ack``; ``basic.reject`` or ``basic.nack`` without
            requeue; the same or ``basic.recover`` with requeue.
        failed: how many of the requeued were returned by ``basic.reject``, which is what the delivery limit of 4.3
            counts.
        abandoned: how many went back because their channel or connection closed.
        republished: how many of the delivered messages a client published again.
        timed_out: how many channels the consumer timeout closed.
        connections: the numbers of the connections that consumed.
    """

    vhost: str
    queue: str
    entered: int = 0
    dead_letters: int = 0
    waiting: int = 0
    held: int = 0
    declared_before: int = 0
    consumers: int = 0
    consumers_max: int = 0
    prefetch: list[int] = []
    gets: int = 0
    deliveries: int = 0
    redeliveries: int = 0
    automatic: int = 0
    acked: int = 0
    rejected: int = 0
    requeued: int = 0
    failed: int = 0
    abandoned: int = 0
    republished: int = 0
    timed_out: int = 0
    connections: list[int] = []


class RecordedLoss(msgspec.Struct, kw_only=True):
    """Messages that were lost while the recording ran, of which nobody was told.

    Attributes:
        event: how (``simulator.events.Event``), such as ``dropped`` or ``cycle-dropped``.
        queue, reason: the queue where a message died, and the reason of its death; ``None`` where a publish reached no
            queue.
        exchange, routing_key: where the first of them had last been published to.
        times: how many.
        story: what happened to the first of them, in sentences.
    """

    vhost: str
    event: str
    queue: str | None
    reason: str | None
    exchange: str
    routing_key: str
    times: int = 0
    story: list[str] = []


class Recording(msgspec.Struct, kw_only=True):
    """What is known of an application.

    Attributes:
        format: the version of this form.
        of: ``simulator``, or the URL of a server without its user.
        release: of the broker.
        command: what was run; empty where nothing was.
        exit_code: of the command; ``None`` while it runs, or without one.
        began_us, ended_us: microseconds since 1970, by the broker's clock; ``ended_us`` is ``None`` while it goes on.
        not_seen: what this recording cannot know, in clauses such as ``how deliveries ended``.
        omitted: how many messages were published with further routing keys, beyond those that are listed;
            ``omitted_unroutable``: how many of these no queue took.
    """

    format: int
    of: str = "simulator"
    release: str = ""
    command: list[str] = []
    exit_code: int | None = None
    began_us: int = 0
    ended_us: int | None = None
    connections: list[ClientConnection] = []
    declarations: list[Declaration] = []
    refusals: list[RecordedRefusal] = []
    published: list[RecordedPublishes] = []
    consumed: list[RecordedQueue] = []
    lost: list[RecordedLoss] = []
    not_seen: list[str] = []
    omitted: int = 0
    omitted_unroutable: int = 0

    def declared(self, kind: Kind, vhost: str, name: str) -> Declaration | None:
        """Return the queue, exchange or binding of that name, if it was ever there."""
        return next((d for d in self.declarations if (d.kind, d.vhost, d.name) == (kind, vhost, name)), None)

    @property
    def has_publishes(self) -> bool:
        """Whether publishes were recorded, as far as there were any."""
        return bool(self.published) or not any(each.startswith(NOT_PUBLISHED) for each in self.not_seen)

    def clients_of(self, numbers: list[int]) -> Iterator[str]:
        """Yield which client libraries are behind these connections, each once: ``name (product version)``."""
        by_number = {connection.number: connection for connection in self.connections}
        by_number[MANAGEMENT_API] = ClientConnection(number=MANAGEMENT_API, name="the management API")
        yield from dict.fromkeys(shown(by_number[number]) for number in numbers if number in by_number)


def shown(connection: ClientConnection) -> str:
    """Return the connection as a sentence names it."""
    library = " ".join(filter(None, (connection.product, connection.version)))
    return f"{connection.name} ({library})" if library else connection.name


def binding_name(item: Mapping[str, Any]) -> str:
    """Return the name of a binding, from its item in an export."""
    arguments = item.get("arguments") or {}
    rest = f" {json.dumps(arguments, sort_keys=True)}" if arguments else ""
    return f"{item['source']} -> {item['destination_type']} {item['destination']} ({item['routing_key']}){rest}"


def is_recording(path: str | os.PathLike[str]) -> bool:
    """Return whether the path is a folder that holds a recording."""
    return (Path(path) / RECORDING).is_file()


def check_folder(folder: Path) -> None:
    """Raise ``RecordingError`` unless a recording may be written there: in a new or empty folder, or over another."""
    if folder.exists() and not folder.is_dir():
        raise RecordingError(f"{folder}: expected a folder, or nothing yet")
    if not folder.exists() or not any(folder.iterdir()):
        return
    expected = f"{folder}: expected a new or empty folder, or that of an earlier recording"
    if not is_recording(folder):
        raise RecordingError(expected)
    try:
        earlier = read_recording(folder)
    except RecordingError as error:
        raise RecordingError(f"{expected}; {error}") from error
    if earlier.ended_us is None and time.time() - (folder / RECORDING).stat().st_mtime < 2 * SAVE_S:
        raise RecordingError(f"{folder}: another recording writes this folder now; choose another with --out")


def prepare_folder(folder: Path) -> None:
    """Make the folder of a recording, or empty one that holds an earlier recording.

    Raises:
        RecordingError: something else is there, or another recording writes it, or it cannot be made.
    """
    check_folder(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise RecordingError(f"{folder}: {error.strerror or error}") from error


def read_recording(folder: str | os.PathLike[str]) -> Recording:
    """Return the recording in a folder. Raises ``RecordingError``, which names the file and the field."""
    path = Path(folder) / RECORDING
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Recording)
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RecordingError(f"{path}: not a recording: {error}") from error
    if found.format != FORMAT:
        raise RecordingError(f"{path}: format: expected {FORMAT}, got {found.format}: another version of dlx wrote it")
    return found


def write_recording(folder: str | os.PathLike[str], recording: Recording, document: Mapping[str, Any]) -> None:
    """Write the two JSON files of a recording, each as a whole. Raises ``OSError``."""
    write_whole(Path(folder) / DEFINITIONS, json.dumps(readable(document), indent=1, ensure_ascii=False) + "\n")
    encoded = msgspec.json.format(msgspec.json.encode(readable(msgspec.to_builtins(recording))), indent=1)
    write_whole(Path(folder) / RECORDING, encoded + b"\n")


def is_reply(exchange: str, routing_key: str) -> bool:
    """Return whether a publish answers by direct reply-to, which no queue takes."""
    return exchange == "" and routing_key.startswith(REPLY_TO)


def readable(value: Any) -> Any:
    """Return plain JSON values with names that are not UTF-8 as RabbitMQ shows them."""
    if isinstance(value, str):
        return value if value.isascii() else text(value.encode(errors="surrogateescape"))
    if isinstance(value, dict):
        return {readable(key): readable(each) for key, each in value.items()}
    return [readable(each) for each in value] if isinstance(value, list) else value


def document_of(recording: Recording, rest: Mapping[str, Any]) -> dict[str, Any]:
    """Return all that was ever declared as an export of definitions; ``rest`` has what else a server exported."""
    document = {key: value for key, value in rest.items() if key not in SECTIONS.values()}
    for kind, section in SECTIONS.items():
        document[section] = [
            {key: value for key, value in each.item.items() if key != "exclusive"}
            for each in recording.declarations
            if each.kind == kind
        ]
    return document
