"""Quorum queues: order, priorities, returns, delivery limit, delayed retry, expiry, limits.

What is expected here is what servers of 3.8.9, 3.10.8, 4.0.5 and 4.3.6 did with the
same messages; the releases between them do as one of their neighbours does.
"""

from __future__ import annotations

import datetime
import decimal

import pytest

from dlx.deaths import Death
from dlx.releases import RELEASES
from tests import real_servers
from tests.broker.stores import MS, copy, drain, fill, quorum, saved, settings, take, text, texts

every_release = pytest.mark.parametrize("name", RELEASES)
SINCE_310 = real_servers.since("3.10")
WITH_LIMIT = {"delivery_limit": 50}


def unlimited(name):
    """What makes a queue of that release one without a delivery limit."""
    return {"delivery_limit": -1} if name in ("4.0", "4.3") else {}


# Order


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("3.8", "1 9 3 7 0 5 None 2 31 40"),
        ("3.10", "1 9 3 7 0 5 None 2 31 40"),
        ("4.0", "9 7 1 5 31 3 40 0 None 2"),
        ("4.3", "31 40 9 7 5 None 3 2 1 0"),
    ],
)
def test_priorities(name, order):
    store = quorum(name)
    for priority in (1, 9, 3, 7, 0, 5, None, 2, 31, 40):
        store.enter(copy(str(priority), priority), 0)
    assert " ".join(drain(store)) == order


def test_40_serves_two_high_to_one_normal_but_never_a_younger_normal_one():
    store = quorum("4.0")
    fill(store, ["h1p9", "h2p9", "h3p9", "h4p9", "n1", "n2"])
    assert drain(store) == ["h1p9", "h2p9", "h3p9", "h4p9", "n1", "n2"]
    fill(store, ["n1", "n2", "n3", "n4", "h1p9", "h2p9", "h3p9", "h4p9"])
    assert drain(store) == ["h1p9", "h2p9", "n1", "h3p9", "h4p9", "n2", "n3", "n4"]


def test_40_counts_turns_across_an_empty_queue():
    store = quorum("4.0")
    fill(store, "abcdefghijklmnopqrstuv")  # 22 turns: the next is the second of three
    drain(store)
    fill(store, ["n1", "n2", "n3", "n4", "h1p9", "h2p9", "h3p9", "h4p9"])
    assert drain(store) == ["h1p9", "n1", "h2p9", "h3p9", "n2", "h4p9", "n3", "n4"]


@pytest.mark.parametrize("how", ["nack", "reject", "recover", "lost channel"])
@every_release
def test_with_a_delivery_limit_returned_messages_are_served_first(name, how):
    store = quorum(name, **WITH_LIMIT)
    fill(store, "123456")
    store.give_back(take(store, 4), how, 0)
    assert drain(store) == ["1*", "2*", "3*", "4*", "5", "6"]


@pytest.mark.parametrize(
    ("name", "how", "order"),
    [
        ("3.8", "nack", ["1*", "2*", "3", "4"]),
        ("3.10", "nack", ["3", "4", "1*", "2*"]),
        ("3.10", "recover", ["3", "4", "1*", "2*"]),
        ("3.10", "lost channel", ["1*", "2*", "3", "4"]),
        ("3.13", "reject", ["3", "4", "1*", "2*"]),
        ("4.0", "reject", ["3", "4", "1*", "2*"]),
        ("4.0", "recover", ["3", "4", "1*", "2*"]),
        ("4.0", "lost channel", ["1*", "2*", "3", "4"]),
        ("4.3", "nack", ["1*", "2*", "3", "4"]),
        ("4.3", "lost channel", ["1*", "2*", "3", "4"]),
    ],
)
def test_without_a_delivery_limit_they_may_go_to_the_back(name, how, order):
    store = quorum(name, **unlimited(name))
    fill(store, "1234")
    store.give_back(take(store, 2), how, 0)
    assert drain(store) == order


@every_release
def test_returned_messages_keep_the_order_in_which_they_were_returned(name):
    store = quorum(name, **WITH_LIMIT)
    fill(store, "123456")
    out = take(store, 4)
    for index in (1, 3, 0, 2):
        store.give_back([out[index]], "reject", 0)
    assert drain(store) == ["2*", "4*", "1*", "3*", "5", "6"]


