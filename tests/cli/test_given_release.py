"""``--release``: a name, a version that another stands in for, or one without rules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dlx.releases import RELEASES
from simulator.cli.main import main
from tests.replay.logs import EXAMPLES

DEFINITIONS = str(EXAMPLES / "captured-4.3" / "definitions.json")
OTHER = "note: RabbitMQ 4.3.6 exported the definitions; the rules are those of 3.13\n"
Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("version", ["3.13", "3.13.7"])
def test_a_release_or_its_exact_version_is_taken_without_a_word(version: str, capsys: Capture) -> None:
    assert main(["settings", DEFINITIONS, "--release", version, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == OTHER
    assert captured.out.startswith('{"release":"3.13",')


def test_another_version_is_taken_with_a_note_of_one_line(capsys: Capture) -> None:
    assert main(["settings", DEFINITIONS, "--release", "3.13.0", "--json"]) == 0
    captured = capsys.readouterr()
    remark = "the rules of RabbitMQ 3.13.7 stand in for those of 3.13.0: death_order changed in 3.13.3"
    assert captured.err == f"note: {remark}\n{OTHER}"
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


COMMANDS = (["lint"], ["settings"], ["graph"], ["fuzz", "--seconds", "1"], ["explain", "--publish", "", "work"])


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_without_a_release_it_is_that_of_the_server_that_exported(
    command: list[str], tmp_path: Path, capsys: Capture
) -> None:
    queue = {"name": "work", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    policy = {"vhost": "/", "name": "ha", "pattern": ".*", "apply-to": "all", "priority": 0}
    path = tmp_path / "definitions.json"
    for version, said in (("3.12.14", "so the rules are those of 3.12"), ("4.3.6", ""), ("3.7.0", "of 4.3")):
        export = {"rabbit_version": version, "vhosts": [{"name": "/"}], "queues": [queue]}
        path.write_text(json.dumps(export | {"policies": [policy | {"definition": {"ha-mode": "all"}}]}))
        assert main([command[0], str(path), *command[1:]]) in (0, 1)
        _, err = capsys.readouterr()
        notes = [line for line in err.splitlines() if "exported the definitions" in line]
        assert len(notes) == bool(said), notes
        assert said in "".join(notes)


def test_the_help_lists_the_releases(capsys: Capture) -> None:
    assert main(["serve", "--help"]) == 0
    assert "--release [3.8|3.9|3.10|3.11|3.12|3.13|4.0|4.1|4.2|4.3]" in capsys.readouterr().out
