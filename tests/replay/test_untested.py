"""A replay names the settings that its log did not put to the test: altered, they agree as well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simulator.cli.main import main
from simulator.definitions import Definitions
from tests.replay.logs import START, Log, death, definitions_of, died, write_log

DEAD = {"x-dead-letter-exchange": "dlx", "x-dead-letter-routing-key": "late"}
Arguments = dict[str, Any]


def shop(kind: str = "direct", late: Arguments | None = None, **own: Any) -> Definitions:
    """Dead letters of ``work`` come through the exchange ``dlx`` to ``late``."""
    arguments = DEAD | {f"x-{name.replace('_', '-')}": value for name, value in own.items()}
    return definitions_of({"work": arguments, "late": late or {}}, {"dlx": kind}, [("dlx", "late", "late")])


def dead_letters(reason: str) -> Log:
    """Three messages come into ``work``, are delivered there if they are rejected, and die there."""
    log = Log()
    for name in ("m0", "m1", "m2"):
        log.publish("", "work", message_id=name)
        if reason == "rejected":
            log.deliver("work", "", ["work"], message_id=name)
        log.deliver("late", "dlx", ["late"], message_id=name, headers=died(death("work", reason, keys=["work"])))
    return log


def dropped() -> Log:
    """Six messages come into ``work`` at once, and three of them are too many."""
    log = Log()
    for number in range(6):
        log.publish("", "work", message_id=f"m{number}")
    dead = death("work", "maxlen", keys=["work"]) | {"time": int(START.timestamp())}
    for number in range(3):
        log.deliver("late", "dlx", ["late"], message_id=f"m{number}", headers=died(dead))
    for record in log.records:
        record["timestamp"] = START.isoformat(timespec="milliseconds")
    return log


def limited() -> Log:
    """A message is returned until it was delivered as often as the limit allows."""
    log = Log().publish("", "work")
    for count in range(4):
        counts = {"x-acquired-count": count, "x-delivery-count": count} if count else {}
        log.deliver("work", "", ["work"], headers=counts)
    return log.deliver("late", "dlx", ["late"], headers=died(death("work", "delivery_limit", keys=["work"])))


def arguments(folder: Path, log: Log, definitions: Definitions, *options: str) -> list[str]:
    (folder / "definitions.json").write_bytes(definitions.to_json())
    trace = write_log(folder / "trace.log", log.records)
    return ["replay", str(trace), "--definitions", str(folder / "definitions.json"), *options]


def untested(folder: Path, capsys: Any, log: Log, definitions: Definitions) -> dict[str, list[str]]:
    code = main(arguments(folder, log, definitions, "--json"))
    summary = json.loads(capsys.readouterr().out)
    assert (code, summary["agree"]) == (0, summary["deliveries"])
    found: dict[str, list[str]] = summary["untested"]
    return found


CLASSIC = "queue-type classic by server default, between classic and quorum"
TYPE = "type direct of dead-letter exchange 'dlx'"
QUIET: list[tuple[Log, Definitions, str, str]] = [
    (dead_letters("rejected"), shop(max_length=9), "work", "overflow drop-head by server default"),
    (
        dead_letters("rejected"),
        shop(max_length=9, overflow="reject-publish"),
        "work",
        "overflow reject-publish by argument",
    ),
    (dead_letters("rejected"), shop(max_length_bytes=900), "work", "max-length-bytes 900 by argument"),
    (dead_letters("rejected"), shop(max_length=9), "work", "max-length 9 by argument"),
    (dead_letters("rejected"), shop(expires=90_000), "work", "expires 90000 by argument"),
    (
        dead_letters("rejected"),
        shop(queue_type="quorum", dead_letter_strategy="at-least-once", overflow="reject-publish"),
        "work",
        "dead-letter-strategy at-least-once by argument",
    ),
    (dead_letters("rejected"), shop(queue_type="quorum"), "work", "delivery-limit 20 by server default"),
    (dead_letters("rejected"), shop(queue_type="quorum", delivery_limit=2), "work", "delivery-limit 2 by argument"),
    (dead_letters("rejected"), shop(late={"x-queue-type": "stream"}), "late", "queue-type stream by argument"),
    (dead_letters("rejected"), shop(late={"x-queue-type": "classic"}), "late", "queue-type classic by argument"),
    (dead_letters("rejected"), shop(), "work", TYPE),
    (dead_letters("rejected"), shop("fanout"), "work", TYPE.replace("direct", "fanout")),
    (dead_letters("rejected"), shop(message_ttl=60_000), "work", "message-ttl 60000 by argument"),
    (dead_letters("expired"), shop(message_ttl=500), "work", "message-ttl 500 by argument, by less than 1.2 s"),
    (dead_letters("expired"), shop(message_ttl=900), "work", "message-ttl 900 by argument, by less than 1.2 s"),
    (dropped(), shop(max_length=3, max_length_bytes=12), "work", "max-length 3 by argument"),
    (
        dropped(),
        shop(max_length=3),
        "work",
        "overflow drop-head by server default, between drop-head and reject-publish-dlx",
    ),
]


@pytest.mark.parametrize(("log", "definitions", "queue", "setting"), QUIET)
def test_a_setting_that_agrees_whatever_it_is_is_named(
    tmp_path: Path, capsys: Any, log: Log, definitions: Definitions, queue: str, setting: str
) -> None:
    assert setting in untested(tmp_path, capsys, log, definitions)[queue]


STRATEGY = "dead-letter-strategy"
TESTED: list[tuple[Log, Definitions, list[str]]] = [
    (dead_letters("rejected"), shop(), ["queue-type", "type"]),
    (dropped(), shop(max_length=3), ["overflow", "queue-type", "type"]),
    (dropped(), shop(max_length_bytes=12), ["overflow", "queue-type", "type"]),
    (
        dropped(),
        shop(max_length=3, queue_type="quorum"),
        ["queue-type", STRATEGY, "delivery-limit", "type"],
    ),
    (limited(), shop(queue_type="quorum", delivery_limit=3), [STRATEGY, "type"]),
]


@pytest.mark.parametrize(("log", "definitions", "left"), TESTED)
def test_a_setting_that_the_log_tests_is_not_named(
    tmp_path: Path, capsys: Any, log: Log, definitions: Definitions, left: list[str]
) -> None:
    found = untested(tmp_path, capsys, log, definitions)["work"]
    assert [each.split()[0] for each in found] == left


def test_counts_of_publishes_test_the_type_of_an_exchange_that_chooses(tmp_path: Path, capsys: Any) -> None:
    queues: dict[str, Arguments] = {"work": DEAD, "late": {}, "other": {}}
    definitions = definitions_of(queues, {"dlx": "direct"}, [("dlx", "late", "late"), ("dlx", "other", "other")])
    log = dead_letters("rejected")
    assert TYPE in untested(tmp_path, capsys, log, definitions)["work"]
    log.publish("dlx", "other", routed=["other"], message_id="its own")
    log.deliver("other", "dlx", ["other"], message_id="its own")
    assert TYPE not in untested(tmp_path, capsys, log, definitions)["work"]


def test_a_queue_that_was_only_published_to_is_there(tmp_path: Path, capsys: Any) -> None:
    log = dead_letters("rejected").publish("", "parking", message_id="parked")
    queues: dict[str, Arguments] = {"work": DEAD, "late": {}, "parking": {"x-message-ttl": 1_000_000}, "unused": {}}
    definitions = definitions_of(queues, {"dlx": "direct"}, [("dlx", "late", "late")])
    found = untested(tmp_path, capsys, log, definitions)
    assert found["parking"][0] == "message-ttl 1000000 by argument"
    assert set(found) == {"work", "late", "parking"}


def test_terminal_and_report_say_so_and_it_is_no_fault(tmp_path: Path, capsys: Any) -> None:
    definitions = shop(max_length=9, expires=90_000)
    assert main(arguments(tmp_path, dead_letters("rejected"), definitions, "--out", str(tmp_path / "out"))) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("RabbitMQ delivered everything as the rules of 4.3 predict.\n")
    told = "Not tested by this log: expires 90000 by argument in 'work', max-length 9 by argument in 'work', "
    assert told in shown
    assert "more with --json)." in shown
    summary = json.loads((tmp_path / "out" / "summary.json").read_bytes())
    report = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    count = sum(map(len, summary["untested"].values()))
    assert f"<summary>Not tested by this log: {count} settings</summary>" in report
    assert "<td>expires 90000 by argument</td>" in report


def test_the_list_is_bounded_and_the_rest_is_counted(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = untested(tmp_path, capsys, dead_letters("rejected"), shop())
    monkeypatch.setattr("simulator.replay.results.untested.QUEUES_MAX", 1)
    main(arguments(tmp_path, dead_letters("rejected"), shop(), "--json"))
    summary = json.loads(capsys.readouterr().out)
    assert list(summary["untested"]) == ["late"]
    assert summary["untested_more"] == len(whole["work"])
