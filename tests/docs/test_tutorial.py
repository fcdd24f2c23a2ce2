"""The tutorial, from top to bottom: its files are written, its commands run, and they print what is shown."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorials" / "find-a-lost-message.md"
# A block that is a file, named at the end of the text before it, or a console session.
BLOCK = re.compile(r"^```(json|python|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NAMED = re.compile(r"`([\w.]+)`[^`]*:\s*$")
COMMANDS = {
    "dlx": [sys.executable, "-m", "simulator.cli.main"],
    "pytest": [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"],
}


@pytest.mark.slow
def test_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    text = TUTORIAL.read_text(encoding="utf-8")
    named, ran = "", 0
    for block in BLOCK.finditer(text):
        kind, content = block.groups()
        if kind == "console":
            ran += 1
            assert shows(content, tmp_path), content
            continue
        before = NAMED.search(text[: block.start()])
        named = before.group(1) if before else named
        (tmp_path / named).write_text(content)
    assert ran >= 5


def shows(session: str, folder: Path) -> bool:
    """Run the command of a console session; whether it prints what follows, where ``...`` stands for anything."""
    first, _, expected = session.partition("\n")
    name, *arguments = shlex.split(first.removeprefix("$ "))
    # `pytest` alone has a module's folder on its path; the state machines remember nothing.
    of_ours = {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": ""}
    environment = os.environ | of_ours
    ran = subprocess.run(
        [*COMMANDS[name], *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    pattern = ".*".join(map(re.escape, expected.split("...")))
    found = re.fullmatch(pattern, ran.stdout, re.DOTALL) is not None
    if not found:
        print(ran.stdout, ran.stderr)
    return found
