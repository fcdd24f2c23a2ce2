"""``dlx releases``: the whole table, and what differs between two releases, for people and for machines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dlx.releases import RELEASES, TABLE
from simulator.cli.main import main

Capture = pytest.CaptureFixture[str]


def shown(capsys: Capture, *args: str) -> str:
    assert main(["releases", *args]) == 0
    return capsys.readouterr().out


def rows(capsys: Capture, *args: str) -> dict[str, Any]:
    answer = json.loads(shown(capsys, *args, "--json"))
    assert answer["unchecked"]
    return {row["behaviour"]: row for row in answer["behaviours"]}


def test_the_whole_table_has_every_behaviour_in_every_release(capsys: Capture) -> None:
    found = rows(capsys)
    assert set(found) == {row.name for row in TABLE}
    limit = found["quorum_default_delivery_limit"]
    assert limit["values"] == {name: None if name.startswith("3.") else 20 for name in RELEASES}
    assert limit["changes"] == [{"since": "4.0", "value": 20}]
    assert "rabbit_quorum_queue.erl" in limit["evidence"]


def test_between_two_releases_there_is_what_differs_and_when_it_changed(capsys: Capture) -> None:
    found = rows(capsys, "3.12", "4.0")
    assert found["quorum_default_delivery_limit"]["values"] == {"3.12": None, "4.0": 20}
    assert found["death_order"]["dates"] == ["3.13.3"]
    assert "quorum_delivery_limit_counts" not in found  # changed in 4.3
    assert found["policy_keys"]["values"]["3.12"].count("ha-mode") == 1
    assert "ha-mode" not in found["policy_keys"]["values"]["4.0"]


def test_a_release_and_itself_differ_in_nothing(capsys: Capture) -> None:
    assert rows(capsys, "4.0", "4.0") == {}
    assert "Nothing that dlx knows of." in shown(capsys, "4.0", "4.0")


def test_people_read_what_changed_in_each_release(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = shown(capsys)
    titles = [line.split()[3] for line in out.splitlines() if line.startswith("What changed in")]
    assert titles == list(reversed(RELEASES[1:]))
    assert max(map(len, out.splitlines())) <= 80
    in_4_0 = out[out.index("What changed in 4.0") : out.index("What changed in 3.13")]
    assert "quorum_default_delivery_limit" in in_4_0
    assert "3.13: none" in in_4_0
    assert "4.0: 20" in in_4_0
    assert "no longer ha-mode" in " ".join(in_4_0.split())


def test_versions_are_taken_with_a_note(capsys: Capture) -> None:
    assert main(["releases", "3.10.8", "4.3.0", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["releases"] == {"3.10": "3.10.8", "4.3": "4.3.6"}
    assert "note: the rules of RabbitMQ 4.3.6 stand in for those of 4.3.0" in err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["4.0"], "one release, 4.0; expected two"),
        (["4.0", "5.9"], "known are 3.8"),
        (["3.8", "3.9", "3.10"], "unexpected extra argument"),
    ],
)
def test_wrong_usage_is_64(args: list[str], said: str, capsys: Capture) -> None:
    assert main(["releases", *args]) == 64
    assert said in capsys.readouterr().err
