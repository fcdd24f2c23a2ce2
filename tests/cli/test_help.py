"""``--help`` of every command: it ends with examples, and their command lines are right."""

from __future__ import annotations

import shlex

import click
import pytest

from simulator.cli.main import COMMANDS, GROUPS, cli, main

HELPS = [[], *([name] for name in sorted(COMMANDS))]


@pytest.mark.parametrize("command", HELPS, ids=lambda command: " ".join(["dlx", *command]))
def test_the_help_ends_with_an_example_that_parses(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--help"]) == 0
    title, *examples = capsys.readouterr().out.rpartition("\n\n")[2].splitlines()
    assert title.strip() == "Example:"
    assert examples
    for example in examples:
        program, name, *args = shlex.split(example)
        assert program == "dlx"
        assert command in ([], [name])
        with click.Context(cli, info_name="dlx") as dlx:
            found = cli.get_command(dlx, name)
            assert found is not None
            found.make_context(name, args, parent=dlx)  # raises a usage error where the line is wrong


def test_every_command_stands_in_one_group() -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(COMMANDS)
