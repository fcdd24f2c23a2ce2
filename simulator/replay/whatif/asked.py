"""What comes of asking: the answer, and what is behind it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from simulator.replay.whatif.answer import Answer
from simulator.replay.whatif.case_rows import SCHEMA, rows_of
from simulator.replay.whatif.coupling import Unit
from simulator.replay.whatif.lives import Life
from simulator.replay.whatif.plain import WeightedCase
from simulator.replay.whatif.tally import Tally

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

BATCH = 1_000


@dataclass(frozen=True, kw_only=True, repr=False)
class AnyAsked(ABC):
    """The answer, wherever the messages are.

    Attributes:
        answer: the answer.
        tally: what it was added up from.
        units: which messages were played together, and why.
        lives: what happens to some of the messages.
    """

    answer: Answer
    tally: Tally
    units: Sequence[Unit]
    lives: Mapping[str, Life]

    @abstractmethod
    def frame(self) -> pd.DataFrame:
        """Return a row per message and side, as ``dlx whatif --out`` writes them (``case_rows.SCHEMA``), for pandas."""

    @abstractmethod
    def write_messages(self, path: Path) -> None:
        """Write these rows in Parquet: into a file, or on Spark into a folder of files."""

    def __repr__(self) -> str:
        answer = self.answer
        return (
            f"<{answer.changed} of {answer.reproduced} messages would end differently; of {answer.messages} in the log>"
        )

    def _repr_html_(self) -> str:
        """Return the answer as notebooks show it: what changes, where messages end, why, and how sure that is."""
        from simulator.replay.whatif.page import fragment  # plotly is only needed here

        return fragment(self.answer)


@dataclass(frozen=True, kw_only=True, repr=False)
class Asked(AnyAsked):
    """The answer with all messages in memory.

    Attributes:
        cases: the messages under both sides, those together that fare alike.
    """

    cases: Sequence[WeightedCase]

    def frame(self) -> pd.DataFrame:
        """Return the rows of all messages."""
        found: pd.DataFrame = rows_of(case.fates for case in self.cases).to_pandas()
        return found

    def write_messages(self, path: Path) -> None:
        """Write them into a file."""
        fates = (case.fates for case in self.cases)
        with pq.ParquetWriter(path, SCHEMA) as writer:
            while some := list(islice(fates, BATCH)):
                writer.write_batch(rows_of(some))


@dataclass(frozen=True, kw_only=True, repr=False)
class AskedOnSpark(AnyAsked):
    """The answer with the messages in Spark's storage: ``messages`` stays there until its session ends."""

    messages: DataFrame

    def frame(self) -> pd.DataFrame:
        """Return the rows of all messages, which come to this process."""
        found: pd.DataFrame = self.messages.toPandas()
        return found

    def write_messages(self, path: Path) -> None:
        """Write them into a folder of files."""
        self.messages.write.parquet(str(path))
