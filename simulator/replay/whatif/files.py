"""Writes the answer down: the totals as JSON, a row per message and side in Parquet, and a page."""

from __future__ import annotations

from pathlib import Path

import msgspec

from simulator.replay.run import REJECTED, publish
from simulator.replay.whatif.asked import AnyAsked

MESSAGES = "messages.parquet"
TOTALS = "summary.json"
PAGE = "report.html"


def write_files(work: Path, out: Path, asked: AnyAsked, names: tuple[str, str]) -> None:
    """Write the other files into ``work``, where the messages are, and put all into ``out`` when they are whole.

    ``names`` say what each side is.
    """
    from simulator.replay.whatif.page import write_page  # plotly is only needed here

    write_page(work / PAGE, asked.answer, asked.tally, asked.lives, names)
    (work / TOTALS).write_bytes(msgspec.json.encode(asked.answer))
    publish(work, out, (MESSAGES, TOTALS, PAGE, REJECTED))
