"""Plays some messages again and keeps all that happens to them, under both settings: for whoever wants to look."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from simulator.message_history import MessageHistory
from simulator.replay.whatif.rerun import Rerun, Unseen
from simulator.replay.whatif.stories import Story
from simulator.replay.whatif.what_if import Prepared, batches, end_of, plan


class Life(NamedTuple):
    """What happens to one message under the log's own settings, and under the others."""

    before: MessageHistory
    after: MessageHistory


def lives(
    stories: Sequence[Story], before: Prepared, after: Prepared, wanted: Collection[str], unseen: Unseen
) -> dict[str, Life]:
    """Return the lives of the messages with these identities, the first of each."""
    found: dict[str, Life] = {}
    until_us = end_of(stories)
    for batch in batches(plan(stories, before, after)):
        own = [stories[number] for unit in batch for number in unit.stories]
        here = {own[place].message: place for place in reversed(range(len(own))) if own[place].message in wanted}
        if here.keys() <= found.keys():
            continue
        watched = set(here.values())
        first = Rerun(
            before.document, own, release=before.side.release, unseen=unseen, until_us=until_us, watched=watched
        )
        first.play()
        other = Rerun(
            after.document, own, release=after.side.release, habits=first.habits(), unseen=unseen, watched=watched
        )
        other.play()
        for message, place in here.items():
            sides = (MessageHistory(uid=1, vhost=own[place].vhost, events=run.seen[place]) for run in (first, other))
            found.setdefault(message, Life(*sides))
    return found
