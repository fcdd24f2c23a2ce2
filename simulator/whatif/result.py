"""What comes of asking: the answer, and what is behind it; as rows per message and side, and in files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from simulator.replay.run import REJECTED, publish
from simulator.whatif.answer import WhatIfAnswer
from simulator.whatif.both_sides import BothHistories
from simulator.whatif.coupling import Unit
from simulator.whatif.outcomes import Fate, Fates
from simulator.whatif.plain_player import WeightedCase
from simulator.whatif.tally import Tally

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame


BATCH = 1_000


@dataclass(frozen=True, kw_only=True, repr=False)
class AnyResult(ABC):
    """The answer, wherever the messages are.

    Attributes:
        answer: the answer.
        tally: what it was added up from.
        units: which messages were played together, and why.
        lives: what happens to some of the messages.
    """

    answer: WhatIfAnswer
    tally: Tally
    units: Sequence[Unit]
    lives: Mapping[str, BothHistories]

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
        from simulator.whatif.page import fragment  # plotly is only needed here

        return fragment(self.answer)


@dataclass(frozen=True, kw_only=True, repr=False)
class WhatIfResult(AnyResult):
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
class SparkResult(AnyResult):
    """The answer with the messages in Spark's storage: ``messages`` stays there until its session ends."""

    messages: DataFrame

    def frame(self) -> pd.DataFrame:
        """Return the rows of all messages, which come to this process."""
        found: pd.DataFrame = self.messages.toPandas()
        return found

    def write_messages(self, path: Path) -> None:
        """Write them into a folder of files."""
        self.messages.write.parquet(str(path))


_QUEUES = pa.map_(pa.string(), pa.int64())
SCHEMA = pa.schema([
    ("vhost", pa.string()), ("message", pa.string()), ("side", pa.string()),
    ("reproduced", pa.bool_()), ("changed", pa.bool_()), ("assumed", pa.list_(pa.string())),
    ("acknowledged", _QUEUES), ("waiting", _QUEUES), ("held", _QUEUES), ("refused", _QUEUES),
    ("lost", pa.list_(pa.struct([("queue", pa.string()), ("reason", pa.string()), ("copies", pa.int64())]))),
    ("unroutable", pa.int64()), ("endless", pa.bool_()),
    ("deaths", pa.list_(pa.struct([("queue", pa.string()), ("reason", pa.string())]))),
    ("deliveries", pa.int64()), ("first_us", pa.int64()), ("last_us", pa.int64()),
])  # fmt: skip
"""The columns; ``side`` is ``before`` or ``after``, ``last_us`` when the last copy ended that did."""


def rows_of(messages: Iterable[Fates]) -> pa.RecordBatch:
    """Return two rows for each message."""
    return pa.RecordBatch.from_pylist([row for each in messages for row in _rows(each)], schema=SCHEMA)


def _rows(fates: Fates) -> Iterator[dict[str, Any]]:
    both = {"vhost": fates.vhost, "reproduced": fates.reproduced, "changed": fates.before.ends != fates.after.ends}
    before, after = (
        {**both, "side": side, **_columns(fate)} for side, fate in (("before", fates.before), ("after", fates.after))
    )
    for message, (first_us, last_us, other_first_us, other_last_us) in zip(fates.messages, fates.ends_us, strict=True):
        yield {**before, "message": message, "first_us": first_us, "last_us": last_us}
        yield {**after, "message": message, "first_us": other_first_us, "last_us": other_last_us}


def _columns(fate: Fate) -> dict[str, Any]:
    ends = fate.ends
    return {
        "assumed": list(fate.assumed),
        "acknowledged": list(ends.acknowledged),
        "waiting": list(ends.waiting),
        "held": list(ends.held),
        "refused": list(ends.refused),
        "lost": [{"queue": queue, "reason": reason, "copies": copies} for queue, reason, copies in ends.lost],
        "unroutable": ends.unroutable,
        "endless": ends.endless,
        "deaths": [{"queue": queue, "reason": reason} for queue, reason in fate.deaths],
        "deliveries": len(fate.deliveries),
    }


MESSAGES = "messages.parquet"
TOTALS = "summary.json"
PAGE = "report.html"


def write_files(work: Path, out: Path, asked: AnyResult, names: tuple[str, str]) -> None:
    """Write the other files into ``work``, where the messages are, and put all into ``out`` when they are whole.

    ``names`` say what each side is.
    """
    from simulator.whatif.page import write_page  # plotly is only needed here

    write_page(work / PAGE, asked.answer, asked.tally, asked.lives, names)
    (work / TOTALS).write_bytes(msgspec.json.encode(asked.answer))
    publish(work, out, (MESSAGES, TOTALS, PAGE, REJECTED))
