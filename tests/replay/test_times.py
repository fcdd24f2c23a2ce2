"""Times refute a path, bound its deaths, or leave it unchecked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simulator.capture import open_log
from simulator.definitions import Definitions
from simulator.replay import Assumptions, replay_table
from tests.replay.logs import START, Log, death, definitions_of, died, write_log

START_US = int(START.timestamp()) * 1_000_000
TO_LATE = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "late"}
EXPIRED = died(death("inbox", "expired", keys=["inbox"]))


def waiting(ttl_ms: int | None, **more: Any) -> Definitions:
    """``inbox``, in which messages wait before they come to ``late``."""
    ttl = {} if ttl_ms is None else {"x-message-ttl": ttl_ms}
    return definitions_of({"inbox": {**TO_LATE, **ttl, **more}, "late": {}})


@pytest.fixture(params=["stepped", "remembered"])
def replay(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Replays a log; its messages are looked up by their sequences where another message comes after them."""

    def run(log: Log, definitions: Definitions, tolerance_ms: float = 100) -> list[dict[str, Any]]:
        records = list(log.records)
        if request.param == "remembered":
            records.append(Log().publish("", "nowhere", message_id="z last").records[0])
        path = write_log(tmp_path / "trace.log", records)
        table = replay_table(open_log(path), definitions, "4.3", Assumptions(tolerance_ms))
        rows = sorted(table.to_pylist(), key=lambda row: row["line"])
        return [row for row in rows if row["event"] == "delivered"]

    return run


def told(row: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(each["field"], each["expected"], each["seen"]) for each in row["differences"]]


def passed(seconds: int, log: Log) -> Log:
    """The log, after that many seconds in which other messages were published."""
    for _ in range(seconds):
        log.publish("", "nowhere", message_id="another")
    return log


def test_a_message_that_died_before_its_ttl_is_told_with_queue_and_setting(replay: Any) -> None:
    log = Log().publish("", "inbox").deliver("late", "", ["late"], headers=EXPIRED)
    (row,) = replay(log, waiting(60_000))
    assert row["verdict"] == "differ"
    assert told(row) == [("time in 'inbox'", "at least 60,000 ms (message-ttl 60000 by argument)", "at most 1,099 ms")]
    (row,) = replay(log, waiting(900))
    assert (row["verdict"], row["unchecked"]) == ("agree", [])


def test_the_policy_that_sets_the_ttl_is_named(replay: Any) -> None:
    policy = {"name": "slow", "vhost": "/", "pattern": "^inbox$", "definition": {"message-ttl": 5000}}
    definitions = definitions_of({"inbox": TO_LATE, "late": {}}, policies=[policy])
    log = Log().publish("", "inbox").deliver("late", "", ["late"], headers=EXPIRED)
    (row,) = replay(log, definitions)
    assert told(row)[0][1] == "at least 5,000 ms (message-ttl 5000 by policy slow)"


@pytest.mark.parametrize(("expiration", "verdict"), [("900", "agree"), ("1500", "differ")])
@pytest.mark.parametrize("ttl_ms", [None, 60_000])
def test_the_smaller_ttl_counts(replay: Any, ttl_ms: int | None, expiration: str, verdict: str) -> None:
    headers = died({"original-expiration": expiration, **death("inbox", "expired", keys=["inbox"])})
    log = Log().publish("", "inbox", expiration=expiration).deliver("late", "", ["late"], headers=headers)
    (row,) = replay(log, waiting(ttl_ms))
    assert row["verdict"] == verdict
    if verdict == "differ":
        assert told(row)[0][1] == "at least 1,500 ms (expiration of the message)"


def test_waits_add_up(replay: Any) -> None:
    back = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"}
    headers = died(death("b", "expired", keys=["b"]), death("a", "expired", keys=["a"]))
    log = passed(2, Log().publish("", "a")).deliver("work", "", ["work"], headers=headers)
    for ttl_ms, verdict in ((1000, "agree"), (2500, "differ")):
        queues = {
            "a": {"x-message-ttl": 1000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "b"},
            "b": {"x-message-ttl": ttl_ms, **back},
            "work": {},
        }
        row = replay(log, definitions_of(queues))[-1]
        assert row["verdict"] == verdict, told(row)


