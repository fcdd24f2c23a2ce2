"""A seed of the random tester stands for one script, whatever else the process has loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
DRAW = "from tests.differential.fuzz.cases import script_of; print([script_of(seed, '4.3') for seed in range(4)])"


def drawn(before: str = "") -> str:
    """Some scripts, in a process that has done something before."""
    command = [sys.executable, "-c", f"{before}; {DRAW}" if before else DRAW]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_a_seed_gives_the_same_script_whatever_is_loaded() -> None:
    # Zaqar's modules have constants of their own, such as 100.
    assert drawn("import simulator.systems.zaqar") == drawn()
