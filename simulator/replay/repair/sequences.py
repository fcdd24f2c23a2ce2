"""Sequences: the rows of messages that look alike to the rules, once; and which messages a repair looks at."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from simulator.events import Event
from simulator.replay.rows.row_codec import (
    CONTENT,
    LINEAGE,
    SIGNATURE,
    looked_at,
    read_message,
    read_vhost,
    without_expirations,
)
from simulator.replay.rows.tables import Table, rows, select
from simulator.replay.rows.verdict_words import BAD, IS_LACKING, LACKING, What
from simulator.replay.search.visible_state import CaptureRow, row_of

# Which messages a repair looks at: those with deliveries that are not as predicted, and some of the others.
#
# The others tell when definitions changed, and where publishes go. Of too many it takes a sample, which is the same
# on every engine.


BAD_MAX = 100_000
"""Messages with such deliveries to examine."""
OTHERS_MAX = 20_000
"""Other messages that come along."""
_MESSAGES = f"""
    SELECT vhost, message,
        coalesce(
            bool_or(event = '{Event.DELIVERED.value}' AND (verdict IN ('differ', 'unexplained') OR {IS_LACKING})), false
        ) AS bad
    FROM {{replayed}}
    GROUP BY 1, 2"""
_SOME = """
    SELECT vhost, message FROM (
        SELECT vhost, message FROM {messages} WHERE %s ORDER BY md5(concat(vhost, '\\n', message)) LIMIT %d
    )"""
_CHOSEN = f"{_SOME % ('bad', BAD_MAX)} UNION ALL {_SOME % ('NOT bad', OTHERS_MAX)}"


def chosen_messages(replayed: Table) -> tuple[Table, int]:
    """Return the messages to look at, and how many others have deliveries that are not as predicted."""
    messages = select(_MESSAGES, replayed=replayed)
    (counted,) = rows("SELECT count(*) AS bad FROM {messages} WHERE bad", messages=messages)
    return select(_CHOSEN, messages=messages), max(0, counted["bad"] - BAD_MAX)


# Sequences: the rows of messages that look alike to the rules, once, with how many such messages there are.
#
# They are gathered from rows and the verdicts that the kernel gave on them.


ROWS_MAX = 256
"""Messages with more rows are not examined."""
SEQUENCES_MAX = 20_000
"""Different sequences that are kept; messages of further ones are only counted."""
COLUMNS = (LINEAGE, SIGNATURE, CONTENT, "file", "line", "time_us", "verdict", "differences", "unchecked")
"""The columns that sequences are gathered from: of the kernel's input, and of what it makes of it."""
_TTL: What = "message-ttl"
_DELIVERED = f"{Event.DELIVERED.value}\n"

Names = Mapping[str | None, frozenset[str]]
"""For each virtual host, the user headers that its headers exchanges compare; ``None`` means all."""


class Seen(NamedTuple):
    """One row as a replay takes it: ``content`` is opaque, ``headers`` those that headers exchanges look at."""

    row: CaptureRow
    content: str
    headers: Mapping[str, Any]


class LogPosition(NamedTuple):
    """Where a log has a row, and when it was written, in microseconds since 1970."""

    file: str
    line: int
    time_us: int


