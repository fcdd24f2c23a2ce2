"""The watcher: reads what was added to its files, has the kernel judge what has settled, and commits both at once."""

from __future__ import annotations

import hashlib
import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from dlx.deaths import EXPIRED, MAXLEN
from dlx.message_flow import MessageFlow
from dlx.releases import release
from simulator.capture.capture_errors import Broken, CaptureError
from simulator.capture.schema import SCHEMA
from simulator.definitions import Definitions
from simulator.events import Event
from simulator.replay.checks.lengths import QueueArrivals
from simulator.replay.engines.local import arranged_table, published_rows
from simulator.replay.kernel.arrivals import ARRIVALS, ArrivalsCounter, collected, may_matter
from simulator.replay.kernel.batch_replay import Kernel
from simulator.replay.one_message import Flows
from simulator.replay.results.held_up import HoldingQueue, with_true_ends
from simulator.replay.results.late_rows import estimated
from simulator.replay.results.summary import MatchesNothingError, check_match
from simulator.replay.rows.assumptions import DEFAULT_ASSUMPTIONS, NOT_LATE, Assumptions, Lateness
from simulator.replay.rows.bodies import BODY
from simulator.replay.rows.damage import counting_queues
from simulator.replay.rows.row_codec import CONTENT, LINEAGE, SIGNATURE, read_content, read_message, read_signature
from simulator.replay.rows.schema import INPUT, OUTPUT
from simulator.replay.rows.tables import Database
from simulator.replay.rows.topologies import exporting_release, left_out, topologies
from simulator.replay.search.copies import Fate
from simulator.replay.watch.growing import CHUNK_BYTES, GrowingFile, Position, files_of, read_again
from simulator.replay.watch.state import KeptRow, Standing, WatchState
from simulator.replay.watch.status import Status, read_paths, read_queues

# What is said about one row: a line of JSON, what it adds to the totals, and how its message stands after it.


COLUMNS = (
    "time_us", "file", "line", "event", "vhost", "queue", "exchange", "verdict", "why", "hops", "new_hops",
    "new_deaths", "alternatives", "differences", "unchecked", "source",
)  # fmt: skip
"""The columns of a replay (``simulator.replay.rows.schema.OUTPUT``) that a line has, besides ``message``."""

_as_json = msgspec.json.Encoder().encode


def verdict_line(row: Mapping[str, Any], *, corrects: bool = False) -> bytes:
    """Return the line for a row of a replay. ``corrects``: it takes the place of an earlier line on the same row."""
    found = {"message": read_message(row[LINEAGE], row["vhost"])} | {name: row[name] for name in COLUMNS}
    return _as_json(found | {"corrects": True} if corrects else found) + b"\n"


def totals_of(row: Mapping[str, Any]) -> Counter[str]:
    """Return what a row with a verdict adds to the totals."""
    found = Counter({f"verdict {row['verdict']}": 1})
    if row["event"] == Event.DELIVERED:
        found["deliveries"] = 1
    if row["unchecked"]:
        found["unchecked"] = 1
        if not row["first"] and any(one["what"] == "rejection" for one in row["unchecked"]):
            found["undelivered"] = 1  # proves that rows are missing
    if row["new_deaths"]:
        found["dead_letters"] = row["new_deaths"]
    for hop in (row["hops"] or [])[-row["new_hops"] :] if row["new_hops"] else []:
        path = (row["vhost"], hop["queue"], hop["reason"], hop["exchange"], hop["to_queue"])
        found["path " + _as_json(path).decode()] += 1
    return found


def standing(row: Mapping[str, Any], signature: str) -> Standing:
    """Return how a message stands after its last row."""
    queues: tuple[str, ...] = ()
    if row["event"] == Event.PUBLISHED:
        queues = read_signature(signature).routed_queues or ()
    elif row["event"] == Event.REQUEUED:
        queues = (row["queue"],)
    waiting = _as_json((row["vhost"], *queues)).decode() if queues else None
    ends = [end for end in row["dead_ends"] or () if end["certain"]]
    lost = [row["time_us"] + end["after_ms"] * 1000 for end in ends if end["fate"] == Fate.LOST]
    # Where it is held in any case comes before where others may hold it up.
    held = sorted((end["fate"] != Fate.HELD, end["after_ms"], end["queue"]) for end in ends if end["fate"] != Fate.LOST)
    if not held:
        return row["time_us"], waiting, min(lost, default=None), None, None, False
    may_go_on, after_ms, queue = held[0]
    place = _as_json((row["vhost"], queue)).decode()
    died_us = row["time_us"] + after_ms * 1000
    return row["time_us"], waiting, min(lost, default=None), place, died_us, not may_go_on


