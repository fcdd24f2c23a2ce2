"""The parser and the printer on anything: what is printed reads back, and nothing makes the parser stumble."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from simulator.systems.ibm_mq.entries import LENGTH_MAX
from simulator.systems.ibm_mq.parser import parse
from simulator.systems.ibm_mq.printer import print_table
from simulator.systems.ibm_mq.rules_table import Action, ParsedTable, Pattern, Rule, RulesTable, RulesTableError
from tests.systems.ibm_mq.tables import tables

# Pieces of which drawn texts look like tables.
PIECES = (
    "ACTION(", "RETRY(", "FWDQ(", "FWDQM(&DESTQM)", "HEADER(NO)", "REASON(", "MQRC_Q_FULL", "MSGTYPE(", "FORMAT('",
    "WAIT(", "RETRYINT(60)", "INPUTQ(", "FWD", "DISCARD", "&REPLYQ", "999999999", "9" * 5000, "*", "?", "'", "''",
    "(", ")", ") ", ",", " ", "+", "-", "+\n", "-\n", "\n", "\r\n", "\n*", "\t", "\0", "é", "²", "٣", "\u2028",
    "\ud800",
)  # fmt: skip


@given(tables())
@example(RulesTable(rules=(Rule(pattern=Pattern(applidat="'" * 32), action=Action.DISCARD),)))
@example(RulesTable(rules=(Rule(pattern=Pattern(applidat="A" + " " * 30 + "B"), action=Action.DISCARD),)))
@example(RulesTable(rules=(Rule(pattern=Pattern(applidat="*" * 58 + " " * 10 + "X"), action=Action.DISCARD),)))
@example(RulesTable(rules=(Rule(pattern=Pattern(destq="&DESTQ"), action=Action.FWD, fwdq="&DESTQ"),)))
@example(RulesTable(rules=(Rule(pattern=Pattern(destq="*" * 200, userid="+-"), action=Action.RETRY),)))
def test_a_printed_table_reads_back_as_itself(table: RulesTable) -> None:
    printed = print_table(table)
    assert parse(printed).table == table
    assert print_table(parse(printed).table) == printed
    assert max(map(len, printed.splitlines())) <= LENGTH_MAX


@settings(max_examples=1000)
@given(st.text())
def test_any_text_is_a_table_or_has_problems_with_places_in_it(text: str) -> None:
    read(text)


@settings(max_examples=1000)
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_what_looks_like_a_table_is_one_or_has_problems_with_places_in_it(text: str) -> None:
    read(text)


@given(tables().map(print_table), st.data())
def test_a_table_with_a_piece_changed_is_one_or_has_problems_with_places_in_it(text: str, data: st.DataObject) -> None:
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    read(text[:start] + data.draw(st.sampled_from(PIECES)) + text[end:])


def read(text: str) -> None:
    """Parse; what is read has to read back from its print, what is refused to be refused at places in the text."""
    parsed = parsed_or_none(text)
    if parsed is not None:
        assert parse(print_table(parsed.table)).table == parsed.table


def parsed_or_none(text: str) -> ParsedTable | None:
    try:
        return parse(text)
    except RulesTableError as error:
        problems = error.problems
    lines = text.split("\n")
    assert problems
    for problem in problems:
        assert 1 <= problem.line <= len(lines)
        assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1
        assert problem.text
    return None


@pytest.mark.parametrize(
    "text",
    [
        "APPLNAME('" + "''" * 50_000,
        "APPLNAME(" + "*" * 100_000,
        "DESTQ(A" + " " * 100_000,
        "+\n" * 20_000,
        "(" * 100_000,
    ],
)
def test_long_nonsense_takes_no_long_time(text: str) -> None:
    assert parsed_or_none(text) is None


def test_a_print_is_as_people_write_it() -> None:
    text = (
        "INPUTQ(ORDERS.DEAD) RETRYINT(30) WAIT(NO)\n"
        "REASON(MQRC_Q_FULL) ACTION(RETRY) RETRY(5)\n"
        "APPLNAME('order entry') APPLTYPE(MQAT_UNIX) DESTQ(ORDERS.*) +\n"
        "  MSGTYPE(MQMT_REQUEST) ACTION(FWD) FWDQ(&REPLYQ) FWDQM(&REPLYQM) +\n"
        "  HEADER(NO) PUTAUT(CTX)\n"
        "ACTION(FWD) FWDQ(REALLY.DEAD.QUEUE)\n"
    )
    assert print_table(parse(text).table) == text
