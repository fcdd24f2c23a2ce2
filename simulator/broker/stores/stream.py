"""The log of a stream: published messages stay, consumers read them by offset.

The log is cut into segments. A segment that has reached its size is followed by a
new one at the next message, and only then retention applies: the oldest
segments go, whole, as long as the others are above max-length-bytes, and those whose
newest message is older than max-age. The newest segment always stays, so that a
stream of less than 500 MB keeps everything. A new segment begins with an entry of
RabbitMQ's own that takes one offset.

Every message is a chunk of its own, as it is where publishers wait for each
confirm: "last" is the last message. Sizes on disk are those of a message without
properties, measured; where segments are small, they may end a message earlier.

Source: rabbit_stream_queue.erl update_stream_conf; osiris_log.erl write_chunk,
evaluate_retention; live servers.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Literal

import msgspec

from dlx.amqp_errors import internal_error
from dlx.delivery_counts import Return
from dlx.field_values import Timestamp
from dlx.message import Message, payload_size
from dlx.releases import Release
from dlx.settings import Settings
from dlx.streams import properties_kept, read_from_stream
from simulator.broker.copies import Copy

SEGMENT_BYTES = 500_000_000
SEGMENT_CHUNKS = 256_000
_ENTRY_BYTES = 100  # RabbitMQ's own entry at the beginning of a segment
_POSITION = attrgetter("position")
_FIRST_OFFSET = attrgetter("first_offset")
Wants = Callable[[Message], bool]


class Segment(msgspec.Struct):
    """A part of the log. ``copies`` ascend by offset, ``written_ms`` are the times at which they came."""

    first_offset: int
    size: int = 0
    copies: list[Copy] = []
    written_ms: list[int] = []


class StreamStore:
    """Implements ``simulator.broker.stores.store.Store``, where a stream has it, and reading.

    ``ready`` counts offsets, as RabbitMQ does, entries of its own included;
    ``ready_bytes`` is the size of the log.
    """

    __slots__ = (
        "_kept", "_max_age_ms", "_max_bytes", "_segment_bytes", "_segments",
        "limited", "next_offset", "pending", "pending_bytes", "settings",
    )  # fmt: skip

    def __init__(self, settings: Settings) -> None:
        self.limited = False
        self.pending = self.pending_bytes = 0
        self.next_offset = 0
        self._segments = [Segment(0)]
        self._kept: tuple[Message, Message] | None = None
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        """Apply new effective settings. A policy wins over the queue's arguments here, whichever is smaller."""
        self.settings = settings
        self._max_bytes = _integer(_setting(settings, "max-length-bytes"))
        age = _setting(settings, "max-age")
        self._max_age_ms = age_ms(age) if isinstance(age, str) else None
        size = _integer(_setting(settings, "stream-max-segment-size-bytes"))
        self._segment_bytes = SEGMENT_BYTES if size is None else size
        newest = self._segments[-1].written_ms
        if newest:
            self._retain(newest[-1])

    @property
    def first_offset(self) -> int:
        """The oldest offset that is kept."""
        return self._segments[0].first_offset

    @property
    def ready(self) -> int:
        return self.next_offset - self.first_offset

    @property
    def ready_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def total(self) -> int:
        return self.ready

    # Writing

    def enter(self, copy: Copy, now_us: int) -> None:
        """Append a message; ``position`` becomes its offset, ``message`` what a stream keeps of it."""
        now_ms = now_us // 1_000
        segment = self._segments[-1]
        if segment.copies and (segment.size >= self._segment_bytes or len(segment.copies) >= SEGMENT_CHUNKS):
            segment = self._new_segment(now_ms)
        copy.message = self._keep(copy.message)
        copy.position = self.next_offset
        copy.size = payload_size(copy.message, copy.body)
        self.next_offset += 1
        segment.size += self.settings.release.stream_message_overhead + copy.size
        segment.copies.append(copy)
        segment.written_ms.append(now_ms)

    def _new_segment(self, now_ms: int) -> Segment:
        segment = Segment(self.next_offset, _ENTRY_BYTES)
        self._segments.append(segment)
        self.next_offset += 1
        self._retain(now_ms)
        return segment

    def _keep(self, message: Message) -> Message:
        """Return what a stream keeps of the message; publishes that look alike stay one object."""
        if self._kept is None or self._kept[0] is not message:
            release = self.settings.release
            read = read_from_stream(message, release)
            properties = properties_kept(message.properties, release)
            self._kept = message, msgspec.structs.replace(read, properties=properties)
        return self._kept[1]

    def _retain(self, now_ms: int) -> None:
        segments = self._segments
        if self._max_bytes is not None:
            room, kept = self._max_bytes - segments[-1].size, len(segments) - 1
            while kept and segments[kept - 1].size <= room:
                kept -= 1
                room -= segments[kept].size
            del segments[:kept]
        if self._max_age_ms is not None:
            oldest_ms = now_ms - self._max_age_ms
            while len(segments) > 1 and segments[0].written_ms[-1] < oldest_ms:
                del segments[0]

    # Reading

    def start_offset(self, argument: object, now_us: int) -> int:
        """Return the offset from which a consumer reads that asks for ``argument``, its x-stream-offset."""
        match start(argument, now_us):
            case "first":
                return self.first_offset
            case "last":
                newest = self._segments[-1].copies
                return newest[-1].position if newest else self.next_offset
            case "next":
                return self.next_offset
            case TimestampOffset(ms=since_ms):
                return self._offset_at(since_ms)
            case offset:
                return offset

    def _offset_at(self, since_ms: int) -> int:
        for segment in self._segments:
            if segment.written_ms and segment.written_ms[-1] >= since_ms:
                return segment.copies[bisect_left(segment.written_ms, since_ms)].position
        return self.next_offset

    def read(self, offset: int, count: int, wants: Wants | None = None) -> tuple[list[Copy], int]:
        """Return up to ``count`` messages from ``offset`` on, or from the oldest that is kept, and where to read on.

        ``wants`` returns whether a message is wanted, ``None`` is everything. A message's offset is its ``position``.
        """
        found: list[Copy] = []
        if count <= 0:
            return found, offset
        for copy in self._copies_from(offset):
            if wants is None or wants(copy.message):
                found.append(copy)
                if len(found) == count:
                    return found, copy.position + 1
        return found, max(offset, self.next_offset)

    def _copies_from(self, offset: int) -> Iterator[Copy]:
        segments = self._segments
        at = bisect_left(segments, offset + 1, key=_FIRST_OFFSET) - 1
        for index in range(max(at, 0), len(segments)):
            copies = segments[index].copies
            first = bisect_left(copies, offset, key=_POSITION)
            for place in range(first, len(copies)):
                yield copies[place]

    # What other queues do and a stream does not

    def refuses(self, copy: Copy, *, internal: bool, publisher: Hashable = None) -> bool:
        return False

    def know(self, publisher: Hashable) -> None:
        pass

    def forget(self, publisher: Hashable) -> None:
        pass

    def head(self) -> Copy | None:
        """Return ``None``: no consumer takes the next message of a stream."""
        return None

    def waiting(self) -> Iterable[Copy]:
        """Yield all messages that are kept, the oldest first."""
        return self._copies_from(0)

    def take(self) -> Copy:
        raise NotImplementedError("messages stay in a stream; consumers read them")

    def give_back(self, copies: list[Copy], how: Return, now_us: int) -> list[Copy]:
        return []

    def expired(self, now_us: int) -> list[Copy]:
        return []

    def overflowing(self) -> list[Copy]:
        return []

    def due_us(self) -> int | None:
        return None

    def awake(self, now_us: int) -> bool:
        return False

    def purge(self) -> list[Copy]:
        raise NotImplementedError("RabbitMQ refuses to purge streams")


