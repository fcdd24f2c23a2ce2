"""One neutral history, run under several systems, and what came of each message under each.

``read`` takes a history from plain JSON values, ``compare`` runs it; ``docs/compare.md`` describes both.
"""

from __future__ import annotations

from simulator.compare.comparing import ADAPTERS, compare
from simulator.compare.history import History, read
from simulator.compare.outcome import Fate, Outcome

__all__ = ["ADAPTERS", "Fate", "History", "Outcome", "compare", "read"]
