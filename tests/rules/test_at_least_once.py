"""At-least-once: a dead letter that no queue takes is held, whyever that is."""

from __future__ import annotations

import pytest

from dlx import Binding, Exchange, Queue, Topology, dead_letter, effective_settings, published, release

HELD = {"x-dead-letter-exchange": "x", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}


@pytest.mark.parametrize("name", ["3.10", "3.13", "4.0", "4.3"])
@pytest.mark.parametrize(("bound", "cycles"), [([], ()), (["work"], ("work",))])
def test_without_a_queue_to_go_to_it_is_held(bound: list[str], cycles: tuple[str, ...], name: str) -> None:
    where = Topology.of(
        exchanges=[Exchange(name="x", type="fanout")],
        queues=[Queue(name="work", type="quorum", arguments=HELD)],
        bindings=[Binding(source="x", destination=queue) for queue in bound],
    )
    settings = effective_settings(where.queues["work"], where, release(name))
    message = published("", "work", release=release(name))
    letter = dead_letter(message, "expired", settings, where, release(name))
    assert (letter.outcome, letter.queues, letter.cycles) == ("held", (), cycles)