def _setting(settings: Settings, key: str) -> object:
    """Return the value in force: the smaller one of policy and operator policy, else the argument's."""
    policies = [choice.policy for choice in (settings.policy, settings.operator_policy) if choice.policy is not None]
    values = [policy.definition[key] for policy in policies if key in policy.definition]
    return min(values) if values else settings.queue.arguments.get(f"x-{key}")


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


# Where a stream's consumer asks to start: the argument x-stream-offset.
#
# Source: rabbit_stream_queue.erl parse_offset_arg, rabbit_amqqueue.erl check_max_age;
# what arguments are refused: ``dlx.argument_values.stream_offset``.


_AGE = re.compile(r"(\d+)([YMDhms])(?=\n|\Z)", re.ASCII)  # RabbitMQ does not look behind a line break
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "D": 86_400, "M": 30 * 86_400, "Y": 365 * 86_400}


class TimestampOffset(msgspec.Struct, frozen=True):
    """The first message that the stream took at this time or later; ``ms`` since 1970."""

    ms: int


Start = Literal["first", "last", "next"] | int | TimestampOffset


def start(argument: Any, now_us: int) -> Start:
    """Return where a consumer with this ``x-stream-offset`` starts; an ``int`` is an offset, no argument is ``next``.

    Raises ``ValueError`` for a value that RabbitMQ refuses.
    """
    match argument:
        case None:
            return "next"
        case "first" | "last" | "next" as name:
            place: Literal["first", "last", "next"] = name
            return place
        case datetime():
            moment = argument if argument.tzinfo else argument.replace(tzinfo=UTC)
            return TimestampOffset(int(moment.timestamp()) * 1_000)
        case Timestamp():
            return TimestampOffset(argument * 1_000)
        case str():
            return TimestampOffset(now_us // 1_000 - age_ms(argument))
        case int() if not isinstance(argument, bool):
            return argument
    raise ValueError(f"no x-stream-offset: {argument!r}")


def age_ms(age: str) -> int:
    """Return the milliseconds of an age such as ``5m``: a number and one of the units Y, M, D, h, m, s.

    Raises ``ValueError`` for any other text.
    """
    found = _AGE.match(age)
    if found is None:
        raise ValueError(f"no age: {age!r}; one is a number and a unit of Y, M, D, h, m, s, such as 5m")
    return int(found[1]) * _SECONDS[found[2]] * 1_000


# Finds the messages that a stream's consumer wants, by its x-stream-filter and x-stream-match-unfiltered.
#
# RabbitMQ leaves out chunks that hold none of the wanted values, and may let one
# through by mistake; here every message is a chunk and nothing unwanted comes through.
#
# Source: rabbit_stream_queue.erl filter_spec; osiris_bloom.erl; live servers.


FILTER = "x-stream-filter"
MATCH_UNFILTERED = "x-stream-match-unfiltered"
VALUE_HEADER = "x-stream-filter-value"
_UNFILTERED = ""


def wanted(arguments: Mapping[str, Any], release: Release) -> frozenset[str] | None:
    """Return the filter values that a consumer with these arguments wants; ``None`` means everything.

    Raises ``Refusal`` for the empty array, of which the server dies.
    """
    given = arguments.get(FILTER)
    if not release.stream_filters or not isinstance(given, str | list | tuple):
        return None
    if not given and not isinstance(given, str):
        raise internal_error()
    values = [given] if isinstance(given, str) else [value for value in given if isinstance(value, str)]
    also = [_UNFILTERED] if arguments.get(MATCH_UNFILTERED) is True else []
    return frozenset(values + also)


def filter_value(message: Message) -> str:
    """Return the value that the publisher gave the message to be filtered by; an empty string if it gave no value."""
    value = (message.headers or {}).get(VALUE_HEADER)
    return value if isinstance(value, str) else _UNFILTERED
