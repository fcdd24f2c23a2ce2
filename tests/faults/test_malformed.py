"""What no good client sends gets the answer that RabbitMQ gives: the same codes, texts, silences."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.faults.cases import CASES
from tests.faults.record import ANSWERS
from tests.faults.targets import RELEASES, Target, simulated

pytestmark = pytest.mark.slow  # RabbitMQ lets some wait for 10 seconds, and so does the simulator

RECORDED: dict[str, dict[str, list[str]]] = json.loads(ANSWERS.read_text())

# 3.13 has no recorded server. Where 3.10 and 4.0 differ, its source says with which of them it goes.
LIKE_3_10 = ("port: ", "login: ANONYMOUS")

# The other answer of a server whose reader may see the method before its channel has told it that it crashed.
RACES = {
    "channel 1: close-ok unasked, then a method": [
        "0: connection.close 504 CHANNEL_ERROR - expected 'channel.open' (50,10)",
        "eof",
    ],
}


def expected(case: str, release: str) -> list[str]:
    if release == "3.13":
        release = "3.10" if case.startswith(LIKE_3_10) else "4.0"
    return next(lines for releases, lines in RECORDED[case].items() if release in releases.split())


@pytest.fixture(scope="session")
def simulated_answers() -> dict[str, dict[str, list[str]]]:
    """The answers of all releases to all cases, asked for together: many take RabbitMQ's 3 or 10 seconds."""

    def of(release: str) -> dict[str, list[str]]:
        with simulated(release) as target:
            return target.answers(list(CASES))

    with ThreadPoolExecutor(len(RELEASES)) as pool:
        return dict(zip(RELEASES, pool.map(of, RELEASES), strict=True))


@pytest.fixture(scope="session")
def answers(target: Target, request: pytest.FixtureRequest) -> dict[str, list[str]]:
    """The target's answers to all cases."""
    if target.is_live:
        return target.answers(list(CASES))
    return request.getfixturevalue("simulated_answers")[target.release]


@pytest.mark.parametrize("case", CASES)
def test_bad_input_gets_rabbitmqs_answer(target: Target, answers: dict[str, list[str]], case: str) -> None:
    right = expected(case, target.release)
    if target.is_live and answers[case] != right:  # one that is busy may be late: it is asked again, this alone
        answers[case] = target.answers([case])[case]
    if target.is_live and case in RACES and answers[case] != right:
        right = RACES[case]
    assert answers[case] == right


def test_the_answers_are_those_of_the_cases_there_are() -> None:
    assert set(RECORDED) == set(CASES)
