"""Files of ``dmpmqmsg``: what is read of them, and what is said of a line that the program would not have written."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.scenario.scenario_errors import ScenarioError
from simulator.systems.ibm_mq import simulate
from simulator.systems.ibm_mq.mqdlh import BIG_ENDIAN, DeadMessage, Mqdlh, header_of, write_mqdlh
from simulator.systems.ibm_mq.unloaded_queue import UnloadedQueueError, read_unloaded

LATE = ("expired", "held")
HEADER = Mqdlh(reason=2053, dest_q_name="ORDERS", dest_q_mgr_name="QM1", format="MQSTR")
FIRST = "* DMPMQMSG Version:9.4.0.0 Created:Sat Nov 28 10:00:00 2026\n* Qmgr  = QM1\n* Queue = DLQ\n\n"
MQMD = (
    "A VER 2\nA RPT 0\nA MST 1\nA EXP 300\nA FDB 0\nA ENC 273\nA CCS 1047\nA FMT MQDEAD  \nA PRI 7\nA PER 1\n"
    "A MSI 414D5120514D3120\nA COI \nA BOC 2\n"
    f"A RTQ {'ORDERS.REPLY':48}\nA RTM {'QM2':48}\nA USR {'alice':12}\nA ACC 16\n"
    f"A AIX {b'shop'.hex():064}\nA PAT 6\nA PAN {'amqsput':28}\nA PTD 20261128\nA PTT 10000000\nA AOX 20202020\n"
    "A GRP 00\nA MSQ 1\nA OFF 0\nA MSF 0\nA ORL -1\n"
)


def hexadecimal(data: bytes, width: int = 25) -> str:
    return "".join(f"X {data[at : at + width].hex().upper()}\n" for at in range(0, len(data), width))


def in_columns(data: bytes, width: int = 25) -> str:
    lines = (data[at : at + width] for at in range(0, len(data), width))
    return "".join(f"X {line.hex().upper():{2 * width}}  <{'.' * len(line)}>\n" for line in lines)


def dead(body: str) -> bytes:
    return write_mqdlh(HEADER, encoding=BIG_ENDIAN, coded_char_set_id=1047) + body.encode("cp500")


def test_the_fields_and_the_data_of_a_message() -> None:
    (found,) = read_unloaded(FIRST + MQMD + hexadecimal(dead("sup")) + "\n")
    assert found.expiry_s == 30
    assert found.message == DeadMessage(
        data=dead("sup"),
        encoding=273,
        coded_char_set_id=1047,
        msg_id="414D5120514D3120".ljust(48, "0"),
        correl_id="0" * 48,
        msg_type=1,
        persistence=1,
        priority=7,
        put_appl_type=6,
        put_appl_name="amqsput",
        user_identifier="alice",
        appl_identity_data="shop",
        reply_to_q="ORDERS.REPLY",
        reply_to_q_mgr="QM2",
    )
    assert header_of(found.message).reason == 2053


def test_data_as_the_options_for_display_write_it() -> None:
    shapes = {
        "X 41425A\nX 00\n": b"ABZ\0",
        "X 4142  <AB>\nX 5A    <Z >\n": b"ABZ",
        "X\n": b"",
        "X \n": b"",
        'S "sup"\nX 0D0A\nS "~"~~ more"\n': b'sup\r\n"~ more',
        "S \n": b"",
        "T one  \nT \nT two\n": b"one  \n\ntwo\n",
        "T é\r\n": "é\n".encode(),
    }
    for lines, data in shapes.items():
        (found,) = read_unloaded(f"* QLOAD Version:1.8 Created:now\nA FMT MQSTR   \n{lines}")
        assert (found.message.data, found.message.format, found.expiry_s) == (data, "MQSTR", None), lines
    both = read_unloaded(f"{FIRST}* Index 1\nN\nX 41\n\n* Index 2\nN\nA PRI 3\nX 42\n\nA PRI 4\nX 43\n")
    assert [(each.message.data, each.message.priority) for each in both] == [(b"A", 0), (b"B", 3), (b"C", 4)]
    assert read_unloaded(FIRST) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "line 1: expected a file of dmpmqmsg, whose first line begins with '* QLOAD' or '* DMPMQMSG'"),
        ("\n\nA PRI 0\nX 00\n", "line 3: expected a file of dmpmqmsg"),
        ("AMQSBCG0 - starts here\n", "'* DMPMQMSG'; amqsbcg wrote this one"),
        (FIRST + "X 00\n", "line 5: expected a message, which begins with a field (A) or with N, got 'X 00'"),
        (FIRST + "A PRE 0\nX 00\n", "line 5: no field 'PRE 0'; did you mean PRI or PER? expected VER, RPT, "),
        (FIRST + "APRI 0\nX 00\n", "line 5: no field 'PRI 0'"),
        (FIRST + "A PRI high\nX 00\n", "line 5: PRI is 'high'; expected a number of 32 bits"),
        (FIRST + "A PRI 99999999999\nX 00\n", "line 5: PRI is '99999999999'; expected a number of 32 bits"),
        (FIRST + "A EXP -2\nX 00\n", "line 5: EXP is '-2'; expected -1 for ever, or tenths of a second"),
        (FIRST + f"A RTQ {'Q' * 49}\nX 00\n", "expected at most 48 characters"),
        (FIRST + "A MSI 4G\nX 00\n", "MSI is '4G'; expected at most 24 bytes, as pairs of hexadecimal digits"),
        (FIRST + "A PRI 0\nX 000\n", "line 6: expected pairs of hexadecimal digits behind X"),
        (FIRST + "A PRI 0\nX 00 zz\n", "line 6: expected pairs of hexadecimal digits behind X"),
        (FIRST + "A PRI 0\nS sup\n", "line 6: expected a string in quotation marks behind S"),
        (FIRST + 'A PRI 0\nS "a~b"\n', "line 6: expected a string in quotation marks behind S"),
        (FIRST + "A PRI 0\nQ 00\n", "line 6: expected a field (A) or data (X, S, T), got 'Q 00'"),
        (FIRST + "A PRI 0\nX 00\nQ\n", "line 7: expected data (X, S, T) or the next message (A, N), got 'Q'"),
        (FIRST + "A PRI 0\n", "line 5: expected data (a line with X, S or T) behind the fields of this message"),
        (FIRST + "A PRI 0\nN\nX 00\n", "line 6: expected a field (A) or data (X, S, T), got 'N'"),
    ],
)
def test_a_line_that_cannot_be(text: str, problem: str) -> None:
    with pytest.raises(UnloadedQueueError) as refused:
        read_unloaded(text)
    assert problem in str(refused.value)


def test_the_handler_takes_an_unloaded_queue() -> None:
    messages = [MQMD + hexadecimal(dead("sup")), MQMD.replace("3120\n", "3121\n") + in_columns(dead("sup"))]
    scenario: dict[str, Any] = {
        "rules_table": "REASON(MQRC_Q_FULL) REPLYQ(ORDERS.*) USERID('alice') ACTION(RETRY) RETRY(2)",
        "messages": FIRST + "\n".join([*messages, "A FMT MQSTR   \nA EXP 20\nX 00\n"]),
        "outages": [{"queue": "ORDERS", "until_s": 10, "result": "MQRC_Q_FULL"}],
        "until_s": 60,
    }
    trace = simulate(scenario)
    assert [(each["time_ms"], each["message"], each["event"]) for each in trace["events"] if each["event"] in LATE] == [
        (0, "message 3", "held"),
        (2_000, "message 3", "expired"),
        (30_000, "message 1", "expired"),
        (30_000, "message 2", "expired"),
    ]
    assert trace["warnings"][-1] == (
        "messages: 3 of a file of dmpmqmsg, read by its documentation; no queue manager was asked"
    )
    with pytest.raises(ScenarioError, match=r"^messages: line 1: expected a file of dmpmqmsg"):
        simulate({**scenario, "messages": "A"})
