"""What a watcher keeps on the disk: how far it has read, the rows of unfinished messages, and what it has said.

Everything except the verdicts is in one SQLite file; they are appended to ``verdicts.jsonl``. A step appends and syncs
verdicts first, and then commits their length with all else. Whatever ends the program, the next start cuts off what was
appended without a commit, and goes on from the commit before. A watch that fails before it has read any row, or whose
definitions do not fit the log, leaves no state: the corrected command begins with none. One that is killed before it
knew whether they fit leaves its state, and the corrected command starts again there.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from simulator.broker import WORKER_PREFETCH
from simulator.capture.capture_errors import CaptureError
from simulator.replay.kernel.arrivals import ARRIVALS, ARRIVED
from simulator.replay.watch.growing import Position

VERDICTS = "verdicts.jsonl"
_DATABASE = "state.sqlite"
_TABLES = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value);
CREATE TABLE IF NOT EXISTS positions (path TEXT PRIMARY KEY, name TEXT, position BLOB);
CREATE TABLE IF NOT EXISTS totals (key TEXT PRIMARY KEY, number INTEGER);
CREATE TABLE IF NOT EXISTS rows (
    id INTEGER PRIMARY KEY, lineage TEXT, time_us INTEGER, file TEXT, line INTEGER, signature TEXT, content TEXT,
    x_death_times TEXT, redelivered INTEGER, body INTEGER, read_s REAL, final INTEGER, said BLOB, counted TEXT,
    writer INTEGER
);
CREATE INDEX IF NOT EXISTS rows_of_message ON rows (lineage, time_us);
CREATE INDEX IF NOT EXISTS rows_waiting ON rows (read_s) WHERE final = 0;
CREATE TABLE IF NOT EXISTS messages (
    lineage TEXT PRIMARY KEY, last_us INTEGER, waiting TEXT, lost_us INTEGER, held_in TEXT, held_us INTEGER,
    holds INTEGER
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS messages_waiting ON messages (waiting, last_us) WHERE waiting IS NOT NULL;
CREATE INDEX IF NOT EXISTS messages_lost ON messages (lost_us) WHERE lost_us IS NOT NULL;
CREATE INDEX IF NOT EXISTS messages_quiet ON messages (last_us) WHERE waiting IS NULL;
CREATE INDEX IF NOT EXISTS messages_held ON messages (held_in, held_us) WHERE held_in IS NOT NULL;
CREATE TABLE IF NOT EXISTS forgotten (hash INTEGER PRIMARY KEY, lost INTEGER);
CREATE TABLE IF NOT EXISTS arrivals (
    vhost TEXT, queue TEXT, second INTEGER, at_once REAL, later REAL, bytes_at_once REAL, bytes_later REAL,
    PRIMARY KEY (vhost, queue, second)
) WITHOUT ROWID;
CREATE TEMP TABLE chosen (lineage TEXT PRIMARY KEY) WITHOUT ROWID;
"""
_ROW = (
    "r.id, r.lineage, r.time_us, r.file, r.line, r.signature, r.content, r.x_death_times, r.redelivered, r.body,"
    " r.read_s, r.final, r.said"
)
_ALIKE = ("file", "signature", "content", "x_death_times", "redelivered", "body", "writer")
"""What rows of one message and moment share if they stand in a log twice."""
_FORM = 4
"""The form of these tables: a state of another one is refused."""


Standing = tuple[int, str | None, int | None, str | None, int | None, bool]
"""How a message stands: the time of its last row; where it waits; when it is lost; where it is held, or others would
hold it up, and when it dies there; and whether it is held there in any case, and so may hold up others."""
_HOLDING = f"""
    WITH holding AS (
        SELECT place, held_us AS since_us FROM (
            SELECT held_in AS place, held_us, row_number() OVER (PARTITION BY held_in ORDER BY held_us) AS number
            FROM messages WHERE held_in IS NOT NULL AND holds AND held_us < ?
        )
        WHERE number = {WORKER_PREFETCH}
    )"""
_IS_HELD = """(
    held_in IS NOT NULL AND held_us < ?
    AND (holds OR EXISTS (SELECT 1 FROM holding WHERE place = held_in AND held_us > since_us))
)"""


class KeptRow(msgspec.Struct):
    """A row of an unfinished message; ``said`` is the digest of what was said about it, ``counted`` what that added."""

    id: int
    lineage: str
    time_us: int
    file: str
    line: int
    signature: str
    content: str
    x_death_times: str | None
    redelivered: int | None
    body: int | None
    read_s: float
    final: int
    said: bytes | None
    counted: str | None


