"""A broken invariant is seen wherever it comes, and ends the run."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from tests.enumeration import __main__ as command
from tests.enumeration.check import Disagreement, Verdict
from tests.enumeration.space import Space
from tests.enumeration.tally import DISAGREEMENTS_MAX, Tally


def disagreeing(why: str, *, invariant: bool) -> Verdict:
    return Verdict("lossless", True, (), 1, True, Disagreement("lossless", why, invariant, {}))


def tally(space: Space, *verdicts: Verdict) -> Tally:
    found = Tally(space.release.name, space.queues, space.all())
    found.add(verdicts)
    return found


ORACLES = [disagreeing("the oracle says that it holds", invariant=False)] * (DISAGREEMENTS_MAX + 1)
FAULT = disagreeing("an invariant is broken: conservation", invariant=True)


@pytest.mark.parametrize(
    ("verdicts", "last", "exit_code"), [(ORACLES, ("4.3", 2), 1), ([*ORACLES, FAULT], ("3.8", 1), 70)]
)
def test_a_run_ends_where_an_invariant_is_broken(
    monkeypatch: pytest.MonkeyPatch, verdicts: list[Verdict], last: tuple[str, int], exit_code: int
) -> None:
    monkeypatch.setattr(command, "enumerated", lambda space, _jobs, _part: tally(space, *verdicts))
    arguments = ["--release", "3.8", "--release", "4.3", "--queues", "1", "--queues", "2", "--json"]
    ran = CliRunner().invoke(command.main, arguments)
    told = json.loads(ran.stdout)
    assert ran.exit_code == exit_code
    assert (told[-1]["release"], told[-1]["queues"]) == last
    assert any("invariant" in each["why"] for each in told[-1]["disagreements"]) == (exit_code == 70)
