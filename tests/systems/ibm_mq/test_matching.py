"""Patterns: wildcards, blanks, and which field each keyword is compared with."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.systems.ibm_mq.handler import fits, text_fits
from simulator.systems.ibm_mq.mqdlh import DeadMessage, Mqdlh
from simulator.systems.ibm_mq.rules_table import Pattern

HEADER = Mqdlh(reason=2053, dest_q_name="ORDERS", dest_q_mgr_name="QM1", format="MQSTR", put_appl_name="amqrmppa")
MESSAGE = DeadMessage(
    data=b"",
    msg_type=8,
    persistence=1,
    feedback=0,
    put_appl_type=6,
    put_appl_name="amqsput",
    user_identifier="alice",
    appl_identity_data="id",
    reply_to_q="ORDERS.REPLY",
    reply_to_q_mgr="QM2",
)


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("*", "", True),
        ("", "", True),
        ("", "A", False),
        ("?*", "", False),
        ("?*", "A", True),
        ("?", "A", True),
        ("?", "AB", False),
        ("A?", "A", False),
        ("A?", "A ", False),
        ("A?C", "A C", True),
        ("A*", "A", True),
        ("A*", "AB", True),
        ("*A", "BA", True),
        ("*A", "AB", False),
        ("A*B*C", "AxBBxC", True),
        ("A*B*C", "AxCxB", False),
        ("*AB*AB", "AB", False),
        ("ORDERS", "ORDERS   ", True),
        ("ORDERS  ", "ORDERS", True),
        (" ORDERS", "ORDERS", False),
        ("ORDERS", "orders", False),
        ("A.B", "AxB", False),
        ("[A]", "A", False),
    ],
)
def test_wildcards(pattern: str, text: str, expected: bool) -> None:
    assert text_fits(pattern, text) is expected


@given(st.text("AB?*", max_size=12), st.text("AB", max_size=12))
def test_wildcards_are_what_a_plain_regular_expression_says(pattern: str, text: str) -> None:
    plain = "".join({"?": ".", "*": ".*"}.get(character, character) for character in pattern)
    assert text_fits(pattern, text) == (re.fullmatch(plain, text) is not None)


def test_many_stars_take_no_long_time() -> None:
    assert not text_fits("*A" * 20 + "*B", "A" * 48)


@pytest.mark.parametrize(
    "pattern",
    [
        Pattern(),
        Pattern(applidat="id", applname="amqs*", appltype=6, destq="ORD*", destqm="QM1", feedback=0, format="MQSTR"),
        Pattern(msgtype=8, persist=1, reason=2053, replyq="?*", replyqm="QM2", userid="alice"),
    ],
)
def test_a_pattern_fits_where_every_keyword_does(pattern: Pattern) -> None:
    assert fits(pattern, MESSAGE, HEADER)


@pytest.mark.parametrize(
    "pattern",
    [
        Pattern(applidat="ID"),
        Pattern(applname="amqrmppa"),  # of the MQMD, not of the MQDLH
        Pattern(appltype=0),
        Pattern(destq="QM1"),
        Pattern(destqm="ORDERS"),
        Pattern(feedback=256),
        Pattern(format="MQDEAD"),  # of the MQDLH, not of the MQMD
        Pattern(msgtype=1),
        Pattern(persist=0),
        Pattern(reason=2051),
        Pattern(replyq=""),
        Pattern(replyqm="QM1"),
        Pattern(userid="ALICE"),
        Pattern(destq="ORDERS", userid="bob"),
    ],
)
def test_a_pattern_does_not_fit_where_one_keyword_does_not(pattern: Pattern) -> None:
    assert not fits(pattern, MESSAGE, HEADER)
