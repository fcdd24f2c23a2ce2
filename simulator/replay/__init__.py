"""Replay of captured logs: what RabbitMQ delivered against what the rules predict.

``replay`` takes and gives a Spark DataFrame; ``replay_files`` does the same in this process
with a table of a ``Database``, in bounded memory, and ``replay_table`` with batches in memory.
``summarize`` and the like take the result of either of the first two. ``simulator.replay.run``
is the whole way from log files to results on disk. Names are loaded on first use, so that the
workers, which need only the kernel, do not import Spark's client side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlx._lazy import lazy
from simulator.extras import importing

if TYPE_CHECKING:
    from simulator.capture import CaptureError
    from simulator.replay.assumptions import Assumptions
    from simulator.replay.local import repair_table, replay_files, replay_table
    from simulator.replay.plan import replay, scan, ship
    from simulator.replay.spark_sessions import spark_session
    from simulator.replay.summary import (
        Finding,
        LostMessages,
        MatchesNothingError,
        Summary,
        UncheckedFinding,
        findings,
        hops,
        lost_messages,
        summarize,
        unchecked_findings,
    )
    from simulator.replay.tables import Database
    from simulator.replay.unchecked import Unchecked
    from simulator.replay.verdicts import VERDICTS, Difference, Verdict
    from simulator.whatif.local import what_if
    from simulator.whatif.settings_given import SettingError
else:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "simulator.capture": ("CaptureError",),
            "simulator.replay.assumptions": ("Assumptions",),
            "simulator.replay.local": ("repair_table", "replay_files", "replay_table"),
            "simulator.replay.plan": ("replay", "scan", "ship"),
            "simulator.replay.spark_sessions": ("spark_session",),
            "simulator.replay.summary": (
                "Finding",
                "LostMessages",
                "MatchesNothingError",
                "Summary",
                "UncheckedFinding",
                "findings",
                "hops",
                "lost_messages",
                "summarize",
                "unchecked_findings",
            ),
            "simulator.replay.tables": ("Database",),
            "simulator.replay.unchecked": ("Unchecked",),
            "simulator.replay.verdicts": ("VERDICTS", "Difference", "Verdict"),
            "simulator.whatif.local": ("what_if",),
            "simulator.whatif.settings_given": ("SettingError",),
        },
        load=importing("replay"),
    )

__all__ = [
    "VERDICTS",
    "Assumptions",
    "CaptureError",
    "Database",
    "Difference",
    "Finding",
    "LostMessages",
    "MatchesNothingError",
    "SettingError",
    "Summary",
    "Unchecked",
    "UncheckedFinding",
    "Verdict",
    "findings",
    "hops",
    "lost_messages",
    "repair_table",
    "replay",
    "replay_files",
    "replay_table",
    "scan",
    "ship",
    "spark_session",
    "summarize",
    "unchecked_findings",
    "what_if",
]
