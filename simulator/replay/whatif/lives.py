"""Plays some messages again and keeps all that happens to them, under both settings: for whoever wants to look."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from simulator.message_history import MessageHistory
from simulator.replay.whatif.what_if import Comparison


class Life(NamedTuple):
    """What happens to one message under the log's own settings, and under the others."""

    before: MessageHistory
    after: MessageHistory


def lives(comparison: Comparison, wanted: Collection[str]) -> dict[str, Life]:
    """Return the lives of the messages with these identities, the first of each."""
    found: dict[str, Life] = {}
    at = 0
    for unit in comparison.units:
        for group in unit.groups():
            own = [case.story for case in comparison.cases[at : at + len(group)]]
            at += len(group)
            here = {own[place].message: place for place in reversed(range(len(own))) if own[place].message in wanted}
            if here.keys() <= found.keys():
                continue
            watched = set(here.values())
            first = comparison.first(own, watched)
            runs = first, comparison.other(own, first.stays, watched=watched)
            for message, place in here.items():
                sides = (MessageHistory(uid=1, vhost=own[place].vhost, events=run.seen[place]) for run in runs)
                found.setdefault(message, Life(*sides))
    return found
