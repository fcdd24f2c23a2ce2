"""The cases in ``cases/`` hold on the simulator of every release, and on real servers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dlx.releases import RELEASES
from simulator.testing.cases.case_reading import read_cases
from simulator.testing.cases.given_case import GivenCase
from simulator.testing.cases.on_other_broker import OverAmqpAlone, run_on_other
from simulator.testing.cases.on_server import AT_A_TIME, LONGEST_MS, OnServer
from simulator.testing.cases.on_simulator import OnSimulator
from simulator.testing.cases.running import CaseResult, Target, run_case
from tests.counters.playing import virtual_host
from tests.live.servers import LiveServer

FILES = sorted((Path(__file__).parent / "cases").glob("*.yml"))
ATTEMPTS = 2  # more, alone, before a failure counts: a loaded machine can miss a deadline


@pytest.fixture(scope="module")
def cases() -> list[GivenCase]:
    return [case for path in FILES for case in read_cases(path)]


def failures(results: list[CaseResult]) -> str:
    failed = [each for each in results if each.status == "failed"]
    return "\n".join("\n  ".join([each.name, f"{each.source}:{each.failed_line}", *each.failures]) for each in failed)


@pytest.mark.parametrize("release", RELEASES)
def test_the_cases_hold_on_the_simulator(cases: list[GivenCase], release: str) -> None:
    told = failures([run_case(case, OnSimulator(release)) for case in cases])
    assert not told, told


def test_every_case_is_run_somewhere(cases: list[GivenCase]) -> None:
    """So a condition on releases cannot keep a case from ever being checked."""
    unseen = {
        case.name
        for case in cases
        if all(run_case(case, OnSimulator(release)).status == "not run" for release in ("3.8", "3.12", "4.0", "4.3"))
    }
    assert unseen == set()


def test_the_cases_hold_on_the_server(cases: list[GivenCase], live_server: LiveServer) -> None:
    target = OnServer(live_server)
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        results = list(pool.map(lambda case: run_case(case, target), cases))
    told = failures([_again(case, result, target) for case, result in zip(cases, results, strict=True)])
    assert not told, told
    lacking = {each.why_not.rpartition("; ")[2] for case, each in zip(cases, results, strict=True) if case.faults}
    assert lacking == {"faults need dlx serve"}
    # Nothing else keeps a case from a server than its releases, its time and its faults.
    run = {each.name for each in results if each.status != "not run"}
    simulated = {case.name for case in cases if run_case(case, OnSimulator(live_server.release)).status != "not run"}
    assert run == simulated - {case.name for case in cases if case.takes_ms > LONGEST_MS or case.faults}


def test_a_sample_holds_over_amqp_alone(cases: list[GivenCase], live_server: LiveServer) -> None:
    """As on a broker without a management API: the definitions are declared, and deleted again."""
    sample = [case for case in cases if Path(case.source).stem == "rejection"][:4]
    with virtual_host(live_server) as vhost:
        target = OverAmqpAlone(live_server.vhost_url(vhost), "a broker", live_server.release)
        told = failures([_again(case, run_on_other(case, target), target) for case in sample])
        left = live_server.api("GET", f"queues/{vhost}")
    assert not told, told
    assert left == []


def _again(case: GivenCase, result: CaseResult, target: Target) -> CaseResult:
    for _ in range(ATTEMPTS):
        if result.status != "failed":
            break
        result = run_case(case, target)
    return result
