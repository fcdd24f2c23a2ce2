"""The handler over a queue, in virtual time: which message it visits when, with which rule, and when it ends."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.scenario.scenario_errors import ScenarioError
from simulator.systems.ibm_mq import simulate, simulation
from simulator.systems.ibm_mq.mqdlh import BIG_ENDIAN, LENGTH, LITTLE_ENDIAN, read_mqdlh

FULL, INHIBITED = "MQRC_Q_FULL", "MQRC_PUT_INHIBITED"
DEAD = "SYSTEM.DEAD.LETTER.QUEUE"
# What a scenario says of a message unless a test says otherwise.
ORDER = {"REASON": FULL, "DESTQ": "ORDERS", "DESTQM": "QM1", "REPLYQ": "ORDERS.REPLY", "REPLYQM": "QM2"}


def order(name: str = "order", **fields: Any) -> dict[str, Any]:
    return {"name": name, **ORDER, **fields}


def run(table: str, *messages: dict[str, Any], **scenario: Any) -> dict[str, Any]:
    return simulate({"rules_table": table, "messages": list(messages or [order()]), **scenario})


def visits(trace: dict[str, Any]) -> list[str]:
    """Each visit in a line: seconds, message, rule, outcome."""
    return [
        f"{each['time_ms'] / 1000:g} {each['message']} {each['rule'] or '-'} {each['outcome']}"
        for each in trace["visits"]
    ]


def left(trace: dict[str, Any], queue: str = DEAD) -> list[str]:
    return [each["message"] for each in trace["queues"].get(queue, [])]


def codes(trace: dict[str, Any]) -> list[str]:
    return [f"{each['time_ms'] / 1000:g} {each['code']}" for each in trace["operator_messages"]]


def state(trace: dict[str, Any]) -> tuple[str, float]:
    return trace["handler"]["state"], trace["handler"]["time_ms"] / 1000


class TestRules:
    def test_each_rule_has_its_own_tries_and_each_message_its_own_count(self) -> None:
        trace = run(
            "ACTION(RETRY) RETRY(2)\nACTION(FWD) FWDQ(SPARE) RETRY(2)\n",
            order("a"),
            order("b", time_s=90),
            put_results=[FULL] * 6 + ["OK", FULL, "OK"],
        )
        assert visits(trace) == [
            "0 a 1 backed out",
            "60 a 1 backed out",
            "90 b 1 backed out",
            "120 a 2 backed out",
            "120 b 1 backed out",
            "180 a 2 backed out",
            "180 b 2 removed",
            "240 a - ignored",
        ]
        assert [each.get("try") for each in trace["visits"]] == [1, 2, 1, 1, 2, 2, 1, None]

    def test_when_all_tries_have_failed_the_message_stays(self) -> None:
        trace = run("RETRYINT(5)\nACTION(RETRY) RETRY(2)\n", put_results=[FULL] * 9)
        assert visits(trace) == ["0 order 1 backed out", "5 order 1 backed out", "10 order - ignored"]
        assert trace["queues"] == {DEAD: [{"message": "order"}]}
        assert state(trace) == ("waiting", 50)  # after the full scan that finds nothing new

    def test_discard_cannot_fail(self) -> None:
        trace = run("ACTION(DISCARD) RETRY(5)\n")
        assert visits(trace) == ["0 order 1 removed"]
        assert [each["event"] for each in trace["events"]] == ["dead-lettered", "delivered", "dropped"]
        assert (left(trace), state(trace)) == ([], ("waiting", 0))

    def test_ignore_ends_the_search_even_after_failed_tries(self) -> None:
        trace = run("ACTION(RETRY)\nACTION(IGNORE)\nACTION(DISCARD)\n", put_results=[FULL])
        assert visits(trace) == ["0 order 1 backed out", "60 order 2 ignored"]
        assert trace["handler"]["remembers"] == {"order": 3}

    def test_a_table_without_catch_all_rule_is_warned_of(self) -> None:
        assert "line 1, column 1: no rule takes every message" in run("DESTQ(X) ACTION(DISCARD)")["warnings"][0]
        assert run("ACTION(IGNORE)")["warnings"] == []


class TestExpiry:
    def test_the_queue_manager_discards_what_has_expired(self) -> None:
        table = "RETRYINT(10)\nDESTQ(ORDERS) ACTION(RETRY) RETRY(5)\nACTION(FWD) FWDQ(REST)\n"
        late = {**order("late", time_s=1), "expiry_s": 25.5}
        trace = run(table, late, order("early"), outages=[{"queue": "ORDERS", "result": FULL}], until_s=100)
        assert [visit for visit in visits(trace) if "late" in visit] == [
            "1 late 1 backed out", "10 late 1 backed out", "20 late 1 backed out"]  # fmt: skip
        ends = [event for event in trace["events"] if event["message"] == "late"][-2:]
        assert [(event["event"], event["time_ms"]) for event in ends] == [("expired", 26500), ("dropped", 26500)]
        assert [name for name in trace["queues"].get("REST", []) if name["message"] == "late"] == []


class TestPuts:
    @pytest.mark.parametrize(
        ("action", "put_to"),
        [
            ("ACTION(RETRY)", ["ORDERS", "QM1"]),
            ("ACTION(FWD) FWDQ(SPARE)", ["SPARE", ""]),
            ("ACTION(FWD) FWDQ(SPARE) FWDQM(QM9)", ["SPARE", "QM9"]),
            (f"ACTION(FWD) FWDQ({DEAD}) FWDQM(QM9)", [DEAD, "QM9"]),
            ("ACTION(FWD) FWDQ(&DESTQ)", ["ORDERS", ""]),
            ("ACTION(FWD) FWDQ(&REPLYQ) FWDQM(' ')", ["ORDERS.REPLY", ""]),
            ("ACTION(FWD) FWDQ(&REPLYQ) FWDQM(&REPLYQM)", ["ORDERS.REPLY", "QM2"]),
            ("ACTION(FWD) FWDQ(&REPLYQ) FWDQM(&DESTQM)", ["ORDERS.REPLY", "QM1"]),
        ],
    )
    def test_where_a_message_is_put(self, action: str, put_to: list[str]) -> None:
        trace = run(action)
        assert trace["visits"][0]["put_to"] == put_to
        where = put_to[0] if put_to[1] in ("", "QM1") else "@".join(put_to)
        assert left(trace, where) == ["order"]

    @pytest.mark.parametrize("encoding", [BIG_ENDIAN, LITTLE_ENDIAN])
    def test_forwarding_keeps_the_header(self, encoding: int) -> None:
        trace = run("ACTION(FWD) FWDQ(SPARE)", order(body="five", encoding=encoding, coded_char_set_id=500))
        (put,) = trace["queues"]["SPARE"]
        assert (put["with_mqdlh"], put["format"], put["encoding"]) == (True, "MQDEAD", encoding)
        data = bytes.fromhex(put["data_hex"])
        assert read_mqdlh(data, encoding=encoding, coded_char_set_id=500).dest_q_name == "ORDERS"
        assert data[LENGTH:].decode("cp500") == "five"

    @pytest.mark.parametrize("action", ["ACTION(RETRY)", "ACTION(FWD) FWDQ(ORDERS) HEADER(NO)"])
    def test_without_header_the_message_is_as_it_was_sent(self, action: str) -> None:
        (put,) = run(action, order(body="five", FORMAT="MQSTR"))["queues"]["ORDERS"]
        assert (put["with_mqdlh"], put["format"], bytes.fromhex(put["data_hex"])) == (False, "MQSTR", b"five")
        assert (put["encoding"], put["coded_char_set_id"]) == (LITTLE_ENDIAN, 1208)

    @pytest.mark.parametrize("action", ["ACTION(RETRY)", "ACTION(FWD) FWDQ(SPARE)"])
    def test_the_authority_is_the_handlers_or_that_of_the_context(self, action: str) -> None:
        assert run(action, order(USERID="alice"))["visits"][0]["put_authority"] == "handler"
        trace = run(f"{action} PUTAUT(CTX)", order(USERID="alice"))
        assert trace["visits"][0]["put_authority"] == "context user alice"

    def test_a_blank_reply_queue_is_no_queue(self) -> None:
        trace = run("ACTION(FWD) FWDQ(&REPLYQ)\nACTION(DISCARD)\n", order(REPLYQ="", REPLYQM=""))
        assert visits(trace) == ["0 order 1 backed out", "60 order 2 removed"]
        assert trace["visits"][0]["result"] == "MQRC_UNKNOWN_OBJECT_NAME"
        assert trace["operator_messages"][1] == {
            "time_ms": 0,
            "code": "AMQ8722",
            "text": "order: the put to a blank queue on the local queue manager failed with "
            "MQRC_UNKNOWN_OBJECT_NAME; the rule is in line 1",
        }

    def test_an_outage_fails_puts_while_it_lasts(self) -> None:
        outages = [
            {"queue": "ORDERS", "queue_manager": "QM1", "from_s": 30, "until_s": 150, "result": FULL},
            {"queue": "ORDERS", "queue_manager": "QM9", "result": FULL},
            {"queue": "INVOICES", "result": 2053},
        ]
        trace = run("ACTION(RETRY) RETRY(3)\n", order("early"), order(time_s=30), outages=outages)
        assert visits(trace) == [
            "0 early 1 removed",
            "30 order 1 backed out",
            "90 order 1 backed out",
            "150 order 1 removed",
        ]

    def test_an_outage_of_a_queue_that_nothing_is_put_to_is_told(self) -> None:
        outages = [{"queue": "ORDRES", "result": FULL}, {"queue": "ORDERS", "from_s": 9, "result": FULL}]
        trace = run("ACTION(RETRY)\nACTION(IGNORE)\n", outages=outages)
        assert trace["warnings"] == ["outages[0].queue: nothing was put to ORDRES"]

    def test_the_same_failure_at_the_same_queue_is_not_reported(self) -> None:
        table = "ACTION(RETRY) RETRY(2)\nACTION(FWD) FWDQ(ORDERS) FWDQM(QM1)\nACTION(FWD) FWDQ(ORDERS)\n"
        trace = run(table, put_results=[FULL, INHIBITED, FULL, FULL])
        assert [each.get("operator_message") for each in trace["visits"]] == [False, True, False, True, None]
        assert codes(trace) == ["0 AMQ8708", "60 AMQ8722", "180 AMQ8722"]


class TestTime:
    def test_a_clock_of_whole_seconds_exceeds_the_interval(self) -> None:
        trace = run("ACTION(RETRY) RETRY(3)\n", order(time_s=0.5), put_results=[FULL] * 2, clock="whole-seconds")
        assert visits(trace) == ["0.5 order 1 backed out", "61 order 1 backed out", "122 order 1 removed"]

    def test_an_interval_of_nothing_is_a_second(self) -> None:
        trace = run("RETRYINT(0)\nACTION(RETRY) RETRY(2)\n", put_results=[FULL] * 2)
        assert visits(trace) == ["0 order 1 backed out", "1 order 1 backed out", "2 order - ignored"]

    def test_who_fails_after_the_retry_point_is_tried_again_with_it(self) -> None:
        trace = run("ACTION(RETRY) RETRY(9)\n", order("a"), order("b", time_s=10), put_results=[FULL] * 2)
        assert visits(trace) == ["0 a 1 backed out", "10 b 1 backed out", "60 a 1 removed", "60 b 1 removed"]

    def test_the_interval_begins_with_the_failure(self) -> None:
        trace = run("ACTION(RETRY) RETRY(9)\n", order("a"), order("b", time_s=70), put_results=[FULL, "OK", FULL])
        assert visits(trace) == ["0 a 1 backed out", "60 a 1 removed", "70 b 1 backed out", "130 b 1 removed"]

    def test_a_retry_point_that_has_gone_starts_a_full_scan(self) -> None:
        trace = run(
            "ACTION(RETRY) RETRY(9)\n",
            order("a"),
            order("urgent", time_s=30, priority=9),
            put_results=[FULL],
            removals=[{"time_s": 20, "message": "a"}],
        )
        assert visits(trace) == ["0 a 1 backed out", "60 urgent 1 removed"]
        assert "taken by another application" in [each.get("detail") for each in trace["events"]]

    def test_what_arrives_ahead_of_the_handler_waits_for_the_full_scan(self) -> None:
        late = order("late", time_s=30, priority=5)
        table = "DESTQ(X) ACTION(DISCARD)\n"
        later = order("later", time_s=700, priority=5)
        assert visits(run(table, order(), late)) == ["0 order - ignored", "600 late - ignored"]
        assert visits(run(table, order(), later)) == ["0 order - ignored", "1200 later - ignored"]
        assert visits(run(table, order(), late, delivery_sequence="FIFO")) == ["0 order - ignored", "30 late - ignored"]

    def test_a_full_scan_can_come_before_the_interval_is_over(self) -> None:
        trace = run("ACTION(RETRY) RETRY(99)\n", order("a"), order("b", time_s=590), put_results=[FULL] * 12)
        assert visits(trace)[-4:] == ["590 b 1 backed out", "600 a 1 backed out", "600 b 1 removed", "660 a 1 removed"]

    def test_it_stops_where_it_is_told(self) -> None:
        trace = run("ACTION(RETRY) RETRY(99)\n", put_results=[FULL] * 99, until_s=130)
        assert visits(trace)[-1] == "120 order 1 backed out"
        assert state(trace) == ("waiting", 130)


class TestEnd:
    def test_wait_no_ends_when_the_queue_is_empty(self) -> None:
        trace = run("WAIT(NO)\nACTION(DISCARD)\n", order(), order("too late", time_s=1))
        assert visits(trace) == ["0 order 1 removed"]
        assert left(trace) == ["too late"]
        assert codes(trace) == ["0 AMQ8708", "0 AMQ8709"]

    def test_wait_no_ends_when_nothing_left_can_be_handled(self) -> None:
        trace = run("WAIT(NO)\nACTION(IGNORE)\n")
        assert (visits(trace), state(trace)) == (["0 order 1 ignored"], ("ended", 0))

    def test_wait_no_does_not_end_while_there_are_tries_left(self) -> None:
        trace = run("WAIT(NO)\nACTION(RETRY) RETRY(2)\n", put_results=[FULL] * 2)
        assert visits(trace)[-1] == "120 order - ignored"
        assert state(trace) == ("ended", 120)

    def test_wait_counts_from_the_last_work(self) -> None:
        trace = run("RETRYINT(20) WAIT(25)\nACTION(RETRY) RETRY(2)\n", put_results=[FULL])
        assert (visits(trace)[-1], state(trace)) == ("20 order 1 removed", ("ended", 45))
        trace = run("WAIT(25)\nACTION(DISCARD)\n", order("a", time_s=10), order("b", time_s=30))
        assert visits(trace) == ["10 a 1 removed", "30 b 1 removed"]
        assert codes(trace) == ["0 AMQ8708", "55 AMQ8709"]

    def test_wait_in_whole_seconds_is_exceeded(self) -> None:
        assert state(run("WAIT(NO)\nACTION(IGNORE)\n", clock="whole-seconds")) == ("ended", 1)
        assert state(run("WAIT(10)\nACTION(DISCARD)\n", clock="whole-seconds")) == ("ended", 11)

    def test_it_does_not_end_before_a_full_scan(self) -> None:
        trace = run("WAIT(100)\nACTION(IGNORE)\n", order(), order("late", time_s=30, priority=5))
        assert visits(trace) == ["0 order 1 ignored", "100 late 1 ignored"]
        assert state(trace) == ("ended", 200)

    def test_wait_yes_never_ends(self) -> None:
        trace = run("WAIT(YES)\nACTION(DISCARD)\n", order(), order("next day", time_s=86_400))
        assert visits(trace) == ["0 order 1 removed", "86400 next day 1 removed"]
        assert trace["handler"]["state"] == "waiting"


class TestMemory:
    def test_counts_last_for_one_run(self) -> None:
        trace = run("ACTION(RETRY) RETRY(2)\n", put_results=[FULL] * 3, restarts_s=[200])
        assert visits(trace) == [
            "0 order 1 backed out",
            "60 order 1 backed out",
            "120 order - ignored",
            "200 order 1 backed out",
            "260 order 1 removed",
        ]
        assert codes(trace) == ["0 AMQ8708", "200 AMQ8708"]

    def test_messages_with_the_same_ids_share_their_tries(self) -> None:
        twins = [order("a", msg_id="1", correl_id="2"), order("b", msg_id="1", correl_id="2")]
        other = order("c", msg_id="1", correl_id="3")
        trace = run("ACTION(RETRY) RETRY(2)\nACTION(DISCARD)\n", *twins, other, put_results=[FULL] * 3)
        assert visits(trace) == [
            "0 a 1 backed out",
            "0 b 1 backed out",
            "0 c 1 backed out",
            "60 a 2 removed",
            "60 b 1 removed",
            "60 c 1 removed",
        ]

    def test_every_message_seen_and_left_is_remembered(self) -> None:
        trace = run("DESTQ(ORDERS) ACTION(DISCARD)\n", order("a"), order("b", DESTQ="B"), order("c", DESTQ="C"))
        assert trace["handler"]["remembers"] == {"b": 2, "c": 2}  # seen at once, and by the full scan
        assert left(trace) == ["b", "c"]


class TestWithoutHeader:
    def test_a_message_without_header_is_reported_by_every_scan_and_stays(self) -> None:
        bad = {"name": "bad", "data_hex": b"no header".hex()}
        trace = run("ACTION(DISCARD)\n", bad, order("late", time_s=700))
        assert visits(trace) == ["700 late 1 removed"]
        assert left(trace) == ["bad"]
        assert codes(trace)[:3] == ["0 AMQ8708", "0 AMQ8721", "600 AMQ8721"]
        assert trace["operator_messages"][1]["text"] == (
            "bad has no valid MQDLH: expected the 172 bytes of an MQDLH, got 9"
        )
        assert trace["handler"]["remembers"] == {}

    def test_it_does_not_keep_the_handler_from_its_end(self) -> None:
        trace = run("WAIT(NO)\nACTION(DISCARD)\n", {"name": "bad", "data_hex": ""})
        assert state(trace) == ("ended", 0)

    def test_forwarded_to_the_queue_itself_without_header_it_is_one(self) -> None:
        trace = run(f"ACTION(FWD) FWDQ({DEAD}) HEADER(NO)\n")
        assert visits(trace) == ["0 order 1 removed"]
        assert left(trace) == ["order"]
        assert "AMQ8721" in codes(trace)[1]


class TestPlaces:
    @pytest.mark.parametrize(
        ("table", "arguments", "place"),
        [
            ("", [], (DEAD, "QM1")),
            ("INPUTQ(TABLE.Q) INPUTQM(QM7)\n", [], ("TABLE.Q", "QM7")),
            ("INPUTQ(' ') INPUTQM(' ')\n", [], (DEAD, "QM1")),
            ("INPUTQ(TABLE.Q) INPUTQM(QM7)\n", ["Q.ARG"], ("Q.ARG", "QM7")),
            ("INPUTQ(TABLE.Q) INPUTQM(QM7)\n", ["Q.ARG", "QM8"], ("Q.ARG", "QM8")),
            ("INPUTQ(TABLE.Q)\n", ["  "], (DEAD, "QM1")),
            ("INPUTQ(TABLE.Q)\n", ["Q.ARG and more"], ("Q.ARG", "QM1")),
        ],
    )
    def test_which_queue_it_reads(self, table: str, arguments: list[str], place: tuple[str, str]) -> None:
        handler = run(f"{table}ACTION(DISCARD)\n", arguments=arguments)["handler"]
        assert (handler["input_queue"], handler["queue_manager"]) == place


@pytest.mark.parametrize("messages", [1, 5])
def test_a_circle_does_not_run_for_ever(messages: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "STEPS_MAX", 2_000)
    said = f"until_s: expected an end within {max(2, messages)},000 steps of the handler; give an earlier one"
    with pytest.raises(ScenarioError, match=said):
        run(f"ACTION(FWD) FWDQ({DEAD})\n", *(order(str(index)) for index in range(messages)))


def test_the_same_scenario_gives_the_same_trace() -> None:
    messages = [order(str(index), time_s=index * 7 % 100, priority=index % 10) for index in range(50)]
    scenario = {"rules_table": "ACTION(RETRY) RETRY(3)\n", "messages": messages, "put_results": [FULL] * 80}
    assert simulate(scenario) == simulate(scenario)
