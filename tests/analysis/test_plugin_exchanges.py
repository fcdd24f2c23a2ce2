"""What questions about definitions say of exchanges of plugins: the plugins' rules decide, and histories show it."""

from __future__ import annotations

from typing import Any

import pytest

from dlx.releases import release
from simulator.analysis.lint.linting import lint
from simulator.analysis.losses import Loss, Losses, find_losses
from simulator.analysis.snapshot import Snapshot
from simulator.definitions import Definitions
from simulator.events import Event, Happened
from simulator.scenario.steps import Publish, Wait
from simulator.scenario.trial import Trial
from simulator.testing.fuzz.systematic_search import Search

CHOOSING = {"x-consistent-hash": "1", "x-modulus-hash": "k", "x-random": "", "x-local-random": ""}


def queue(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}}


def exchange(name: str, kind: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "arguments": arguments}


def bound(source: str, destination: str, key: str = "", kind: str = "queue") -> dict[str, Any]:
    return {"source": source, "destination": destination, "destination_type": kind, "routing_key": key, "arguments": {}}


def document(*sections: list[dict[str, Any]]) -> dict[str, Any]:
    named = zip(("queues", "exchanges", "bindings"), sections, strict=True)
    placed = {name: [{"vhost": "/", "durable": True, **each} for each in items] for name, items in named}
    return {"vhosts": [{"name": "/"}], **placed}


def losses(definitions: dict[str, Any], of: str = "4.0") -> Losses:
    return find_losses(Snapshot(Definitions(definitions, "definitions"), release(of)))


def played(definitions: dict[str, Any], loss: Loss, of: str = "4.0") -> list[Happened]:
    trial, seen = Trial(definitions, release=of), []
    for step in loss.history:
        trial.do(step)
        seen += [event for event, _ in trial.events]
    return seen


def spread(kind: str, **arguments: Any) -> dict[str, Any]:
    """Return a topology whose dead letters come to one of three destinations, the last of which leads nowhere."""
    key = CHOOSING[kind]
    return document(
        [queue("work", dead_letter_exchange="spread"), queue("a"), queue("b")],
        [exchange("spread", kind, **arguments), exchange("end", "fanout"), exchange("in", "topic")],
        [bound("spread", "a", key), bound("spread", "b", key), bound("spread", "end", key, "exchange"),
         bound("in", "work", "order.#")],
    )  # fmt: skip


@pytest.mark.parametrize("kind", CHOOSING)
def test_one_destination_that_leads_nowhere_loses_the_whole_message(kind: str) -> None:
    definitions = spread(kind)
    found = losses(definitions)
    assert {(each.queue, each.fate, each.whole) for each in found.lost} == {("work", "unroutable", True)}
    assert (found.partial, found.unproven) == ((), ())
    order = "for which keys exchange 'spread' chooses which destination: here as if they were bound in the order they "
    assert found.unchecked == ((order + "stand in",) if kind == "x-consistent-hash" else ())
    for loss in found.lost:
        last = played(definitions, loss)[-1]
        assert (last.event, last.queue) == (Event.UNROUTABLE, "work")


def test_of_dead_letters_that_an_exchange_chooses_at_random_some_are_said_to_be_lost() -> None:
    report = lint(Definitions(spread("x-random"), "definitions"), release("4.0"))
    (finding,) = (each for each in report.findings if each.severity == "error")
    assert finding.message.startswith("some dead letters of 'work' with routing key")
    assert finding.message.endswith("they are lost. 'spread' chooses a destination for each at random.")
    assert finding.fix.text == "let each destination of exchange 'spread' lead to a queue, and bind one if it has none"


def test_publishers_draw_the_header_that_an_exchange_hashes() -> None:
    definitions = spread("x-consistent-hash", **{"hash-header": "tenant"})
    (loss,) = losses(definitions).lost
    assert "tenant" in loss.publish.headers
    assert played(definitions, loss)[-1].event == Event.UNROUTABLE


@pytest.mark.parametrize("kind", CHOOSING)
def test_a_loss_is_found_in_each_queue_that_an_exchange_may_choose(kind: str) -> None:
    names = [f"q{number}" for number in range(6)]
    key = CHOOSING[kind]
    definitions = document(
        [queue(name, message_ttl=1) for name in names],
        [exchange("in", kind)],
        [bound("in", name, key) for name in names],
    )
    found = losses(definitions).lost
    assert sorted(each.queue for each in found) == names
    for loss in found:
        assert any(event.queue == loss.queue and event.reason == "expired" for event in played(definitions, loss))


def test_a_property_that_an_exchange_hashes_is_not_checked() -> None:
    definitions = spread("x-consistent-hash", **{"hash-property": "message_id"})
    assert any("message_id" in each for each in losses(definitions).unchecked)


