"""Makes the answer of a tally: what nobody checked comes from both sides, the causes, the log, the last deliveries."""

from __future__ import annotations

from simulator.replay.tables import Table
from simulator.replay.whatif.answer import Answer
from simulator.replay.whatif.captured import Captured, given_twice, not_looked_at
from simulator.replay.whatif.causes import Causes
from simulator.replay.whatif.hidden_ends import hidden_ends
from simulator.replay.whatif.marks import VALUES_MAX
from simulator.replay.whatif.tally import Tally
from simulator.replay.whatif.what_if import Runs


def conclusion(tally: Tally, causes: Causes, runs: Runs, captured: Captured[Table]) -> Answer:
    """Return the answer for the messages of a capture."""
    unchecked = (
        *dict.fromkeys((*runs.before.notes, *runs.after.notes)),
        *causes.unchecked,
        *(_too_many(what) for what in sorted(tally.marks.too_many) if tally.changed),
        *not_looked_at(captured, runs.before),
        *given_twice(captured),
        *hidden_ends(tally.ended, runs.before.flows, runs.log.consumed | captured.left_queues),
    )
    return tally.answer(causes.found, unchecked)


def _too_many(what: str) -> str:
    return (
        f"whether some values of '{what}' are among the messages that change more often: there are over {VALUES_MAX:,}"
    )