@pytest.mark.parametrize("name", ["4.0", "4.3"])
def test_a_returned_message_goes_before_those_of_any_priority(name):
    store = quorum(name)
    fill(store, ["ap1", "bp2"])
    out = take(store, 2)
    fill(store, ["cp31"])
    store.give_back([out[1]], "nack", 0)
    store.give_back([out[0]], "nack", 0)
    assert drain(store)[-1] == "cp31"


def test_40_returns_to_the_back_of_the_normal_lane():
    store = quorum("4.0", delivery_limit=-1)
    fill(store, ["h1p9", "h2p9", "n1"])
    out = take(store, 1)
    fill(store, ["h3p9"])
    store.give_back(out, "nack", 0)
    assert drain(store) == ["h2p9", "n1", "h3p9", "h1p9*"]


# Delivery counts and limit


@pytest.mark.parametrize(
    ("name", "how", "deliveries"),
    [
        ("3.8", "nack", 3),
        ("3.10", "nack", 3),
        ("4.0", "nack", 3),
        ("4.3", "reject", 3),
        ("4.3", "lost channel", 3),
        ("4.3", "nack", None),
        ("4.3", "recover", None),
    ],
)
def test_a_delivery_limit_of_2_allows_3_deliveries(name, how, deliveries):
    store = quorum(name, delivery_limit=2)
    fill(store, "m")
    dead, count = [], 0
    while not dead and count < 30:
        dead = store.give_back(take(store, 1), how, 0)
        count += 1
    assert (count if dead else None) == deliveries
    assert store.ready == (0 if dead else 1)


@pytest.mark.parametrize(("name", "failed", "starred"), [("3.10", None, "m"), ("4.0", 1, "m*"), ("4.3", 1, "m*")])
def test_a_dead_letter_brings_its_count_along(name, failed, starred):
    store = quorum(name)
    store.enter(copy("m", delivery_count=1), 0)
    one = store.take()
    assert (one.failed, text(one, starred=True)) == (failed, starred)


# Expiry


def test_38_knows_no_ttl():
    store = quorum("3.8")
    store.enter(copy("m", expiration="1"), 0)
    assert (store.due_us(), store.expired(10**12)) == (None, [])


@pytest.mark.parametrize("name", SINCE_310)
def test_the_shorter_of_expiration_and_queue_ttl_counts(name):
    store = quorum(name, message_ttl=100)
    for expiration, due_ms in ((None, 100), ("50", 50), ("200", 100)):
        store.enter(copy("m", expiration=expiration), 0)
        assert store.due_us() == due_ms * MS
        assert store.expired(due_ms * MS - 1) == []
        assert texts(store.expired(due_ms * MS)) == ["m"]
    assert store.ready == store.ready_bytes == 0


@pytest.mark.parametrize("name", SINCE_310)
def test_a_ttl_of_0_ends_after_a_millisecond(name):
    store = quorum(name, message_ttl=0)
    fill(store, "m")
    assert store.expired(0) == []
    assert texts(store.expired(MS)) == ["m"]


@pytest.mark.parametrize(
    ("name", "expired", "left"),
    [
        ("3.10", [], ["hip9", "lo1p1", "lo2p1", "midp5", "lo3p0"]),
        ("4.0", [], ["hip9", "midp5", "lo1p1", "lo2p1", "lo3p0"]),
        ("4.3", ["midp5", "lo1p1", "lo3p0"], ["hip9", "lo2p1"]),
    ],
)
def test_the_next_message_expires_or_the_head_of_every_priority(name, expired, left):
    store = quorum(name)
    fill(store, ["hip9"])
    store.enter(copy("lo1p1", 1, expiration="100"), 0)
    store.enter(copy("lo2p1", 1), 0)
    store.enter(copy("midp5", 5, expiration="150"), 0)
    store.enter(copy("lo3p0", 0, expiration="100"), 0)
    assert store.due_us() == (100 * MS if expired else None)
    assert texts(store.expired(600 * MS)) == expired
    assert store.due_us() is None
    assert drain(store) == left


@pytest.mark.parametrize(("name", "expired"), [("3.10", []), ("4.0", []), ("4.3", ["lo"])])
def test_behind_a_returned_message_only_later_releases_expire(name, expired):
    store = quorum(name, **WITH_LIMIT)
    fill(store, "a")
    store.give_back(take(store, 1), "nack", 0)
    store.enter(copy("lo", 0, expiration="100"), 0)
    assert texts(store.expired(500 * MS)) == expired


