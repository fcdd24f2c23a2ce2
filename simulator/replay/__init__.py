"""Replay of captured logs: what RabbitMQ delivered against what the rules predict."""

from __future__ import annotations

from simulator.replay.plan import exporting_release, replay, scan, ship, topologies
from simulator.replay.verdicts import VERDICTS, Difference, Verdict

__all__ = [
    "VERDICTS",
    "Difference",
    "Verdict",
    "exporting_release",
    "replay",
    "scan",
    "ship",
    "topologies",
]
