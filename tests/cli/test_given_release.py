"""``--release``: a name, a version that another stands in for, or one without rules."""

from __future__ import annotations

import pytest

from dlx.releases import RELEASES
from simulator.cli.main import main
from tests.replay.logs import EXAMPLES

DEFINITIONS = str(EXAMPLES / "captured-4.3" / "definitions.json")
Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("version", ["3.13", "3.13.7"])
def test_a_release_or_its_exact_version_is_taken_without_a_word(version: str, capsys: Capture) -> None:
    assert main(["settings", DEFINITIONS, "--release", version, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.startswith('{"release":"3.13",')


def test_another_version_is_taken_with_a_note_of_one_line(capsys: Capture) -> None:
    assert main(["settings", DEFINITIONS, "--release", "3.13.0", "--json"]) == 0
    captured = capsys.readouterr()
    remark = "the rules of RabbitMQ 3.13.7 stand in for those of 3.13.0: death_order changed in 3.13.3"
    assert captured.err == f"note: {remark}\n"
    assert captured.out.startswith('{"release":"3.13",')


@pytest.mark.parametrize(
    "command",
    [["settings", DEFINITIONS], ["fuzz", DEFINITIONS], ["replay", "log", "--definitions", DEFINITIONS], ["serve"]],
)
def test_a_release_without_rules_is_wrong_usage_that_names_the_nearest(command: list[str], capsys: Capture) -> None:
    assert main([*command, "--release", "3.7"]) == 64
    captured = capsys.readouterr()
    assert f"'--release': no release '3.7': known are {', '.join(RELEASES)}; the nearest is 3.8" in captured.err
    assert captured.out == ""


def test_the_help_lists_the_releases(capsys: Capture) -> None:
    assert main(["serve", "--help"]) == 0
    assert "--release [3.8|3.9|3.10|3.11|3.12|3.13|4.0|4.1|4.2|4.3]" in capsys.readouterr().out
