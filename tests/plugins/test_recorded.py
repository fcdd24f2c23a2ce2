"""The simulator answers the recorded cases of exchange plugins and shovels as the servers did."""

from __future__ import annotations

import pytest

from tests.plugins.cases import FILES, play, read
from tests.plugins.differences import differences
from tests.plugins.known import KNOWN, known
from tests.real_servers import LIVE


@pytest.mark.parametrize("release", LIVE)
@pytest.mark.parametrize("file", FILES)
def test_the_simulator_answers_as_recorded(file: str, release: str) -> None:
    """Every answer but the known differences, which must differ still."""
    found = {(run.case.name, step): text for run in play(file, release) for step, text in differences(run).items()}
    listed = known(file, release)
    new = [f"{case!r}, step {step}:\n  {found[case, step]}" for case, step in found.keys() - listed.keys()]
    gone = [f"{case!r}, step {step} is as recorded: take it off the known" for case, step in listed.keys() - found]
    if new or gone:
        pytest.fail("\n".join(sorted(new) + sorted(gone)), pytrace=False)


def test_each_known_difference_names_a_case() -> None:
    for row in KNOWN:
        assert [case for case in read(row.file) if case.name == row.case], row


def test_each_release_is_recorded() -> None:
    """A lost file must not turn these tests into none."""
    cases = [case for file in FILES for case in read(file)]
    assert {release: sum(case.answers(release) is not None for case in cases) for release in LIVE} == {
        "3.8": 261,
        "3.10": 262,
        "4.0": 268,
        "4.3": 268,
    }
