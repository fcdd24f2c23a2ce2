"""Tables that are refused: each problem with its line, its column, and what is allowed."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from simulator.systems.ibm_mq.parser import parse
from simulator.systems.ibm_mq.rules_table import Problem, RulesTableError

TABLES = tomllib.loads(Path(__file__).with_name("broken_tables.toml").read_text(encoding="utf-8"))["table"]


def told(problem: Problem) -> str:
    code = f" ({problem.code})" if problem.code else ""
    return f"{problem.line}:{problem.column} {problem.text}{code}"


@pytest.mark.parametrize("table", TABLES, ids=[table["name"] for table in TABLES])
def test_a_broken_table_is_refused_with_all_its_problems(table: dict[str, Any]) -> None:
    with pytest.raises(RulesTableError) as refused:
        parse(table["text"])
    assert [told(problem) for problem in refused.value.problems] == table["problems"]


def test_there_are_enough_of_them() -> None:
    assert len(TABLES) >= 60
    assert len({table["name"] for table in TABLES}) == len(TABLES)


def test_the_error_has_a_line_for_each_problem() -> None:
    with pytest.raises(RulesTableError) as refused:
        parse("ACTION(RETRY) RETRY(0)\nACTION(FWD)")
    assert str(refused.value).splitlines() == [
        "line 1, column 21: RETRY is 0; allowed: 1 to 999999999 (AMQ8757)",
        "line 2, column 1: ACTION(FWD) needs FWDQ; allowed: a queue name, &DESTQ, &REPLYQ (AMQ8759)",
    ]
