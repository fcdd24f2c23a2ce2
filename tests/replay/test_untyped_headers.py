"""Headers that may be timestamps: a log shows them as integers, and from 3.13 on they match no integer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simulator.definitions import Definitions, parse_definitions
from tests.replay.logs import Log, definitions_of, replayed, write_log

AT = 1_763_000_000


def by_header(value: Any) -> Definitions:
    """The exchange ``by-header`` takes messages with ``due`` of that value to the queue ``due``."""
    found = definitions_of({"due": {}}, {"by-header": "headers"}, [("by-header", "due", "")])
    document = json.loads(found.to_json())
    document["bindings"][0]["arguments"] = {"x-match": "all", "due": value}
    return parse_definitions(json.dumps(document).encode(), "definitions.json")


def told(tmp_path: Path, definitions: Definitions, rules: str, routed: list[str], **headers: Any) -> Any:
    """The verdict on a publish, and what it leaves unchecked."""
    log = Log().publish("by-header", "key", routed=routed, headers=headers)
    (row,) = replayed(write_log(tmp_path / "trace.log", log.records), definitions, rules)
    return row["verdict"], [each["what"] for each in row["unchecked"] or ()]


def test_where_it_went_as_integers_do_all_is_well(tmp_path: Path) -> None:
    assert told(tmp_path, by_header(AT), "4.3", ["due"], due=AT) == (None, [])
    assert told(tmp_path, by_header(AT), "4.3", [], due=AT + 1) == (None, [])


def test_where_it_went_as_timestamps_do_it_is_unchecked(tmp_path: Path) -> None:
    assert told(tmp_path, by_header(AT), "4.3", [], due=AT) == ("agree", ["routing"])
    assert told(tmp_path, by_header(AT * 1000), "4.3", ["due"], due=AT) == ("agree", ["routing"])


def test_a_timestamp_may_be_of_a_year_that_datetime_does_not_know(tmp_path: Path) -> None:
    assert told(tmp_path, by_header(2**40), "4.3", [], due=2**40) == ("agree", ["routing"])


@pytest.mark.parametrize(
    ("rules", "value", "routed", "due"),
    [
        ("3.10", AT, [], AT),  # where timestamps match integers of seconds
        ("4.3", AT, ["due"], AT + 1),
        ("4.3", "soon", [], "soon"),
        ("4.3", True, [], True),
    ],
)
def test_what_no_type_explains_differs(tmp_path: Path, rules: str, value: Any, routed: list[str], due: Any) -> None:
    assert told(tmp_path, by_header(value), rules, routed, due=due) == ("differ", [])