@pytest.mark.parametrize("name", SINCE_310)
def test_a_returned_message_expires_when_it_is_the_next(name):
    store = quorum(name, **WITH_LIMIT)
    fill(store, "a")
    for body in "bc":
        store.enter(copy(body, expiration="700"), 0)
    for one in take(store, 3):
        store.give_back([one], "nack", 0)
    assert store.expired(1_200 * MS) == []
    store.take()
    assert texts(store.expired(1_200 * MS)) == ["b", "c"]


# Limits


@pytest.mark.parametrize(
    ("name", "dropped", "left"),
    [
        ("3.10", ["9-3p9", "1-2p1", "9-1p9", "1-0p1"], ["1-4p1", "9-5p9"]),
        ("4.0", ["9-5p9", "1-0p1", "9-3p9", "9-1p9"], ["1-2p1", "1-4p1"]),
        ("4.3", ["9-1p9", "9-3p9", "9-5p9", "1-0p1"], ["1-2p1", "1-4p1"]),
    ],
)
def test_drop_head_takes_the_next_messages_and_tells_of_the_newest_first(name, dropped, left):
    store = quorum(name)
    fill(store, ["1-0p1", "9-1p9", "1-2p1", "9-3p9", "1-4p1", "9-5p9"])
    store.configure(settings(name, "quorum", {"max-length": 2}))
    assert texts(store.overflowing()) == dropped
    assert drain(store) == left


@pytest.mark.parametrize(
    ("name", "dropped"), [("3.8", ["2", "1"]), ("3.10", ["2", "1"]), ("4.0", ["2", "1"]), ("4.3", ["1", "2"])]
)
def test_drop_head_takes_what_was_just_returned(name, dropped):
    store = quorum(name, max_length=3, delivery_limit=10)
    fill(store, "123")
    out = take(store, 2)
    fill(store, "45")
    store.give_back(out, "nack", 0)
    assert texts(store.overflowing()) == dropped
    assert drain(store) == ["3", "4", "5"]


@pytest.mark.parametrize(
    ("fields", "body", "size"),
    [
        ({}, "12345", 7),
        ({"properties": {"delivery_mode": 2}}, "12345", 8),
        ({"expiration": "60000"}, "", 8),
        ({"headers": {}}, "", 6),
        ({"headers": {"a": 1}}, "", 13),
        ({"headers": {"a": 1, "CC": ["zz"]}}, "", 28),
        ({"headers": {"é": "ü"}, "properties": {"message_id": "ö"}}, "", 19),
        (
            {
                "properties": {
                    "content_type": "a/b",
                    "content_encoding": "utf8",
                    "delivery_mode": 2,
                    "priority": 3,
                    "correlation_id": "c1",
                    "reply_to": "rr",
                    "message_id": "m",
                    "timestamp": 123,
                    "type": "t",
                    "user_id": "guest",
                    "app_id": "app",
                    "cluster_id": "cl",
                }
            },
            "",
            44,
        ),
        (
            {
                "headers": {
                    "a": 1,
                    "big": 2**40,
                    "s": "text",
                    "by": b"\xff\xfe",
                    "t": True,
                    "n": None,
                    "ts": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
                    "dec": decimal.Decimal("1.5"),
                    "l": [1, "a", [2]],
                    "d": {"x": {"y": 1}},
                }
            },
            "",
            125,
        ),
    ],
)
def test_43_counts_the_properties_too(fields, body, size):
    for name, expected in (("4.3", size), ("4.0", len(body))):
        store = quorum(name)
        store.enter(copy(body, **fields), 0)
        assert store.ready_bytes == expected


def test_43_charges_a_dead_letter_for_the_expiration_it_had_but_not_for_its_deaths():
    death = Death(queue="src", reason="expired", count=1, exchange="", routing_keys=("src",), original_expiration="100")
    store = quorum("4.3")
    store.enter(copy("12345", headers={"a": 1, "CC": ["zz"]}, deaths=(death,)), 0)
    assert store.ready_bytes == 37


