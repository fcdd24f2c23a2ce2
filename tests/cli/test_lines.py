"""What commands print for people has no blanks at the ends of its lines, so that a file of it has none."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from simulator.cli.lines import print_indented
from simulator.cli.main import main
from simulator.cli.tables import show

EXAMPLES = Path(__file__).parents[2] / "examples"
BEFORE, AFTER = (str(EXAMPLES / "topologies" / "broken" / f"{name}.json") for name in ("ladder-cycle", "held-for-ever"))
SCENARIO = str(EXAMPLES / "compare" / "consumers-that-die.json")


@pytest.mark.parametrize(
    "command",
    [
        ["upgrade", BEFORE, "--from", "3.13", "--to", "4.3"],
        ["plan", BEFORE, AFTER, "--release", "4.2"],
        ["compare", BEFORE, "--to", "activemq"],
        ["compare", SCENARIO],
        ["releases", "4.2", "4.3"],
        ["settings", BEFORE, "--release", "4.2"],
        ["lint", BEFORE, "--release", "4.2"],
        ["explain", BEFORE, "--publish", "", "orders", "--release", "4.2"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("columns", ["60", "80"])
def test_no_line_ends_with_a_blank(
    command: list[str], columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert main(command) in (0, 1)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 1
    assert [line for line in lines if line != line.rstrip()] == []


def test_a_long_line_has_its_indent_on_each_part(capsys: pytest.CaptureFixture[str]) -> None:
    print_indented(Console(width=12), Text("one two three four", "red"), 2)
    print_indented(Console(width=12), Text(""), 0)
    assert capsys.readouterr().out == "  one two\n  three four\n\n"


def test_a_cell_that_is_shorter_than_its_column_is_not_filled_up(capsys: pytest.CaptureFixture[str]) -> None:
    show(Console(width=40), ("name", "what it is"), [("a", "short"), ("b", "")])
    assert capsys.readouterr().out == "name  what it is\na     short\nb\n"
