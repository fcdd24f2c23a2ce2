"""Tells which messages of a log have rows that are alike in all that decides over their fate, but for times.

A message whose rows are as those of another one, one after the other, and whose moments are in the same order, was told
the same by its log: it fares the same when it is played, if what the play plans has the same order, too.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow.compute as pc

from dlx.routing import REPLY_TO
from simulator.events import Event
from simulator.replay.kernel.verdict_cache import Numbered
from simulator.replay.rows.assumptions import TOLERANCE_MS
from simulator.replay.rows.row_codec import CONTENT, SIGNATURE, read_content, read_signature
from simulator.whatif.both_sides import BODY_MAX
from simulator.whatif.consumer_actions import user_properties
from simulator.whatif.correlates import Mark, property_marks, publish_marks
from simulator.whatif.coupling import Reaches
from simulator.whatif.log_rows import ReplayedRows, places_in_log

KNOWN_MAX = 200_000
"""Signatures and contents that are remembered."""
KEYS_MAX = 30_000
"""Keys of messages that are remembered, of about a kilobyte each."""
ROWS_MAX = 60
"""Messages with more rows are looked at one by one."""
SINGLE = -1
"""The key of a message that is like no other."""
UNKNOWN_US = -1
"""Stands for a moment that is not known."""
_NOT_READ = frozenset(
    ("app_id", "cluster_id", "content_encoding", "content_type", "correlation_id", "headers", "message_id",
     "timestamp", "type")
)  # fmt: skip
"""Properties that no broker looks at, and the headers, of which it looks at some."""


class PublishContent(NamedTuple):
    """What the content of a publish tells: what a broker reads of it, and the marks of its message."""

    read: Hashable
    marks: Sequence[Mark]


class MessageInLog(NamedTuple):
    """The rows of a message in a batch.

    Attributes:
        rows: which rows.
        key: a number, the same for messages whose rows are alike and whose moments have one order; ``SINGLE`` for one
            that must be looked at by itself.
        moments_us: when its rows were written, and between which moments it died, as far as that is known; the last one
            is the end of the log. What a log tells of a message depends on the order of these.
        published: the signature and the content of its first publish, by number; ``None`` if it has none.
    """

    rows: range
    key: int
    moments_us: Sequence[int]
    published: tuple[int, int] | None


class Likeness:
    """Compares messages; what it knows holds for all batches, until it is forgotten.

    Args:
        reaches: tells which headers a broker looks at.
        only: the virtual host of all rows, where definitions do not name theirs.
        left: the files whose rows are no deliveries, but what was found in the queues in the end.
        file_numbers: those of the log's files.
        end_us: when the log ends.
    """

    def __init__(
        self, reaches: Reaches, only: str | None, left: Collection[str], file_numbers: Mapping[str, int], end_us: int
    ) -> None:
        self._reaches, self._only, self.left = reaches, only, left
        self.file_numbers, self.end_us = file_numbers, end_us
        self._begin()

    def _begin(self) -> None:
        self.signatures: Numbered[str] = Numbered()
        self.keys: Numbered[Hashable] = Numbered()
        self.contents: list[PublishContent] = []
        self._contents: dict[tuple[str, str], int] = {}
        self._single: dict[int, bool] = {}
        self._marks: dict[int, Sequence[Mark]] = {}

    def forget(self) -> bool:
        """Forget all when it has become too much; tell whether it had."""
        full = max(len(self.signatures.values), len(self.contents)) > KNOWN_MAX
        full = full or len(self.keys.values) > KEYS_MAX
        if full:
            self._begin()
        return full

    def messages(self, batch: ReplayedRows) -> list[MessageInLog]:
        """Return the messages of a batch."""
        columns = _BatchColumns(self, batch)
        starts = np.flatnonzero(batch.replayed.column("first")).tolist()
        return [columns.message(range(*each)) for each in zip(starts, [*starts[1:], len(columns.events)], strict=True)]

    def vhost(self, named: str) -> str:
        """Return a virtual host of the log as the definitions name it."""
        return named if self._only is None else self._only

    def content(self, named: str, text: str) -> int:
        """Return the number of a content in a virtual host of the log."""
        number = self._contents.get((named, text))
        if number is None:
            number = self._contents[named, text] = len(self.contents)
            properties = user_properties(*read_content(text))
            headers = self._reaches.read_headers(self.vhost(named), properties)
            read = headers, repr([*filter(is_read, properties.items())])
            self.contents.append(PublishContent(read, [*property_marks(properties)]))
        return number

    def marks(self, published: tuple[int, int]) -> Sequence[Mark]:
        """Return what tells messages from others that were published with this signature and this content."""
        signature, content = published
        if signature not in self._marks:
            read = read_signature(self.signatures.values[signature])
            of_headers = property_marks({"headers": msgspec.json.decode(read.broker_headers)})
            self._marks[signature] = [*publish_marks(read.exchange, (*read.routing_keys, "")[0]), *of_headers]
        return [*dict.fromkeys((*self._marks[signature], *self.contents[content].marks))]

    def is_single(self, signature: int) -> bool:
        """Tell whether a publish with this signature must be looked at by itself."""
        if signature not in self._single:
            read = read_signature(self.signatures.values[signature])
            self._single[signature] = read.expiration is not None or read.x_death is not None
        return self._single[signature]


class _BatchColumns:
    """The columns of a batch, as lists."""

    def __init__(self, known: Likeness, batch: ReplayedRows) -> None:
        captured, replayed = batch
        self._known = known
        signatures = captured.column(SIGNATURE).dictionary_encode()
        numbers = np.array([*map(known.signatures.number, signatures.dictionary.to_pylist())], np.int64)
        self._signatures = numbers[signatures.indices.to_numpy()].tolist()
        self.events, self._hosts = replayed.column("event").to_pylist(), replayed.column("vhost").to_pylist()
        self._contents = captured.column(CONTENT).to_pylist()
        self._sizes = pc.binary_length(captured.column("payload")).fill_null(0).to_pylist()
        self._have_ids = captured.column("message_id").is_valid().to_pylist()
        self._connections = captured.column("connection").to_pylist()
        self._left = [file in known.left for file in captured.column("file").to_pylist()]
        self._found = [replayed.column(name).to_pylist() for name in ("source", "new_hops", "new_deaths")]
        hops = replayed.column("hops")
        counts = pc.list_value_length(hops).fill_null(0).to_numpy(zero_copy_only=False)
        self._hop_ends = [0, *np.cumsum(counts).tolist()]
        flat = hops.flatten()
        self._hops = [*zip(*(flat.field(name).to_pylist() for name in ("queue", "reason")), strict=True)]
        bounds = (flat.field(name).fill_null(UNKNOWN_US).to_pylist() for name in ("earliest_us", "latest_us"))
        self._earliest_us, self._latest_us = bounds
        self._written_us = captured.column("time_us").to_pylist()
        self._places = places_in_log(captured, known.file_numbers).tolist()

    def message(self, rows: range) -> MessageInLog:
        """Return a message."""
        published = [row for row in rows if self.events[row] == Event.PUBLISHED]
        contents = [self._known.content(self._hosts[row], self._contents[row]) for row in published]
        moments_us = self._moments_us(rows)
        return MessageInLog(
            rows,
            self._key(rows, published, contents, moments_us),
            moments_us,
            (self._signatures[published[0]], contents[0]) if published else None,
        )

    def _moments_us(self, rows: range) -> list[int]:
        own, hops = slice(rows.start, rows.stop), slice(self._hop_ends[rows.start], self._hop_ends[rows.stop])
        found = [*self._written_us[own], *self._earliest_us[hops], *self._latest_us[hops]]
        if hops.start < hops.stop:
            late_us = int(TOLERANCE_MS * 1_000)
            found += [self._written_us[row] - late_us * (self.events[row] == Event.DELIVERED) for row in rows]
        return [*found, self._known.end_us]

    def _key(self, rows: range, published: Sequence[int], contents: Sequence[int], moments_us: Sequence[int]) -> int:
        own = slice(rows.start, rows.stop)
        if len(rows) > ROWS_MAX or any(self._sizes[row] > BODY_MAX for row in published):
            return SINGLE
        if len(set(self._hosts[own])) > 1:
            return SINGLE  # they are two messages, of the same lineage
        if any(self._known.is_single(self._signatures[row]) for row in published):
            return SINGLE
        connections: dict[str, int] = {}
        return self._known.keys.number((
            tuple(self._signatures[own]),
            tuple([self._known.contents[each].read for each in contents]),
            tuple(self._have_ids[own]),
            tuple([connections.setdefault(each, len(connections)) for each in self._connections[own]]),
            tuple([not each for each in connections]),
            *(tuple(column[own]) for column in self._found),
            tuple([(*self._hops[self._hop_ends[row] : self._hop_ends[row + 1]],) for row in rows]),
            tuple(self._left[own]),
            order_of(moments_us),
            order_of(self._places[own]),
        ))  # fmt: skip


def order_of(values: Sequence[int]) -> tuple[int, ...]:
    """Return the place of each value among all. Equal ones have the same, and 0 is that of what is not known."""
    places = {value: place for place, value in enumerate(sorted({*values, UNKNOWN_US}))}
    return tuple([places[value] for value in values])


def is_read(named: tuple[str, Any]) -> bool:
    """Tell whether a broker looks at a property, which comes with its name."""
    name, value = named
    return bool(value == REPLY_TO) if name == "reply_to" else name not in _NOT_READ