# Which rows of a file follow each other and are of one moment.


class Runs:
    """Rows of one moment that follow each other in a file, as batches of it come.

    ``last``: by file, the moment of its last run in microseconds since 1970, and the line where that began.
    """

    def __init__(self, last: dict[str, tuple[int, int]] | None = None) -> None:
        self.last = {} if last is None else last

    def begins(self, batch: pa.RecordBatch) -> dict[tuple[str, int], int]:
        """Return by file and line of the next rows the line where the run of each begins."""
        found = {}
        for file, line, time_us in zip(*(batch[name].to_pylist() for name in ("file", "line", "time_us")), strict=True):
            if self.last.get(file, (None, 0))[0] != time_us:
                self.last[file] = time_us, line
            found[file, line] = self.last[file][1]
        return found


# What a watcher has seen of late rows so far: more than one step shows it.


KEPT_US = 3_600_000_000
"""How long before the last row signs are kept."""
_SECOND_US = 1_000_000


class Waited(msgspec.Struct):
    """How many messages of a queue waited for their TTL, and when the first and the last of them were delivered."""

    vhost: str
    queue: str
    deaths: int
    from_us: int
    until_us: int


class LateSigns(msgspec.Struct):
    """The signs of late rows, as ``late_rows.estimated`` takes them.

    Attributes:
        from_us, until_us: the times of the first row and the last.
        shown: by file and second of a death, the row that showed it first.
        misfits: what times refuted, by file and line.
        waited: by virtual host and queue, what waited for its TTL.
    """

    from_us: int = 0
    until_us: int = 0
    shown: dict[str, dict[int, int]] = {}
    misfits: dict[str, dict[int, dict[str, Any]]] = {}
    waited: dict[str, Waited] = {}

    def read(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Record rows of the log."""
        for row in rows:
            time_us = row["time_us"]
            self.from_us = min(self.from_us or time_us, time_us)
            self.until_us = max(self.until_us, time_us)
            died_s = max((each for each in row["x_death_times"] or () if each is not None), default=None)
            if died_s is not None and died_s * _SECOND_US <= time_us:
                of_file = self.shown.setdefault(row["file"], {})
                of_file[died_s] = min(of_file.get(died_s, time_us), time_us)

    def judged(self, verdicts: Iterable[Mapping[str, Any]]) -> bool:
        """Record verdicts on rows that had none before; return whether times refute any of them."""
        found = False
        for row in verdicts:
            if row["misfit"] is not None:
                found = True
                names = ("file", "vhost", "time_us")
                misfit = {name: row[name] for name in names} | row["misfit"]
                self.misfits.setdefault(row["file"], {})[row["line"]] = misfit
            elif row["verdict"] in ("agree", "ambiguous") and row["new_hops"]:
                for hop in row["hops"][-row["new_hops"] :]:
                    if hop["reason"] == EXPIRED:
                        self._waited(row["vhost"], hop["queue"], row["time_us"])
        return found

    def _waited(self, vhost: str, queue: str, time_us: int) -> None:
        known = self.waited.setdefault(f"{vhost}\n{queue}", Waited(vhost, queue, 0, time_us, time_us))
        known.deaths += 1
        known.from_us, known.until_us = min(known.from_us, time_us), max(known.until_us, time_us)

    def lateness(self) -> Lateness:
        """Return how late rows may be, as far as that shows by now, and forget what is long ago."""
        since_us = self.until_us - KEPT_US
        for file, of_file in self.shown.items():
            self.shown[file] = {died: shown_us for died, shown_us in of_file.items() if shown_us >= since_us}
        for file, of_lines in self.misfits.items():
            self.misfits[file] = {line: row for line, row in of_lines.items() if row["time_us"] >= since_us}
        misfits = [row for of_lines in self.misfits.values() for row in of_lines.values()]
        if not misfits:
            return NOT_LATE
        shown = [
            {"file": file, "died_s": died_s, "shown_us": shown_us}
            for file, of_file in self.shown.items()
            for died_s, shown_us in of_file.items()
        ]
        waited = map(msgspec.structs.asdict, self.waited.values())
        return estimated(misfits, shown, waited, (self.from_us, self.until_us))


# The watcher: reads what was added to its files, has the kernel judge what has settled, and commits both at once.
#
# A row is settled ``settle_s`` after it was read, once all files are read to their ends. Then all rows of its message
# go through the kernel, in the replay's order, and the verdicts on settled rows are said. A row that comes later but
# stands before others of its message is *late*: the message is judged again, and a verdict that it changes is said
# again, as a correction.


DUE_MAX = 20_000
"""Rows that are judged in one step."""
KERNEL_ROWS = 4_096
"""Rows of a batch for the kernel."""
FORGOTTEN_MAX = 20_000
"""Messages that are forgotten in one step."""
SOONEST_S = 60
"""A message that waits nowhere is not forgotten sooner than that for want of room: too many would come back."""
TRACED_TOGETHER = 1_000
"""Messages whose traces are made together."""
LAGS_MAX = 10_000
"""Verdicts whose lag is remembered."""

_encode = msgspec.json.Encoder().encode
_decode_shared = msgspec.json.Decoder(dict[str, list[int]]).decode
_decode_signs = msgspec.json.Decoder(LateSigns).decode
_decode_seen = msgspec.json.Decoder(list[tuple[str, str | None, int]]).decode
_decode_runs = msgspec.json.Decoder(dict[str, tuple[int, int]]).decode
_decode_places = msgspec.json.Decoder(set[tuple[str, str | None]]).decode


class WatchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is watched, and how.

    Attributes:
        definitions, rules, assumptions: as for a replay.
        settle_s: how long after it was read a row's verdict is final.
        stuck_after_s: how long a message may wait in a queue.
        forget_after_s: how long after its last row a message that waits nowhere is forgotten.
        open_max: of how many messages rows are kept; beyond that, messages are forgotten sooner.
    """

    definitions: Definitions
    rules: str
    assumptions: Assumptions = DEFAULT_ASSUMPTIONS
    settle_s: float = 2
    stuck_after_s: float = 60
    forget_after_s: float = 3600
    open_max: int = 1_000_000


class WatchStep(msgspec.Struct, frozen=True):
    """What one step brought.

    Attributes:
        lines: those that were committed.
        broken: broken lines of the files.
        more: whether there is more.
        forgotten: rows of the messages that were forgotten.
    """

    lines: Sequence[bytes]
    broken: Sequence[Broken]
    more: bool
    forgotten: Sequence[KeptRow] = ()


class Watcher:
    """Watches files, or directories of them, with a state (``simulator.replay.watch.state``)."""

    def __init__(self, sources: Sequence[Path], wish: WatchOptions, state: WatchState) -> None:
        self._sources = sources
        self._wish = wish
        self._state = state
        hosts, judge = topologies(wish.definitions), release(wish.rules)
        self._arrivals: dict[tuple[str, str], QueueArrivals] = {}
        exported = exporting_release(wish.definitions)
        self._kernel = Kernel(hosts, judge, exported, wish.assumptions, self._arrivals)
        self._counter = ArrivalsCounter(hosts, judge) if may_matter(hosts, judge) else None
        self._files = {path: GrowingFile(path, position) for path, position in state.positions().items()}
        self._until_us = int(state.about("until_us", 0))
        self._places = None if state.fits else _decode_places(state.about("places", b"[]"))
        self._seen = Counter({(vhost, queue): n for vhost, queue, n in _decode_seen(state.about("seen", b"[]"))})
        if wish.definitions.vhost_named:
            self._seen.update({(vhost, None): 0 for vhost in wish.definitions.vhosts})
        self._signs = _decode_signs(state.about("late", b"{}"))
        self._counting = counting_queues(hosts)
        self._runs = Runs(_decode_runs(state.about("runs", b"{}")))
        self._shared = _decode_shared(state.about("shared", b"{}"))
        self._forget_after_s = wish.forget_after_s
        self._last_read_s: float | None = None
        self._lags: deque[float] = deque(maxlen=LAGS_MAX)

    @property
    def unfinished(self) -> dict[str, int]:
        """The files whose last line has no end, and how many bytes of it are there."""
        return {file.path: file.unfinished for file in self._files.values() if file.unfinished}

    @property
    def rows(self) -> int:
        """How many rows have been read."""
        return self._state.totals["rows"]

    def step(self, now_s: float, *, settled: bool = False) -> WatchStep:
        """Read what was added, judge what has settled, and commit. ``now_s`` is in seconds since 1970.

        ``settled``: all that has been read counts as settled.

        Raises ``CaptureError`` for a file that cannot be read on, and for too many messages that are not finished.
        """
        broken, caught_up = self._read(now_s)
        self._state.totals["broken"] += len(broken)
        lines, forgotten, more = [], [], False
        if caught_up:
            due = self._state.due(math.inf if settled else now_s - self._wish.settle_s, DUE_MAX)
            lines = list(self._judge(due, now_s, settled=settled))
            more = sum(not row.final for row in due) >= DUE_MAX
            forgotten = self._forget()
        self._state.keep("until_us", self._until_us)
        self._state.commit(lines)
        return WatchStep(lines, broken, more or not caught_up, forgotten)

    def check_match(self) -> None:
        """Raise ``MatchesNothingError`` if the definitions have none of the virtual hosts, or of the queues, so far.

        The state is given up then.
        """
        if not self._places:
            return
        try:
            check_match(_as_documents(self._places), self._wish.definitions)
        except MatchesNothingError:
            self._state.give_up()
            raise

    # -- reading ------------------------------------------------------------------

    def _read(self, now_s: float) -> tuple[list[Broken], bool]:
        """Read a part of each file; return its broken lines, and whether all files are read to their ends."""
        self._find_files()
        broken: list[Broken] = []
        caught_up = True
        for path, file in self._files.items():
            before = file.position
            added = file.added()
            if added is None:
                continue
            broken += added.broken
            size = added.position.offset - before.offset
            caught_up &= 0 < size < CHUNK_BYTES - file.unfinished
            for batch in added.batches:
                self._add(batch, now_s)
            self._state.moved(path, added.position)
        return broken, caught_up

    def _find_files(self) -> None:
        for path, name in files_of(self._sources).items():
            if path not in self._files:
                if name in {file.position.name for file in self._files.values()}:
                    raise CaptureError(path, f"another file of this watch is called {name} too; rename one of them")
                self._files[path] = GrowingFile(path, Position(name))

    def _add(self, batch: pa.RecordBatch, now_s: float) -> None:
        begins = self._runs.begins(batch)
        self._state.keep("runs", _encode(self._runs.last))
        if self._places is not None:
            self._look_for_match(self._places, batch)
        batch = self._without_others(batch)
        if not batch.num_rows:
            return
        rows = arranged_table([batch]).to_pylist()
        writers = _writers(batch)
        self._state.totals["rows"] += len(rows)
        self._until_us = max(self._until_us, *(row["time_us"] for row in rows))
        self._last_read_s = now_s
        if self._state.totals["forgotten"]:
            returned = self._state.returned({row[LINEAGE] for row in rows})
            if returned:
                self._bring_back(returned, now_s)
        last = self._state.last_row
        self._state.add((*_stored(row, now_s, 0), writers[row["line"]]) for row in rows)
        again = self._drop_twice(last, begins)
        if again:
            self._state.totals["twice"] += len(again)
            rows = [row for row in rows if (row["file"], row["line"]) not in again]
            places = zip(batch["file"].to_pylist(), batch["line"].to_pylist(), strict=True)
            batch = batch.filter(pa.array([place not in again for place in places]))
        self._signs.read(rows)
        if len(self._files) > 1:
            self._check_overlap(self._state.also_elsewhere(last))
        if self._counter is not None:
            self._state.arrived(self._counter.count(published_rows(batch)).to_pylist())

    def _drop_twice(self, last: int, begins: Mapping[tuple[str, int], int]) -> set[tuple[str, int]]:
        """Remove the rows added after ``last`` that stand in their file twice (``rows.damage`` says when).

        Return their files and lines. ``begins`` is that of ``Runs``.
        """
        again: dict[int, tuple[str, int]] = {}
        for number, file, line, signature, redelivered, has_body, first in self._state.equal(last):
            queue = read_signature(signature).queue
            counted = queue is None or redelivered == 0 or queue in self._counting
            if (has_body and counted) or first < begins[file, line]:
                again[number] = file, line
        self._state.remove(again)
        return set(again.values())

    def _check_overlap(self, found: Iterable[tuple[str, str, int]]) -> None:
        """Raise ``CaptureError`` if two files have the same rows of several moments (``rows.damage`` says why)."""
        for file, other, time_us in found:
            moments = self._shared.setdefault(f"{min(file, other)} {max(file, other)}", [])
            if time_us not in moments:
                moments.append(time_us)
                self._state.keep("shared", _encode(self._shared))
            if len(moments) > 1:
                problem = f"has rows that are in {other} as well, and would count twice; give each row once"
                raise CaptureError(file, problem)

    def _look_for_match(self, places: set[tuple[str, str | None]], batch: pa.RecordBatch) -> None:
        """Remember virtual hosts and queues, until a queue of the definitions is among them."""
        places |= set(zip(batch["vhost"].to_pylist(), batch["queue"].to_pylist(), strict=True))
        self._state.keep("places", _encode(places))
        delivering = {place for place in places if place[1] is not None}
        try:
            check_match(_as_documents(delivering), self._wish.definitions)
        except MatchesNothingError:
            return
        if delivering:
            self._places = None
            self._state.fit()

    def _without_others(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch without the rows of virtual hosts that the definitions are not of, as far as that shows."""
        places = Counter(zip(batch["vhost"].to_pylist(), batch["queue"].to_pylist(), strict=True))
        self._seen.update(places)
        self._state.keep("seen", _encode([(*place, rows) for place, rows in self._seen.items()]))
        others = left_out(self._seen, self._wish.definitions).keys() & {vhost for vhost, _ in places}
        if not others:
            return batch
        for (vhost, _), rows in places.items():
            if vhost in others:
                self._state.totals[f"left out {vhost}"] += rows
                self._state.totals["rows"] += rows
        return batch.filter(pc.invert(pc.is_in(batch["vhost"], pa.array(sorted(others), pa.string()))))

    def _bring_back(self, lineages: set[str], now_s: float) -> None:
        """Read the rows of forgotten messages again, and judge them as they were judged before."""
        runs = Runs()
        for path, position in self._state.positions().items():
            for batch in read_again(path, position):
                rows, writers = arranged_table([batch]).to_pylist(), _writers(batch)
                returned = (row for row in rows if row[LINEAGE] in lineages)
                last = self._state.last_row
                self._state.add((*_stored(row, now_s, 1), writers[row["line"]]) for row in returned)
                self._drop_twice(last, runs.begins(batch))
        self._state.totals["forgotten"] -= len(lineages)
        kept = self._state.of_messages(lineages)
        judged = self._judged(kept)
        self._state.said(
            (_digest(verdict), _encode(totals_of(verdict)).decode() if verdict["verdict"] else None, row.id)
            for row, verdict in zip(kept, judged, strict=True)
        )

    # -- judging ------------------------------------------------------------------

    def _judge(self, kept: list[KeptRow], now_s: float, *, settled: bool) -> Iterator[bytes]:
        """Judge whole messages, keep what was said, and yield the lines on rows that are settled, or that changed."""
        if any(MAXLEN in row.signature for row in kept):
            self._arrivals.update(collected(pa.Table.from_batches([self._arrived()], schema=ARRIVALS)))
        said, ended = [], {}
        totals = self._state.totals
        for row, verdict in zip(kept, self._judged_as_late(kept), strict=True):
            ended[row.lineage] = (row.lineage, *standing(verdict, row.signature))
            if not (row.final or settled or row.read_s <= now_s - self._wish.settle_s):
                continue
            digest = _digest(verdict)
            if row.final and digest == row.said:
                continue
            counted = totals_of(verdict) if verdict["verdict"] else Counter[str]()
            totals.update(counted)
            if row.counted:
                totals.subtract(msgspec.json.decode(row.counted))
            said.append((digest, _encode(counted).decode() if counted else None, row.id))
            if verdict["verdict"] or row.final:
                totals["corrections"] += row.final
                if not settled:
                    self._lags.append(now_s - row.time_us / 1e6)
                yield verdict_line(verdict, corrects=bool(row.final))
        self._state.said(said)
        self._state.ended(ended.values())

    def _judged_as_late(self, kept: list[KeptRow]) -> list[dict[str, Any]]:
        """Return the same as ``_judged``; where times refute some, once more if that shows that rows are late."""
        self._kernel.allow_for(self._signs.lateness())
        found = self._judged(kept)
        new = (verdict for row, verdict in zip(kept, found, strict=True) if not row.final)
        if self._signs.judged(new):
            late = self._signs.lateness()
            self._kernel.allow_for(late)
            if late.stretches:
                found = self._judged(kept)
        self._state.keep("late", _encode(self._signs))
        return found

    def _judged(self, kept: list[KeptRow]) -> list[dict[str, Any]]:
        """Return the rows of a replay for rows in its order."""
        columns = {
            LINEAGE: [row.lineage for row in kept],
            "time_us": [row.time_us for row in kept],
            "file": [row.file for row in kept],
            "line": [row.line for row in kept],
            SIGNATURE: [row.signature for row in kept],
            CONTENT: [row.content for row in kept],
            "x_death_times": [row.x_death_times and msgspec.json.decode(row.x_death_times) for row in kept],
            "redelivered": [None if row.redelivered is None else bool(row.redelivered) for row in kept],
            BODY: [row.body for row in kept],
        }
        table = pa.Table.from_pydict(columns, schema=INPUT)
        batches = table.to_batches(max_chunksize=KERNEL_ROWS)
        return [row for batch in self._kernel.replay(iter(batches)) for row in batch.to_pylist()]

    def _arrived(self) -> pa.RecordBatch:
        rows = self._state.arrivals()
        return pa.RecordBatch.from_pylist(
            [dict(zip(ARRIVALS.names, row, strict=True)) for row in rows], schema=ARRIVALS
        )

    def _forget(self) -> list[KeptRow]:
        """Forget finished messages, sooner where there are too many. Raises ``CaptureError`` if that is not enough."""
        while not (forgotten := self._forgotten()) and (found := self._state.totals["open"]) > self._wish.open_max:
            if self._forget_after_s <= SOONEST_S:
                problem = f"{found:,} messages are not finished, the limit is {self._wish.open_max:,}"
                problem += "; raise it with --open-max, or lower --forget-after"
                raise CaptureError(str(self._state.folder), problem)
            self._forget_after_s = max(self._forget_after_s / 2, SOONEST_S)
        return forgotten

    def _forgotten(self) -> list[KeptRow]:
        since_us = self._until_us - round(self._forget_after_s * 1e6)
        return self._state.forget(since_us, self._until_us, FORGOTTEN_MAX)

    # -- traces -------------------------------------------------------------------

    def traces(self, kept: list[KeptRow]) -> Iterator[bytes]:
        """Yield the trace of each message of these rows, as ``dlx replay --otlp`` writes it."""
        from simulator.replay.traces import trace_lines  # which needs an extra of its own

        totals = self._state.totals
        until_us = 0 if totals["undelivered"] else self._wish.assumptions.traced_until_us(self._until_us)
        rows = [_with_capture(row, verdict) for row, verdict in zip(kept, self._judged(kept), strict=True)]
        if any(row["dead_ends"] for row in rows):  # seldom, and it takes a database
            rows = self._with_true_ends(rows, until_us)
        yield from trace_lines(rows, self._flow, self._wish.rules, until_us, self._until_us)

    def _flow(self, vhost: str, _time_us: int) -> MessageFlow:
        return self._flows.of(vhost)

    @cached_property
    def _flows(self) -> Flows:
        return Flows(self._wish.definitions, release(self._wish.rules))

    def traces_left(self) -> Iterator[bytes]:
        """Yield the traces of all messages that were not forgotten."""
        lineages = self._state.not_forgotten()
        for start in range(0, len(lineages), TRACED_TOGETHER):
            yield from self.traces(self._state.of_messages(lineages[start : start + TRACED_TOGETHER]))

    def _with_true_ends(self, found: list[dict[str, Any]], until_us: int) -> list[dict[str, Any]]:
        """Return the rows without dead ends that lie behind a queue which holds up what dies there."""
        holding = []
        for place, since_us in self._state.holding(until_us):
            vhost, queue = msgspec.json.decode(place)
            holding.append(HoldingQueue(vhost=vhost, queue=queue, since_us=since_us, held_up=0))
        with Database(self._state.folder) as database:
            own = database.arrow("own", pa.Table.from_pylist(found, _TRACED))
            return with_true_ends(own, holding).to_list()

    # -- status -------------------------------------------------------------------

    def status(self, now_s: float) -> Status:
        """Return what has been found so far."""
        totals = self._state.totals
        quiet_s = 0 if self._last_read_s is None else now_s - self._last_read_s
        stuck_us = self._until_us + round((quiet_s - self._wish.stuck_after_s) * 1e6)
        until_us = 0 if totals["undelivered"] else self._until_us  # what lacks rows proves no loss
        held = self._state.held(until_us)
        return Status(
            rows=totals["rows"],
            broken=totals["broken"],
            deliveries=totals["deliveries"],
            agree=totals["verdict agree"],
            ambiguous=totals["verdict ambiguous"],
            differ=totals["verdict differ"],
            unexplained=totals["verdict unexplained"],
            unchecked=totals["unchecked"],
            dead_letters=totals["dead_letters"],
            lost=self._state.lost(until_us),
            stuck=read_queues(self._state.waiting(stuck_us, until_us), held),
            held=sum(count for *_, count in held),
            paths=read_paths(totals),
            corrections=totals["corrections"],
            twice=totals["twice"],
            open_messages=totals["open"],
            lag_p95_s=_p95(self._lags),
            left_out={
                key.removeprefix("left out "): rows for key, rows in totals.items() if key.startswith("left out ")
            },
        )


_OF_CAPTURE = ("message", "message_id", "expiration", "headers", "routing_keys", "routed_queues")
_TRACED = pa.schema([*OUTPUT, *(SCHEMA.field(name) for name in _OF_CAPTURE)])
"""The columns that ``traces.trace_lines`` takes."""


def _with_capture(row: KeptRow, verdict: dict[str, Any]) -> dict[str, Any]:
    """Return a row of a replay with what a capture has of it."""
    signature = read_signature(row.signature)
    message = read_message(row.lineage, signature.vhost)
    return {
        **verdict,
        "message": message,
        "message_id": None if message.startswith("content:") else message,
        "headers": read_content(row.content)[1],
        **{name: getattr(signature, name) for name in ("expiration", "routing_keys", "routed_queues")},
    }


def _as_documents(places: Iterable[tuple[str, str | None]]) -> list[dict[str, str | None]]:
    return [{"vhost": vhost, "queue": queue} for vhost, queue in places]


def _writers(batch: pa.RecordBatch) -> dict[int, int]:
    """Return by line a number for node, connection and channel of each row: rows of others are not the same."""
    columns = (batch.column(name).to_pylist() for name in ("line", "node", "connection", "channel"))
    return {line: crc32(repr(writer).encode()) for line, *writer in zip(*columns, strict=True)}


def _stored(row: dict[str, Any], read_s: float, final: int) -> tuple[Any, ...]:
    times = row["x_death_times"]
    written = None if times is None else _encode(times).decode()
    names = (LINEAGE, "time_us", "file", "line", SIGNATURE, CONTENT)
    return (*(row[name] for name in names), written, row["redelivered"], row[BODY], read_s, final)


def _digest(verdict: dict[str, Any]) -> bytes:
    """Return what distinguishes a verdict from others on the same row; nothing if there is none."""
    return hashlib.blake2b(verdict_line(verdict), digest_size=16).digest() if verdict["verdict"] else b""


def _p95(lags: Sequence[float]) -> float | None:
    return round(sorted(lags)[min(len(lags) - 1, math.ceil(0.95 * len(lags)))], 3) if lags else None
