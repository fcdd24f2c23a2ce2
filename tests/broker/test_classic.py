"""Classic queues: order, priorities, returns, expiry, limits.

What is expected here is what servers of 3.8.9, 3.10.8, 4.0.5 and 4.3.6 did with the
same messages; where two neighbours agree, the releases between them are held to the same.
"""

from __future__ import annotations

import pytest

from dlx.releases import RELEASES
from tests.broker.stores import MS, classic, copy, drain, fill, saved, settings, take, text, texts

every_release = pytest.mark.parametrize("name", RELEASES)
DEAD_LETTERS = {"dead_letter_exchange": "", "dead_letter_routing_key": "d"}


@every_release
def test_without_priorities_the_property_means_nothing(name):
    store = classic(name)
    fill(store, ["a", "bp9", "cp0"])
    assert drain(store) == ["a", "bp9", "cp0"]
    assert (store.ready, store.ready_bytes, store.total) == (0, 0, 0)


@every_release
def test_the_highest_priority_first_and_none_is_0_and_more_than_the_maximum_is_the_maximum(name):
    store = classic(name, max_priority=3)
    fill(store, ["0p1", "1p3", "2p2", "3", "4p9", "5p0", "6p3"])
    assert drain(store) == ["1p3", "4p9", "6p3", "2p2", "0p1", "3", "5p0"]


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("3.8", ["ap0", "bp1"]),
        ("3.10", ["ap0", "bp1"]),
        ("3.13", ["bp1", "ap0"]),
        ("4.0", ["bp1", "ap0"]),
        ("4.3", ["bp1", "ap0"]),
    ],
)
def test_a_maximum_priority_of_0(name, order):
    store = classic(name, max_priority=0)
    fill(store, ["ap0", "bp1"])
    assert drain(store) == order


@every_release
def test_returned_messages_go_back_to_where_they_were(name):
    store = classic(name)
    fill(store, "12345678")
    out = take(store, 6)
    store.give_back([out[4]], "nack", 0)
    store.give_back([out[1]], "nack", 0)
    assert text(store.take(), starred=True) == "2*"
    store.give_back([out[3]], "nack", 0)
    store.give_back([out[0]], "reject", 0)
    assert drain(store) == ["1*", "4*", "5*", "7", "8"]


@every_release
def test_returned_messages_go_back_to_their_priority(name):
    store = classic(name, max_priority=3)
    fill(store, ["0p1", "1p3", "2p2", "3", "4p9", "5p0", "6p3"])
    out = take(store, 5)
    fill(store, ["newp3"])
    store.give_back(out, "nack", 0)
    assert drain(store) == ["1p3*", "4p9*", "6p3*", "newp3", "2p2*", "0p1*", "3", "5p0"]


@every_release
def test_drop_head_takes_the_oldest_returned_ones_too(name):
    store = classic(name, max_length=2)
    fill(store, "12")
    out = take(store, 2)
    fill(store, "34")
    store.give_back(out, "nack", 0)
    assert texts(store.overflowing()) == ["1", "2"]
    assert store.overflowing() == []
    assert drain(store) == ["3", "4"]


@every_release
def test_drop_head_takes_the_highest_priority_first(name):
    store = classic(name, max_length=2, max_priority=5)
    dropped = []
    for message in ["0p1", "1p5", "2p3", "3p2"]:
        fill(store, [message])
        dropped += texts(store.overflowing())
    assert dropped == ["1p5", "2p3"]
    assert drain(store) == ["3p2", "0p1"]


@every_release
def test_bytes_are_those_of_the_body_and_what_just_fits_stays(name):
    store = classic(name, max_length_bytes=10)
    store.enter(copy("12345", headers={"long": "x" * 100}), 0)
    fill(store, ["67890"])
    assert store.ready_bytes == 10
    assert store.overflowing() == []
    fill(store, ["x" * 11])
    assert len(store.overflowing()) == 3
    assert store.ready_bytes == 0


@every_release
@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
@pytest.mark.parametrize("internal", [False, True])
def test_reject_publish_refuses_what_would_not_fit(name, overflow, internal):
    store = classic(name, max_length=2, max_length_bytes=6, overflow=overflow)
    assert not store.refuses(copy("123456"), internal=internal)
    assert store.refuses(copy("1234567"), internal=internal)
    fill(store, ["1", "2"])
    assert store.refuses(copy("3"), internal=internal)
    store.take()
    assert not store.refuses(copy("34567"), internal=internal)
    assert store.refuses(copy("345678"), internal=internal)


@every_release
def test_reject_publish_drops_nothing_when_messages_come_back(name):
    store = classic(name, max_length=1, overflow="reject-publish")
    fill(store, "1")
    out = take(store, 1)
    fill(store, "2")
    store.give_back(out, "nack", 0)
    assert store.overflowing() == []
    assert drain(store) == ["1*", "2"]


@every_release
def test_a_policy_with_a_limit_and_reject_publish_first_drops_what_is_over_the_limit(name):
    store = classic(name)
    fill(store, "012")
    store.configure(settings(name, "classic", {"max-length": 1, "overflow": "reject-publish"}))
    assert texts(store.overflowing()) == ["0", "1"]
    fill(store, "3")
    assert store.overflowing() == []


@every_release
def test_the_shorter_of_expiration_and_queue_ttl_counts(name):
    store = classic(name, message_ttl=100)
    for expiration, due_ms in ((None, 100), ("50", 50), ("+200", 100)):
        store.enter(copy("m", expiration=expiration), 7)
        assert store.due_us() == 7 + due_ms * MS
        assert store.expired(6 + due_ms * MS) == []
        assert texts(store.expired(7 + due_ms * MS)) == ["m"]
        assert store.ready == store.ready_bytes == 0


