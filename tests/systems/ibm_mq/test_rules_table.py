"""The language of the rules table: what a text means."""

from __future__ import annotations

import pytest

from simulator.systems.ibm_mq.constants import known_names
from simulator.systems.ibm_mq.parser import parse
from simulator.systems.ibm_mq.rules_table import Action, Control, Pattern, PutAuthority, Rule, RulesTable


def rules(text: str) -> tuple[Rule, ...]:
    return parse(text).table.rules


def pattern(text: str) -> Pattern:
    return rules(f"{text} ACTION(DISCARD)\n")[0].pattern


def test_a_whole_table() -> None:
    parsed = parse(
        "* what the handler does with dead letters of the order system\n"
        "INPUTQ(ORDERS.DEAD) RETRYINT(30), WAIT(NO)\n"
        "\n"
        "* a queue that is full is tried again\n"
        "REASON(MQRC_Q_FULL) ACTION(RETRY) RETRY(5)\n"
        "MSGTYPE(MQMT_REQUEST), REPLYQ(?*) action (fwd) +\n"
        "   fwdq (&replyq) FWDQM(&REPLYQM) HEADER(NO) PUTAUT(CTX)\n"
        "ACTION(FWD) FWDQ(REALLY.DEAD.QUEUE)\n"
    )
    assert parsed.table == RulesTable(
        control=Control(inputq="ORDERS.DEAD", retryint_s=30, wait_s=0),
        rules=(
            Rule(pattern=Pattern(reason=2053), action=Action.RETRY, retry=5),
            Rule(
                pattern=Pattern(msgtype=1, replyq="?*"),
                action=Action.FWD,
                fwdq="&REPLYQ",
                fwdqm="&REPLYQM",
                header=False,
                putaut=PutAuthority.CTX,
            ),
            Rule(action=Action.FWD, fwdq="REALLY.DEAD.QUEUE"),
        ),
    )
    assert parsed.rule_lines == (5, 6, 8)
    assert parsed.warnings == ()


def test_a_rule_begins_where_its_first_keyword_is() -> None:
    assert parse("* all\n  +\n  ACTION(DISCARD)\n").rule_lines == (3,)


def test_defaults() -> None:
    parsed = parse("ACTION(DISCARD)")
    assert parsed.table.control == Control(inputq="", inputqm="", retryint_s=60, wait_s=None)
    assert rules("ACTION(FWD) FWDQ(SPARE)") == (
        Rule(action=Action.FWD, fwdq="SPARE", fwdqm="", header=True, putaut=PutAuthority.DEF, retry=1),
    )


@pytest.mark.parametrize(
    ("text", "control"),
    [
        ("WAIT(YES)", Control(wait_s=None)),
        ("WAIT(no)", Control(wait_s=0)),
        ("WAIT(15)", Control(wait_s=15)),
        ("RETRYINT(999999999)", Control(retryint_s=999_999_999)),
        ("INPUTQ(' ') INPUTQM(' ')", Control()),
        ("inputqm(qm1) INPUTQ('orders/dead%1')", Control(inputq="orders/dead%1", inputqm="QM1")),
    ],
)
def test_control_data(text: str, control: Control) -> None:
    assert parse(f"{text}\nACTION(DISCARD)\n").table.control == control


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("APPLNAME('ABC+\n  D')", "ABCD"),
        ("APPLNAME('ABC-\n D')", "ABC D"),
        ("APPLNAME('ABC+   \n* a comment between\n\n  D')", "ABCD"),
        ("APPL+\nNAME(A+\n.+\n  B)", "A.B"),
        ("APPLNAME('A++\n+B')", "A++B"),
        ("APPLNAME('A--\n-B')", "A--B"),
        ("APPLNAME('AB'+\r\n)", "AB"),
    ],
)
def test_continuation(text: str, joined: str) -> None:
    assert pattern(text).applname == joined


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("APPLNAME(orders)", "ORDERS"),
        ("APPLNAME('orders')", "orders"),
        ("APPLNAME( 'orders' )", "orders"),
        ("APPLNAME  (  ORDERS  )", "ORDERS"),
        ("APPLNAME(' two  words ')", " two  words"),
        ("APPLNAME('O''BRIEN')", "O'BRIEN"),
        ("APPLNAME('(, )')", "(, )"),
        ("APPLNAME('''')", "'"),
        ("APPLNAME(' ')", ""),
        ("APPLNAME(*)", "*"),
        ("APPLNAME(a?b*c.d/e_f%9)", "A?B*C.D/E_F%9"),
    ],
)
def test_texts_of_patterns(text: str, value: str) -> None:
    assert pattern(text).applname == value


