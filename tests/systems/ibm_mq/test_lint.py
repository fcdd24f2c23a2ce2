"""What is allowed in a rules table, and likely a mistake; and ``dlx lint`` of a table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.cli.main import main
from simulator.systems.ibm_mq.handler import text_fits
from simulator.systems.ibm_mq.lint import covers
from simulator.systems.ibm_mq.parser import parse
from simulator.systems.ibm_mq.rules_table import Pattern

LAST = "ACTION(FWD) FWDQ(REST)\n"


def warnings(text: str) -> list[str]:
    return [str(each) for each in parse(text).warnings]


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("DESTQ(A*) ACTION(DISCARD)\nDESTQ(AB?) ACTION(RETRY)\n", "line 2, column 1: the rule is never reached; "),
        (
            "MSGTYPE(8) ACTION(IGNORE)\nMSGTYPE(8) DESTQ(A) ACTION(RETRY)\n",
            "line 2, column 1: the rule is never reached",
        ),
        ("DESTQ(A) ACTION(IGNORE) RETRY(3)\n", "line 1, column 1: RETRY(3) cannot happen: IGNORE puts nothing"),
        ("DESTQ(A) ACTION(DISCARD) RETRY(2)\n", "line 1, column 1: RETRY(2) cannot happen: DISCARD always succeeds"),
        ("DESTQ(' ') ACTION(RETRY) RETRY(2)\n", "line 1, column 1: the put cannot succeed: "),
        ("DESTQ(' ') ACTION(FWD) FWDQ(&DESTQ) HEADER(NO)\n", "line 1, column 1: the put cannot succeed: "),
        (
            "INPUTQ(DLQ)\nDESTQ(A) ACTION(FWD) FWDQ(DLQ)\n",
            "line 2, column 1: the rule puts messages into DLQ, which the",
        ),
        ("INPUTQ(DLQ)\nDESTQ(DLQ) ACTION(RETRY)\n", "line 2, column 1: the rule puts messages into DLQ, which the"),
        (
            "DESTQ(A) ACTION(FWD) FWDQ(SYSTEM.DEAD.LETTER.QUEUE)\n",
            "line 1, column 1: the rule puts messages into SYSTEM.DEAD.LETTER.QUEUE, which the handler reads, if",
        ),
    ],
)
def test_what_is_likely_a_mistake(text: str, warning: str) -> None:
    (found,) = warnings(text + LAST)
    assert found.startswith(warning)


def test_a_tab_counts_as_a_blank_and_one_is_told() -> None:
    blanks = parse("REASON ( 1 ) ACTION(RETRY) +\n RETRY(2) \n \n" + LAST)
    tabs = parse("REASON\t(\t1\t)\tACTION(RETRY)\t+\n\tRETRY(2)\t\n\t\n" + LAST)
    assert tabs.table == blanks.table
    assert [str(each) for each in tabs.warnings] == [
        "line 1, column 7: a tab counts as a blank here; the documentation speaks of blanks alone, "
        "and no handler was asked"
    ]
    assert warnings("*\ta comment\n" + LAST) == []


@pytest.mark.parametrize(
    "text",
    [
        "DESTQ(AB?) ACTION(DISCARD)\nDESTQ(A*) ACTION(RETRY)\n",
        "DESTQ(A*) ACTION(RETRY) RETRY(2)\nDESTQ(AB) ACTION(DISCARD)\n",
        "DESTQ(A*) DESTQM(Q) ACTION(DISCARD)\nDESTQ(AB) ACTION(RETRY)\n",
        "INPUTQ(DLQ)\nDESTQ(A) ACTION(FWD) FWDQ(DLQ) FWDQM(ELSEWHERE)\n",
        "INPUTQ(DLQ)\nDESTQ(A) ACTION(FWD) FWDQ(SYSTEM.DEAD.LETTER.QUEUE)\n",
    ],
)
def test_what_is_none(text: str) -> None:
    assert warnings(text + LAST) == []


PATTERNS = st.text("AB?*", max_size=5)


@given(PATTERNS, PATTERNS, st.lists(st.text("AB", max_size=6), min_size=20, max_size=20))
def test_what_a_wider_pattern_covers_fits_it(wide: str, narrow: str, texts: list[str]) -> None:
    if covers(Pattern(destq=wide), Pattern(destq=narrow)):
        assert all(text_fits(wide, text) for text in texts if text_fits(narrow, text))


@given(PATTERNS)
def test_a_pattern_covers_itself_and_what_it_is_a_part_of(pattern: str) -> None:
    assert covers(Pattern(destq=pattern), Pattern(destq=pattern))
    assert covers(Pattern(destq=f"*{pattern}*"), Pattern(destq=f"A{pattern}B"))
    assert covers(Pattern(), Pattern(destq=pattern))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    file = tmp_path / "rules.tab"
    file.write_text("* all\nDESTQ(A) ACTION(IGNORE) RETRY(3)\n")
    return file


def test_dlx_lint_of_a_table(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", str(table)]) == 1
    out = capsys.readouterr().out
    assert f"warning {table}: line 2, column 1: RETRY(3) cannot happen: IGNORE puts nothing\n" in out
    assert f"{table}: 2 warnings in 1 rule of IBM MQ's handler\n" in out
    assert "Not checked: whether the queues exist" in out
    assert main(["lint", str(table), "--fail-on", "lost"]) == 0


def test_dlx_lint_of_a_table_for_machines(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", str(table), "--format", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert [(each["line"], each["message"][:8]) for each in report["findings"]] == [(2, "no rule "), (2, "RETRY(3)")]
    assert main(["lint", str(table), "--format", "github"]) == 1
    assert f"::warning file={table},line=2,col=1,title=ibm_mq::RETRY(3)" in capsys.readouterr().out
    assert main(["lint", str(table), "--format", "sarif"]) == 64


def test_a_refused_table_is_bad_data(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table.write_text("DESTQU(A) ACTION(RETRY)\nACTION(RETRY) RETRY(0)\n")
    assert main(["lint", str(table)]) == 65
    err = capsys.readouterr().err
    assert f"{table}: line 1, column 1: no keyword is called DESTQU; did you mean DESTQ or DESTQM?" in err
    assert f"{table}: line 2, column 21: RETRY is 0" in err


def test_tables_and_definitions_are_linted_apart(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    definitions = tmp_path / "definitions.json"
    definitions.write_text("{}")
    assert main(["lint", str(table), str(definitions)]) == 64
    assert "lint them apart" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("* Dead letters of orders.\n", "line 1, column 1: the table has no rule"),
        ("REASON(MQRC_Q_FULL) ACTON(RETRY)\n", "line 1, column 21: no keyword is called ACTON; did you mean ACTION?"),
        ("INPUTQ(ORDERS)\nWAIT(MAYBE)\n", "line 2, column "),
        ("REASON 2053 ACTION DISCARD\n", "line 1, column "),
    ],
)
def test_a_table_without_an_action_is_one(
    table: Path, text: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table.write_text(text)
    assert main(["lint", str(table)]) == 65
    assert f"{table}: {problem}" in capsys.readouterr().err


def test_a_byte_that_is_no_utf_8_has_its_line(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table.write_bytes(b"ACTION(IGNORE)\nDESTQ('\xfc') ACTION(DISCARD)\n")
    assert main(["lint", str(table)]) == 65
    assert f"{table}: line 2: expected UTF-8, got the byte 0xfc" in capsys.readouterr().err


def test_a_refused_table_hides_no_other(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = tmp_path / "wrong.tab"
    wrong.write_text("ACTION(RETRY\n")
    assert main(["lint", str(wrong), str(table)]) == 65
    out, err = capsys.readouterr()
    assert f"{wrong}: line 1, column 13: expected )" in err
    assert f"{table}: 2 warnings in 1 rule" in out
