"""Reads logs of RabbitMQ's tracing plugin in its JSON format: one object per line (RabbitMQ 3.8 to 4.3)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, BinaryIO, Literal

import msgspec

from simulator.capture.capture_errors import Broken, OnBroken, refuse
from simulator.capture.observe import split_properties
from simulator.capture.schema import Observation
from simulator.capture.sources import MAX_RECORD_BYTES, UNREADABLE, lines
from simulator.capture.timestamps import parse_timestamp_us
from simulator.events import Event
from simulator.json_reading import DEPTH_MAX, NestedTooDeeplyError, is_too_deep

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
