"""What comes of asking: the answer, and what is behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from simulator.replay.whatif.answer import Answer
from simulator.replay.whatif.case_rows import SCHEMA, rows_of
from simulator.replay.whatif.coupling import Unit
from simulator.replay.whatif.lives import Life
from simulator.replay.whatif.tally import Tally
from simulator.replay.whatif.what_if import Case

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

BATCH = 10_000


class AnyAsked:
    """The answer, wherever the messages are.

    Attributes:
        answer: the answer.
        tally: what it was added up from.
        units: which messages were played together, and why.
        lives: what happens to some of the messages.
    """

    def __init__(self, answer: Answer, tally: Tally, units: Sequence[Unit], lives: Mapping[str, Life]) -> None:
        self.answer, self.tally, self.units, self.lives = answer, tally, units, lives

    def frame(self) -> pd.DataFrame:
        """Return a row per message and side, as ``dlx whatif --out`` writes them (``files.SCHEMA``), for pandas."""
        raise NotImplementedError

    def write_messages(self, path: Path) -> None:
        """Write these rows in Parquet."""
        raise NotImplementedError

    def __repr__(self) -> str:
        answer = self.answer
        return (
            f"<{answer.changed} of {answer.reproduced} messages would end differently; of {answer.messages} in the log>"
        )

    def _repr_html_(self) -> str:
        """Return the answer as notebooks show it: what changes, where messages end, why, and how sure that is."""
        from simulator.replay.whatif.page import fragment  # plotly is only needed here

        return fragment(self.answer)


class Asked(AnyAsked):
    """The answer with all messages in memory; ``cases`` are in the order of ``units``."""

    def __init__(
        self,
        answer: Answer,
        tally: Tally,
        cases: Sequence[Case],
        units: Sequence[Unit],
        lives: Mapping[str, Life],
    ) -> None:
        super().__init__(answer, tally, units, lives)
        self.cases = cases

    def frame(self) -> pd.DataFrame:
        """Return a row per message and side, as ``dlx whatif --out`` writes them (``files.SCHEMA``), for pandas."""
        found: pd.DataFrame = rows_of(self.cases).to_pandas()
        return found

    def write_messages(self, path: Path) -> None:
        """Write these rows into a Parquet file."""
        with pq.ParquetWriter(path, SCHEMA) as writer:
            for at in range(0, len(self.cases), BATCH):
                writer.write_batch(rows_of(self.cases[at : at + BATCH]))


class AskedOnSpark(AnyAsked):
    """The answer with the messages in Spark's storage.

    ``messages`` has a row per message and side (``files.SCHEMA``); it stays until its session ends.
    """

    def __init__(
        self,
        answer: Answer,
        tally: Tally,
        messages: DataFrame,
        units: Sequence[Unit],
        lives: Mapping[str, Life],
    ) -> None:
        super().__init__(answer, tally, units, lives)
        self.messages = messages

    def frame(self) -> pd.DataFrame:
        """Return these rows for pandas: all of them come to this process."""
        found: pd.DataFrame = self.messages.toPandas()
        return found

    def write_messages(self, path: Path) -> None:
        """Write these rows into a folder of Parquet files."""
        self.messages.write.parquet(str(path))
