"""The books of random workloads on the simulator: every residual is named, and what is said of it is true."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlx.releases import RELEASES, release
from tests.counters.judging import problems
from tests.counters.playing import play
from tests.counters.simulators import simulated
from tests.counters.truth import deaths, untruths
from tests.counters.workloads import draw

COUNTING = [name for name in RELEASES if release(name).dead_letters_counted]
FAST = range(1, 9)
SLOW = range(9, 101)


def judge(rules: str, seed: int, folder: Path) -> None:
    """Play a workload and look through its books."""
    with simulated(rules) as (target, server):
        played = play(target, draw(seed), folder)
        happened = deaths(server)
    assert [*problems(played)] == []
    assert [*untruths(played, happened)] == []


@pytest.mark.parametrize("seed", FAST)
def test_each_residual_has_a_sentence_and_the_sentence_is_true(seed: int, tmp_path: Path) -> None:
    judge(COUNTING[seed % len(COUNTING)], seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("rules", ["3.10", "4.0", "4.3"])
@pytest.mark.parametrize("seed", SLOW)
def test_it_does_so_in_a_hundred_workloads(rules: str, seed: int, tmp_path: Path) -> None:
    judge(rules, seed, tmp_path)