def publish(store, body="x", publisher="one"):
    """Publish on a channel; the answer, and what the queue does afterwards."""
    one = copy(body)
    store.overflowing()  # at the end of whatever was before
    if store.limited and store.refuses(one, internal=False, publisher=publisher):
        return "nack"
    store.enter(one, 0)
    store.overflowing()
    return "ack"


@pytest.mark.parametrize("name", SINCE_310)
def test_reject_publish_stops_a_channel_after_the_limit_is_passed(name):
    store = quorum(name, max_length=1, overflow="reject-publish")
    assert [publish(store) for _ in range(4)] == ["ack", "ack", "nack", "nack"]
    assert not store.refuses(copy("x"), internal=True)
    store.take()
    assert publish(store) == "nack"
    store.take()
    assert publish(store) == "ack"


@pytest.mark.parametrize("name", SINCE_310)
def test_each_channel_learns_for_itself(name):
    store = quorum(name, max_length=10, overflow="reject-publish")
    assert [publish(store) for _ in range(12)] == ["ack"] * 11 + ["nack"]
    assert publish(store, publisher="two") == "nack"
    take(store, 2)
    assert [publish(store, publisher=p) for p in ("one", "two", "three")] == ["nack", "nack", "ack"]
    assert [publish(store, publisher="three") for _ in range(2)] == ["ack", "nack"]
    take(store, 3)
    assert [publish(store, publisher=p) for p in ("one", "two", "three", "one")] == ["ack", "ack", "ack", "nack"]
    store.forget("one")
    take(store, 1)
    assert publish(store) == "ack"


@pytest.mark.parametrize("name", SINCE_310)
def test_a_later_limit_with_reject_publish_stops_who_published_before(name):
    store = quorum(name)
    store.know("before")
    fill(store, "1234567")
    store.configure(settings(name, "quorum", {"max-length": 5, "overflow": "reject-publish"}))
    store.overflowing()
    for _ in range(2):
        store.take()
    store.overflowing()
    assert store.refuses(copy("8"), internal=False, publisher="before")
    assert not store.refuses(copy("9"), internal=False, publisher="new")


@pytest.mark.parametrize("name", ["3.10", "4.0"])
def test_reject_publish_by_bytes(name):
    store = quorum(name, max_length_bytes=100, overflow="reject-publish")
    assert [publish(store, "x" * 30) for _ in range(6)] == ["ack"] * 4 + ["nack"] * 2
    store.take()
    assert publish(store) == "nack"
    store.take()
    assert publish(store) == "ack"


@pytest.mark.parametrize("name", SINCE_310)
def test_channels_go_on_when_the_limit_is_raised_far_enough(name):
    store = quorum(name)
    for limit, answers in ((2, ["ack"] * 3 + ["nack"]), (3, ["nack"]), (4, ["ack"])):
        store.configure(settings(name, "quorum", {"max-length": limit, "overflow": "reject-publish"}))
        assert [publish(store) for _ in answers] == answers


@pytest.mark.parametrize(
    ("name", "without_limit"), [("3.10", "nack"), ("3.13", "nack"), ("4.0", "ack"), ("4.3", "ack")]
)
def test_drop_head_does_not_readmit_a_channel_that_was_told_to_stop(name, without_limit):
    store = quorum(name)
    store.configure(settings(name, "quorum", {"max-length": 1, "overflow": "reject-publish"}))
    assert [publish(store) for _ in range(3)] == ["ack", "ack", "nack"]
    store.configure(settings(name, "quorum", {"max-length": 1, "overflow": "drop-head"}))
    assert len(store.overflowing()) == 1
    assert [publish(store), publish(store, publisher="new")] == ["nack", "ack"]
    drain(store)
    assert publish(store) == "nack"
    store.configure(settings(name, "quorum", {"message-ttl": 1_000}))
    assert publish(store) == without_limit


def test_messages_held_for_at_least_once_count_towards_the_limit():
    store = quorum("4.3", max_length=2, overflow="reject-publish", dead_letter_strategy="at-least-once")
    store.pending = 2
    assert [publish(store) for _ in range(3)] == ["ack", "nack", "nack"]
    store.pending = 0
    assert publish(store) == "ack"


# Delayed retry


def delayed(**more):
    return quorum("4.3", **{"delayed_retry_type": "all", "delayed_retry_min": 600, "delayed_retry_max": 900, **more})


