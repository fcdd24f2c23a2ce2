"""What the report tells of small logs: losses in words, what consumers publish again, parking queues, timelines."""

from __future__ import annotations

from html import unescape
from pathlib import Path
from typing import Any

import pytest

from simulator.cli.main import main
from simulator.definitions import Definitions
from simulator.replay.report.message_lives import STEPS_MAX
from tests.replay.logs import Log, death, definitions_of, died, write_log
from tests.replay.test_report import figures, visible_text

DEFINITIONS = definitions_of(
    {
        "bills": {"x-dead-letter-exchange": "biils.dlx"},
        "work": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "failed"},
        "failed": {},
        "wait": {"x-message-ttl": 500, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"},
        "parking": {},
    },
    {"bills.dlx": "fanout"},
    [("bills.dlx", "failed", "")],
)
EXPIRED = died(death("wait", "expired", keys=["wait"]))


def report(folder: Path, log: Log, *options: str, definitions: Definitions = DEFINITIONS, rules: str = "4.3") -> str:
    (folder / "definitions.json").write_bytes(definitions.to_json())
    trace = write_log(folder / "trace.log", log.records)
    out = folder / "out"
    given = ["--definitions", str(folder / "definitions.json"), "--release", rules, "--out", str(out)]
    main(["replay", str(trace), *given, *options])
    return (out / "report.html").read_text(encoding="utf-8")


def one_expired(log: Log, name: str = "other") -> Log:
    return log.publish("", "wait", message_id=name).deliver("work", "", ["work"], message_id=name, headers=EXPIRED)


def told(html: str) -> str:
    return unescape(visible_text(html))


def life(html: str, message: str) -> list[str]:
    """The timeline of a message, in sentences."""
    held: dict[str, Any] = {each["message"]: each for each in figures(html)["messages"]}
    return [step["text"] for step in held[message]["steps"]]


def test_a_loss_has_its_count_its_cause_and_its_messages(tmp_path: Path) -> None:
    log = one_expired(Log())
    for name in ("bill 1", "bill 2", "bill 3"):
        log.publish("", "bills", message_id=name).deliver("bills", "", ["bills"], message_id=name)
    html = report(tmp_path, log)
    assert (
        "3 last delivered in bills , whose dead-letter exchange 'biils.dlx' does not exist (dead-letter-exchange by"
        " argument): lost if they were rejected. Messages: bill 1 , bill 2 , bill 3 . First at trace.log:4."
    ) in told(html)
    assert '<a href="#message=bill%201">bill 1</a>' in html
    assert life(html, "bill 1")[:2] == [
        "Published to the default exchange with the key 'bills'.",
        "Delivered from 'bills'.",
    ]
    assert life(html, "bill 1")[2].startswith("Not seen again. Lost in 'bills' if it was rejected")


def test_a_rare_loss_has_an_example_beside_one_that_is_frequent(tmp_path: Path) -> None:
    log = one_expired(Log())
    definitions = definitions_of(
        {"bills": {"x-dead-letter-exchange": "biils.dlx"}, "notes": {"x-dead-letter-exchange": "gone"}, "work": {}}
    )
    for number in range(450):
        name = f"bill {number}"
        log.publish("", "bills", message_id=name).deliver("bills", "", ["bills"], message_id=name)
    log.publish("", "notes", message_id="late").deliver("notes", "", ["notes"], message_id="late")
    text = told(report(tmp_path, log, definitions=definitions))
    assert "1 last delivered in notes , whose dead-letter exchange 'gone' does not exist" in text
    assert "Messages: late ." in text


def test_what_a_consumer_published_again_is_joined_to_the_path(tmp_path: Path) -> None:
    log = Log().publish("", "work").deliver("work", "", ["work"])
    log.publish("", "wait").deliver("work", "", ["work"], headers=EXPIRED)
    html = report(tmp_path, log)
    assert "work republished → wait expired → work" in visible_text(html)
    again = "Published again by a client after 'work' had delivered it, to the default exchange with the key 'wait'."
    assert again in life(html, "m1")


@pytest.mark.spark
def test_spark_joins_them_the_same_way(tmp_path: Path) -> None:
    log = Log().publish("", "work").deliver("work", "", ["work"])
    log.publish("", "wait").deliver("work", "", ["work"], headers=EXPIRED)
    one_expired(log).publish("", "failed", message_id="plain").deliver("failed", "", ["failed"], message_id="plain")
    here, there = (report(tmp_path, log, "--engine", engine) for engine in ("local", "spark"))
    assert here == there
    assert "work republished → wait expired → work" in visible_text(there)


def test_a_publisher_that_sends_twice_is_no_consumer(tmp_path: Path) -> None:
    log = Log().publish("", "failed").publish("", "failed").deliver("failed", "", ["failed"])
    html = report(tmp_path, one_expired(log))
    assert "failed republished" not in visible_text(html)
    assert "Published again to the default exchange with the key 'failed'." in life(html, "m1")


