"""The runner's own parts that decide whether a run is green."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.clients.results import Expected, Outcome, expected, go_json, judged, junit_xml

KNOWN = [
    Expected("java", "Tls::*", "needs TLS"),
    Expected("java", "Qos::fairness", "read as per consumer", releases=("4.3",)),
]


@pytest.mark.parametrize(
    ("release", "test", "status", "judgement"),
    [
        ("4.3", "Tls::connects", "failed", "expected"),
        ("4.3", "Tls::connects", "passed", "passed"),
        ("4.3", "Qos::fairness", "failed", "expected"),
        ("4.3", "Qos::fairness", "passed", "failed"),
        ("3.10", "Qos::fairness", "failed", "failed"),
        ("3.10", "Qos::fairness", "passed", "passed"),
        ("4.3", "Qos::fairness2", "failed", "failed"),
        ("4.3", "Other", "skipped", "skipped"),
    ],
)
def test_a_failure_needs_an_entry_and_a_release_that_fails_must_fail(
    release: str, test: str, status: str, judgement: str
) -> None:
    assert judged("java", release, [Outcome(test, status)], KNOWN)[0].status == judgement


def test_an_entry_counts_for_its_own_suite() -> None:
    assert judged("go", "4.3", [Outcome("Tls::connects", "failed")], KNOWN)[0].status == "failed"


def test_what_a_broker_has_excuses_nothing() -> None:
    known = [Expected("java", "Tls::*", "needs TLS", lacks="TLS")]
    outcomes = [Outcome("Tls::connects", "failed")]
    assert judged("java", "4.3", outcomes, known)[0].status == "expected"
    assert judged("java", "4.3", outcomes, known, has=["TLS"])[0].status == "failed"


def test_the_list_can_be_read_and_gives_reasons() -> None:
    assert all(entry.reason for entry in expected())


def test_a_go_test_in_which_the_process_dies_has_failed() -> None:
    events = [
        {"Action": "run", "Test": "TestA"},
        {"Action": "pass", "Test": "TestA"},
        {"Action": "run", "Test": "TestB"},
        {"Action": "output", "Test": "TestB", "Output": "panic: ..."},
        {"Action": "fail"},
    ]
    found = go_json("\n".join(map(json.dumps, events)))
    assert found == [Outcome("TestA", "passed"), Outcome("TestB", "failed", "panic: ...")]


def test_a_test_that_fails_once_in_a_report_has_failed(tmp_path: Path) -> None:
    report = tmp_path / "report"
    report.write_text(
        '<testsuites><testsuite><testcase classname="a" name="b"><error message="tear-down">...</error></testcase>'
        '<testcase classname="a" name="b"/><testcase name="c"><skipped/></testcase></testsuite></testsuites>'
    )
    assert junit_xml(report) == [Outcome("a::b", "failed", "tear-down\n..."), Outcome("c", "skipped")]
