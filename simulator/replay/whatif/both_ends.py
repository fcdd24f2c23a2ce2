"""How a message ends on both sides, as it is counted."""

from __future__ import annotations

from typing import NamedTuple

from simulator.replay.whatif.fates import Ends
from simulator.replay.whatif.stories import Outcome
from simulator.replay.whatif.what_if import Case


class Way(NamedTuple):
    """How a message ends on both sides, and by which deaths."""

    before: Ends
    after: Ends
    path: str
    other_path: str


class BothEnds(NamedTuple):
    """How a message ends on both sides, and what that rests on; equal for many messages.

    Attributes:
        outcomes: what consumers did with its deliveries, each with whether it was observed.
        reproduced: whether the first side has the deliveries of the log. If not, nothing else counts.
        before, after: where its copies end.
        way: how that changes, if it does, and is reproduced.
        assumed: what the comparison rests on that the log does not have.
        undecided: whether it may end in another way, and
        undecided_losing: whether it loses copies then that it did not lose before.
    """

    outcomes: tuple[tuple[Outcome, bool], ...]
    reproduced: bool
    before: Ends
    after: Ends
    way: Way | None
    assumed: tuple[str, ...]
    undecided: bool
    undecided_losing: bool

    @classmethod
    def of(cls, case: Case) -> BothEnds:
        """Return how a message ends."""
        before, after, or_else = case.before, case.after, case.or_else
        return cls(
            outcomes=tuple([(each.outcome, each.observed) for each in case.story.deliveries]),
            reproduced=case.reproduced,
            before=before.ends,
            after=after.ends,
            way=Way(before.ends, after.ends, before.path, after.path) if case.reproduced and case.changed else None,
            assumed=case.assumed,
            undecided=or_else is not None,
            undecided_losing=or_else is not None and or_else.lost_copies > before.ends.lost_copies,
        )
