"""The script that shows whether a change can be noticed runs each command as a user would."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.meta.golden.outputs import Output, outputs

# What needs seconds is left to the script.
QUICK = ("compare", "explain", "fuzz", "graph", "help", "lint", "names", "plan", "settings", "simulate", "upgrade")


def _first_of_each_kind(scratch: Path) -> dict[str, Output]:
    found: dict[str, Output] = {}
    for output in outputs(scratch):
        found.setdefault(output.name.partition("/")[0], output)
    return found


def test_names_are_unique(tmp_path: Path) -> None:
    names = [output.name for output in outputs(tmp_path, spark=True)]
    assert len(names) == len(set(names)) > 1000


@pytest.mark.parametrize("kind", QUICK)
def test_an_output_is_an_answer_and_not_an_error(kind: str, tmp_path: Path) -> None:
    said = _first_of_each_kind(tmp_path)[kind].make()
    assert len(said) > 100
    assert said.partition("\n")[0] in {"exit 0", "exit 1"} or kind == "names"
