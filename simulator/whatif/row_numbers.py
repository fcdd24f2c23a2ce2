"""Numbers rows of a log by all that decides over the fate of their message but times.

A message whose rows have the same numbers, one after the other, as those of another one, and whose times are in the
same order, was told the same by its log, and fares the same when it is played (``sharing``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dlx.routing import REPLY_TO
from simulator.events import Event
from simulator.replay.alike import Ints, alike_rows, alike_within, firsts, places_of
from simulator.replay.memory import Numbered, sequence_numbers
from simulator.replay.row_codec import CONTENT, SIGNATURE, read_content
from simulator.replay.signatures import Signatures
from simulator.replay.states import Row
from simulator.whatif.consumer_actions import user_properties
from simulator.whatif.correlates import Mark, property_marks, publish_marks
from simulator.whatif.coupling import Reaches
from simulator.whatif.log_rows import Replayed
from simulator.whatif.runs import BODY_MAX
from simulator.whatif.undecidable_ends import LastSeen

KNOWN_MAX = 200_000
"""So much is remembered."""
ROWS_MAX = 60
"""Messages with more rows are looked at one by one."""
PLAIN, EXACT, SINGLE = range(3)
"""How a publish is like others: with any key that no exchange tells from its own; only if it is equal; not at all."""

Bools = npt.NDArray[np.bool_]
_NOT_READ = frozenset(
    ("app_id", "cluster_id", "content_encoding", "content_type", "correlation_id", "headers", "message_id",
     "timestamp", "type")
)  # fmt: skip
"""Properties that no broker looks at, and the headers, of which it looks at some."""


class Content(NamedTuple):
    """What the content of a publish tells.

    Attributes:
        read: the number of what a broker looks at.
        likeness: ``EXACT`` if headers are among that.
        marks: what tells its message from others.
    """

    read: int
    likeness: int
    marks: Sequence[Mark]


class NumberedRows(NamedTuple):
    """The rows of a batch.

    Attributes:
        starts, lengths: where each message begins, and how many rows it has.
        single: the messages that must be looked at one by one.
        numbers: several for each row; the first one is twice the number of its template where other keys of a publish
            could stand in its place, or else twice that of its signature and one more.
        published, delivered: which rows are that,
        left: and which are what was found in the queues in the end.
        signatures, contents: what the rows have of these; of contents only publishes.
        hops: how many hops each row has.
        earliest_us, latest_us: the bounds of all hops; -1 where nothing is known.
    """

    starts: Ints
    lengths: Ints
    single: Bools
    numbers: Ints
    published: Bools
    delivered: Bools
    left: Bools
    signatures: npt.NDArray[np.int32]
    contents: Ints
    hops: Ints
    earliest_us: Ints
    latest_us: Ints


class RowNumbers:
    """Numbers rows; equal ones have the same numbers in all batches, until they are forgotten.

    Args:
        reaches: tells which keys are alike on both sides, and which headers a broker looks at.
        only: the virtual host of all rows, where definitions do not name theirs.
        left: the files whose rows are no deliveries, but what was found in the queues in the end.
    """

    def __init__(self, reaches: Reaches, only: str | None, left: Collection[str]) -> None:
        self._reaches, self._only, self._left = reaches, only, left
        self._begin()

    def _begin(self) -> None:
        self.signatures = Signatures(self._number_of_key_of)
        self.contents: list[Content] = []
        self._contents: dict[tuple[str, str], int] = {}
        self._reads: Numbered[Hashable] = Numbered()
        self._names: Numbered[str] = Numbered()
        self._reasons: Numbered[str] = Numbered()
        self._hops: Numbered[tuple[int, ...]] = Numbered()
        self._repeats: Numbered[tuple[int, ...]] = Numbered()
        self._likeness: dict[int, int] = {}
        self._marks: dict[int, Sequence[Mark]] = {}
        self._last_seen: dict[int, LastSeen] = {}

    def forget(self) -> bool:
        """Drop all numbers when they have become too many; tell whether they had."""
        signatures = self.signatures.count, self.signatures.template_count
        full = max(*signatures, len(self.contents), len(self._hops.values), len(self._repeats.values)) > KNOWN_MAX
        if full:
            self._begin()
        return full

    def vhost(self, named: str) -> str:
        """Return a virtual host of the log as the definitions name it."""
        return named if self._only is None else self._only

    def of(self, batch: Replayed) -> NumberedRows:
        """Return the numbers of the rows of a batch."""
        captured, replayed = batch
        first, last = (replayed.column(name).to_numpy(zero_copy_only=False) for name in ("first", "last"))
        starts = np.flatnonzero(first | (np.arange(len(first)) == 0))
        lengths = np.diff(starts, append=len(first))
        groups = np.repeat(np.arange(len(starts)), lengths)
        published, delivered = (_are(replayed.column("event"), event) for event in (Event.PUBLISHED, Event.DELIVERED))
        signatures = self.signatures.of(captured.column(SIGNATURE))
        templates = self.signatures.templates(signatures)
        contents = self._numbered_contents(captured.column(CONTENT), templates, published)
        likeness = np.where(published, _each(templates, self._likeness_of), PLAIN)
        likeness[published] = np.maximum(likeness[published], self._of_contents("likeness", contents[published]))
        worst = np.maximum.reduceat(likeness, starts)
        worst[np.add.reduceat(published.astype(np.int64), starts) > 1] |= EXACT
        sizes = pc.binary_length(captured.column("payload")).fill_null(0).to_numpy(zero_copy_only=False)
        large = published & (sizes > BODY_MAX)
        single = (worst >= SINGLE) | (lengths > ROWS_MAX) | np.logical_or.reduceat(large, starts)
        single |= ~(first[starts] & last[starts + lengths - 1])
        both = _changes(replayed.column("vhost")) & (groups[1:] == groups[:-1])
        single[groups[1:][both]] = True  # they are two, of the same lineage
        plain = ~single & (worst == PLAIN)
        read = np.zeros(len(first), np.int64)
        read[published] = self._of_contents("read", contents[published]) + 1
        hops, hop_counts, bounds = self._numbered_hops(replayed.column("hops"))
        left = _of_texts(captured.column("file"), lambda file: file in self._left)
        numbers = np.array([
            np.where(plain[groups], 2 * templates, 2 * signatures + 1),
            self._repeated(signatures, starts, lengths, plain),
            2 * read + captured.column("message_id").is_valid().to_numpy(zero_copy_only=False),
            _alike_connections(captured.column("connection"), groups),
            replayed.column("source").to_numpy(zero_copy_only=False),
            hops,
            *(replayed.column(name).fill_null(0).to_numpy(zero_copy_only=False) for name in ("new_hops", "new_deaths")),
            left,
        ], np.int64)  # fmt: skip
        kinds = published, delivered, left.astype(bool)
        return NumberedRows(starts, lengths, single, numbers, *kinds, signatures, contents, hop_counts, *bounds)

    # Signatures

    def _number_of_key_of(self, vhost: str) -> Callable[[str], int | None] | None:
        """Return what numbers the keys of a virtual host of the log that no exchange tells apart, on either side."""
        known = self.vhost(vhost)
        return partial(self._reaches.alike_number, known) if self._reaches.knows(known) else None

    def _likeness_of(self, template: int) -> int:
        """Tell how a publish may be like others."""
        if template not in self._likeness:
            row = self.signatures.example(template)
            self._likeness[template] = SINGLE if _is_alone(row) else PLAIN if _is_plain(row) else EXACT
        return self._likeness[template]

    def _repeated(self, signatures: npt.NDArray[np.int32], starts: Ints, lengths: Ints, plain: Bools) -> Ints:
        """Return for each row how the values that templates leave out repeat earlier ones of its message."""
        found = np.zeros(len(signatures), np.int64)
        varied = np.logical_or.reduceat(self.signatures.having_values(signatures), starts)
        groups = np.flatnonzero(plain & varied)
        rows, place = places_of(starts[groups], lengths[groups])
        if not len(rows):
            return found
        values, counts = self.signatures.numbered_values(signatures[rows])
        repeats = alike_within(np.repeat(np.cumsum(place == 0), counts), values)
        found[rows] = 1 + sequence_numbers(repeats, counts, self._repeats)
        return found

    def publish_marks(self, number: int) -> Sequence[Mark]:
        """Return what tells messages from others that were published with this signature."""
        if number not in self._marks:
            read = self.signatures.signature(number)
            headers = msgspec.json.decode(read.broker_headers)
            of_headers = property_marks({"headers": headers})
            self._marks[number] = [*publish_marks(read.exchange, (*read.routing_keys, "")[0]), *of_headers]
        return self._marks[number]

    def last_seen(self, number: int) -> LastSeen:
        """Return what a delivery with this signature showed."""
        if number not in self._last_seen:
            read = self.signatures.signature(number)
            self._last_seen[number] = LastSeen(
                self.vhost(read.vhost), read.queue or "", read.exchange, read.routing_keys
            )
        return self._last_seen[number]

    # Contents

    def _numbered_contents(self, column: Any, templates: npt.NDArray[np.int32], published: Bools) -> Ints:
        found = np.zeros(len(published), np.int64)
        rows = np.flatnonzero(published)
        if not len(rows):
            return found
        encoded = column.take(pa.array(rows)).dictionary_encode()
        texts = encoded.indices.to_numpy().astype(np.int64)
        hosts = _each(templates[rows], lambda each: self._names.number(self.signatures.example(each).vhost))
        which = alike_rows(texts, hosts)
        first = firsts(which)
        of_each = encoded.dictionary.take(pa.array(texts[first])).to_pylist()
        vhosts = [self._names.values[each] for each in hosts[first].tolist()]
        found[rows] = np.array([self._content(*both) for both in zip(vhosts, of_each, strict=True)])[which]
        return found

    def _content(self, named: str, text: str) -> int:
        """Return the number of a content."""
        number = self._contents.get((named, text))
        if number is None:
            number = self._contents[named, text] = len(self.contents)
            properties = user_properties(*read_content(text))
            headers = self._reaches.read_headers(self.vhost(named), properties)
            read = self._reads.number((headers, repr([*filter(_is_read, properties.items())])))
            self.contents.append(Content(read, EXACT if headers else PLAIN, [*property_marks(properties)]))
        return number

    def _of_contents(self, what: str, contents: Ints) -> Ints:
        return _each(contents, lambda each: getattr(self.contents[each], what))

    # Hops

    def _numbered_hops(self, column: Any) -> tuple[Ints, Ints, tuple[Ints, Ints]]:
        """Return the number of each row's hops, how many there are, and the bounds of all."""
        counts = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        flat = column.flatten()
        queues = _of_texts(flat.field("queue"), self._names.number)
        reasons = _of_texts(flat.field("reason"), self._reasons.number)
        earliest, latest = (
            flat.field(name).fill_null(-1).to_numpy(zero_copy_only=False) for name in ("earliest_us", "latest_us")
        )
        return sequence_numbers(queues << 8 | reasons, counts, self._hops), counts, (earliest, latest)


