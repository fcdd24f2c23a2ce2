"""Generates logs, part by part: a part depends on the wish and its number alone, so that any process may write it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from dlx.message import Message
from dlx.message_flow import MessageFlow
from dlx.releases import DEFAULT, Release, release
from dlx.server_plugins import PLAYED
from simulator.capture.parquet import write_capture
from simulator.capture.schema import Observation, to_batches
from simulator.definitions import Definitions, importable, parse_definitions
from simulator.definitions.completed import completed
from simulator.events import Event, Happened
from simulator.generate.traced_rows import TRACED, observation
from simulator.generate.traffic import Diversity, Traffic
from simulator.json_values import canonical_json
from simulator.scenario.player import START_US, Player

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PART_ROWS = 200_000
PROCESS_MB = 250
"""What a process takes that writes parts, one after the other; a part takes no more for being one of many."""
SCENE_ROWS = 10_000
"""Rows between two fresh starts: each scene has a broker of its own, and messages of its own."""
SCENE_US = 3_600_000_000
EVENTS_MAX = 50_000
"""Events of one step: beyond them a topology goes round without end (until 3.12), and its scene is over."""
IDLE_STEPS_MAX = 10_000
"""Steps without a row after which a topology is taken for one through which nothing goes."""


class NothingHappensError(ValueError):
    """No message gets anywhere in these definitions."""


class ProcessEndedError(RuntimeError):
    """A process ended before it had written its part of the log."""


class Wish(msgspec.Struct, frozen=True):
    """What is to be generated.

    Attributes:
        definitions: an export, as JSON.
        events: rows in all.
        rules: the release whose rules the broker follows.
        seed: equal wishes with equal seeds give equal logs.
        diversity: whether messages resemble each other, or hardly two are alike.
        faults: rows to alter.
    """

    definitions: bytes
    events: int
    rules: str = DEFAULT
    seed: int = 1
    diversity: Diversity = "low"
    faults: int = 0

    @property
    def parts(self) -> int:
        """How many files that makes."""
        return -(-self.events // PART_ROWS)


def generate(
    wish: Wish, folder: Path, done: Callable[[int], object] = int, processes: int | None = None
) -> list[AlteredRow]:
    """Write the log into ``folder``, as ``log-00000.parquet`` and so on, and return the faults that were planted.

    ``done`` is called with the number of rows written. Without ``processes``, as many work as there are processors.

    Raises:
        NothingHappensError: no message gets anywhere.
        DefinitionsError: the definitions cannot be used.
        CaptureError: a file cannot be written.
        ProcessEndedError: a process was killed, or did not start.
    """
    workers = min(wish.parts, processes or os.cpu_count() or 1)
    if workers == 1:
        return _gathered((write_part(wish, folder, part) for part in range(wish.parts)), wish, done)
    try:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            several = (wish,) * wish.parts, (folder,) * wish.parts, range(wish.parts)
            return _gathered(pool.map(write_part, *several), wish, done)
    except BrokenProcessPool as error:
        raise ProcessEndedError(
            f"one of {workers} processes ended before it had written its part of the log: it was killed, most likely"
            f" because memory ran out (each takes about {PROCESS_MB} MB), or did not start, as from a script on"
            " standard input; a single process takes the least memory and starts no other"
        ) from error


def generate_on_spark(spark: SparkSession, wish: Wish, folder: Path) -> list[AlteredRow]:
    """Do the same on Spark, whose workers must reach ``folder``."""
    import pyarrow as pa

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in batch.column(0).to_pylist():
                faults = msgspec.json.encode(write_part(wish, folder, part)).decode()
                yield pa.RecordBatch.from_pydict({"faults": [faults]})

    parts = spark.range(0, wish.parts, 1, wish.parts).mapInArrow(work, "faults string").toArrow().to_pylist()
    faults = [fault for row in parts for fault in msgspec.json.decode(row["faults"], type=list[AlteredRow])]
    return sorted(faults, key=lambda fault: (fault.file, fault.line))


def _gathered(parts: Iterable[list[AlteredRow]], wish: Wish, done: Callable[[int], object]) -> list[AlteredRow]:
    found = []
    for number, faults in enumerate(parts, 1):
        found += faults
        done(min(number * PART_ROWS, wish.events))
    return found


def write_part(wish: Wish, folder: Path, part: int) -> list[AlteredRow]:
    """Write one file of the log, and return its faults."""
    file = f"log-{part:05}.parquet"
    rows = min(PART_ROWS, wish.events - part * PART_ROWS)
    definitions = _complete(parse_definitions(wish.definitions, "definitions"), release(wish.rules))
    found: list[AlteredRow] = []

    def numbered() -> Iterator[Observation]:
        line = 0
        for place in range(-(-rows // SCENE_ROWS)):
            scene = part * (PART_ROWS // SCENE_ROWS) + place
            played = list(islice(_scene(wish, definitions, scene), min(SCENE_ROWS, rows - line)))
            for row in played:
                line += 1
                row.file, row.line = file, line
            found.extend(plant(played, _share(wish, scene), _random(wish, scene, "faults")))
            yield from played

    with write_capture(folder / file) as writer:
        for batch in to_batches(numbered()):
            writer.write(batch)
    return sorted(found, key=lambda fault: fault.line)


def _complete(definitions: Definitions, rules: Release) -> Definitions:
    """Return the definitions with stand-ins for what exports leave out."""
    only = definitions.vhosts[0] if definitions.single_vhost else None
    whole = completed(importable(definitions.document), rules.exchange_types | PLAYED, only)
    return Definitions(whole.document, definitions.source, only)


def _share(wish: Wish, scene: int) -> int:
    """Return how many of the faults stand in a scene."""
    scenes = -(-wish.events // SCENE_ROWS)
    return (scene + 1) * wish.faults // scenes - scene * wish.faults // scenes


def _random(wish: Wish, scene: int, of: str) -> Random:
    return Random(f"{wish.seed} {scene} {of}")


def _scene(wish: Wish, definitions: Definitions, scene: int) -> Iterator[Observation]:
    """Yield the rows of a scene; where its broker comes to a loop without end, another begins."""
    again = 0
    while True:
        yield from _played(wish, definitions, scene, again)
        again += 1


def _played(wish: Wish, definitions: Definitions, scene: int, again: int) -> Iterator[Observation]:
    random = _random(wish, scene, f"traffic {again}")
    used = [name for name in definitions.vhosts if definitions.topology(name).queues]
    vhost = random.choice(used or definitions.vhosts)
    flow = MessageFlow(definitions.topology(vhost), release(wish.rules))
    player = _BoundedPlayer(definitions.document, release=wish.rules, start_us=START_US + scene * SCENE_US)
    prefix = f"{scene}-{again}-" if again else f"{scene}-"
    idle = 0
    for step in Traffic(flow, vhost, random, wish.diversity).steps(player):
        try:
            player.do(step)
        except _EndlessError:
            return
        shown = [observation(*each, flow, prefix=prefix) for each in player.events if each[0].event in TRACED]
        yield from shown
        idle = 0 if shown else idle + 1
        if idle > IDLE_STEPS_MAX:
            raise NothingHappensError(f"no message gets anywhere in virtual host {vhost!r}")


class _EndlessError(Exception):
    """A topology goes round without end."""


class _BoundedPlayer(Player):
    """Plays steps until one leads to too much."""

    def _observe(self, happened: Happened, message: Message) -> None:
        super()._observe(happened, message)
        if len(self._seen) > EVENTS_MAX:
            raise _EndlessError


# Plants faults: rows of a log that say what no broker could have delivered, each of which a replay has to find.


MANY = 1_000
"""By how much the count of a death is raised: no message dies that often."""


class AlteredRow(msgspec.Struct, frozen=True):
    """One altered row.

    Attributes:
        file, line: where it stands.
        message: whose row it is.
        what: the column that was altered.
        was, altered: its value before and after, as JSON.
    """

    file: str
    line: int
    message: str
    what: str
    was: str
    altered: str


def plant(rows: Sequence[Observation], wanted: int, random: Random) -> list[AlteredRow]:
    """Alter that many deliveries, or as many as there are, and return what was done to them.

    Only the last delivery of a message is altered: so it explains no other, and the replay finds these rows alone.
    """
    last = {row.message: row for row in rows}
    deliveries = [row for row in last.values() if row.event == Event.DELIVERED]
    return [_alter(row, random) for row in random.sample(deliveries, min(wanted, len(deliveries)))]


def _alter(row: Observation, random: Random) -> AlteredRow:
    what = random.choice([name for name in _ALTERED if name != "x_death" or row.x_death is not None])
    was = getattr(row, what)
    setattr(row, what, _ALTERED[what](was))
    shown = (msgspec.json.encode(value).decode() for value in (was, getattr(row, what)))
    return AlteredRow(row.file, row.line, row.message, what, *shown)


def _dies_often(x_death: str) -> str:
    entries: list[dict[str, Any]] = msgspec.json.decode(x_death)
    return canonical_json([{**entries[0], "count": entries[0].get("count", 0) + MANY}, *entries[1:]])


def _with_header(headers: str) -> str:
    return canonical_json({**msgspec.json.decode(headers), "altered": True})


_ALTERED: Mapping[str, Callable[[Any], Any]] = {
    "exchange": lambda name: f"{name}.altered",
    "routing_keys": lambda keys: [f"{keys[0]}.altered", *keys[1:]],
    "headers": _with_header,
    "x_death": _dies_often,
}
