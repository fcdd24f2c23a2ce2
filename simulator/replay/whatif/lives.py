"""Plays some messages again and keeps all that happens to them, under both settings: for whoever wants to look."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from simulator.message_history import MessageHistory
from simulator.replay.whatif.what_if import Case, Runs


class Life(NamedTuple):
    """What happens to one message under the log's own settings, and under the others."""

    before: MessageHistory
    after: MessageHistory


def lives(runs: Runs, groups: Iterable[Sequence[Case]], wanted: Collection[str]) -> dict[str, Life]:
    """Return the lives of the messages with these identities, the first of each; ``groups`` belong together."""
    found: dict[str, Life] = {}
    for group in groups:
        own = [case.story for case in group]
        here = {own[place].message: place for place in reversed(range(len(own))) if own[place].message in wanted}
        if here.keys() <= found.keys():
            continue
        watched = set(here.values())
        first = runs.first(own, watched)
        played = first, runs.other(own, first.stays, watched=watched)
        for message, place in here.items():
            sides = (MessageHistory(uid=1, vhost=own[place].vhost, events=run.seen[place]) for run in played)
            found.setdefault(message, Life(*sides))
    return found