@every_release
def test_only_the_head_expires(name):
    store = classic(name)
    store.enter(copy("first"), 0)
    store.enter(copy("late", expiration="10"), 0)
    store.enter(copy("later", expiration="20"), 0)
    assert store.expired(100 * MS) == []
    assert store.due_us() is None
    store.take()
    assert texts(store.expired(15 * MS)) == ["late"]
    assert store.due_us() == 20 * MS


@every_release
def test_a_message_that_comes_back_after_its_time_expires_at_once(name):
    store = classic(name)
    store.enter(copy("m", expiration="10"), 0)
    out = take(store, 1)
    assert store.expired(50 * MS) == []
    store.give_back(out, "nack", 50 * MS)
    assert texts(store.expired(50 * MS)) == ["m"]


@every_release
def test_with_priorities_a_message_that_overtakes_others_does_not_expire_before_the_queue_looks(name):
    """Seen: after 0.8 s both were ready, and basic.get delivered the one with the TTL of 0.1 s."""
    store = classic(name, max_priority=5)
    store.enter(copy("low", 1), 0)
    store.enter(copy("high", 3, expiration="100"), 0)
    assert store.expired(800 * MS) == []
    assert store.due_us() is None
    assert texts(take(store, 1)) == ["high"]
    assert store.expired(800 * MS) == []
    assert drain(store) == ["low"]


@every_release
def test_with_priorities_the_timer_of_a_lower_one_expires_the_higher_ones_too(name):
    """Seen: all three were ready until the 1.5 s of the first message were over, then none."""
    store = classic(name, max_priority=5)
    store.enter(copy("low", 1, expiration="1500"), 0)
    assert store.expired(0) == []
    store.enter(copy("high", 3, expiration="100"), 0)
    assert store.expired(0) == []
    assert store.due_us() == 1_500 * MS
    store.enter(copy("higher", 4, expiration="1"), 800 * MS)
    assert store.expired(1_000 * MS) == []
    assert texts(store.expired(1_500 * MS)) == ["higher", "high", "low"]
    assert store.due_us() is None


@every_release
def test_with_priorities_a_lower_one_stays_behind_a_higher_one_that_lives(name):
    store = classic(name, max_priority=5)
    store.enter(copy("low", 1, expiration="100"), 0)
    assert store.expired(0) == []
    store.enter(copy("high", 3), 0)
    assert store.expired(500 * MS) == []
    store.take()
    assert texts(store.expired(500 * MS)) == ["low"]


@every_release
def test_a_ttl_of_0_without_dead_letter_exchange_keeps_a_message_out_of_a_queue_that_has_some(name):
    store = classic(name)
    fill(store, "a")
    store.configure(settings(name, "classic", {"message-ttl": 0}))
    assert store.expired(0) == []
    fill(store, "b")
    assert (store.ready, store.overflowing()) == (1, [])
    assert texts(store.expired(0)) == ["b"]
    store.configure(settings(name, "classic", {"message-ttl": 0, "dead-letter-exchange": ""}))
    fill(store, "c")
    assert (store.expired(0), store.ready) == ([], 2)


@every_release
def test_a_ttl_of_0_in_an_empty_queue_leaves_time_to_deliver(name):
    store = classic(name, message_ttl=0)
    fill(store, "a", now_us=5)
    assert text(store.take()) == "a"
    fill(store, "b", now_us=5)
    assert texts(store.expired(5)) == ["b"]


@pytest.mark.parametrize(("name", "redelivered"), [("3.8", ""), ("3.10", ""), ("4.0", ""), ("4.3", "*")])
def test_a_dead_letter_that_failed_before_is_redelivered_in_later_releases(name, redelivered):
    store = classic(name)
    store.enter(copy("m", delivery_count=1), 0)
    assert drain(store) == [f"m{redelivered}"]


def test_43_counts_rejects_and_lost_channels_but_not_nacks():
    store = classic("4.3")
    fill(store, "m")
    counts = []
    for how in ("nack", "reject", "recover", "lost channel"):
        out = take(store, 1)
        assert store.give_back(out, how, 0) == []
        counts.append(out[0].failed)
    assert counts == [None, 1, 1, 2]


def test_purge_removes_everything():
    store = classic("4.3", max_priority=5)
    fill(store, ["a", "bp3", "cp1"])
    assert sorted(texts(store.purge())) == ["a", "bp3", "cp1"]
    assert (store.ready, store.ready_bytes, store.head()) == (0, 0, None)


def test_a_store_survives_a_snapshot():
    store = classic("4.3", max_priority=5)
    fill(store, ["a", "bp3", "cp1"])
    assert drain(saved(store)) == ["bp3", "cp1", "a"]


# What 3.12 forgets of a message


@pytest.mark.parametrize(("name", "forgotten"), [("3.11", ""), ("3.12", "behind, third"), ("3.13", "")])
def test_the_expiration_of_what_arrives_behind_another_message_is_forgotten(name, forgotten):
    """Not that of a message published with BCC, nor of one that is the only one of its priority."""
    store = classic(name, max_priority=9)
    store.enter(copy("first", expiration="60000"), 0)
    store.enter(copy("behind", expiration="60000"), 0)
    store.enter(copy("hidden", expiration="60000", bcc=("b",)), 0)
    store.enter(copy("third", expiration="60000"), 0)
    store.enter(copy("urgent", 9, expiration="60000"), 0)
    store.enter(copy("lasting"), 0)
    assert ", ".join(text(one) for one in take(store, 6) if one.expiration_forgotten) == forgotten
