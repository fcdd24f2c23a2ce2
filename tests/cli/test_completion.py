"""Shell completion: the script for each shell, and the words that complete a command line."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def dlx(instruction: str, words: str = "", at: int = 0) -> subprocess.CompletedProcess[str]:
    """Run ``dlx`` as a shell's completion does."""
    variables = {"_DLX_COMPLETE": instruction, "COMP_WORDS": words, "COMP_CWORD": str(at)}
    command = [sys.executable, "-m", "simulator.cli.main"]
    return subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("shell", "registers"),
    [
        ("bash", "complete -o nosort -F _dlx_completion dlx"),
        ("zsh", "compdef _dlx_completion dlx"),
        ("fish", 'complete --no-files --command dlx --arguments "(_dlx_completion)"'),
    ],
)
def test_each_shell_gets_its_script(shell: str, registers: str) -> None:
    done = dlx(f"{shell}_source")
    assert (done.returncode, done.stderr) == (0, "")
    assert registers in done.stdout
    assert f"_DLX_COMPLETE={shell}_complete" in done.stdout
    assert "Usage:" not in done.stdout


@pytest.mark.parametrize(
    ("words", "at", "completions"),
    [
        ("dlx re", 1, ["plain,record", "plain,redrive", "plain,releases", "plain,replay"]),
        ("dlx fuzz --pu", 2, ["plain,--publish"]),
        ("dlx fuzz --property lo", 3, ["plain,lossless"]),
        ("dlx fuzz definitions.j", 2, ["file,definitions.j"]),
    ],
)
def test_what_completes_a_command_line(words: str, at: int, completions: list[str]) -> None:
    done = dlx("bash_complete", words, at)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, completions, "")


def test_an_unknown_shell_is_wrong_usage() -> None:
    assert dlx("tcsh_source").returncode == 64
