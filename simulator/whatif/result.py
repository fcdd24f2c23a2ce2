"""What comes of asking: the answer, and what is behind it; as rows per message and side, and in files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from simulator.replay.results.late_rows import lateness_by
from simulator.replay.rows.tables import Table
from simulator.replay.run import REJECTED, publish
from simulator.whatif.answer import WhatIfAnswer
from simulator.whatif.both_sides import BothHistories, ComparedMessage, Playbacks, lives
from simulator.whatif.causes import PlayedGroup, find_causes
from simulator.whatif.correlates import VALUES_MAX
from simulator.whatif.coupling import Unit
from simulator.whatif.differences import differences, question
from simulator.whatif.log import Captured, given_twice, not_looked_at
from simulator.whatif.outcomes import Fate
from simulator.whatif.sides import not_heeded
from simulator.whatif.tally import Tally
from simulator.whatif.undecidable_ends import hidden_ends

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
        """Return a row per message and side, as ``dlx whatif --out`` writes them (``SCHEMA``), for pandas."""

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
        cases: the messages under both sides.
    """

    cases: Sequence[ComparedMessage]

    def frame(self) -> pd.DataFrame:
        """Return the rows of all messages."""
        found: pd.DataFrame = _table(self.cases).to_pandas()
        return found

    def write_messages(self, path: Path) -> None:
        """Write them into a file."""
        with pq.ParquetWriter(path, SCHEMA) as writer:
            for first in range(0, len(self.cases), BATCH):
                writer.write_batch(_table(self.cases[first : first + BATCH]))


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


def conclusion(
    read: Tally, groups: Sequence[PlayedGroup], playbacks: Playbacks, captured: Captured[Table], *, examples: bool
) -> tuple[WhatIfAnswer, Tally, dict[str, BothHistories]]:
    """Return the answer for the messages of a capture, their tally, and with ``examples`` some of their lives.

    ``read`` has what the verdicts on the rows tell, and no messages.
    """
    before, after = playbacks.before, playbacks.after
    tally = Tally.whole([read, *(group.tally for group in groups)])
    found = differences(before.side, after.side)
    causes, not_tried = find_causes(playbacks, found, (group for group in groups if group.tally.changed))
    notes = dict.fromkeys(before.notes + after.notes)
    unchecked = chain(notes, not_tried, _unchecked(tally, playbacks, captured))
    answer = tally.answer(question(before.side, after.side, found), causes, unchecked, not_heeded(before, after))
    together = [own for group in groups for own in ([group.cases] if group.unit.queues else zip(group.cases))]
    return answer, tally, lives(playbacks, together, answer.shown_examples) if examples else {}


def _unchecked(tally: Tally, playbacks: Playbacks, captured: Captured[Table]) -> Iterator[str]:
    """Say what was not checked of the log."""
    if tally.changed:
        yield from map(_too_many, sorted(tally.marks.too_many))
    yield from not_looked_at(captured, playbacks.before)
    yield from given_twice(captured)
    yield from hidden_ends(tally.ended, playbacks.before.flows, playbacks.log.consumed | captured.left_queues)
    yield from _late_rows(tally, captured)


def _late_rows(tally: Tally, captured: Captured[Table]) -> Iterator[str]:
    """Say how late rows may be that were written late, where messages were left out: the plays take all for prompt."""
    misfits = [row for row in tally.misfits if row["file"] not in captured.left_files]
    if tally.reproduced == tally.messages or not misfits:
        return
    late = lateness_by(captured.log, misfits, tally.waited.values(), captured.overview.ends_us)
    if late.stretches:
        most_ms = late.most_us // 1_000
        late_ms = f"some may come up to {most_ms:,} ms late"
        yield f"how late rows were written: all are assumed to be on time, though {late_ms}"


def _too_many(what: str) -> str:
    return (
        f"whether some values of '{what}' are among the messages that change more often: there are over {VALUES_MAX:,}"
    )


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


def _table(cases: Iterable[ComparedMessage]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([row for case in cases for row in rows_of_case(case)], schema=SCHEMA)


def rows_of_case(case: ComparedMessage) -> Iterator[dict[str, Any]]:
    """Yield the two rows of a message."""
    for side, fate in (("before", case.before), ("after", case.after)):
        yield {
            "vhost": case.story.vhost,
            "message": case.story.message,
            "side": side,
            "reproduced": case.reproduced,
            "changed": case.changed,
            **_columns(fate),
        }


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
        "first_us": fate.first_us,
        "last_us": fate.last_us,
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