class RowSequence(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of ``count`` messages that look alike to the rules.

    Attributes:
        key: is the same for sequences that are the same.
        vhost: the virtual host.
        message: the identity of the first of these messages.
        signatures, contents: the rows of that one, in order (``row_codec``).
        bad: the deliveries that are not as predicted, or of which the log shows nothing before, by index.
        differing: of each of these the first field that differs, its expected and its seen value, or empty strings.
        ttl_untold: the deliveries by index of which the times do not tell whether they fit the TTLs.
        places: where the log has the rows.
        count: how many such messages there are.
        earliest_us, latest_us: of each row, when the first and the last of these messages had it.
    """

    key: bytes
    vhost: str
    message: str
    signatures: tuple[str, ...]
    contents: tuple[str, ...]
    bad: tuple[int, ...]
    differing: tuple[tuple[str, str, str], ...]
    ttl_untold: tuple[int, ...]
    places: tuple[LogPosition, ...]
    count: int
    earliest_us: tuple[int, ...]
    latest_us: tuple[int, ...]

    def seen(self, names: frozenset[str]) -> tuple[Seen, ...]:
        """Return the rows; ``names`` are the user headers to keep."""
        rows = zip(self.signatures, self.contents, strict=True)
        return tuple(Seen(row_of(signature), content, looked_at(content, names)) for signature, content in rows)


class Gathered(msgspec.Struct, frozen=True):
    """The sequences of a log, and how many messages are in none of them, being too long or one too many."""

    sequences: tuple[RowSequence, ...]
    left_out: int


def gather(replayed: Iterable[pa.RecordBatch], names: Names, *, by_release: bool = False) -> Gathered:
    """Return the sequences of batches that have ``COLUMNS``, the rows of a message together and in order.

    ``by_release``: leave out what differs by a change between releases.
    """
    return gathered(_sequences(replayed, names, by_release))


def gathered(sequences: Iterable[RowSequence | None]) -> Gathered:
    """Bring equal sequences together; ``None`` is a message that is too long."""
    found: dict[bytes, RowSequence] = {}
    left_out = 0
    for sequence in sequences:
        if sequence is None:
            left_out += 1
        elif sequence.key in found:
            found[sequence.key] = merged(found[sequence.key], sequence)
        elif len(found) < SEQUENCES_MAX:
            found[sequence.key] = sequence
        else:
            left_out += sequence.count
    return Gathered(tuple(found.values()), left_out)


def merged(one: RowSequence, other: RowSequence) -> RowSequence:
    """Return two counts of the same sequence as one."""
    first = min(one, other, key=lambda sequence: (sequence.places[0].time_us, sequence.places))
    return msgspec.structs.replace(
        first,
        count=one.count + other.count,
        earliest_us=tuple(map(min, one.earliest_us, other.earliest_us)),
        latest_us=tuple(map(max, one.latest_us, other.latest_us)),
    )


class _Row(NamedTuple):
    """One row of a batch: ``COLUMNS``."""

    lineage: str
    signature: str
    content: str
    file: str
    line: int
    time_us: int
    verdict: str | None
    differences: list[dict[str, Any]] | None
    unchecked: list[dict[str, Any]] | None


def _rows(replayed: Iterable[pa.RecordBatch]) -> Iterator[_Row]:
    for batch in replayed:
        yield from map(_Row._make, zip(*(batch.column(name).to_pylist() for name in COLUMNS), strict=True))


def _sequences(replayed: Iterable[pa.RecordBatch], names: Names, by_release: bool) -> Iterator[RowSequence | None]:
    """Yield a sequence for each message, ``None`` for one that is too long."""
    for lineage, group in groupby(_rows(replayed), key=itemgetter(0)):
        rows = list(group)
        yield _sequence(lineage, rows, names, by_release) if len(rows) <= ROWS_MAX else None


def _sequence(lineage: str, rows: list[_Row], names: Names, by_release: bool) -> RowSequence:
    signatures, contents = tuple(row.signature for row in rows), tuple(row.content for row in rows)
    vhost = read_vhost(signatures[0])
    bad = tuple(at for at, row in enumerate(rows) if _is_bad(row, by_release))
    differing = tuple(_first_difference(rows[at]) for at in bad)
    untold = tuple(at for at, row in enumerate(rows) if any(each["what"] == _TTL for each in row.unchecked or ()))
    of_vhost = names.get(vhost, names.get(None, frozenset()))
    times = tuple(row.time_us for row in rows)
    return RowSequence(
        key=_key(vhost, signatures, contents, of_vhost, (bad, [field for field, _, _ in differing], untold)),
        vhost=vhost,
        message=read_message(lineage, vhost),
        signatures=signatures,
        contents=contents,
        bad=bad,
        differing=differing,
        ttl_untold=untold,
        places=tuple(LogPosition(row.file, row.line, row.time_us) for row in rows),
        count=1,
        earliest_us=times,
        latest_us=times,
    )


def _is_bad(row: _Row, by_release: bool) -> bool:
    lacking = any(each["what"] in LACKING for each in row.unchecked or ())
    if not (lacking or row.verdict in BAD) or not row.signature.startswith(_DELIVERED):
        return False
    return not (by_release and any(difference["behaviours"] for difference in row.differences or ()))


def _first_difference(row: _Row) -> tuple[str, str, str]:
    for difference in row.differences or ():
        return difference["field"], difference["expected"], difference["seen"]
    return "", "", ""


def _key(
    vhost: str, signatures: tuple[str, ...], contents: tuple[str, ...], names: frozenset[str], verdicts: Any
) -> bytes:
    """Return what is the same for messages that the rules treat alike, and that have the same verdicts."""
    parts = [*map(_without_expirations, signatures)]
    expirations = ((*([own] if own else []), *of_deaths) for _, own, of_deaths in parts)
    described = (
        vhost,
        [template for template, _, _ in parts],
        _pattern(chain.from_iterable(expirations)),
        _pattern(contents),
        [looked_at(content, names) for content in contents],
        verdicts,
    )
    return hashlib.blake2b(msgspec.json.encode(described, order="deterministic"), digest_size=16).digest()


def _pattern(values: Iterable[str]) -> list[int]:
    """Return how the values repeat."""
    order: dict[str, int] = {}
    return [order.setdefault(value, len(order)) for value in values]


_without_expirations = lru_cache(maxsize=100_000)(without_expirations)
