"""IBM's document of how the dead-letter queue handler processes its rules table, sentence by sentence.

Each test is named after its sentence. The sections are the document's: two paragraphs, then its notes.
"""

from __future__ import annotations

from typing import Any

from simulator.systems.ibm_mq import simulate
from simulator.systems.ibm_mq.parser import parse

DEAD = "SYSTEM.DEAD.LETTER.QUEUE"
FULL = "MQRC_Q_FULL"


def run(table: str, *results: str, names: tuple[str, ...] = ("order",), **fields: Any) -> dict[str, Any]:
    """What the handler does with messages, where the first puts have these results and the others succeed."""
    messages = [{"name": name, "REASON": FULL, "DESTQ": "ORDERS", **fields} for name in names]
    return simulate({"rules_table": table, "messages": messages, "put_results": list(results)})


def left(trace: dict[str, Any], queue: str = DEAD) -> list[str]:
    """The messages of a queue at the end."""
    return [each["message"] for each in trace["queues"].get(queue, [])]


def tries(trace: dict[str, Any]) -> list[str]:
    """The rule of each visit, and what came of it."""
    return [f"{each['rule'] or '-'} {each['outcome']}" for each in trace["visits"]]


# First paragraph


def test_the_search_begins_with_the_first_rule_and_continues_sequentially() -> None:
    table = (
        "REASON(MQRC_PUT_INHIBITED) ACTION(DISCARD)\nDESTQ(ORD*) ACTION(FWD) FWDQ(FIRST)\nACTION(FWD) FWDQ(SECOND)\n"
    )
    trace = run(table)
    assert tries(trace) == ["2 removed"]
    assert left(trace, "FIRST") == ["order"]
    assert tries(run(table, DESTQ="INVOICES")) == ["3 removed"]


def test_if_the_first_try_fails_the_handler_tries_again_until_the_number_of_tries_matches_that_of_retry() -> None:
    assert tries(run("ACTION(RETRY) RETRY(3)\n", FULL, FULL)) == ["1 backed out", "1 backed out", "1 removed"]
    assert tries(run("ACTION(RETRY) RETRY(2)\nACTION(DISCARD)\n", FULL, FULL)) == ["1 backed out"] * 2 + ["2 removed"]


def test_if_all_attempts_fail_the_handler_searches_for_the_next_matching_rule() -> None:
    table = "ACTION(RETRY) RETRY(2)\nDESTQ(INVOICES) ACTION(DISCARD)\nACTION(FWD) FWDQ(SPARE)\n"
    trace = run(table, FULL, FULL)
    assert tries(trace) == ["1 backed out", "1 backed out", "3 removed"]
    assert left(trace, "SPARE") == ["order"]


# Second paragraph


def test_this_is_repeated_for_subsequent_matching_rules_until_an_action_is_successful() -> None:
    table = "ACTION(RETRY)\nACTION(FWD) FWDQ(A)\nACTION(FWD) FWDQ(B)\nACTION(DISCARD)\n"
    assert tries(run(table, FULL, FULL)) == ["1 backed out", "2 backed out", "3 removed"]
    assert tries(run(table, FULL, FULL, FULL))[-1] == "4 removed"


def test_when_all_attempts_of_each_matching_rule_have_failed_ignore_is_assumed() -> None:
    trace = run("ACTION(RETRY)\nACTION(FWD) FWDQ(A) RETRY(2)\n", FULL, FULL, FULL)
    assert tries(trace) == ["1 backed out", "2 backed out", "2 backed out", "- ignored"]
    assert left(trace) == ["order"]


def test_ignore_is_also_assumed_if_no_matching_rule_is_found() -> None:
    trace = run("DESTQ(INVOICES) ACTION(DISCARD)\n")
    assert tries(trace) == ["- ignored"]
    assert left(trace) == ["order"]


# Notes


def test_the_handler_keeps_a_record_of_all_messages_that_have_been_seen_but_not_removed() -> None:
    table = "ACTION(IGNORE)\n"
    assert list(run(table, names=("a", "b"))["handler"]["remembers"]) == ["a", "b"]
    assert run("ACTION(DISCARD)\n", names=("a", "b"))["handler"]["remembers"] == {}


def test_forwarding_moves_the_messages_to_another_queue_with_their_header() -> None:
    trace = run("ACTION (FWD) FWDQ (IGNORED.DEAD.QUEUE) HEADER (YES)\n")
    (visit,) = trace["visits"]
    assert (visit["with_mqdlh"], visit["outcome"]) == (True, "removed")
    assert (left(trace, "IGNORED.DEAD.QUEUE"), left(trace)) == (["order"], [])


def test_without_a_catchall_as_the_final_rule_messages_are_likely_to_remain_indefinitely() -> None:
    for lacking in ("DESTQ(ORDERS) ACTION(DISCARD)\n", "ACTION(RETRY) RETRY(5)\n"):
        (warning,) = parse(lacking).warnings
        assert "such as ACTION(FWD) FWDQ(REALLY.DEAD.QUEUE) some stay" in str(warning)
        assert parse(f"{lacking}ACTION (FWD) FWDQ (REALLY.DEAD.QUEUE) HEADER (YES)\n").warnings == ()