def test_a_message_is_not_delivered_after_its_ttl(replay: Any) -> None:
    log = passed(3, Log().publish("", "inbox")).deliver("inbox", "", ["inbox"])
    assert [row["verdict"] for row in replay(log, waiting(5000))] == ["agree"]
    (row,) = replay(log, waiting(2000))
    assert row["verdict"] == "differ"
    assert told(row) == [("time in 'inbox'", "at most 2,000 ms (message-ttl 2000 by argument)", "at least 3,900 ms")]


def test_a_message_with_priority_may_be_delivered_after_its_ttl(replay: Any) -> None:
    log = passed(3, Log().publish("", "inbox")).deliver("inbox", "", ["inbox"])
    (row,) = replay(log, waiting(2000, **{"x-max-priority": 5}))
    why = "message-ttl 2000 by argument; it was delivered later than that"
    assert (row["verdict"], row["unchecked"]) == ("agree", [{"what": "message-ttl", "name": "inbox", "why": why}])
    (row,) = replay(log, waiting(5000, **{"x-max-priority": 5}))
    assert (row["verdict"], row["unchecked"]) == ("agree", [])


def test_a_requeued_message_keeps_its_time(replay: Any) -> None:
    """It is dead half a second after its second delivery, and was in the queue for two seconds and a half."""
    log = passed(1, Log().publish("", "inbox")).deliver("inbox", "", ["inbox"])
    log.deliver("late", "", ["late"], headers=EXPIRED)
    assert [row["verdict"] for row in replay(log, waiting(2500))] == ["agree", "agree"]
    assert [row["verdict"] for row in replay(log, waiting(3500))] == ["agree", "differ"]


def test_the_tolerance_decides(replay: Any) -> None:
    log = Log().publish("", "inbox").deliver("late", "", ["late"], headers=EXPIRED)
    assert [replay(log, waiting(1300), ms)[0]["verdict"] for ms in (100, 1000)] == ["differ", "agree"]


def test_where_the_latest_publish_is_too_late_the_one_before_explains_it(replay: Any) -> None:
    log = passed(3, Log().publish("", "inbox")).publish("", "inbox")
    log.deliver("late", "", ["late"], headers=EXPIRED)
    (row,) = replay(log, waiting(4000))
    assert row["verdict"] == "agree"
    assert row["hops"][0]["earliest_us"] == START_US + 4_000_000


def test_deaths_have_bounds(replay: Any) -> None:
    headers = died(death("inbox", "expired", keys=["inbox"]))
    log = passed(4, Log().publish("", "inbox")).deliver("late", "", ["late"], headers=headers)
    (hop,) = replay(log, waiting(1500))[0]["hops"]
    # x-death has the second of the death: between the TTL and the delivery.
    assert (hop["earliest_us"], hop["latest_us"]) == (START_US + 4_000_000, START_US + 4_999_999)
    del log.records[-1]["properties"]["headers"]["x-death"][0]["time"]
    (hop,) = replay(log, waiting(1500))[0]["hops"]
    assert (hop["earliest_us"], hop["latest_us"]) == (START_US + 1_500_000, START_US + 5_000_000)


