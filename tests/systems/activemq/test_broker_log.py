"""The log of a real broker has nothing that its rules rule out, and what they rule out is found."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from simulator.cli.main import main
from simulator.systems.activemq.activemq_xml import broker_settings
from simulator.systems.activemq.broker_log import CheckedBrokerLog, check_broker_log, read_log

HERE = Path(__file__).parent
LOG = HERE / "broker.log"
"""What ActiveMQ 5.17.2 wrote, with the loggingBrokerPlugin beside the plugins of the live tests' configuration."""
XML = HERE / "live" / "activemq.xml"
LINES = LOG.read_text(encoding="utf-8").splitlines()

Change = Callable[[list[str]], list[str]]


def checked(lines: list[str], xml: str = XML.read_text(encoding="utf-8")) -> CheckedBrokerLog:
    return check_broker_log(read_log(lines), broker_settings(xml))


def replaced(old: str, new: str) -> Change:
    return lambda lines: [line.replace(old, new) for line in lines]


def without(*parts: str) -> Change:
    return lambda lines: [line for line in lines if not all(part in line for part in parts)]


def test_in_the_log_of_a_broker_nothing_is_found() -> None:
    found = checked(LINES)
    assert found.found == []
    assert dict(found.looked_at) == {"ages": 1, "counts": 5, "destinations": 6, "times to live": 6}
    assert dict(found.not_checked) == {}


def test_the_zone_of_the_broker_s_clock_does_not_matter() -> None:
    assert checked([line.replace("2026-11-24 13:", "2026-11-24 18:") for line in LINES]).found == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            replaced("destination = queue://DEAD.SOON", "destination = queue://DEAD.LATER"),
            "its dead letter went to queue://DEAD.LATER; the strategy of queue://SOON.q sends it to queue://DEAD.SOON",
        ),
        (
            replaced("queue://DEAD.NEWS.x.c1:s1", "queue://DEAD.NEWS.y.c1:s1"),
            "its dead letter went to queue://DEAD.NEWS.y.c1:s1; the strategy of topic://NEWS.x sends it to queue://DEAD",
        ),
        (
            without("Sending message", "destination = queue://DEAD.SOON"),
            "it has no dead letter; the strategy of queue://SOON.q makes one",
        ),
        (replaced("Message Expired. Expiration:17", "Message Expired. Expiration:18"), "it has expired 99"),
        (replaced("expiration = 17955278", "expiration = 17955288"), "the strategy says 60000 (0: forever)"),
        (
            replaced("Delivery[1] exceeds", "Delivery[0] exceeds"),
            "it died of delivery 0; the client's policy allows 0 redeliveries",
        ),
        (replaced("queue://SOON.q", "queue://GONE.q"), "; the strategy discards all dead letters"),
        (replaced("queue://SOON.q", "queue://NEVER.q"), "; discardingDLQBrokerPlugin dropOnly"),
        (
            replaced("redeliveryCounter = 1, size", "redeliveryCounter = 0, size"),
            "; the redelivery plugin delivers it again",
        ),
    ],
)
def test_what_cannot_be_is_found(change: Change, problem: str) -> None:
    found = checked(change(LINES)).found
    assert found
    assert all(problem in each.problem for each in found), found


def test_a_strategy_that_keeps_nothing_has_no_dead_letter() -> None:
    nameless = XML.read_text(encoding="utf-8").replace('<queue physicalName="DEAD.SOON"/>', "<queue/>")
    letters = [line for line in LINES if "Sending to DLQ" not in line]
    for lines in (LINES, letters):
        (found,) = checked(lines, nameless).found
        assert "; the dead letter queue of the strategy has no name" in found.problem


def test_what_is_sent_again_needs_a_policy_of_the_plugin() -> None:
    died = next(line for line in LINES if "Sending to DLQ" in line and "destination = queue://AGAIN.q" in line)
    again = died.replace("Sending to DLQ", "Sending message").replace("redeliveryCounter = 1", "redeliveryCounter = 2")
    (found,) = checked([died, again]).found
    assert "no policy of the redelivery plugin allows another attempt" in found.problem
    allowed = [died.replace("redeliveryCounter = 1", "redeliveryCounter = 0"), died.replace("to DLQ", "message")]
    assert checked(allowed).found == []


def test_what_the_log_does_not_show_is_not_checked() -> None:
    last = max(number for number, line in enumerate(LINES) if "Sending to DLQ" in line)
    assert dict(checked(LINES[: last + 1]).not_checked) == {"dead letters: the log ends": 1}
    later = [*LINES[: last + 1], "2026-11-24 13:59:59,999 INFO  BrokerService - Apache ActiveMQ 5.17.2 is shutdown"]
    (missing,) = checked(later).found
    assert "it has no dead letter" in missing.problem
    blind = check_broker_log(read_log(LINES), None)
    assert blind.found == []
    assert dict(blind.not_checked) == {"destinations: no --definitions with the broker's activemq.xml": 6}
    assert blind.looked_at["counts"] == 5


