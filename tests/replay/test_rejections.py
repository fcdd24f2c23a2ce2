"""Each rejection needs a delivery of the message as it was then: one delivery is no proof of several."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simulator.cli.main import main
from tests.replay.logs import Log, death, definitions_of, died, write_log

DEFINITIONS = definitions_of(
    {
        "work": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"},
        "wait": {"x-message-ttl": 200, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"},
    }
)
ROUNDS = 4
WHY = "the log lacks the delivery that was rejected"


def retried(*lacking: int) -> Log:
    """A message that is rejected and comes back four times, without some of its deliveries."""
    found = Log().publish("", "work")
    for count in range(ROUNDS + 1):
        deaths = [death("wait", "expired", count=count, keys=["wait"])]
        deaths.append(death("work", "rejected", count=count, keys=["work"]))
        if count not in lacking:
            found.deliver("work", "", ["work"], **({"headers": died(*deaths)} if count else {}))
    return found


def test_every_round_was_delivered(tmp_path: Path) -> None:
    rows = retried().replay(tmp_path, DEFINITIONS)
    assert [(row["verdict"], row["unchecked"]) for row in rows] == [("agree", [])] * (ROUNDS + 1)


@pytest.mark.parametrize(
    ("lacking", "unchecked"), [((1,), [2]), ((2,), [3]), ((1, 2), [3]), ((1, 3), [2, 4]), ((4,), [])]
)
def test_a_round_whose_delivery_is_missing_is_unchecked(
    tmp_path: Path, lacking: tuple[int, ...], unchecked: list[int]
) -> None:
    rows = retried(*lacking).replay(tmp_path, DEFINITIONS)
    left = [count for count in range(ROUNDS + 1) if count not in lacking]
    assert {row["verdict"] for row in rows} == {"agree"}
    told = {count: row["unchecked"] for count, row in zip(left, rows, strict=True) if row["unchecked"]}
    assert told == {count: [{"what": "rejection", "name": "work", "why": WHY}] for count in unchecked}


def test_the_headline_is_not_green(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "definitions.json").write_bytes(DEFINITIONS.to_json())
    trace = write_log(tmp_path / "trace.log", retried(1, 2).records)
    command = ["replay", str(trace), "--definitions", str(tmp_path / "definitions.json")]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert out.startswith("RabbitMQ delivered everything as the rules of 4.3 predict, as far as it was checked.")
    assert f"1  rejection of work: {WHY}; first at trace.log:3" in out
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unchecked"] == {"rejection": 1}
