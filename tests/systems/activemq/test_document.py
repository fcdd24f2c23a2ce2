"""The examples of ``docs/reference/activemq.md`` run, and print what is shown; its lists are complete."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from simulator.cli.main import main
from simulator.systems.activemq import activemq_scenario, simulate
from simulator.systems.activemq.dead_letter_strategies import Discarding, Individual, Shared
from simulator.systems.activemq.profiles import PROFILES
from simulator.systems.activemq.redelivery_policy import RedeliveryPolicy

ROOT = Path(__file__).parent.parent.parent.parent
TEXT = (ROOT / "docs" / "reference" / "activemq.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```\n", re.DOTALL | re.MULTILINE)

STEPS = {kind.__struct_config__.tag: kind for kind in get_args(activemq_scenario.Step)}


def test_the_examples_print_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    blocks = BLOCK.findall(TEXT)
    assert blocks
    for code, expected in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "docs/reference/activemq.md", "exec"), {"__name__": "activemq.md"})
        assert printed.getvalue() == expected


def test_the_scenarios_run() -> None:
    scenarios = re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)
    assert scenarios
    for text in scenarios:
        assert simulate(json.loads(text))["queues"]


def test_lint_says_what_is_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    command, _, shown = re.findall(r"^```text\n\$ dlx ([^\n]*)(\n)(.*?)^```\n", TEXT, re.DOTALL | re.MULTILINE)[0]
    assert main(command.split()) == 1
    assert capsys.readouterr().out == shown


@pytest.mark.parametrize(
    "struct",
    [
        *STEPS.values(),
        activemq_scenario.Scenario,
        activemq_scenario.BrokerPart,
        activemq_scenario.PolicyEntry,
        activemq_scenario.RedeliveryPlugin,
        activemq_scenario.DiscardingPlugin,
        activemq_scenario.ListenerPart,
        RedeliveryPolicy,
        Shared,
        Individual,
        Discarding,
    ],
)
def test_every_field_is_described(struct: Any) -> None:
    names = {field.encode_name for field in msgspec.structs.fields(struct)} - {"system"}
    assert [name for name in names if f"`{name}`" not in TEXT] == []


def test_every_step_and_profile_is_described() -> None:
    assert [name for name in (*STEPS, *PROFILES) if f"`{name}`" not in TEXT] == []
