"""What a type checker says of a user's file: nothing of a right one, and something of every wrong line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FILES = ("right_use.py", "wrong_use.py")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[int, str]]:
    """The errors by file and line, as a user sees them who runs ``mypy --strict``."""
    work = tmp_path_factory.mktemp("user")
    for name in FILES:
        (work / name).write_bytes((HERE / name).read_bytes())
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary", *FILES]
    done = subprocess.run(
        command, cwd=work, env={**os.environ, "MYPYPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found: dict[str, dict[int, str]] = {name: {} for name in FILES}
    for name, line, text in re.findall(r"^([^:\n]+):(\d+): error: (.*)$", done.stdout, re.M):
        # Of the project's own modules, libraries that the user may not have: no matter of theirs.
        if name in found:
            found[name][int(line)] = text
    return found


def test_right_use_passes(errors: dict[str, dict[int, str]]) -> None:
    assert errors["right_use.py"] == {}


def test_every_wrong_line_is_an_error(errors: dict[str, dict[int, str]]) -> None:
    lines = (HERE / "wrong_use.py").read_text().splitlines()
    expected = {at: line.partition("  # ")[2] for at, line in enumerate(lines, 1) if "  # " in line}
    assert {at: text.rpartition("[")[2].rstrip("]") for at, text in errors["wrong_use.py"].items()} == expected
