"""Which death of several in one queue the cycle rule looks at. Seen on servers of 4.0.5 and 4.3.6."""

from __future__ import annotations

import pytest

from dlx import Message, Queue, Topology, dead_letter, effective_settings, published, release
from dlx.dead_lettering import DeadLetter


def hop(message: Message, queue: str, reason: str, to: str, name: str) -> DeadLetter:
    """The message dies in ``queue``, whose dead letters go to the queue ``to``."""
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": to}
    where = Topology.of(queues=[Queue(name=queue, arguments=arguments), Queue(name=to)])
    settings = effective_settings(where.queues[queue], where, release(name))
    return dead_letter(message, reason, settings, where, release(name))


@pytest.mark.parametrize(
    ("name", "outcome"),
    [("3.8", "dead-lettered"), ("3.10", "dead-lettered"), ("3.13", "cycle"), ("4.0", "cycle"), ("4.3", "cycle")],
)
def test_the_most_recent_death_in_the_target_queue_closes_the_cycle(name: str, outcome: str) -> None:
    """A rejection before it exempts nothing, though an older death in the queue is one; 3.8 and 3.10 shuffle them."""
    message = published("", "work", release=release(name))
    letter = hop(message, "work", "rejected", "x", name)
    letter = hop(letter.message, "x", "rejected", "work", name)
    letter = hop(letter.message, "work", "expired", "wait", name)
    assert hop(letter.message, "wait", "expired", "work", name).outcome == outcome
