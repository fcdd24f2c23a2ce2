"""Recognises parking queues: they take dead letters and send none, and keep what failed for somebody to look at."""

from __future__ import annotations

from simulator.questions.walk import Walk


def parked_in(walk: Walk) -> set[str]:
    """Return the queues that take dead letters, or are bound to do so, and send none."""
    took = {place.queue for place in walk.places if place.hop is not None}
    for name in walk.flow.topology.queues:
        settings = walk.flow.settings(name)
        if settings.dead_letter_exchange or settings.dead_letter_routing_key is not None:
            took |= walk.flow.possible_targets(name) - {name}
    return {queue for queue in took if not walk.flow.settings(queue).dead_letters}