def test_a_parking_queue_is_not_accused(tmp_path: Path) -> None:
    html = report(tmp_path, one_expired(Log()).publish("", "parking", message_id="parked"))
    text = told(html)
    assert "Nothing in this log points to a loss." in text
    assert "perhaps only waiting, as in a parking queue at least 1 not seen again after parking" in text
    assert "#c026d3" not in str(figures(html)["flows"])  # the red of a queue that loses messages
    assert 'class="gone"' not in html


def test_a_queue_that_loses_messages_is_named_for_what_was_not_seen_again(tmp_path: Path) -> None:
    text = told(report(tmp_path, one_expired(Log()).publish("", "bills", message_id="bill")))
    assert "At least 1 not seen again after bills" in text


def test_a_long_life_is_told_to_its_end(tmp_path: Path) -> None:
    log = one_expired(Log(), "m0")
    for _ in range(STEPS_MAX + 5):
        log.deliver("work", "", ["work"], message_id="m0", headers=EXPIRED)
    steps = life(report(tmp_path, log), "m0")
    assert "6 further rows of the log not shown." in steps
    assert steps[-1].startswith("Delivered from 'work'")


CIRCLE = definitions_of(
    {
        "first": {"x-message-ttl": 300, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "second"},
        "second": {"x-message-ttl": 400, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "first"},
        "other": {},
        "bills": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "unpaid"},
        "unpaid": {"x-message-ttl": 500, "x-dead-letter-exchange": "unpiad.dlx"},
    },
    {"all": "fanout"},
    [("all", "first", ""), ("all", "other", "")],
)


def test_the_hops_to_a_loss_that_no_row_shows_are_told_with_their_times(tmp_path: Path) -> None:
    log = Log().publish("", "first", message_id="one")
    for name in ("two", "three"):
        log.publish("", "other", message_id=name).deliver("other", "", ["other"], message_id=name)
    html = report(tmp_path, log, definitions=CIRCLE)
    (one,) = (each for each in figures(html)["messages"] if each["message"] == "one")
    published, hop, lost = one["steps"]
    assert hop["text"] == "Died in 'first' (expired), and was dead-lettered to 'second'."
    assert lost["text"].startswith("Lost in 'second' (expired): it would return to 'first' without a rejection")
    assert [each["time_us"] - published["time_us"] for each in (hop, lost)] == [300_000, 700_000]
    assert all("line" not in each for each in (hop, lost))


def test_the_loss_of_one_copy_is_told_beside_the_delivery_of_another(tmp_path: Path) -> None:
    log = Log().publish("all", "", routed=["first", "other"], message_id="one")
    log.deliver("other", "all", [""], message_id="one")
    for name in ("two", "three"):
        log.publish("", "other", message_id=name).deliver("other", "", ["other"], message_id=name)
    html = report(tmp_path, log, definitions=CIRCLE)
    steps = life(html, "one")
    (one,) = (each for each in figures(html)["messages"] if each["message"] == "one")
    assert ["time_us" in each and each["time_us"] is not None for each in one["steps"]] == [True, True, False, False]
    assert steps[:3] == [
        "Published to the exchange 'all' with the key '', which routed it to 'first', 'other'.",
        "Delivered from 'other'.",
        "Died in 'first' (expired), and was dead-lettered to 'second'.",
    ]
    assert steps[3].startswith("Lost in 'second' (expired): ")


def test_where_a_message_that_may_be_lost_went_on_to_is_told(tmp_path: Path) -> None:
    log = Log().publish("", "bills", message_id="one").deliver("bills", "", ["bills"], message_id="one")
    assert life(report(tmp_path, log, definitions=CIRCLE), "one")[-1].startswith(
        "Not seen again. If it was rejected or has expired in 'bills', it went on to 'unpaid' and was lost there by "
        "expiring: dead-letter exchange 'unpiad.dlx' of queue 'unpaid' does not exist"
    )


def test_a_difference_says_what_it_is_and_links_to_its_message(tmp_path: Path) -> None:
    wrong = died(death("wait", "expired", count=3, keys=["wait"]))
    html = report(tmp_path, Log().publish("", "wait").deliver("work", "", ["work"], headers=wrong))
    assert "but not as predicted: x-death[0].count should be 1, is 3" in life(html, "m1")[-1]
    assert 'message <a href="#message=m1">m1</a>' in html


def test_under_another_release_additional_headers_come_last(tmp_path: Path) -> None:
    log = Log().publish("", "wait").deliver("work", "", ["work"], headers=EXPIRED)
    html = report(tmp_path, log, rules="3.12")
    assert '<h3 class="rank">Headers added or missing</h3>' in html
    assert '<h3 class="rank">Lost, or elsewhere</h3>' not in html