@pytest.mark.parametrize(
    ("kind", "low", "high", "delays_ms"),
    [
        ("all", 300, None, (300, 300, 300)),
        ("failed", 300, None, (0, 300, 300)),
        ("returned", 300, None, (300, 0, 0)),
        ("all", 300, 100, (100, 100, 100)),
        ("all", 300, 2_000, (300, 300, 600)),
        ("disabled", 300, None, (0, 0, 0)),
        ("ALL", 300, 300, (0, 0, 0)),
        ("all", 0, None, (0, 0, 0)),
        ("all", None, 300, (0, 0, 0)),
        ("all", "x", 300, (0, 0, 0)),
        ("all", 300, "x", (300, 300, 300)),
        ("all", 300, -5, (300, 300, 300)),
    ],
)
def test_how_long_a_message_is_kept_back(kind, low, high, delays_ms):
    arguments = {"delayed_retry_type": kind, "delayed_retry_min": low, "delayed_retry_max": high}
    store = quorum("4.3", **{key: value for key, value in arguments.items() if value is not None})
    fill(store, "m")
    for how, delay_ms in zip(("nack", "reject", "lost channel"), delays_ms, strict=True):
        store.give_back(take(store, 1), how, 0)
        assert store.due_us() == (delay_ms * MS or None)
        if delay_ms:
            assert (store.ready, store.total, store.awake(delay_ms * MS - 1)) == (0, 1, False)
            assert store.awake(delay_ms * MS)
        assert (store.ready, store.total) == (1, 1)


def test_other_releases_keep_nothing_back():
    store = quorum("4.0", delayed_retry_type="all", delayed_retry_min=600)
    fill(store, "m")
    store.give_back(take(store, 1), "reject", 0)
    assert store.ready == 1


def test_what_is_kept_back_counts_towards_the_limit_and_comes_to_the_front():
    store = delayed(max_length=3)
    fill(store, "ab")
    store.give_back(take(store, 2), "nack", 0)
    fill(store, "ce")
    assert texts(store.overflowing()) == ["c"]
    assert store.awake(600 * MS)
    assert drain(store) == ["a*", "b*", "e"]


def test_limits_cannot_push_out_what_is_kept_back():
    store = delayed(max_length=0)
    fill(store, "a")
    store.give_back(take(store, 1), "nack", 0)
    assert store.overflowing() == []
    assert store.total == 1


def test_what_is_kept_back_expires_when_it_is_back():
    store = delayed()
    store.enter(copy("t", expiration="200"), 0)
    store.give_back(take(store, 1), "reject", 0)
    assert store.expired(500 * MS) == []
    assert store.awake(600 * MS)
    assert texts(store.expired(600 * MS)) == ["t"]


def test_what_is_kept_back_comes_by_time_and_in_one_millisecond_by_age():
    store = delayed()
    fill(store, "pqr")
    p, q, r = take(store, 3)
    store.give_back([r], "nack", 0)
    store.give_back([q], "nack", MS)
    store.give_back([p], "nack", MS + 999)
    store.awake(800 * MS)
    assert drain(store) == ["r*", "p*", "q*"]


def test_what_is_next_to_come_back_stays_the_next_beside_an_older_one_of_the_same_millisecond():
    store = delayed()
    fill(store, "pqrs")
    p, q, r, s = take(store, 4)
    store.give_back([r, q, p], "nack", MS)
    store.give_back([s], "nack", 0)
    store.awake(800 * MS)
    assert drain(store) == ["s*", "p*", "q*", "r*"]
    fill(store, "pqr")
    p, q, r = take(store, 3)
    store.give_back([r, q, p], "nack", MS)
    store.awake(800 * MS)
    assert drain(store) == ["r*", "p*", "q*"]


def test_purge_removes_what_is_kept_back():
    store = delayed()
    fill(store, "xy")
    store.give_back(take(store, 1), "nack", 0)
    assert sorted(texts(store.purge())) == ["x", "y"]
    assert (store.total, store.ready_bytes, store.due_us(), store.awake(10**9)) == (0, 0, None, False)


@pytest.mark.parametrize("name", ["4.0", "4.3"])
def test_a_store_survives_a_snapshot(name):
    store = quorum(name)
    fill(store, ["ap1", "bp9", "c"])
    store.give_back(take(store, 1), "nack", 0)
    again = saved(store)
    assert drain(again) == drain(store)
