"""What a node counts, and under which strategy a death is counted."""

from __future__ import annotations

import pytest

from dlx.global_counters import (
    CONFIRMED,
    Account,
    Series,
    account_of,
    accounts,
    by_protocol,
    counted_strategy,
)
from dlx.releases import RELEASES, release
from dlx.settings import effective_settings
from dlx.topology import Queue, Topology

COUNTING = [name for name in RELEASES if release(name).dead_letters_counted]


def strategy(kind: str, exists: bool = True, **arguments: str) -> str:
    named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    queue = Queue(name="q", type=kind, arguments={"x-queue-type": kind, **named})
    return counted_strategy(effective_settings(queue, Topology(), release("4.3")), ["", "x"] if exists else [""])


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_death_counts_under_disabled_where_nothing_is_sent(kind: str) -> None:
    assert strategy(kind) == "disabled"
    assert strategy(kind, dead_letter_exchange="x") == "at_most_once"
    assert strategy(kind, exists=False, dead_letter_exchange="x") == "disabled"


def test_what_a_queue_holds_counts_at_least_once_even_where_the_exchange_is_missing() -> None:
    at_least_once = {"dead_letter_strategy": "at-least-once", "overflow": "reject-publish"}
    assert strategy("quorum", dead_letter_exchange="x", **at_least_once) == "at_least_once"
    assert strategy("quorum", exists=False, dead_letter_exchange="x", **at_least_once) == "at_least_once"
    assert strategy("quorum", dead_letter_exchange="x", **{**at_least_once, "overflow": "drop-head"}) == "at_most_once"
    assert strategy("quorum", **at_least_once) == "disabled"


@pytest.mark.parametrize("name", RELEASES)
def test_dead_letters_are_counted_from_3_10_on(name: str) -> None:
    counted = set(accounts(release(name)))
    assert bool(counted) == (name in COUNTING)
    assert {each.queue_type for each in counted} <= {"classic", "quorum", "volatile"}


def test_classic_queues_have_no_delivery_limit_and_at_least_once_no_overflow() -> None:
    counted = set(accounts(release("4.0")))
    assert len(counted) == 18
    assert Account("delivery_limit", "classic", "at_most_once") not in counted
    assert Account("maxlen", "quorum", "at_least_once") not in counted
    assert Account(CONFIRMED, "quorum", "at_least_once") in counted


@pytest.mark.parametrize("name", COUNTING)
def test_an_account_is_read_from_its_counter(name: str) -> None:
    for account in accounts(release(name)):
        assert account_of(account.series) == account
    assert [account_of(series) for series in by_protocol(release(name)) if account_of(series)] == []


def test_3_8_counts_nothing_and_3_9_no_dead_letters() -> None:
    assert list(by_protocol(release("3.8"))) == []
    assert list(accounts(release("3.9"))) == []
    assert Series("messages_received", (("protocol", "amqp091"),)) in set(by_protocol(release("3.9")))
    assert {dict(series.labels)["protocol"] for series in by_protocol(release("4.0"))} == {"amqp091", "amqp10"}
