"""What no good client sends gets the answer that RabbitMQ gives: the same codes, texts, silences."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from dlx.releases import RELEASES
from tests.faults.cases import CASES
from tests.faults.record import ANSWERS, by_release
from tests.faults.targets import Target, live, simulated
from tests.live.servers import LiveServer
from tests.real_servers import LIVE

pytestmark = pytest.mark.slow  # RabbitMQ lets some wait for 10 seconds, and so does the simulator

_TOGETHER = 4  # more keep two cores so busy that heartbeats of one second are late
RECORDED = {case: by_release(told) for case, told in json.loads(ANSWERS.read_text()).items()}

# The two answers of a server whose reader may see the method before its channel has told it that it crashed. The
# simulator gives the first one.
RACES = {
    "channel 1: close-ok unasked, then a method": (
        ["0: connection.close 503 COMMAND_INVALID - unimplemented method (20,41)", "eof"],
        ["0: connection.close 504 CHANNEL_ERROR - expected 'channel.open' (50,10)", "eof"],
    ),
}


def accepted(case: str, target: Target) -> tuple[list[str], ...]:
    """The right answers: the recorded one, in a race either, and of a release that was not asked either neighbour's."""
    if case in RACES:
        return RACES[case] if target.is_live else RACES[case][:1]
    if target.release in RECORDED[case]:
        return (RECORDED[case][target.release],)
    place = RELEASES.index(target.release)
    before = next(release for release in reversed(RELEASES[:place]) if release in RECORDED[case])
    after = next(release for release in RELEASES[place:] if release in RECORDED[case])
    return (RECORDED[case][before], RECORDED[case][after])


def wrong(target: Target) -> list[str]:
    """The cases that a target answers otherwise, with what it should have said.

    One that is busy may be late: it is asked again, each of these cases alone.
    """
    answers = target.answers(list(CASES))
    again = {case: target.answers([case])[case] for case in CASES if answers[case] not in accepted(case, target)}
    return [
        f"{target.name}, {case}: {answer}, expected {' or '.join(map(str, accepted(case, target)))}"
        for case, answer in again.items()
        if answer not in accepted(case, target)
    ]


def of_simulator(release: str) -> list[str]:
    with simulated(release) as target:
        return wrong(target)


@pytest.mark.parametrize("releases", [LIVE, pytest.param(RELEASES, marks=pytest.mark.long)], ids=["live", "all"])
def test_bad_input_gets_rabbitmqs_answer(releases: Sequence[str]) -> None:
    """A few releases at a time: many cases take RabbitMQ's 3 or 10 seconds of real time."""
    with ThreadPoolExecutor(_TOGETHER) as pool:
        assert [line for lines in pool.map(of_simulator, releases) for line in lines] == []


def test_the_answers_are_those_of_real_servers(live_server: LiveServer) -> None:
    assert wrong(live(live_server)) == []


# Only the live servers were asked these.
ASKED_LATER = {
    f"login: AMQPLAIN, {kinds}"
    for kinds in (
        "LOGIN a byte array", "PASSWORD a byte array", "both byte arrays", "LOGIN an integer", "PASSWORD an integer",
        "both integers", "LOGIN and PASSWORD void", "unknown user, PASSWORD an integer",
    )
}  # fmt: skip


def test_every_release_was_asked_every_case() -> None:
    asked = {case: set(LIVE if case in ASKED_LATER else RELEASES) for case in CASES}
    assert {case: set(answers) for case, answers in RECORDED.items()} == asked
    for case, answers in RACES.items():
        assert all(recorded in answers for recorded in RECORDED[case].values())