class WatchState:
    """The state in a folder.

    Attributes:
        folder: it.
        anew: whether it was emptied: a watch with another ``asked`` ended before it knew that its definitions fit.
        totals: what has been counted.

    Raises ``CaptureError`` if the folder belongs to another watcher that runs, was made with another ``asked`` (what is
    asked: definitions, release, assumptions) that fits its log, or lacks verdicts.
    """

    def __init__(self, folder: Path, asked: str) -> None:
        self._made = not folder.exists()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CaptureError(os.fspath(folder), f"cannot be written: {error.strerror or error}") from error
        self.folder = folder
        self._worthless = False
        self._database = sqlite3.connect(folder / _DATABASE, isolation_level=None, timeout=0)
        try:
            self._database.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("BEGIN IMMEDIATE")
            self._database.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            self._database.close()
            raise CaptureError(
                os.fspath(folder), f"not the state of a `dlx watch`, or in use by another: {error}"
            ) from error
        self._database.execute("PRAGMA synchronous=NORMAL")
        self._database.executescript(_TABLES)
        before = self._found("asked")
        self.anew = before not in (None, asked) and self._found("matches") == 0  # states of an older dlx do not tell
        if before is None or self.anew:
            self._begin(asked)
        elif before != asked:
            self._database.close()
            problem = "made with other definitions, release or options, or by another dlx"
            problem += "; go on with those, or give another folder"
            raise CaptureError(os.fspath(folder), problem)
        self._verdicts = self._open_verdicts(folder / VERDICTS)
        self.totals: Counter[str] = Counter(dict(self._database.execute("SELECT key, number FROM totals")))
        self._stored = self.totals.copy()
        self._database.execute("BEGIN")

    def _begin(self, asked: str) -> None:
        """Begin with nothing, whatever was there; verdicts are cut off when they are opened."""
        tables = self._database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        self._database.execute("BEGIN")
        for (table,) in tables:
            self._database.execute(f"DELETE FROM {table}")
        self.keep("asked", asked)
        self.keep("matches", 0)
        self._database.execute("COMMIT")

    def _open_verdicts(self, path: Path) -> Any:
        committed = int(self.about("verdict_bytes", 0))
        stream = path.open("ab")
        there = stream.tell()
        if there < committed:
            raise CaptureError(os.fspath(path), f"{committed:,} bytes were written, {there:,} are there")
        stream.truncate(committed)
        return stream

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._verdicts.close()
        self._database.close()
        if self._worthless or (error is not None and not self._stored["rows"]):
            self._remove()

    def give_up(self) -> None:
        """Leave nothing of the state when it is closed: all of it rests on definitions that do not fit the log."""
        self._worthless = True

    def _remove(self) -> None:
        for file in (*self.folder.glob(_DATABASE + "*"), self.folder / VERDICTS):
            file.unlink(missing_ok=True)
        if self._made and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def about(self, name: str, default: Any) -> Any:
        """Return a value that is kept by name; at first ``default``, which is kept from then on."""
        self._database.execute("INSERT OR IGNORE INTO about VALUES (?, ?)", (name, default))
        return self._found(name)

    def _found(self, name: str) -> Any:
        row = self._database.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
        return row and row[0]

    def keep(self, name: str, value: Any) -> None:
        """Keep a value by name."""
        self._database.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (name, value))

    @property
    def fits(self) -> bool:
        """Whether a queue of the log is known to be in the definitions."""
        return bool(self._found("matches"))

    def fit(self) -> None:
        """Keep that a queue of the log is in the definitions."""
        self.keep("matches", 1)

    def commit(self, lines: Sequence[bytes]) -> None:
        """Append verdicts, and keep them and all changes since the last commit: all of it or nothing."""
        if lines:
            self._verdicts.writelines(lines)
            self._verdicts.flush()
            os.fsync(self._verdicts.fileno())
            self.keep("verdict_bytes", self._verdicts.tell())
        changed = [(key, number) for key, number in self.totals.items() if self._stored[key] != number]
        self._database.executemany("INSERT OR REPLACE INTO totals VALUES (?, ?)", changed)
        self._stored.update(dict.fromkeys([key for key, _ in changed], 0))
        self._stored |= dict(changed)
        self._database.execute("COMMIT")
        self._database.execute("BEGIN")

    # -- files --------------------------------------------------------------------

    def positions(self) -> dict[str, Position]:
        """Return how far each file has been read, by path."""
        decode = msgspec.json.Decoder(Position).decode
        return {path: decode(blob) for path, blob in self._database.execute("SELECT path, position FROM positions")}

    def moved(self, path: str, position: Position) -> None:
        """Keep how far a file has been read."""
        row = (path, position.name, msgspec.json.encode(position))
        self._database.execute("INSERT OR REPLACE INTO positions VALUES (?, ?, ?)", row)

    # -- rows ---------------------------------------------------------------------

    def add(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Add rows: the fields of ``KeptRow`` from ``lineage`` to ``final``, and a number for who wrote or read it."""
        self._database.executemany(
            "INSERT INTO rows (lineage, time_us, file, line, signature, content, x_death_times, redelivered,"
            " body, read_s, final, writer) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )

    @property
    def last_row(self) -> int:
        """The ``id`` of the row that was added last; 0 before any."""
        (last,) = self._database.execute("SELECT coalesce(max(id), 0) FROM rows").fetchone()
        return int(last)

    def also_elsewhere(self, after: int) -> list[tuple[str, str, int]]:
        """Return which of the rows with a higher ``id`` another file has too: both files, and the moment."""
        found = self._database.execute(
            "SELECT DISTINCT n.file, o.file, n.time_us FROM rows n JOIN rows o ON o.lineage = n.lineage"
            " AND o.time_us = n.time_us AND o.file <> n.file AND o.signature = n.signature AND o.writer = n.writer"
            " WHERE n.id > ?",
            (after,),
        )
        return list(found)

    def equal(self, after: int) -> list[tuple[int, str, int, str, bool | None, bool, int]]:
        """Return which of the rows with a higher ``id`` stand in their file before, alike but for the line.

        Of each: ``id``, file, line, signature, flag, whether it has a body, and the line where it stands first.
        """
        alike = " AND ".join(f"o.{name} IS n.{name}" for name in _ALIKE)
        found = self._database.execute(
            "SELECT n.id, n.file, n.line, n.signature, n.redelivered, n.body IS NOT NULL, min(o.line) FROM rows n"
            f" CROSS JOIN rows o ON o.lineage = n.lineage AND o.time_us = n.time_us AND o.id < n.id AND {alike}"
            " WHERE n.id > ? GROUP BY n.id",
            (after,),
        )
        return list(found)

    def remove(self, rows: Iterable[int]) -> None:
        """Remove rows by ``id``."""
        self._database.executemany("DELETE FROM rows WHERE id = ?", ((row,) for row in rows))

    def due(self, until_s: float, most: int) -> list[KeptRow]:
        """Return all rows of messages with a row that was read by then and has no verdict yet, in the replay's order.

        They are the messages of the ``most`` rows that have waited longest.
        """
        first = "SELECT lineage FROM rows WHERE final = 0 AND read_s <= ? ORDER BY read_s LIMIT ?"
        self._database.execute("DELETE FROM chosen")
        self._database.execute(f"INSERT OR IGNORE INTO chosen {first}", (until_s, most))
        return self._chosen()

    def of_messages(self, lineages: Iterable[str]) -> list[KeptRow]:
        """Return all rows of some messages, in the replay's order."""
        self._choose(lineages)
        return self._chosen()

    def _choose(self, lineages: Iterable[str]) -> None:
        self._database.execute("DELETE FROM chosen")
        self._database.executemany("INSERT OR IGNORE INTO chosen VALUES (?)", ((each,) for each in lineages))

    def _chosen(self) -> list[KeptRow]:
        # CROSS JOIN: SQLite looks up the rows of the chosen, where it would read all rows in their order.
        table = "chosen CROSS JOIN rows r USING (lineage)"
        order = "r.lineage, r.time_us, r.file, r.line, r.id"
        found = self._database.execute(f"SELECT {_ROW}, r.counted FROM {table} ORDER BY {order}")
        return [KeptRow(*row) for row in found]

    def said(self, rows: Iterable[tuple[bytes | None, str | None, int]]) -> None:
        """Keep what was said about rows: digest, what it added to the totals, and the row's ``id``."""
        self._database.executemany("UPDATE rows SET final = 1, said = ?, counted = ? WHERE id = ?", rows)

    # -- messages -----------------------------------------------------------------

    def ended(self, messages: Iterable[tuple[str, *Standing]]) -> None:
        """Keep how the messages stand that were chosen last: the lineage of each, and its standing."""
        new = "SELECT count(*) FROM chosen WHERE lineage NOT IN (SELECT lineage FROM messages)"
        self.totals["open"] += self._database.execute(new).fetchone()[0]
        self._database.executemany("INSERT OR REPLACE INTO messages VALUES (?, ?, ?, ?, ?, ?, ?)", messages)

    def waiting(self, since_us: int, until_us: int) -> dict[str, int]:
        """Return by queue how many messages wait there, last seen by ``since_us``, and neither lost nor held by then.

        ``until_us`` is when they are lost or held at the latest.
        """
        there = f"waiting IS NOT NULL AND last_us <= ? AND (lost_us IS NULL OR lost_us >= ?) AND NOT {_IS_HELD}"
        query = f"{_HOLDING} SELECT waiting, count(*) FROM messages WHERE {there} GROUP BY waiting"
        return dict(self._database.execute(query, (until_us, since_us, until_us, until_us)))

    def held(self, until_us: int) -> list[tuple[str, bool, int]]:
        """Return where messages are held by then: the place, whether others hold them up there, and how many are."""
        query = f"{_HOLDING} SELECT held_in, NOT holds, count(*) FROM messages WHERE {_IS_HELD} GROUP BY 1, 2"
        found = self._database.execute(query, (until_us, until_us))
        return [(place, bool(held_up), count) for place, held_up, count in found]

    def holding(self, until_us: int) -> list[tuple[str, int]]:
        """Return the places where messages that are held by then hold up others, each with when that began."""
        return self._database.execute(f"{_HOLDING} SELECT place, since_us FROM holding", (until_us,)).fetchall()

    def not_forgotten(self) -> list[str]:
        """Return the lineages of all messages of which rows are kept, in the replay's order."""
        return [each for (each,) in self._database.execute("SELECT lineage FROM messages ORDER BY lineage")]

    def lost(self, until_us: int) -> int:
        """Return how many messages are lost by then."""
        query = "SELECT count(*) FROM messages WHERE lost_us < ?"
        (found,) = self._database.execute(query, (until_us,)).fetchone()
        return int(found) + self.totals["forgotten_lost"]

    def forget(self, since_us: int, until_us: int, most: int) -> list[KeptRow]:
        """Forget messages that wait nowhere and were last seen by ``since_us``, at most that many.

        Return the rows that were kept of them, in the replay's order.
        """
        over = "waiting IS NULL AND NOT holds AND last_us <= ? AND (lost_us IS NULL OR lost_us < ?)"
        query = f"SELECT lineage, lost_us IS NOT NULL FROM messages WHERE {over} LIMIT ?"
        found = self._database.execute(query, (since_us, until_us, most)).fetchall()
        kept = self.of_messages(each for each, _ in found)
        unsaid = {row.lineage for row in kept if not row.final}
        found = [each for each in found if each[0] not in unsaid]
        self._choose(each for each, _ in found)
        for table in ("rows", "messages"):
            self._database.execute(f"DELETE FROM {table} WHERE lineage IN (SELECT lineage FROM chosen)")
        hashed = [(_hash(lineage), lost) for lineage, lost in found]
        self._database.executemany("INSERT OR IGNORE INTO forgotten VALUES (?, ?)", hashed)
        self.totals["open"] -= len(found)
        self.totals["forgotten"] += len(found)
        self.totals["forgotten_lost"] += sum(lost for _, lost in found)
        return [row for row in kept if row.lineage not in unsaid]

    def returned(self, lineages: Iterable[str]) -> set[str]:
        """Return which of these messages were forgotten; from now on they are not."""
        hashes = {_hash(lineage): lineage for lineage in lineages}
        found = set()
        for hashed, lineage in hashes.items():
            row = self._database.execute("DELETE FROM forgotten WHERE hash = ? RETURNING lost", (hashed,)).fetchone()
            if row is not None:
                found.add(lineage)
                self.totals["forgotten_lost"] -= row[0]
        return found

    # -- arrivals -----------------------------------------------------------------

    def arrived(self, rows: Iterable[dict[str, Any]]) -> None:
        """Add rows of ``ARRIVALS`` to those before."""
        adding = ", ".join(f"{name} = {name} + excluded.{name}" for name in ARRIVED)
        places = ", ".join(f":{name}" for name in ARRIVALS.names)
        on_conflict = f"ON CONFLICT (vhost, queue, second) DO UPDATE SET {adding}"
        self._database.executemany(f"INSERT INTO arrivals VALUES ({places}) {on_conflict}", rows)

    def arrivals(self) -> list[tuple[Any, ...]]:
        """Return the arrivals so far, in the order of their columns."""
        return self._database.execute("SELECT * FROM arrivals").fetchall()


def _hash(lineage: str) -> int:
    digest = hashlib.blake2b(lineage.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def asked(definitions: bytes, rules: str, tolerance_ms: float) -> str:
    """Return what identifies a watch: a state goes on only with the same."""
    return f"{hashlib.sha256(definitions).hexdigest()} {rules} {tolerance_ms} {_FORM}"
