"""Replay of captured logs: what RabbitMQ delivered against what the rules predict.

``replay`` takes and gives a Spark DataFrame, ``replay_table`` does the same in
this process for logs that fit into memory. ``simulator.replay.run`` is the whole
way from log files to results on disk. Names are loaded on first use, so that the
workers, which need only the kernel, do not import Spark's client side.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulator.replay.local import replay_table
    from simulator.replay.plan import replay, scan, ship
    from simulator.replay.spark_session import spark_session
    from simulator.replay.summary import Finding, Summary, findings, hops, summarize
    from simulator.replay.verdicts import VERDICTS, Difference, Verdict

_HOME = {
    "VERDICTS": "verdicts",
    "Difference": "verdicts",
    "Finding": "summary",
    "Summary": "summary",
    "Verdict": "verdicts",
    "findings": "summary",
    "hops": "summary",
    "replay": "plan",
    "replay_table": "local",
    "scan": "plan",
    "ship": "plan",
    "spark_session": "spark_session",
    "summarize": "summary",
}

__all__ = [
    "VERDICTS",
    "Difference",
    "Finding",
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


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'simulator.replay' has no attribute {name!r}")
    return getattr(importlib.import_module(f"simulator.replay.{_HOME[name]}"), name)
