"""Plays some messages again and keeps all that happens to them, under both settings: for whoever wants to look."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from simulator.message_history import MessageHistory
from simulator.replay.whatif.coupling import Unit
from simulator.replay.whatif.rerun import Unseen
from simulator.replay.whatif.stories import Story
from simulator.replay.whatif.what_if import Prepared, batches, both_runs, end_of


class Life(NamedTuple):
    """What happens to one message under the log's own settings, and under the others."""

    before: MessageHistory
    after: MessageHistory


def lives(
    stories: Sequence[Story],
    before: Prepared,
    after: Prepared,
    parts: Iterable[Unit],
    wanted: Collection[str],
    unseen: Unseen,
) -> dict[str, Life]:
    """Return the lives of the messages with these identities, the first of each; ``parts`` is their plan."""
    found: dict[str, Life] = {}
    until_us = end_of(stories)
    for batch in batches(parts):
        own = [stories[number] for unit in batch for number in unit.stories]
        here = {own[place].message: place for place in reversed(range(len(own))) if own[place].message in wanted}
        if here.keys() <= found.keys():
            continue
        runs = both_runs(own, before, after, unseen, until_us, watched=set(here.values()))
        for message, place in here.items():
            sides = (MessageHistory(uid=1, vhost=own[place].vhost, events=run.seen[place]) for run in runs)
            found.setdefault(message, Life(*sides))
    return found