@pytest.mark.parametrize("form", ["'ABCDEFGH'", "'A*C*E*G*I'", "'*A*C*E*G*I*K*M*O*'", "????????", "'ABCDEFGH   '"])
def test_a_star_does_not_count_for_the_length(form: str) -> None:
    assert pattern(f"FORMAT({form})").format == form.strip("'").rstrip(" ")


@pytest.mark.parametrize(
    ("text", "number"),
    [("8", 8), ("'8'", 8), ("0008", 8), ("MQMT_DATAGRAM", 8), ("mqmt_datagram", 8), ("*", None), ("'*'", None)],
)
def test_numbers_of_patterns(text: str, number: int | None) -> None:
    assert pattern(f"MSGTYPE({text})").msgtype == number


def test_a_number_may_be_meaningless_for_its_field() -> None:
    assert pattern("MSGTYPE(999999999)").msgtype == 999_999_999


@pytest.mark.parametrize("keyword", ["REASON", "FEEDBACK"])
def test_reasons_and_feedback_share_their_names(keyword: str) -> None:
    assert getattr(pattern(f"{keyword}(MQFB_COA)"), keyword.lower()) == 259
    assert getattr(pattern(f"{keyword}(MQRC_PUT_INHIBITED)"), keyword.lower()) == 2051


@pytest.mark.parametrize(
    ("keyword", "family"),
    [("MSGTYPE", "MQMT_"), ("PERSIST", "MQPER_"), ("APPLTYPE", "MQAT_"), ("FEEDBACK", "MQFB_"), ("REASON", "MQRC_")],
)
def test_every_name_is_known(keyword: str, family: str) -> None:
    for name, number in known_names()[family].items():
        assert getattr(pattern(f"{keyword}({name})"), keyword.lower()) == number


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        (
            "REASON(MQRC_Q_FULL) ACTION(RETRY)\nDESTQ(ORDERS) ACTION(DISCARD)\n",
            [
                "line 2, column 1: no rule takes every message; without a last one such as "
                "ACTION(FWD) FWDQ(REALLY.DEAD.QUEUE) some stay"
            ],
        ),
        (
            "ACTION(IGNORE)\nDESTQ(ORDERS) ACTION(RETRY)\n",
            ["line 2, column 1: the rule is never reached; that of line 1 takes every message for good"],
        ),
        (
            "MSGTYPE(MQMT_REQUEST) ACTION(FWD) FWDQ(&REPLYQ) HEADER(NO)\nACTION(FWD) FWDQ(REST)\n",
            [
                "line 1, column 1: FWDQ(&REPLYQ) fails where the reply queue is blank; "
                "the pattern REPLYQ(?*) leaves that out"
            ],
        ),
        (
            f"APPLNAME(ORDERS){' ' * 50}ACTION(DISCARD)\n* {'long' * 30}\nACTION(IGNORE){' ' * 70}\n",
            ["line 1, column 73: the line has 81 characters; 72 are portable"],
        ),
        ("DESTQ(ORDERS) ACTION(IGNORE)\nACTION(RETRY) RETRY(3)\nDESTQ(*) ACTION(IGNORE)\n", []),
        ("REPLYQ(?*) ACTION(FWD) FWDQ(&REPLYQ) HEADER(NO)\nACTION(FWD) FWDQ(REST)\n", []),
        ("ACTION(DISCARD)\n", ["line 1, column 1: the rule discards every message that comes to it"]),
        (
            "DESTQ(orders) ACTION(FWD) FWDQ('parked')\nACTION(FWD) FWDQ(&destq) HEADER(NO)\n",
            ["line 1, column 7: DESTQ(orders) means ORDERS: only quotes keep small letters"],
        ),
        (
            "DESTQM(QM9) ACTION(FWD) FWDQ(&DESTQ) FWDQM(QM2)\nACTION(FWD) FWDQ(REST)\n",
            [
                "line 1, column 1: FWDQ(&DESTQ) hands the application a message with its MQDLH in front; "
                "HEADER(NO) takes that off"
            ],
        ),
        (
            "FORMAT(MQDEAD) ACTION(DISCARD)\nACTION(FWD) FWDQ(REST)\n",
            [
                "line 1, column 1: FORMAT(MQDEAD) is for messages with two MQDLHs: FORMAT is that of the data behind "
                "the MQDLH, and not of the message on the queue"
            ],
        ),
    ],
    ids=[
        "no catch-all",
        "never reached",
        "blank reply queue",
        "long line",
        "retry may be exhausted",
        "guarded",
        "discards all",
        "folded",
        "with MQDLH",
        "twice dead",
    ],
)
def test_warnings(text: str, warnings: list[str]) -> None:
    assert [str(warning) for warning in parse(text).warnings] == warnings
