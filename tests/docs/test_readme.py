"""The first page: its commands print what is shown, its picture is drawn, and no command or extra is missing."""

from __future__ import annotations

import configparser
import re
import subprocess
import sys
from pathlib import Path

import pytest

from simulator.cli.main import COMMANDS
from tests.docs.test_tutorial import BLOCK, shows

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PICTURE = ROOT / "docs" / "pictures" / "ladder-cycle.svg"


def test_the_first_command_finds_the_loss() -> None:
    sessions = [block[2] for block in BLOCK.finditer(README)]
    first = sessions[0].partition("\n")[2]
    assert first.startswith("$ dlx lint ")
    assert shows(first, ROOT)


def test_the_picture_is_what_the_command_draws(tmp_path: Path) -> None:
    drawn = tmp_path / "picture.svg"
    graph = ["graph", "examples/topologies/broken/ladder-cycle.json", "--out", str(drawn)]
    subprocess.run([sys.executable, "-m", "simulator.cli.main", *graph], cwd=ROOT, check=True)
    assert drawn.read_text() == PICTURE.read_text()
    assert "docs/pictures/ladder-cycle.svg" in README


def test_every_command_answers_a_question() -> None:
    table = README.partition("## Which command")[2].partition("\n## ")[0]
    assert set(re.findall(r"`dlx (\w+)`", table)) == set(COMMANDS)


def test_every_extra_is_explained() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    explained = set(re.findall(r"^\| `\.\[(\w+)\]`", README, re.M))
    assert explained == set(config["options.extras_require"]) - {"notebook", "docs", "dev"}


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#:]+)", README))
def test_links_lead_somewhere(target: str) -> None:
    assert (ROOT / target).exists()