def _is_read(named: tuple[str, Any]) -> bool:
    """Tell whether a broker looks at a property."""
    name, value = named
    return bool(value == REPLY_TO) if name == "reply_to" else name not in _NOT_READ


def _is_plain(row: Row) -> bool:
    """Tell whether a publish has nothing but an exchange and a routing key that a broker looks at."""
    return not _is_alone(row) and len(row.visible.routing_keys) == 1 and not row.headers


def _is_alone(row: Row) -> bool:
    return row.visible.expiration is not None or row.visible.x_death is not None


def _are(column: Any, event: Event) -> Bools:
    found: Bools = pc.equal(column, event.value).to_numpy(zero_copy_only=False)
    return found


def _changes(column: Any) -> Bools:
    """Tell which rows but the first have another value than the one before."""
    codes = column.dictionary_encode().indices.to_numpy()
    changes: Bools = codes[1:] != codes[:-1]
    return changes


def _alike_connections(column: Any, groups: Ints) -> Ints:
    """Return numbers that tell which rows of a message have the same connection, and which have none."""
    codes = column.dictionary_encode().indices.to_numpy().astype(np.int64)
    return 2 * alike_within(groups, codes) + _of_texts(column, lambda connection: not connection)


def _each(numbers: npt.NDArray[np.signedinteger[Any]], value: Callable[[int], int]) -> Ints:
    """Return a value for each number, which is asked once for equal ones."""
    which = alike_rows(numbers)
    return np.array([value(number) for number in numbers[firsts(which)].tolist()], np.int64)[which]


def _of_texts(column: Any, value: Callable[[str], int]) -> Ints:
    """Return a value for each text, which is asked once for equal ones."""
    encoded = column.dictionary_encode()
    found: Ints = np.array([value(text) for text in encoded.dictionary.to_pylist()], np.int64)[
        encoded.indices.to_numpy()
    ]
    return found
