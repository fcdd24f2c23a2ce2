"""Replays in this process: in bounded memory, and without Spark's start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from simulator.definitions import Definitions
from simulator.replay.assumptions import Assumptions
from simulator.replay.local import repair_files, replay_files
from simulator.replay.repair.told import Repairs
from simulator.replay.tables import Database, LocalTable, rows


class LocalEngine:
    """What a replay asks of an engine (``simulator.replay.run.Engine``), in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, captures: Sequence[str]) -> LocalTable:
        """Return the rows of captures."""
        return self._database.parquet(captures)

    def replay(
        self,
        captured: LocalTable,
        definitions: Definitions,
        rules: str,
        assumptions: Assumptions,
        folder: Path,
        done: Callable[[float], object],
    ) -> LocalTable:
        """Replay into a folder of Parquet files; ``done`` is told which share of the work is done."""
        folder.mkdir()
        (counted,) = rows("SELECT count(*) AS rows FROM {captured}", captured=captured)

        def count(rows: int) -> None:
            done(rows / counted["rows"])

        file = folder / "part-0.parquet"
        return replay_files(captured, definitions, rules, assumptions, verdicts=file, replayed=count)

    def repair(self, captured: LocalTable, replayed: LocalTable, definitions: Definitions, rules: str) -> Repairs:
        """Return what may be behind the deliveries that are not as predicted."""
        return repair_files(captured, replayed, definitions, rules)

    def write(self, table: LocalTable, folder: Path) -> None:
        """Write a table into a folder of Parquet files."""
        folder.mkdir()
        table.write(folder / "part-0.parquet")


@contextmanager
def local_engine(work: Path) -> Iterator[LocalEngine]:
    """Yield an engine that keeps in ``work`` what exceeds its memory."""
    with Database(work) as database:
        yield LocalEngine(database)
