"""A replay knows how long an exchange delays a message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simulator.capture import convert
from simulator.cli.main import main
from simulator.definitions import Definitions, parse_definitions
from simulator.replay import Database, replay_files
from simulator.replay.report.message_lives import message_lives
from tests.replay.logs import START, Log, death, definitions_of, died, replayed, write_log
from tests.replay.test_times import passed, told

DELAYED = {"x-delayed-type": "direct"}


def delaying(
    queues: dict[str, dict[str, Any]], bindings: list[tuple[str, str, str]], arguments: dict[str, Any] | None = None
) -> Definitions:
    """Definitions with the delayed exchange ``later``."""
    document = definitions_of(queues, {"later": "x-delayed-message"}, bindings).document
    document["exchanges"][0]["arguments"] = DELAYED if arguments is None else arguments
    return parse_definitions(json.dumps(document).encode(), "definitions.json")


WORK = delaying({"work": {}}, [("later", "work", "k")])


@pytest.mark.parametrize(("rules", "after"), [("4.0", -2_000), ("3.10", 2_000), ("3.10", -2_000)])
def test_a_message_comes_when_its_delay_is_over(tmp_path: Path, rules: str, after: int) -> None:
    log = Log().publish("later", "k", routed=[], headers={"x-delay": 2_000, "kind": "a"})
    passed(1, log).deliver("work", "later", ["k"], headers={"x-delay": after, "kind": "a"})
    (row,) = log.replay(tmp_path, WORK, rules)
    assert (row["verdict"], row["unchecked"], row["hops"]) == ("agree", [], [])


def test_a_message_that_comes_before_its_delay_is_over_differs(tmp_path: Path) -> None:
    log = Log().publish("later", "k", routed=[], headers={"x-delay": 5_000})
    log.deliver("work", "later", ["k"], headers={"x-delay": -5_000})
    (row,) = log.replay(tmp_path, WORK, "4.0")
    assert told(row) == [("x-delay before 'work'", "at least 5,000 ms", "at most 1,100 ms")]


def test_a_ttl_begins_when_the_delay_is_over(tmp_path: Path) -> None:
    definitions = delaying({"work": {"x-message-ttl": 2_000}}, [("later", "work", "k")])
    log = Log().publish("later", "k", routed=[], headers={"x-delay": 3_000})
    passed(3, log).deliver("work", "later", ["k"], headers={"x-delay": -3_000})
    (row,) = log.replay(tmp_path, definitions, "4.0")
    assert (row["verdict"], row["unchecked"]) == ("agree", [])
    log = Log().publish("later", "k", routed=[], headers={"x-delay": 3_000})
    passed(6, log).deliver("work", "later", ["k"], headers={"x-delay": -3_000})
    (row,) = log.replay(tmp_path, definitions, "4.0")
    assert told(row) == [("time in 'work'", "at most 2,000 ms (message-ttl 2000 by argument)", "at least 3,900 ms")]


def test_a_message_without_a_delay_comes_at_once(tmp_path: Path) -> None:
    log = Log().publish("later", "k", routed=["work"], headers={"x-delay": 0})
    log.deliver("work", "later", ["k"], headers={"x-delay": 0})
    (row,) = log.replay(tmp_path, WORK, "4.0")
    assert (row["verdict"], row["unchecked"]) == ("agree", [])


RETRY = delaying({"work": {"x-dead-letter-exchange": "later"}}, [("later", "work", "work")])


def retried(delay_ms: int, seconds: int) -> Log:
    """A message with a delay that is rejected one second after its publish, and comes back by the delayed exchange."""
    at_s = int(START.timestamp()) + 1
    log = Log().publish("", "work", headers={"x-delay": delay_ms})
    log.deliver("work", "", ["work"], headers={"x-delay": delay_ms})
    rejected = died({**death("work", "rejected", keys=["work"]), "time": at_s})
    return passed(seconds - 1, log).deliver("work", "later", ["work"], headers={"x-delay": -delay_ms, **rejected})


def test_a_dead_letter_waits_in_the_exchange_once(tmp_path: Path) -> None:
    log = retried(3_000, 3)
    again = died({**death("work", "rejected", keys=["work"]), "count": 2, "time": int(START.timestamp()) + 1})
    log.deliver("work", "later", ["work"], headers={"x-delay": -3_000, **again, "x-last-death-exchange": "later"})
    verdicts = log.replay(tmp_path, RETRY, "4.0")
    assert [(each["verdict"], told(each), each["unchecked"]) for each in verdicts] == [("agree", [], [])] * 3


def test_a_dead_letter_that_comes_before_its_delay_is_over_differs(tmp_path: Path) -> None:
    _, row = retried(9_000, 3).replay(tmp_path, RETRY, "4.0")
    assert told(row) == [("x-delay before 'work'", "at least 9,000 ms", "at most 3,100 ms")]


def ended(log: Log, tmp_path: Path, definitions: Definitions) -> list[tuple[str, int, bool]]:
    """The dead ends of the last row: queue, how long after it in ms, and whether it is certain."""
    last = replayed(write_log(tmp_path / "trace.log", log.records), definitions, "4.0")[-1]
    return [(end["queue"], end["after_ms"], end["certain"]) for end in last["dead_ends"] or ()]


def test_a_message_that_waits_in_the_exchange_is_lost_only_after_its_delay(tmp_path: Path) -> None:
    lossy = {"x-message-ttl": 1_000, "x-dead-letter-exchange": "missing"}
    log = Log().publish("later", "k", routed=[], headers={"x-delay": 60_000})
    assert ended(log, tmp_path, delaying({"work": lossy}, [("later", "work", "k")])) == [("work", 61_000, True)]
    log = Log().publish("later", "k", routed=["work"])
    assert ended(log, tmp_path, delaying({"work": lossy}, [("later", "work", "k")])) == [("work", 1_000, True)]


def test_a_dead_letter_that_waits_in_the_exchange_is_lost_only_after_its_delay(tmp_path: Path) -> None:
    first = {"x-message-ttl": 1_000, "x-dead-letter-exchange": "later"}
    lossy = {"x-message-ttl": 1_000, "x-dead-letter-exchange": "missing"}
    log = Log().publish("", "first", headers={"x-delay": 60_000})
    definitions = delaying({"first": first, "work": lossy}, [("later", "work", "first")])
    assert ended(log, tmp_path, definitions) == [("work", 62_000, True)]
    assert ended(log, tmp_path, delaying({"first": first, "work": lossy}, [])) == [("first", 61_000, True)]


def test_an_at_least_once_queue_holds_what_an_exchange_delays(tmp_path: Path) -> None:
    strict = {"x-queue-type": "quorum", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
    first = {"x-message-ttl": 1_000, "x-dead-letter-exchange": "later", **strict}
    definitions = delaying({"first": first, "work": {}}, [("later", "work", "first")])
    log = Log().publish("", "first", headers={"x-delay": 60_000})
    (last,) = replayed(write_log(tmp_path / "trace.log", log.records), definitions, "4.0")
    (end,) = last["dead_ends"]
    assert (end["queue"], end["fate"], end["certain"]) == ("first", "held", True)
    assert "delays it for 60,000 ms, which counts as no queue" in end["why"]


@pytest.mark.parametrize("kind", ["x-random", "x-consistent-hash", "x-modulus-hash"])
def test_an_exchange_that_chooses_may_choose_any_of_its_queues(tmp_path: Path, kind: str) -> None:
    lossy = {"x-message-ttl": 1_000, "x-dead-letter-exchange": "missing"}
    definitions = definitions_of({"a": lossy, "b": {}}, {"x": kind}, [("x", "a", "1"), ("x", "b", "1")])
    log = Log().publish("x", "k", routed=["b"]).deliver("b", "x", ["k"])
    publish, delivery = replayed(write_log(tmp_path / "trace.log", log.records), definitions, "4.0")
    assert publish["verdict"] is None
    assert (delivery["verdict"], delivery["dead_ends"]) == ("agree", [])
    assert [each["what"] for each in delivery["unchecked"]] == ([] if kind == "x-random" else ["routing"])
    both = Log().publish("x", "k", routed=["a", "b"])
    (publish,) = replayed(write_log(tmp_path / "trace.log", both.records), definitions, "4.0")
    assert told(publish) == [("routed_queues of exchange 'x'", 'one of ["a","b"]', '["a","b"]')]


def explained(log: Log, tmp_path: Path, definitions: Definitions, *more: str) -> int:
    """The exit code of ``dlx explain LOG --message m1``."""
    given = tmp_path / "definitions.json"
    given.write_text(json.dumps(definitions.document))
    path = str(write_log(tmp_path / "trace.log", log.records))
    return main(["explain", path, "--definitions", str(given), "--message", "m1", "--release", "4.0", *more])


def test_a_message_whose_delay_is_not_over_waits_in_the_exchange(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = passed(2, Log().publish("later", "k", routed=[], headers={"x-delay": 60_000}))
    assert explained(log, tmp_path, WORK) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "the exchange 'later' keeps it until 1 min after the first row" in told
    assert "x-delay 60000" in told
    assert "Last known: delayed" in told
    assert "the log ends while it waits in the exchange 'later', until 1 min" in told
    assert explained(log, tmp_path, WORK, "--format", "mermaid") == 0


def test_the_life_of_a_message_tells_its_wait_in_the_exchange(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = passed(1, Log().publish("later", "k", routed=[], headers={"x-delay": 2_000}))
    assert explained(log.deliver("work", "later", ["k"], headers={"x-delay": -2_000}), tmp_path, WORK) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "the exchange 'later' keeps it until 2 s after the first row" in told
    assert "waits in the exchange" not in told


def test_the_life_of_a_dead_letter_tells_its_wait_in_the_exchange(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explained(retried(3_000, 3), tmp_path, RETRY) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "through the exchange 'later' to 'work' after a delay of 3 s (x-delay): no row shows it" in told
    assert told.count("after a delay of") == 1


def test_a_report_says_of_a_delayed_publish_that_no_queue_has_it_at_once(tmp_path: Path) -> None:
    log = write_log(tmp_path / "trace.log", Log().publish("later", "k", routed=[], headers={"x-delay": 60_000}).records)
    convert([log], tmp_path / "log.parquet")
    with Database(tmp_path) as database:
        captured = database.parquet([tmp_path / "log.parquet"])
        replayed_log = replay_files(captured, WORK, "4.0", verdicts=tmp_path / "verdicts.parquet")
        (life,) = message_lives(replayed_log, captured, 0)
    told = "Published to the exchange 'later' with the key 'k', which routed it to no queue at once (x-delay 60000)."
    assert [step.text for step in life.steps] == [told]
