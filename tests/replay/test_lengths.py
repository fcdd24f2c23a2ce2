"""Deaths by a length limit need messages that fill the queue."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any

import pytest

from dlx.message import Message
from dlx.message_flow import MessageFlow
from dlx.releases import release
from simulator.capture import open_log
from simulator.definitions import Definitions
from simulator.replay import Assumptions, replay_table
from simulator.replay.kernel.arrivals import Entrants
from tests.replay.logs import Log, death, definitions_of, died, write_log

TO_LATE = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "late"}
DROPPED = died(death("inbox", "maxlen", keys=["inbox"]))


def limited(**inbox: Any) -> Definitions:
    arguments = {f"x-{name.replace('_', '-')}": value for name, value in inbox.items()}
    return definitions_of({"inbox": {**TO_LATE, **arguments}, "late": {}})


def log(*, before: int = 0, after: int = 0) -> Log:
    """A message that is dropped, and how many are published before and after it."""
    found = Log()
    for number in range(before):
        found.publish("", "inbox", message_id=f"before {number}")
    found.publish("", "inbox")
    for number in range(after):
        found.publish("", "inbox", message_id=f"after {number}")
    return found.deliver("late", "", ["late"], headers=DROPPED)


def judged(tmp_path: Path, found: Log, definitions: Definitions, *, complete: bool, rules: str = "4.3") -> Any:
    path = write_log(tmp_path / "trace.log", found.records)
    rows = replay_table(open_log(path), definitions, rules, Assumptions(complete=complete)).to_pylist()
    (row,) = [row for row in rows if row["queue"] == "late"]
    return row


@pytest.mark.parametrize(("length", "fills"), [(0, True), (2, True), (3, False), (1_000_000, False)])
def test_more_messages_than_the_limit_must_have_come(tmp_path: Path, length: int, fills: bool) -> None:
    open_end = judged(tmp_path, log(after=2), limited(max_length=length), complete=False)
    assert open_end["verdict"] == "agree"
    why = f"max-length {length} by argument; the log shows fewer messages there"
    assert open_end["unchecked"] == ([] if fills else [{"what": "max-length", "name": "inbox", "why": why}])
    whole = judged(tmp_path, log(after=2), limited(max_length=length), complete=True)
    assert whole["verdict"] == ("agree" if fills else "differ")
    if not fills:
        (difference,) = whole["differences"]
        assert difference["field"] == "messages in 'inbox'"
        assert difference["expected"] == f"more than {length:,} (max-length {length} by argument)"
        assert difference["seen"] == "at most 3"


@pytest.mark.parametrize(
    ("arguments", "verdict"),
    [
        ({}, "differ"),
        ({"overflow": "reject-publish-dlx"}, "agree"),
        ({"max_priority": 3}, "agree"),
        ({"queue_type": "quorum"}, "agree"),
    ],
    ids=["oldest first", "newest", "by priority", "quorum"],
)
def test_a_queue_that_drops_its_oldest_message_was_filled_by_later_ones(
    tmp_path: Path, arguments: dict[str, Any], verdict: str
) -> None:
    row = judged(tmp_path, log(before=3), limited(max_length=2, **arguments), complete=True)
    assert row["verdict"] == verdict


def test_messages_of_after_the_death_do_not_fill_the_queue(tmp_path: Path) -> None:
    found = log(after=1)
    for number in range(9):
        found.publish("", "inbox", message_id=f"late {number}")
    assert judged(tmp_path, found, limited(max_length=3), complete=True)["verdict"] == "differ"


@pytest.mark.parametrize(("size", "verdict"), [(11, "agree"), (12, "differ")])
def test_payloads_fill_a_limit_in_bytes(tmp_path: Path, size: int, verdict: str) -> None:
    """Three messages of four bytes each."""
    row = judged(tmp_path, log(after=2), limited(max_length_bytes=size), complete=True)
    assert row["verdict"] == verdict
    assert verdict == "agree" or row["differences"][0]["field"] == "bytes in 'inbox'"


def test_a_size_that_the_log_does_not_have_is_unchecked(tmp_path: Path) -> None:
    """Quorum queues of 4.3 count properties, too."""
    definitions = limited(max_length_bytes=500, queue_type="quorum")
    row = judged(tmp_path, log(after=2), definitions, complete=True)
    assert (row["verdict"], [each["what"] for each in row["unchecked"]]) == ("agree", ["max-length"])
    assert judged(tmp_path, log(after=2), definitions, complete=True, rules="4.0")["verdict"] == "differ"


def test_dead_letters_of_other_queues_may_have_filled_it(tmp_path: Path) -> None:
    queues = {"inbox": {**TO_LATE, "x-max-length": 2}, "late": {}}
    queues["other"] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "inbox"}
    found = Log()
    for number in range(2):
        found.publish("", "other", message_id=f"other {number}")
    found.publish("", "inbox").deliver("late", "", ["late"], headers=DROPPED)
    assert judged(tmp_path, found, definitions_of(queues), complete=True)["verdict"] == "agree"


def most(queues: dict[str, dict[str, Any]], bindings: list[tuple[str, str, str]], key: str) -> dict[str, Any]:
    """What a publish to a queue can put into the limited ones: at once, and later."""
    flow = MessageFlow(definitions_of(queues, {"fan": "fanout"}, bindings).topology("/"), release("4.3"))
    roots = flow.publish(Message(exchange="", routing_keys=(key,)))
    return {each.queue: (each.at_once, each.later) for each in Entrants(flow).of(roots, delayed=False)}


FAN = {"x-dead-letter-exchange": "fan"}
FULL = {"x-max-length": 5}


@pytest.mark.parametrize(
    ("queues", "bound", "counted"),
    [
        ({"a": FULL}, [], {"a": (1, 0)}),
        ({"a": FAN, "b": FULL}, ["b"], {"b": (0, 1)}),
        ({"a": FAN, "b": FAN, "c": FAN, "d": FULL}, ["d"], {"d": (0, 1)}),
        ({"a": FAN | FULL, "b": FAN}, ["a", "b"], {"a": (0, inf)}),
        ({"a": FAN | FULL}, ["a"], {"a": (0, 1)}),
    ],
    ids=["publish", "dead letter", "one way", "copies each time round", "a loop of one"],
)
def test_what_one_publish_can_put_into_a_queue(
    queues: dict[str, dict[str, Any]], bound: list[str], counted: dict[str, Any]
) -> None:
    assert most(queues, [("fan", name, "") for name in bound], "a") == counted


def test_copies_that_meet_again_are_several() -> None:
    onward = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "d"}
    queues = {"a": FAN, "b": onward, "c": onward, "d": FULL}
    assert most(queues, [("fan", "b", ""), ("fan", "c", "")], "a") == {"d": (0, 2)}


def test_copies_without_bound_are_unchecked(tmp_path: Path) -> None:
    queues = {"inbox": {"x-dead-letter-exchange": "fan", "x-max-length": 50}, "late": FAN}
    definitions = definitions_of(queues, {"fan": "fanout"}, [("fan", "inbox", ""), ("fan", "late", "")])
    found = Log().publish("", "inbox").deliver("late", "fan", ["inbox"], headers=DROPPED)
    row = judged(tmp_path, found, definitions, complete=True)
    assert (row["verdict"], [each["what"] for each in row["unchecked"]]) == ("agree", ["max-length"])