def test_all_that_a_recent_history_exchange_has_bound_gets_each_message() -> None:
    definitions = document(
        [queue("a"), queue("b", message_ttl=1)],
        [exchange("in", "x-recent-history")],
        [bound("in", "a"), bound("in", "b")],
    )
    (loss,) = losses(definitions).lost
    entered = {event.queue for event in played(definitions, loss) if event.event == Event.ROUTED}
    assert entered == {"a", "b"}


# What waits in a delayed exchange is not lost.


def test_a_message_that_waits_in_an_exchange_is_lost_only_where_it_comes_out() -> None:
    definitions = document(
        [queue("jobs", message_ttl=100, dead_letter_exchange="later"), queue("dead", message_ttl=1)],
        [exchange("later", "x-delayed-message", **{"x-delayed-type": "topic"})],
        [bound("later", "jobs", "run.#"), bound("later", "dead", "died.*")],
    )
    found = losses(definitions)
    lost = {(each.queue, each.reason, each.fate) for each in found.lost}
    # A message with x-delay passes the cycle rule: the exchange asks it before it delays.
    assert lost == {("jobs", "expired", "cycle"), ("dead", "expired", "no dead-letter exchange")}
    assert found.unchecked == ()


def test_the_key_of_a_topic_is_looked_at_behind_a_delay() -> None:
    definitions = document(
        [queue("jobs", dead_letter_exchange="dlx"), queue("dead")],
        [exchange("later", "x-delayed-message", **{"x-delayed-type": "topic"}), exchange("dlx", "topic")],
        [bound("later", "jobs", "run.#"), bound("dlx", "dead", "run.eu")],
    )
    (loss,) = losses(definitions).lost
    assert (loss.queue, loss.fate) == ("jobs", "unroutable")
    assert loss.publish.routing_key != "run.eu"


def test_a_search_follows_messages_out_of_an_exchange_that_delays_them() -> None:
    definitions = document(
        [queue("jobs", message_ttl=7)],
        [exchange("later", "x-delayed-message", **{"x-delayed-type": "fanout"})],
        [bound("later", "jobs")],
    )
    search = Search(definitions, "lossless", release="4.0", publishes=[Publish("later", "", headers={"x-delay": 500})])
    (found,) = search.run_all()
    assert [step.ms for step in found.history if isinstance(step, Wait)] == [500, 7]
    assert search.complete


@pytest.mark.parametrize("of", ["3.13", "4.0"])
def test_a_delayed_retry_without_a_loss_has_none(of: str) -> None:
    definitions = document(
        [queue("jobs", dead_letter_exchange="", dead_letter_routing_key="jobs_error"), queue("jobs_error")],
        [exchange("jobs_delay", "x-delayed-message", **{"x-delayed-type": "fanout"})],
        [bound("jobs_delay", "jobs")],
    )
    report = lint(Definitions(definitions, "definitions"), release(of))
    assert [each for each in report.findings if each.severity == "error"] == []
    assert report.unchecked == ()


def messages(definitions: dict[str, Any], code: str) -> list[str]:
    report = lint(Definitions(definitions, "definitions"), release("4.0"))
    return [each.message for each in report.findings if each.code == code]


def test_keys_that_stand_for_others_are_not_named() -> None:
    (told,) = messages(spread("x-consistent-hash"), "DLX003")
    assert told.startswith("dead letters of 'work' for which 'spread' chooses a destination that leads nowhere reach")
    behind = document(
        [queue("work", dead_letter_exchange="dlx"), queue("parked")],
        [exchange("spread", "x-consistent-hash"), exchange("dlx", "direct")],
        [bound("spread", "work", "1"), bound("dlx", "parked", "failed")],
    )
    (told,) = messages(behind, "DLX003")
    assert told.startswith(
        "dead letters of 'work' with keys that no binding there takes reach no queue behind exchange"
    )


@pytest.mark.parametrize(("ends", "told"), [({}, False), ({"src-delete-after": "queue-length"}, True)])
def test_refused_messages_count_for_the_end_of_a_shovel(ends: dict[str, Any], told: bool) -> None:
    value = {"src-uri": "amqp://", "dest-uri": "amqp://", "src-queue": "parked", "dest-queue": "work", **ends}
    full = queue("work", max_length=5, overflow="reject-publish")
    definitions = document([queue("parked"), full], [], [])
    definitions["parameters"] = [{"vhost": "/", "component": "shovel", "name": "back", "value": value}]
    (message,) = messages(definitions, "DLX044")
    assert ("counts towards src-delete-after" in message) is told
