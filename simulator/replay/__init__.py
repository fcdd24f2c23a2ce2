"""Replay of captured logs: what RabbitMQ delivered against what the rules predict.

``replay`` takes and gives a Spark DataFrame, ``replay_table`` does the same in
this process for logs that fit into memory. ``simulator.replay.run`` is the whole
way from log files to results on disk. Names are loaded on first use, so that the
workers, which need only the kernel, do not import Spark's client side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlx._lazy import lazy
from simulator.extras import importing

if TYPE_CHECKING:
    from simulator.replay.local import replay_table
    from simulator.replay.plan import replay, scan, ship
    from simulator.replay.spark_sessions import spark_session
    from simulator.replay.summary import Finding, MatchesNothingError, Summary, findings, hops, summarize
    from simulator.replay.verdicts import VERDICTS, Difference, Verdict
else:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "simulator.replay.local": ("replay_table",),
            "simulator.replay.plan": ("replay", "scan", "ship"),
            "simulator.replay.spark_sessions": ("spark_session",),
            "simulator.replay.summary": ("Finding", "MatchesNothingError", "Summary", "findings", "hops", "summarize"),
            "simulator.replay.verdicts": ("VERDICTS", "Difference", "Verdict"),
        },
        load=importing("replay"),
    )

__all__ = [
    "VERDICTS",
    "Difference",
    "Finding",
    "MatchesNothingError",
    "Summary",
    "Verdict",
    "findings",
    "hops",
    "replay",
    "replay_table",
    "scan",
    "ship",
    "spark_session",
    "summarize",
]
