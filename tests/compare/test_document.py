"""The examples are what the document says, and print what stands there."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path

import pytest

from simulator.cli.main import main
from simulator.systems.compare import ADAPTERS, MessageOutcome, SystemOutcome, read

ROOT = Path(__file__).parent.parent.parent
DOCUMENT = (ROOT / "docs" / "how-to" / "compare.md").read_text(encoding="utf-8")
EXAMPLES = sorted((ROOT / "examples" / "compare").glob("*.json"))
COMMAND = re.compile(r"^```text\n\$ dlx (compare \S+)\n(.*?)\n```$", re.DOTALL | re.MULTILINE)
Capture = pytest.CaptureFixture[str]


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```$", DOCUMENT, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def test_the_table_is_what_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "110")
    shown = COMMAND.search(DOCUMENT)
    assert shown is not None
    command, table = shown.groups()
    assert json.loads(block("json")) == json.loads((ROOT / command.split()[1]).read_text(encoding="utf-8"))
    assert main(command.split()) == 0
    assert capsys.readouterr().out.splitlines() == table.splitlines()


def test_the_move_is_what_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "110")
    shown = re.search(r"^```text\n\$ dlx (compare --from .*?)\n(.*?)\n```$", DOCUMENT, re.DOTALL | re.MULTILINE)
    assert shown is not None
    assert main(shown[1].split()) == 1
    assert capsys.readouterr().out.rstrip("\n") == shown[2]


def test_the_python_prints_what_is_shown() -> None:
    shown = re.search(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", DOCUMENT, re.DOTALL | re.MULTILINE)
    assert shown is not None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(shown[1], "docs/how-to/compare.md", "exec"), {})
    assert printed.getvalue() == shown[2]


def test_every_field_is_described() -> None:
    scenario = read(json.loads(block("json")))
    for field in (*scenario.__struct_fields__, *scenario.messages[0].__struct_fields__):
        assert f"| `{field}` |" in DOCUMENT, field
    for field in {*SystemOutcome.__struct_encode_fields__, *MessageOutcome.__struct_encode_fields__} - {"message"}:
        assert f"`{field}`" in DOCUMENT, field


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(path: Path, capsys: Capture) -> None:
    assert main(["compare", str(path), "--json"]) == 0
    outcomes = json.loads(capsys.readouterr().out)
    assert [outcome["system"] for outcome in outcomes] == list(ADAPTERS.built_in)