def test_a_death_lies_before_the_wait_that_follows_it(replay: Any) -> None:
    wait = {"x-message-ttl": 1000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"}
    work = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"}
    headers = died(death("wait", "expired", keys=["wait"]), death("work", "rejected", keys=["work"]))
    log = passed(2, Log().publish("", "work").deliver("work", "", ["work"])).deliver(
        "work", "", ["work"], headers=headers
    )
    for entry in log.records[-1]["properties"]["headers"]["x-death"]:
        del entry["time"]
    rejected, expired = replay(log, definitions_of({"work": work, "wait": wait}))[-1]["hops"]
    assert (rejected["earliest_us"], rejected["latest_us"]) == (START_US + 1_000_000, START_US + 3_000_000)
    assert (expired["earliest_us"], expired["latest_us"]) == (START_US + 2_000_000, START_US + 4_000_000)


def test_a_death_that_x_death_puts_before_the_publish_is_told(replay: Any) -> None:
    long_ago = {**death("inbox", "expired", keys=["inbox"]), "time": 1_700_000_000}
    log = Log().publish("", "inbox").deliver("late", "", ["late"], headers=died(long_ago))
    (row,) = replay(log, waiting(500))
    assert row["verdict"] == "differ"
    ((field, expected, seen),) = told(row)
    assert field == "x-death time of expired in 'inbox'"
    assert expected.startswith("2026-11-21 10:00:00.500 UTC")
    assert seen.startswith("2023-11-14 22:13:20.999 UTC")


def test_a_ttl_that_the_tolerance_hides_is_unchecked(replay: Any) -> None:
    log = Log().publish("", "inbox").deliver("late", "", ["late"], headers=EXPIRED)
    (row,) = replay(log, waiting(80))
    assert row["verdict"] == "agree"
    assert row["unchecked"] == [
        {
            "what": "message-ttl",
            "name": "inbox",
            "why": "message-ttl 80 by argument, not above the tolerance of 100 ms",
        }
    ]
    assert replay(log, waiting(80), 50)[0]["unchecked"] == []


def test_a_death_long_after_its_ttl_is_unchecked(replay: Any) -> None:
    """Something may have held it up: a message before it, or a broker that was down."""
    log = passed(8, Log().publish("", "inbox")).deliver("late", "", ["late"], headers=EXPIRED)
    (row,) = replay(log, waiting(1500))
    assert row["verdict"] == "agree"
    assert [each["why"] for each in row["unchecked"]] == ["message-ttl 1500 by argument; it died later than that"]


def test_an_exchange_that_may_delay_leaves_the_entry_open(replay: Any) -> None:
    definitions = definitions_of({"inbox": {"x-message-ttl": 1000}}, {"x": "x-recent-history"}, [("x", "inbox", "k")])
    log = passed(5, Log().publish("x", "k")).deliver("inbox", "x", ["k"])
    (row,) = replay(log, definitions)
    assert row["verdict"] == "agree"
    assert [each["what"] for each in row["unchecked"]] == ["routing", "message-ttl"]


def retried(second_time_s: int) -> Log:
    """A message that died in a queue and waited twice; the third delivery shows the time of the first death anew."""
    log = Log().publish("", "work").deliver("work", "", ["work"])
    for count, time_s in ((1, None), (2, second_time_s)):
        rejected, expired = (
            death(queue, reason, count=count, keys=[queue])
            for queue, reason in (("work", "rejected"), ("wait", "expired"))
        )
        if time_s is not None:
            rejected["time"] = int(START.timestamp()) + time_s
        log.publish("", "other", message_id="clock").publish("", "other", message_id="clock")
        log.deliver("work", "", ["work"], headers=died(expired, rejected, first=rejected))
    return log


@pytest.mark.parametrize(("time_s", "verdict"), [(3, "agree"), (6, "differ"), (3600, "differ")])
def test_a_death_keeps_its_time(tmp_path: Path, time_s: int, verdict: str) -> None:
    wait = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work", "x-message-ttl": 500}
    work = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"}
    rows = retried(time_s).replay(tmp_path, definitions_of({"work": work, "wait": wait, "other": {}}))
    assert [row["verdict"] for row in rows] == ["agree", "agree", verdict]


@pytest.mark.parametrize(("expires_ms", "words"), [(50, ["expires"]), (1000, [])])
def test_a_queue_that_is_deleted_before_the_ttl_is_unchecked(tmp_path: Path, expires_ms: int, words: list[str]) -> None:
    """Somebody may have used it: no trace shows that."""
    wait = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "late", "x-message-ttl": 500}
    log = Log().publish("", "wait").deliver("late", "", ["late"], headers=died(death("wait", "expired", keys=["wait"])))
    (row,) = log.replay(tmp_path, definitions_of({"wait": wait | {"x-expires": expires_ms}, "late": {}}))
    assert row["verdict"] == "agree"
    assert [each["what"] for each in row["unchecked"]] == words


@pytest.mark.parametrize(
    ("published", "delivered", "verdict"),
    [(None, None, "agree"), (None, "5", "differ"), ("5000", "5000", "agree"), ("5000", "5", "differ")],
)
def test_a_stream_hands_out_the_expiration_of_the_publish(
    tmp_path: Path, published: str | None, delivered: str | None, verdict: str
) -> None:
    def own(expiration: str | None) -> dict[str, str]:
        return {} if expiration is None else {"expiration": expiration}

    log = Log().publish("", "log", **own(published))
    log.deliver("log", "", ["log"], headers={"x-stream-offset": 0}, **own(delivered))
    (row,) = log.replay(tmp_path, definitions_of({"log": {"x-queue-type": "stream"}}))
    assert row["verdict"] == verdict
