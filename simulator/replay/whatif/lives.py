"""Plays some messages again and keeps all that happens to them, under both settings: for whoever wants to look."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from simulator.message_history import MessageHistory
from simulator.replay.whatif.rerun import in_order
from simulator.replay.whatif.what_if import Case, Runs


class Life(NamedTuple):
    """What happens to one message under the log's own settings, and under the others."""

    before: MessageHistory
    after: MessageHistory


def lives(runs: Runs, groups: Iterable[Sequence[Case]], wanted: Collection[str]) -> dict[str, Life]:
    """Return the lives of messages with these identities that end differently, the first of each.

    ``groups`` belong together, and are in the order in which they begin.
    """
    found: dict[str, Life] = {}
    for group in groups:
        own = [case.story for case in group]
        places = (place for place in reversed(range(len(own))) if group[place].changed)
        here = {own[place].message: place for place in places if own[place].message in wanted}
        if here.keys() <= found.keys():
            continue
        watched = set(here.values())
        first = in_order(runs.first(own, watched))
        sides = first, in_order(runs.other((each.first for each in first), watched=watched))
        for message, place in here.items():
            told = (MessageHistory(uid=1, vhost=own[place].vhost, events=[*side[place].seen]) for side in sides)
            found.setdefault(message, Life(*told))
    return found
