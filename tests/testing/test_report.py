"""What a broken property prints."""

from __future__ import annotations

import pytest

from dlx.field_values import UnsignedByte
from simulator.pictures.mermaid import sequence_as_mermaid as as_mermaid
from simulator.pictures.repetitions import repeats
from simulator.scenario import steps
from simulator.scenario.steps import in_words
from simulator.testing import PropertyBroken, Trial
from simulator.testing.fuzz.failure_report import as_test, events_of, explained, life
from tests.testing.test_trial import LADDER, QUORUM, definitions, queue


def broken(topology: dict[str, object], *history: steps.AnyStep) -> PropertyBroken:
    trial = Trial(topology, properties=["lossless"])
    with pytest.raises(PropertyBroken) as caught:
        trial.play(history)
    return caught.value


def test_repeated_events_are_told_and_drawn_once() -> None:
    found = broken(QUORUM, steps.Publish("", "orders"), steps.Crash("orders", 21))
    events = events_of(QUORUM, found.history, "4.3", found)
    assert life(events)[3] == "At once it went back to the queue 'orders' (lost channel). (These 2, 21 times.)"
    assert as_mermaid(events).splitlines()[5:] == [
        "    publisher->>q1: publish orders",
        "    loop 21 times",
        "        q1->>consumer: deliver",
        "        consumer-->>q1: requeue (lost channel)",
        "    end",
        "    q1-xlost: dropped delivery_limit",
    ]


def test_the_test_can_be_pasted_whatever_the_names_are() -> None:
    odd = definitions(queue("or\"d'ers\n#1;", dead_letter_exchange="gone"))
    publish = steps.Publish("", "or\"d'ers\n#1;", headers={"tries": UnsignedByte(1)})
    found = broken(odd, publish, steps.Repeat((steps.Reject("or\"d'ers\n#1;"),), 2))
    names: dict[str, object] = {}
    exec(as_test(odd, found.history, "4.3", found), names)
    with pytest.raises(PropertyBroken, match="lossless is broken"):
        names["test_lossless"]()  # type: ignore[operator]
    picture = as_mermaid(events_of(odd, found.history, "4.3", found))
    assert "    participant q1 as or#34;d'ers#10;#35;1#59;" in picture


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("a\rb", "a#13;b"),
        ("\0", "#0;"),
        ("a\u2028b\u2029", "a#8232;b#8233;"),
        ("%%{init}%%", "#37;#37;{init}#37;#37;"),
    ],
)
def test_mermaid_shows_a_name_as_it_is(name: str, label: str) -> None:
    odd = definitions(queue(name, dead_letter_exchange="gone"))
    found = broken(odd, steps.Publish("", name), steps.Reject(name))
    assert f"    participant q1 as {label}\n" in as_mermaid(events_of(odd, found.history, "4.3", found))


def test_a_history_that_was_given_is_not_called_found() -> None:
    found = broken(QUORUM, steps.Publish("", "orders"), steps.Crash("orders", 21))
    told = explained(QUORUM, found.history, found, heading="The history")
    assert "\n\nThe history:\n\n    publish" in told
    assert "found" not in told


def test_a_failure_about_no_message_shows_the_last_one() -> None:
    history = (steps.Publish("", "orders"), steps.Publish("", "orders.wait"))
    told = explained(LADDER, history, AssertionError("why\nassert 3 < 3"))
    assert told.startswith("AssertionError: why\n\n")
    assert "What happened to the last message:\n" in told
    assert "participant q1 as orders.wait" in told
    assert "    # Assert here what failed:\n        # AssertionError: why\n" in told


def test_words_for_every_step() -> None:
    told = in_words(
        [
            steps.Publish("shop", "a.b", headers={"x": 1}, expiration_ms=5, body_bytes=7, times=2),
            steps.Repeat((steps.Ack("q"), steps.Requeue("q", method="nack")), 3),
            steps.Hold("q", 4),
            steps.Leave("q", vhost="other"),
            steps.Wait(1_500),
            steps.ClearPolicy("p", operator=True),
        ]
    )
    assert told == [
        "publish to exchange 'shop' with routing key 'a.b', headers {\"x\":1}, expiration 5 ms, 7 bytes, 2 times",
        "3 times:",
        "    the consumer of 'q' acknowledges",
        "    the consumer of 'q' requeues by basic.nack",
        "a consumer of 'q' takes up to 4 and keeps them",
        "the consumer of 'q' leaves in virtual host 'other'",
        "1,500 ms pass",
        "an operator clears operator policy 'p'",
    ]


def test_parts_that_are_repeated_are_found() -> None:
    assert [(list(part), times) for part, times in repeats(list("xababababc"))] == [
        (["x"], 1),
        (["a", "b"], 4),
        (["c"], 1),
    ]


def test_a_broken_property_about_no_message_is_told_without_a_life() -> None:
    told = explained(LADDER, (steps.Wait(1),), PropertyBroken("mine", "it was not so"), command="again")
    assert told.startswith("mine is broken: it was not so\n\nThe shortest history found:\n\n    1 ms pass")
    assert "sequenceDiagram" not in told
    assert told.endswith("Again:\n\n    again")
