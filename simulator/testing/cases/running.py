"""Runs cases, and says of each what did not hold."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from typing import Literal, Protocol

import msgspec

from simulator.definitions import DefinitionsError
from simulator.testing.cases.differences import (
    CaseDifference,
    count_difference,
    loss_differences,
    message_differences,
    number_difference,
)
from simulator.testing.cases.file_format import Expect, SetFaults, Until
from simulator.testing.cases.given_case import GivenCase, fits, milliseconds
from simulator.testing.cases.stage import Stage, StepRefusedError
from simulator.time_spans import span

PATIENCE_S = 5.0
"""How long to wait on a server for what should be there."""
_LOOK_AGAIN_S = 0.05
_QUIET_LOOKS = 3


class Target(Protocol):
    """Where cases are run: a release of the simulator, or a server.

    Attributes:
        release: its release.
        name: what it is called in answers.
        at_a_time: how many cases may run at once.
    """

    release: str
    name: str
    at_a_time: int

    @property
    def longest_ms(self) -> int | None:
        """How much time may pass in a case; ``None`` for any."""

    def why_not(self, case: GivenCase) -> str:
        """Return why a case cannot be run there, besides its releases and its time; empty if it can."""

    def stage(self, case: GivenCase) -> AbstractContextManager[Stage]:
        """Yield a broker with the definitions of the case. Raises ``DefinitionsError`` if it refuses them."""


class CaseResult(msgspec.Struct, kw_only=True):
    """The result of one case at one target.

    Attributes:
        name, source, line: the case.
        target: where it was run.
        status: whether it holds, or was not run.
        why_not: why it was not run.
        failed_line: the line of what does not hold.
        failures: what does not hold, a sentence each.
        stories: what became of messages, where something does not hold.
        not_checked: what nobody could look at there.
        seconds: how long it took.
    """

    name: str
    source: str
    line: int
    target: str
    status: Literal["passed", "failed", "not run"]
    why_not: str = ""
    failed_line: int = 0
    failures: list[str] = []
    stories: list[str] = []
    not_checked: list[str] = []
    seconds: float = 0.0


def run_case(case: GivenCase, target: Target) -> CaseResult:
    """Run one case at one target. What fails first ends it."""
    result = CaseResult(name=case.name, source=case.source, line=case.line, target=target.name, status="passed")
    result.why_not = _why_not(case, target)
    if result.why_not:
        result.status = "not run"
        return result
    began = time.monotonic()
    try:
        with target.stage(case) as stage:
            _play(case, stage, target.release, result)
    except DefinitionsError as error:
        _failed(result, case.line, [f"definitions: {error}"])
    result.seconds = round(time.monotonic() - began, 3)
    return result


def _why_not(case: GivenCase, target: Target) -> str:
    if not fits(target.release, case.releases):
        condition = case.releases if isinstance(case.releases, str) else " or ".join(case.releases or ())
        return f"the case is for releases {condition}"
    if cannot := target.why_not(case):
        return cannot
    if target.longest_ms is not None and case.takes_ms > target.longest_ms:
        return f"{span(case.takes_ms * 1000)} pass in it; on a server at most {span(target.longest_ms * 1000)}"
    if not any(isinstance(step, Expect) and fits(target.release, step.releases) for step in case.steps):
        return f"nothing is expected of {target.release}"
    return ""


def _failed(result: CaseResult, line: int, failures: list[str]) -> None:
    result.status, result.failed_line, result.failures = "failed", line, failures


def _play(case: GivenCase, stage: Stage, release: str, result: CaseResult) -> None:
    for index, step in enumerate(case.steps):
        if isinstance(step, (Expect, Until)):  # also without a time: what is due now happens
            stage.pass_until(0 if step.at is None else milliseconds(step.at))
        if isinstance(step, Expect):
            if not fits(release, step.releases):
                continue
            differences = _looked(step, stage, last=_is_last(case, index, release), result=result)
            if differences:
                _failed(result, case.step_lines[index], [str(each) for each in differences])
                result.stories = stage.stories([each.queue for each in differences if each.queue is not None])
                return
        elif isinstance(step, SetFaults):
            stage.set_faults(step)
        elif not isinstance(step, Until):
            try:
                stage.do(step)
            except StepRefusedError as error:
                _failed(result, case.step_lines[index], [f"the broker refused the step: {error}"])
                return


def _is_last(case: GivenCase, index: int, release: str) -> bool:
    """Return whether nothing happens and nothing is checked after a step."""
    return not any(not isinstance(step, Expect) or fits(release, step.releases) for step in case.steps[index + 1 :])


def _looked(step: Expect, stage: Stage, *, last: bool, result: CaseResult) -> list[CaseDifference]:
    found = _settled(step, stage) if stage.real else _numbers(step, stage)
    if not stage.real:
        found += loss_differences(step.lost, stage.losses())
    elif "which copies were lost, and why" not in result.not_checked:
        result.not_checked.append("which copies were lost, and why")
    named = {name: each for name, each in (step.queues or {}).items() if isinstance(each, list)}
    if stage.real and not last:  # who reads a message changes it
        result.not_checked += [f"messages of {name} before the end" for name in named]
        return found
    for name, expected in named.items():
        counted = {(each.where, each.queue) for each in found}
        try:
            there = stage.messages(name) if name in stage.depths() else []
        except StepRefusedError as error:
            result.not_checked.append(f"messages of {name}: {error}")
            continue
        new = message_differences(name, expected, there)
        found += [each for each in new if (each.where, each.queue) not in counted]
    return found


def _settled(step: Expect, stage: Stage) -> list[CaseDifference]:
    """Look until the numbers are right for a while, or patience ends."""
    until, right = time.monotonic() + PATIENCE_S, 0
    while True:
        found = _numbers(step, stage)
        right = 0 if found else right + 1
        if right >= _QUIET_LOOKS or (found and time.monotonic() >= until):
            return found
        time.sleep(_LOOK_AGAIN_S)


def _numbers(step: Expect, stage: Stage) -> list[CaseDifference]:
    found = number_difference("unroutable publishes", step.unroutable, stage.unroutable)
    found += number_difference("refused publishes", step.refused, stage.refused)
    found += number_difference("unconfirmed publishes", step.unconfirmed, stage.unconfirmed)
    if step.queues is None:
        return found
    depths = stage.depths()
    for name in dict.fromkeys((*depths, *step.queues)):  # a queue may be gone by now
        expected = step.queues.get(name, 0)
        number = expected if isinstance(expected, int) else sum(each.times for each in expected)
        found += count_difference(name, number, depths.get(name, 0))
    return found
