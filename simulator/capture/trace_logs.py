"""Logs of RabbitMQ's tracing plugin, in its text format and as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Any, BinaryIO, Literal

import msgspec

from simulator.capture.capture_errors import Broken, OnBroken, refuse
from simulator.capture.erlang_terms import TermError, parse_term
from simulator.capture.observe import split_properties
from simulator.capture.schema import PROBE, Observation
from simulator.capture.sources import MAX_RECORD_BYTES, UNREADABLE, lines
from simulator.events import Event
from simulator.json_reading import DEPTH_MAX, NestedTooDeeplyError, is_too_deep
from simulator.json_values import decimal_number, text

# Logs of RabbitMQ's tracing plugin in its text format (RabbitMQ 3.8 to 4.3).
#
# The format does not say where a payload ends, so a record ends where the next
# whole header begins. The format limits this reader in three ways:
#
# * A payload that contains a whole header is read as two records.
# * RabbitMQ 4.0 writes characters below U+0100 as single bytes and loses records
#   with other characters; such payloads and their ``content:`` identities differ
#   from those of the other formats.
# * RabbitMQ 4.3 writes a payload that is not UTF-8 as if it were Latin-1.

HEADER = re.compile(rb"(?:\A|\n)={80}\n(?P<timestamp>\d[^\n]{0,50}): Message (?P<type>[a-z_]+)\n\nNode: {9}")
_HEADER_BYTES = 256  # a header is shorter
_CHUNK_BYTES = 1024 * 1024
_LABELS = (b"Connection:   ", b"Virtual host: ", b"User:         ", b"Channel:      ", b"Exchange:     ",
           b"Routing keys: ")  # fmt: skip
_EVENTS = {b"published": str(Event.PUBLISHED), b"received": str(Event.DELIVERED)}
_OF_PROBE = f'"type":"{PROBE}"'  # in properties, as JSON


def read_trace_text(
    stream: BinaryIO, file: str, on_broken: OnBroken = refuse, *, limit: int = MAX_RECORD_BYTES
) -> Iterator[Observation]:
    """Read a text trace log record by record.

    Args:
        stream: the log.
        file: its name for the column ``file`` and for messages.
        on_broken: gets every record that cannot be read; by default the first one raises.
        limit: longest record, in bytes.
    """
    for line, record, problem in _records(stream, limit):
        try:
            if problem:
                raise ValueError(problem)
            observation = _observation(file, line, record)
        except ValueError as error:
            on_broken(Broken(file=file, line=line, reason=str(error), raw=record))
        else:
            if _OF_PROBE not in observation.properties:
                yield observation


def _records(stream: BinaryIO, limit: int) -> Iterator[tuple[int, bytes, str]]:
    """Cut the log before each header: yield the header's line, the record's bytes, and its error."""
    buffer = bytearray()
    line = 1  # of buffer[0]
    searched = 0  # no header starts in buffer[1:searched]
    too_long = False
    damage = ""
    while True:
        try:
            chunk = stream.read(_CHUNK_BYTES)
        except UNREADABLE as error:
            chunk, damage = b"", f"the gzip stream is damaged: {error}"
        buffer += chunk
        while following := HEADER.search(buffer, max(searched, 1)):
            yield from _record(line, bytes(buffer[: following.start()]), limit, too_long)
            line += buffer.count(b"\n", 0, following.start())
            del buffer[: following.start()]
            searched, too_long = 0, False
        if not chunk:
            break
        searched = max(0, len(buffer) - _HEADER_BYTES)
        if len(buffer) > limit + _HEADER_BYTES and not too_long:
            yield from _record(line, bytes(buffer[:1024]), limit, False, f"longer than {limit} bytes")
            too_long = True
        if too_long and searched > 1:  # keep only what may be the start of a header
            line += buffer.count(b"\n", 0, searched)
            del buffer[:searched]
            searched = 0
    yield from _record(line, bytes(buffer), limit, too_long, damage)


def _record(
    line: int, record: bytes, limit: int, too_long: bool, problem: str = ""
) -> Iterator[tuple[int, bytes, str]]:
    """Yield one record, unless it is blank or the rest of one already reported."""
    if too_long or not (record.strip() or problem):
        return
    if not problem and len(record) > limit:
        problem, record = f"longer than {limit} bytes", record[:1024]
    yield line + record.startswith(b"\n"), record, problem


def _observation(file: str, line: int, record: bytes) -> Observation:
    """Read one record."""
    header = HEADER.match(record)
    if header is None:
        raise ValueError("no record header: expected 80 '=', then a line such as "
                         "'2026-11-21T00:37:37.634+00:00: Message published'")  # fmt: skip
    event = _EVENTS.get(header["type"])
    if event is None:
        raise ValueError(f"Message: expected published or received, got {header['type'].decode()}")
    fields = _Fields(record, header.end())
    node, connection, vhost, user, channel, exchange = (fields.text_up_to(label) for label in _LABELS)
    routing_keys = fields.names("Routing keys")
    queue, routed_queues = None, None
    if event == Event.PUBLISHED:
        fields.skip(b"\nRouted queues: ")
        routed_queues = fields.names("Routed queues")
        fields.skip(b"\nProperties:   ")
    else:
        fields.skip(b"\nQueue:        ")
        queue = fields.text_up_to(b"Properties:   ")
    properties = fields.properties()
    fields.skip(b"\nPayload: \n")
    payload = fields.payload()
    return Observation(
        parse_timestamp_us(header["timestamp"].decode()), file, line, event,
        node, connection, vhost, user, _channel(channel), exchange, queue, routed_queues, routing_keys,
        None, *split_properties(properties, payload), payload,
    )  # fmt: skip


class _Fields:
    """A record read from left to right."""

    def __init__(self, record: bytes, at: int) -> None:
        self.record = record
        self.at = at

    def text_up_to(self, label: bytes) -> str:
        """Return the text before the line that starts with this label, and move behind the label."""
        end = self.record.find(b"\n" + label, self.at)
        if end < 0:
            raise ValueError(f"{label.decode().strip(': ')}: missing")
        value = self.record[self.at : end]
        self.at = end + 1 + len(label)
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value.decode("latin-1")  # RabbitMQ 4.0

    def skip(self, label: bytes) -> None:
        """Move behind this label, which must come next."""
        if not self.record.startswith(label, self.at):
            raise ValueError(f"{label.decode().strip().strip(': ')}: missing")
        self.at += len(label)

    def term(self, name: str) -> Any:
        try:
            value, self.at = parse_term(self.record, self.at)
        except TermError as error:
            raise ValueError(f"{name}: {error}") from None
        return value

    def names(self, name: str) -> list[str]:
        """Read a list of binaries."""
        value = self.term(name)
        if not isinstance(value, list) or not all(isinstance(item, bytes) for item in value):
            raise ValueError(f"{name}: expected a list of binaries")
        return [text(item) for item in value]

    def properties(self) -> dict[str, Any]:
        """Return the properties as plain JSON values."""
        try:
            return plain_table(self.term("Properties"))
        except TypeError as error:
            raise ValueError(f"Properties: {error}") from None

    def payload(self) -> bytes:
        """Return the rest, without the line end that closes the record."""
        if not self.record.endswith(b"\n") or self.at == len(self.record):
            raise ValueError("the log ends in the middle of the payload")
        return self.record[self.at : -1]


def plain_table(table: Any) -> dict[str, Any]:
    """Turn an AMQP table in RabbitMQ's Erlang form, ``[{Name, Type, Value}]``, into plain JSON values.

    Raises:
        TypeError: it has another form.
    """
    if not isinstance(table, list):
        raise TypeError("expected a list of {Name, Type, Value}")
    plain = {}
    for field in table:
        match field:
            case (bytes() as name, str() as kind, value):
                plain[text(name)] = _plain_value(kind, value)
            case _:
                raise TypeError(f"expected {{Name, Type, Value}}, got {field!r:.60}")
    return plain


def _plain_value(kind: str, value: Any) -> Any:
    match kind, value:
        case "table", _:
            return plain_table(value)
        case "array", list():
            return [_plain_value(*_array_item(item)) for item in value]
        case "decimal", (int(scale), int(unscaled)):
            return decimal_number(scale, unscaled)
        case _, bytes():
            return text(value)
        case _, None:
            return "undefined"
        case _, bool() | int() | float():
            return value
    raise TypeError(f"{kind}: unexpected {value!r:.60}")


def _array_item(item: Any) -> tuple[str, Any]:
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str):
        return item
    raise TypeError(f"expected {{Type, Value}}, got {item!r:.60}")


def _channel(digits: str) -> int:
    if digits.isascii() and digits.isdigit() and int(digits) < 2**31:
        return int(digits)
    raise ValueError(f"Channel: expected a number, got {digits!r:.60}")


# Reads logs of RabbitMQ's tracing plugin in its JSON format: one object per line (RabbitMQ 3.8 to 4.3).


# A whole line that is nested too deeply is longer: it closes what it opens, and names its fields.
_DEEP_BYTES_MIN = 2 * DEPTH_MAX + 200
Channel = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


class TraceLine(msgspec.Struct, gc=False):
    """One line as the plugin writes it; ``queue`` or ``routed_queues`` is the text "none" if no queue is known."""

    timestamp: str
    type: Literal["published", "received"]
    node: str
    connection: str
    vhost: str
    user: str
    channel: Channel
    exchange: str
    queue: str
    routed_queues: list[str] | str
    routing_keys: list[str]
    properties: dict[str, Any]
    payload: bytes  # msgspec decodes the base64


def read_trace_json(
    stream: BinaryIO, file: str, on_broken: OnBroken = refuse, *, limit: int = MAX_RECORD_BYTES
) -> Iterator[Observation]:
    """Read a JSON trace log line by line.

    Args:
        stream: the log.
        file: its name for the column ``file`` and for messages.
        on_broken: gets every line that cannot be read; by default the first one raises.
        limit: longest line, in bytes.
    """
    decode = msgspec.json.Decoder(TraceLine).decode
    published, delivered = str(Event.PUBLISHED), str(Event.DELIVERED)
    number = 0
    try:
        for number, line in enumerate(lines(stream, limit), 1):
            if len(line) > limit:
                on_broken(_too_long(file, number, line, limit))
                continue
            try:
                if len(line) > _DEEP_BYTES_MIN and is_too_deep(line):
                    raise NestedTooDeeplyError(DEPTH_MAX)
                seen = decode(line)
                time_us = parse_timestamp_us(seen.timestamp)
                was_published = seen.type == "published"
                if was_published and type(seen.routed_queues) is not list:
                    raise ValueError("routed_queues: expected a list of strings for a published message")
                if seen.properties.get("type") == PROBE:
                    continue
                split = split_properties(seen.properties, seen.payload)
            except (ValueError, RecursionError) as error:  # msgspec's are ValueErrors
                if raw := line.strip():
                    on_broken(Broken(file=file, line=number, reason=_reason(line, error), raw=raw))
                continue
            yield Observation(
                time_us, file, number, published if was_published else delivered,
                seen.node, seen.connection, seen.vhost, seen.user, seen.channel, seen.exchange,
                None if was_published else seen.queue,
                seen.routed_queues if was_published else None,  # type: ignore[arg-type]
                seen.routing_keys, None, *split, seen.payload,
            )  # fmt: skip
    except UNREADABLE as error:
        on_broken(Broken(file=file, line=number + 1, reason=f"the gzip stream is damaged: {error}", raw=b""))


def _too_long(file: str, number: int, line: bytes, limit: int) -> Broken:
    return Broken(file=file, line=number, reason=f"longer than {limit} bytes", raw=line[:1024])


def _reason(line: bytes, error: Exception) -> str:
    """Say what is wrong, the field first: ``channel: expected `int`, got `str`."""
    text = str(error)
    if not line.lstrip().startswith(b"{"):
        return f"expected a JSON object, got {line.decode('utf-8', 'backslashreplace').strip()!r:.60}"
    if is_too_deep(line):
        return "properties: nested too deeply"
    if isinstance(error, msgspec.ValidationError):
        if field := re.search(r" - at `\$\.?([^`]*)`$", text):
            problem = text[: field.start()]
            return f"{field[1]}: {problem[0].lower()}{problem[1:]}"
        return text[0].lower() + text[1:]
    if not isinstance(error, msgspec.DecodeError | UnicodeDecodeError):
        return text
    if not line.endswith(b"\n"):
        return "the line ends in the middle of a record"
    return f"not JSON: {text}"


# Reads timestamps as RabbitMQ's tracing plugin writes them.


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Up to RabbitMQ 3.8 the hour is not padded, milliseconds follow a colon, and UTC goes without saying.
_OLD = re.compile(r"(\d{4})-(\d\d?)-(\d\d?) (\d\d?):(\d\d):(\d\d):(\d{3})", re.ASCII)


def parse_timestamp_us(text: str) -> int:
    """Return a trace's timestamp in microseconds since 1970 (UTC).

    It is RFC 3339, or in RabbitMQ 3.8 ``2026-11-21 0:37:00:987``: UTC without saying so.

    Raises:
        ValueError: it is neither.
    """
    try:
        return _parse_us(text)
    except ValueError:
        expected = "expected one such as 2026-11-21T00:37:37.634+00:00"
        raise ValueError(f"timestamp: {expected}, got {text!r:.60}") from None


def _parse_us(text: str) -> int:
    if len(text) == 29 and text[19] == "." and text[20:23].isdecimal():  # the usual form
        return _seconds(text[:19] + text[23:]) * 1_000_000 + int(text[20:23]) * 1000
    if old := _OLD.fullmatch(text):
        year, month, day, hour, minute, second, milliseconds = map(int, old.groups())
        moment = datetime(year, month, day, hour, minute, second, milliseconds * 1000, UTC)
    else:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise ValueError("no time zone")
    return (moment - _EPOCH) // moment.resolution


@lru_cache(maxsize=1024)  # consecutive records share their second
def _seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())
