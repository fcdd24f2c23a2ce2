"""The headline is good only where nothing is open."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dlx.global_counters import DISABLED
from simulator.replay.results.counters import Balance, BalanceEntry, Suspect
from simulator.replay.results.headline import headline
from simulator.replay.results.summary import LostMessages, Summary

GOOD = Summary(
    messages=9, deliveries=9, dead_letters=4, agree=9, differ=0, ambiguous=0, unexplained=0, broken_lines=0,
)  # fmt: skip


def told(**changes: Any) -> tuple[str, str, tuple[str, ...]]:
    found = headline(msgspec.structs.replace(GOOD, **changes), "4.3")
    return found.tone, found.text, found.more


def test_everything_agrees_and_was_checked() -> None:
    assert told() == ("good", "RabbitMQ delivered everything as the rules of 4.3 predict", ())


@pytest.mark.parametrize(
    ("changes", "begins"),
    [
        ({"dead_letters": 0}, "No delivery in this log shows that a message died: it proves nothing"),
        ({"deliveries": 0, "agree": 0, "dead_letters": 0}, "The log has no delivery: it proves nothing"),
        ({"may_be_lost": 3}, "RabbitMQ delivered everything as the rules of 4.3 predict, as far as"),
        ({"may_be_held": 3}, "RabbitMQ delivered everything as the rules of 4.3 predict, as far as"),
        ({"unchecked": {"max-length": 2}}, "RabbitMQ delivered everything as the rules of 4.3 predict, as far as"),
        ({"ambiguous": 2, "agree": 7}, "RabbitMQ delivered everything as the rules of 4.3 predict, as far as"),
        ({"broken_lines": 1}, "RabbitMQ delivered everything as the rules of 4.3 predict, as far as"),
    ],
)
def test_what_is_open_is_said_first(changes: dict[str, Any], begins: str) -> None:
    tone, text, _ = told(**changes)
    assert tone == "open"
    assert text.startswith(begins)


@pytest.mark.parametrize(
    ("lost", "begins"), [(3, "3 messages were lost: their dead letters"), (1, "1 message was lost")]
)
def test_messages_that_were_certainly_lost_are_bad(lost: int, begins: str) -> None:
    tone, text, more = told(lost=lost, may_be_lost=1)
    assert tone == "bad"
    assert text.startswith(begins)
    assert more[0] == "RabbitMQ delivered everything as the rules of 4.3 predict."


def test_a_loss_is_said_with_how_far_the_rest_was_checked() -> None:
    _, _, more = told(lost=1, unchecked={"publish": 2})
    assert more[0] == "RabbitMQ delivered everything as the rules of 4.3 predict, as far as it was checked."


def test_where_every_dead_letter_was_lost_messages_died() -> None:
    tone, text, more = told(lost=3, dead_letters=0)
    assert (tone, text) == ("bad", "3 messages were lost: their dead letters reached no queue")
    assert not [each for each in more if "proves nothing" in each]


def test_what_was_not_checked_is_named() -> None:
    assert told(unchecked={"max-length": 2, "routing": 1})[2] == (
        "max-length was not checked in 2 deliveries",
        "routing was not checked in 1 row",
    )


def test_deliveries_with_several_paths_are_counted() -> None:
    assert told(ambiguous=2, agree=7)[2] == (
        "2 deliveries may have come by any of several paths, and nothing shows which",
    )


def test_a_difference_comes_before_all_else() -> None:
    tone, text, more = told(agree=8, differ=1, lost=2)
    assert (tone, text) == ("bad", "1 delivery of 9 differs from what RabbitMQ 4.3 does with these definitions")
    assert more == ("2 messages were lost: their dead letters reached no queue",)


def test_publishes_that_went_elsewhere_are_no_agreement() -> None:
    text = "2 publishes went to other queues than RabbitMQ 4.3 routes them to with these definitions"
    assert told(misrouted=2)[:2] == ("bad", text)
    assert told(misrouted=2, agree=8, differ=1)[2] == (
        "2 publishes went to other queues than RabbitMQ 4.3 routes them to with these definitions",
    )


@pytest.mark.parametrize(
    ("residual", "unexplained", "tone", "begins"),
    [
        (0, 0, "good", "RabbitMQ delivered everything"),
        (3, 0, "open", "3 messages died without a dead letter"),
        (3, 3, "bad", "The broker counted 3 dead letters that nothing in the log explains"),
    ],
)
def test_the_counters_of_the_broker_have_their_say(residual: int, unexplained: int, tone: str, begins: str) -> None:
    entry = BalanceEntry(
        reason="expired", queue_type="classic", strategy=DISABLED, counted=residual, reconstructed=0,
        residual=residual, unexplained=unexplained,
    )  # fmt: skip
    found = headline(GOOD, "4.3", Balance(nodes=("rabbit@a",), vhost="/", entries=(entry,)))
    assert found.tone == tone
    assert found.text.startswith(begins)


@pytest.mark.parametrize(
    ("dropping", "sending", "changes", "tone"),
    [
        (0, 5, {}, "bad"),
        (2, 5, {}, "bad"),
        (3, 5, {}, "open"),
        (5, 0, {}, "open"),
        (0, 5, {"cut": ("it ended early",)}, "open"),
        (0, 5, {"vhosts": ("other",)}, "open"),
    ],
)
def test_what_the_broker_counted_is_a_loss_where_queues_without_an_exchange_cannot_have_dropped_it(
    dropping: int, sending: int, changes: dict[str, Any], tone: str
) -> None:
    suspects = (
        Suspect(vhost="/", queue="drops", most=dropping, why="no dead-letter exchange"),
        Suspect(vhost="/", queue="sends", most=sending, why="dead-letter exchange 'dxl' does not exist", sends=True),
    )
    entry = BalanceEntry(
        reason="expired", queue_type="classic", strategy=DISABLED, counted=3, reconstructed=0, residual=3,
        suspects=suspects,
    )  # fmt: skip
    found = headline(GOOD, "4.3", Balance(nodes=("rabbit@a",), vhost="/", entries=(entry,), **changes))
    assert (found.tone, found.text) == (tone, "3 messages died without a dead letter, as the broker counted")


@pytest.mark.parametrize(
    ("held", "may_be", "says"),
    [
        (30, 5, "If 2 of them are held in 'work', it holds 32, and these hold up all that will die there"),
        (31, 1, "If 1 of them is held in 'work', it holds 32, and these hold up all that will die there"),
        (0, 40, "If 32 of them are held in 'work', it holds 32, and these hold up all that will die there"),
        (30, 1, None),
        (32, 5, None),  # that is certain
    ],
)
def test_what_may_be_held_is_added_to_what_is(held: int, may_be: int, says: str | None) -> None:
    ends = [
        LostMessages(vhost="/", queue="work", why=why, lost=0, may_be_lost=0, file="log", line=1, **counts)
        for why, counts in (("no route", {"held": held}), ("a cycle", {"may_be_held": may_be}))
    ]
    summary = msgspec.structs.replace(GOOD, held=held, may_be_held=may_be)
    told = [each for each in headline(summary, "4.3", None, ends).more if "hold" in each and each.startswith("If")]
    assert told == ([] if says is None else [says])
