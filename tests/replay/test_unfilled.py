"""No more messages die of a length limit than came in beyond it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simulator.cli.main import main
from simulator.definitions import Definitions
from tests.replay.logs import START, Log, death, definitions_of, died, write_log

TO_LATE = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "late"}


def shop(limit: dict[str, Any], **queues: dict[str, Any]) -> Definitions:
    return definitions_of({"inbox": {**TO_LATE, **limit}, "late": {}, **queues})


def log(come: int, dropped: int, *, into: str = "inbox") -> Log:
    """So many messages of four bytes come in at once, and the first of them are dropped."""
    found = Log()
    for number in range(come):
        found.publish("", into, message_id=f"m{number}")
    deaths = [death("inbox", "maxlen", keys=["inbox"])]
    if into != "inbox":
        deaths.append(death(into, "expired", keys=[into]))
    for each in deaths:
        each["time"] = int(START.timestamp())
    for number in range(dropped):
        found.deliver("late", "", ["late"], message_id=f"m{number}", headers=died(*deaths))
    for record in found.records:
        record["timestamp"] = START.isoformat(timespec="milliseconds")
    return found


def run(folder: Path, found: Log, definitions: Definitions, *options: str) -> int:
    (folder / "definitions.json").write_bytes(definitions.to_json())
    trace = write_log(folder / "trace.log", found.records)
    return main(["replay", str(trace), "--definitions", str(folder / "definitions.json"), *options])


LIMITS: list[tuple[dict[str, Any], int]] = [
    ({"x-max-length": 3}, 4),
    ({"x-max-length": 4}, 3),
    ({"x-max-length": 6}, 1),
    ({"x-max-length": 4, "x-queue-type": "quorum"}, 3),
    ({"x-max-length": 4, "x-overflow": "reject-publish-dlx"}, 3),
    ({"x-max-length-bytes": 12}, 4),
    ({"x-max-length-bytes": 16}, 3),
    ({"x-max-length": 6, "x-max-length-bytes": 12}, 4),
]


@pytest.mark.parametrize(("limit", "most"), LIMITS)
@pytest.mark.parametrize("complete", [False, True])
def test_of_seven_messages_only_those_beyond_the_limit_can_die_of_it(
    tmp_path: Path, capsys: Any, limit: dict[str, Any], most: int, complete: bool
) -> None:
    options = ["--json", *["--complete"] * complete]
    code = run(tmp_path, log(7, 4), shop(limit), *options)
    summary = json.loads(capsys.readouterr().out)
    assert summary["agree"] == 4
    assert code == (most < 4 and complete)
    assert [(each["queue"], each["deaths"], each["most"]) for each in summary["unfilled"]] == (
        [("inbox", 4, most)] if most < 4 else []
    )


def test_the_headline_names_queue_and_setting(tmp_path: Path, capsys: Any) -> None:
    told = "4 messages died of max-length 6 by argument in queue 'inbox', where the messages of the log allow 1"
    assert run(tmp_path, log(7, 4), shop({"x-max-length": 6})) == 0
    out = capsys.readouterr().out
    assert out.startswith("RabbitMQ delivered everything as the rules of 4.3 predict, as far as it was checked.")
    assert told in out
    assert run(tmp_path, log(7, 4), shop({"x-max-length": 6}), "--complete", "--out", str(tmp_path / "out")) == 1
    assert capsys.readouterr().out.startswith(f"{told}.")
    assert told.replace("'", "&#x27;") in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(("length", "most"), [(3, 4), (4, 3)])
def test_dead_letters_of_other_queues_came_in_as_well(tmp_path: Path, capsys: Any, length: int, most: int) -> None:
    wait = {"x-message-ttl": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "inbox"}
    definitions = shop({"x-max-length": length}, wait=wait)
    assert run(tmp_path, log(7, 4, into="wait"), definitions, "--json") == 0
    found = json.loads(capsys.readouterr().out)["unfilled"]
    assert [each["most"] for each in found] == ([most] if most < 4 else [])


def test_what_comes_back_may_die_again(tmp_path: Path, capsys: Any) -> None:
    """``late`` sends its messages back to ``inbox``, so that two can have died four times."""
    late = {"x-message-ttl": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "inbox"}
    definitions = definitions_of({"inbox": {**TO_LATE, "x-max-length": 6}, "late": late})
    assert run(tmp_path, log(7, 4), definitions, "--json") == 0
    assert json.loads(capsys.readouterr().out)["unfilled"] == []
