"""What at-least-once dead-lettering holds for ever is found, as a loss is; what it holds for a while is not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dlx.releases import release
from simulator.cli.main import main
from simulator.scenario import steps
from simulator.scenario.properties.property import PropertyBroken
from simulator.testing import Trial
from simulator.testing.fuzz.counterexample import assumptions
from simulator.testing.fuzz.systematic_search import Search
from tests.testing.test_search import topology
from tests.testing.test_trial import queue

HOLDS: Mapping[str, Any] = {
    "queue_type": "quorum",
    "delivery_limit": -1,
    "overflow": "reject-publish",
    "dead_letter_strategy": "at-least-once",
}
CYCLE = topology(
    [
        queue("orders", **HOLDS, message_ttl=1_000, dead_letter_exchange="", dead_letter_routing_key="wait"),
        queue("wait", **HOLDS, message_ttl=1_000, dead_letter_exchange="", dead_letter_routing_key="orders"),
    ]
)
NO_ROUTE = "examples/topologies/broken/held-for-ever.json"


def fuzz(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    status = main(["fuzz", *args, "--json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert status == (0 if found["held"] else 1)
    return found


def test_by_default_fuzz_finds_what_is_held_and_shortens_it_to_one_message(capsys: pytest.CaptureFixture[str]) -> None:
    found = fuzz(capsys, NO_ROUTE)
    assert found["property"] == "arrives"
    assert [each["do"] for each in found["history"]] == ["publish", "reject"]
    assert found["why"] == (
        "a message that died in 'orders' (rejected) is held there for ever (exchange 'dlx' routes key 'orders' to no "
        "queue); 32 such messages hold up all others that die there"
    )
    assert found["findings"][0]["because"].startswith("exchange 'dlx' routes key 'orders' to no queue")
    assert fuzz(capsys, NO_ROUTE, "--property", "lossless")["complete"]


def test_the_picture_shows_where_it_is_held(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", NO_ROUTE]) == 1
    assert "Note over q1: holds it (rejected)" in capsys.readouterr().out


def test_a_cycle_is_held_from_both_sides(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "cycle.json"
    path.write_text(json.dumps(CYCLE))
    found = fuzz(capsys, str(path), "--all")
    assert {(each["queue"], each["reason"]) for each in found["findings"]} == {
        ("orders", "expired"),
        ("wait", "expired"),
    }
    assert "would return to 'orders' without a rejection on the way" in found["why"]


def test_32_held_messages_hold_up_what_could_be_routed_as_the_finding_says() -> None:
    document = json.loads(Path(NO_ROUTE).read_bytes())
    document["bindings"].append({**document["bindings"][0], "source": "amq.direct", "destination": "orders"})
    gone, there = steps.Publish("", "orders"), steps.Publish("amq.direct", "dead")
    for held, arrived in ((31, 1), (32, 0)):
        trial = Trial(document)
        trial.play((steps.changed(gone, times=held), steps.Reject("orders", held), there, steps.Reject("orders")))
        (taken,) = (each for each in trial.queues() if each.name == "orders.dead")
        assert taken.messages == arrived


@pytest.mark.parametrize("of", ["3.10", "3.11", "4.3"])
def test_a_queue_among_its_own_targets_holds_all_where_its_confirm_does_not_count(of: str) -> None:
    document = topology(
        [queue("src", **HOLDS, dead_letter_exchange="x"), queue("other", queue_type="quorum", delivery_limit=-1)],
        {"x": "fanout"},
        [("x", "src", ""), ("x", "other", "")],
    )
    found = Search(document, "arrives", release=of).run()
    assert (found is None) == release(of).quorum_confirms_own_dead_letters
    if found is not None:
        assert f"all its queues have it, but {of} does not count the confirm of the queue itself" in found.broken.why


def test_what_a_full_queue_refuses_is_held_for_a_while_only() -> None:
    document = topology(
        [
            queue("orders", **HOLDS, dead_letter_exchange="", dead_letter_routing_key="dead"),
            queue("dead", queue_type="quorum", max_length=1, overflow="reject-publish"),
        ]
    )
    search = Search(document, "arrives")
    assert search.run() is None
    assert search.complete
    assert "'dead' does not stay full: while it is, dead letters of 'orders' are held in 'orders'" in [
        *assumptions(search)
    ]
    full = (steps.Publish("", "dead", times=3), steps.Publish("", "orders"), steps.Reject("orders"))
    Trial(document, properties=["arrives"]).play(full)


def test_two_full_queues_that_wait_for_each_other_hold_for_ever() -> None:
    document = topology(
        [
            queue("one", **HOLDS, max_length=1, dead_letter_exchange="", dead_letter_routing_key="two"),
            queue("two", **HOLDS, max_length=1, dead_letter_exchange="", dead_letter_routing_key="one"),
        ]
    )
    trial = Trial(document, properties=["arrives"])
    fill = (steps.Publish("", "one", times=2), steps.Publish("", "two", times=2))
    with pytest.raises(PropertyBroken, match="its dead letter was refused by"):
        trial.play((*fill, steps.Reject("one", 9), steps.Reject("two", 9)))


# What is published to a queue by its name.


BY_NAME = topology(
    [queue("main", dead_letter_exchange="rejected"), queue("dead")],
    {"in": "topic", "rejected": "topic"},
    [("in", "main", "key"), ("rejected", "dead", "key")],
)


def test_discards_publishes_to_bound_queues_by_their_names(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "definitions.json"
    path.write_text(json.dumps(BY_NAME))
    found = fuzz(capsys, str(path), "--discards")
    assert found["history"] == [
        {"do": "publish", "exchange": "", "routing_key": "main"},
        {"do": "reject", "queue": "main"},
    ]
    assert found["note"].startswith("Found only for messages that are published to the queue by its name")
    plain = fuzz(capsys, str(path))
    assert (
        plain["assumed"][0]
        == "nobody publishes by queue name to 'main': more dead letters would be lost (--discards tries it)"
    )
    stated = fuzz(capsys, str(path), "--publish", "in", "key")
    assert not any("by queue name" in each for each in stated["assumed"])


@pytest.mark.parametrize(("asked", "fate"), [((), "lost or held"), (("--property", "arrives"), "held")])
def test_what_only_publishes_by_queue_name_hold_is_an_assumption(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, asked: tuple[str, ...], fate: str
) -> None:
    path = tmp_path / "definitions.json"
    holding = topology([queue("main", **HOLDS, dead_letter_exchange="rejected"), queue("dead")])
    path.write_text(json.dumps({**BY_NAME, "queues": holding["queues"]}))
    said = f"nobody publishes by queue name to 'main': more dead letters would be {fate} (--discards tries it)"
    assert said in fuzz(capsys, str(path), *asked)["assumed"]


def test_a_work_queue_that_dead_letters_come_back_to_is_no_parking_queue(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "definitions.json"
    document = topology(
        [
            queue("downloads"),
            queue("downloads-retry", message_ttl=60_000, dead_letter_exchange="downloads-retry-requeue"),
            queue("downloads-error"),
        ],
        {
            "downloads-retry": "topic",
            "downloads-error": "topic",
            "downloads-retry-requeue": "topic",
            "sneakers": "direct",
        },
        [
            ("downloads-retry", "downloads-retry", "#"),
            ("downloads-error", "downloads-error", "#"),
            ("downloads-retry-requeue", "downloads", "#"),
            ("sneakers", "downloads", "downloads"),
        ],
    )
    path.write_text(json.dumps(document))
    found = fuzz(capsys, str(path), "--discards", "--all")
    assert ("downloads", "rejected") in {(each["queue"], each["reason"]) for each in found["findings"]}