def retried(letter: str) -> str:
    """What a retry of the management logs of a dead letter in DEAD.SOON."""
    back = "originalDestination = queue://DEAD.SOON, originalTransactionId", " destination = queue://SOON.q, trans"
    text = re.sub(r"originalDestination = \S+, originalTransactionId", back[0], letter)
    return re.sub(r" destination = queue://DEAD\.SOON, trans", back[1], text)


def test_a_retry_is_no_dead_letter_and_the_message_may_have_another() -> None:
    died, letter = (
        next(line for line in LINES if what in line and f" destination = queue://{queue}," in line)
        for what, queue in (("Sending to DLQ", "SOON.q"), ("Sending message", "DEAD.SOON"))
    )
    assert checked([died, letter, retried(letter), died, letter]).found == []
    late = letter.replace("2026-11-24 13:", "2026-11-24 14:")
    (found,) = checked([died, letter, retried(letter), died, late]).found[:1]
    assert "it has no dead letter" in found.problem


def test_a_log_may_be_compressed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "broker.log.gz"
    log.write_bytes(gzip.compress(LOG.read_bytes()))
    assert main(["replay", str(log), "--form", "activemq", "--definitions", str(XML)]) == 0
    log.write_bytes(log.read_bytes()[:-100])
    assert main(["replay", str(log), "--form", "activemq"]) == 65
    assert f"{log}: the gzip stream is damaged" in capsys.readouterr().err


def test_dlx_replay_names_a_missing_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "missing.xml"
    assert main(["replay", str(LOG), "--form", "activemq", "--definitions", str(missing)]) == 65
    assert f"{missing}: no such file" in capsys.readouterr().err


def test_dlx_replay_prints_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--form", "activemq", "--definitions", str(XML)]
    assert main(["replay", str(LOG), *options]) == 0
    out = capsys.readouterr().out
    assert re.search(r"broker\.log: \d+ lines of messages; checked 1 ages, .*; impossible: none\n", out)
    assert "Assumed: ActiveMQ Classic 5.17" in out
    wrong = tmp_path / "wrong.log"
    wrong.write_text("\n".join(LINES).replace("queue://DEAD.SOON", "queue://X"), encoding="utf-8")
    assert main(["replay", str(wrong), *options, "--json"]) == 1
    (report,) = json.loads(capsys.readouterr().out)
    assert [each["problem"][:30] for each in report["found"]] == ["its dead letter went to queue:"]


def test_dlx_replay_refuses_a_log_without_the_plugin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "activemq.log"
    log.write_text("2026-11-24 13:42:13,480 INFO  BrokerService - Apache ActiveMQ 5.17.2 is starting\n")
    assert main(["replay", str(log), "--form", "activemq"]) == 65
    assert 'expected a broker with <plugins><loggingBrokerPlugin logAll="true"/>' in capsys.readouterr().err
    assert main(["replay", str(LOG), "--form", "activemq", "--definitions", str(LOG)]) == 65
    assert f"{LOG}: line 1, column 1: not well-formed XML" in capsys.readouterr().err
    assert main(["replay", str(LOG), "--form", "activemq", "--tolerance-ms", "5"]) == 64


def test_a_line_that_cannot_be_read_may_be_the_dead_letter_that_is_missing() -> None:
    letters = [number for number, line in enumerate(LINES) if "Sending message" in line and "dlqDelivery" in line]
    cut = [line[:300] if number in letters else line for number, line in enumerate(LINES)]
    found = checked(cut)
    assert found.found == []
    assert found.not_checked == {
        "lines of messages that are cut, or not as ActiveMQ 5.17 writes them": len(letters),
        "messages without a dead letter: an unreadable line may be the dead letter": 6,
    }
    assert len(checked([line for number, line in enumerate(LINES) if number not in letters]).found) == 6


@pytest.mark.parametrize("change", [lambda line: line[:300], lambda line: line.removeprefix("2026-11-24 ")])
def test_dlx_replay_says_why_no_line_can_be_read(
    tmp_path: Path, change: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "broker.log"
    path.write_text("\n".join(map(change, LINES)), encoding="utf-8")
    assert main(["replay", str(path), "--form", "activemq"]) == 65
    assert f"{path}: line 3: expected the date and time as 2026-11-24 13:42:20,645" in capsys.readouterr().err
