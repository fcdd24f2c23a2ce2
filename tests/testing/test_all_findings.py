"""All findings of a search: each cause once, each really a loss; and what is complete is not doubted by the rules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from simulator.scenario.properties.property import FindingCause, PropertyBroken
from simulator.scenario.properties.property_registry import Lossless
from simulator.scenario.steps import History
from simulator.scenario.trial import Trial
from simulator.testing.fuzz.counterexample import deciding_rule
from simulator.testing.fuzz.systematic_search import Search
from simulator.testing.strategies import definitions as definitions_documents
from tests.random_examples import random_examples
from tests.testing.test_search import topology
from tests.testing.test_trial import queue

TRIED_MAX = 500


def lost(definitions: dict[str, Any], history: History, known: set[FindingCause]) -> FindingCause | None:
    """Return the first loss of the history in the whole topology, apart from the known ones."""
    promise = Lossless()
    promise.known = known
    try:
        Trial(definitions, properties=[promise]).play(history)
    except PropertyBroken as broken:
        return broken.cause
    return None


@pytest.mark.slow
@random_examples(15)
@given(definitions_documents(queues_max=4))
def test_all_findings_of_random_topologies(document: dict[str, Any]) -> None:
    single = Search(document, "lossless").run(lambda tried: tried < TRIED_MAX)
    search = Search(document, "lossless")
    found = list(search.run_all(lambda tried: tried < TRIED_MAX))
    causes = [each.broken.cause for each in found]
    assert len(set(causes)) == len(causes)
    assert single is None or single.broken.cause in causes
    for each in found:
        assert deciding_rule(search, each.broken) is not None
        assert each.note or lost(document, each.history, set(causes) - {each.broken.cause}) == each.broken.cause


def test_a_finding_does_not_start_the_search_again() -> None:
    lossy = [queue(f"q{n}", message_ttl=1_000) for n in range(30)]
    search = Search(topology(lossy), "lossless")
    assert len(list(search.run_all())) == len(lossy)
    assert search.complete
    assert search.tried < 20 * len(lossy)


def test_what_lies_behind_a_finding_is_found_too() -> None:
    definitions = topology(
        [
            queue("in", message_ttl=1_000, dead_letter_exchange="both"),
            queue("first", message_ttl=1_000),
            queue("second", message_ttl=2_000, dead_letter_exchange="nowhere"),
        ],
        {"both": {"type": "fanout", "internal": True}},
        [("both", "first", ""), ("both", "second", "")],
    )
    found = [each.broken.cause for each in Search(definitions, "lossless").run_all()]
    assert {(cause.queue, cause.reason) for cause in found} == {
        ("first", "expired"),
        ("second", "expired"),
        ("second", "rejected"),
    }


def ended(definitions: dict[str, Any], property: str) -> Search:
    search = Search(definitions, property)
    assert search.run() is None
    return search


def test_a_loss_that_the_rules_allow_and_no_history_shows_is_a_doubt() -> None:
    """Nothing stays in ``at-once``, so it is never full; the rules look at one queue at a time."""
    definitions = topology([
        queue("orders", dead_letter_exchange="", dead_letter_routing_key="at-once"),
        queue("at-once", message_ttl=0, max_length=1, overflow="reject-publish", dead_letter_exchange="",
              dead_letter_routing_key="safe"),
        queue("safe"),
    ])  # fmt: skip
    search = ended(definitions, "lossless")
    assert not search.complete
    assert search.doubts == [
        "kinds of messages together that may lose one in 'orders' (rejected, refused), as the rules allow"
    ]


def test_other_times_to_live_may_break_what_60_s_and_1_s_do_not() -> None:
    definitions = topology([queue("orders", message_ttl=800)])
    assert not ended(definitions, "punctual").complete
    trial = Trial(definitions, properties=["punctual"])
    trial.publish("", "orders")
    trial.publish("", "orders", expiration_ms=100)
    with pytest.raises(PropertyBroken):
        trial.wait(200)


@pytest.mark.parametrize(("limit", "complete"), [({}, True), ({"max_length": 5}, False)])
def test_full_queues_in_a_circle_leave_a_doubt_whether_it_settles(limit: dict[str, Any], complete: bool) -> None:
    definitions = topology([
        queue("orders", dead_letter_exchange="", dead_letter_routing_key="wait", **limit),
        queue("wait", message_ttl=1_000, dead_letter_exchange="", dead_letter_routing_key="orders"),
    ])  # fmt: skip
    assert ended(definitions, "settles").complete is complete


def test_a_search_that_was_stopped_is_not_complete() -> None:
    search = Search(topology([queue("orders", dead_letter_exchange="", dead_letter_routing_key="orders")]), "lossless")
    search.run(lambda tried: False)
    assert not search.complete
    assert "time was up" in search.untried[0]
