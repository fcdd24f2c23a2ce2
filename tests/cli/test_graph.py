"""``dlx graph``: its formats, its files, and what it says to names that do not exist."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from simulator.cli.main import EXIT_DATA, EXIT_USAGE, main
from tests.pictures.test_graph import LADDER
from tests.testing.test_search import topology
from tests.testing.test_trial import queue


@pytest.fixture
def ladder(tmp_path: Path) -> str:
    path = tmp_path / "definitions.json"
    path.write_text(json.dumps(LADDER))
    return str(path)


@pytest.mark.parametrize(
    ("form", "begin"), [("svg", "<svg "), ("html", "<!doctype html>"), ("mermaid", "flowchart"), ("dot", "digraph")]
)
def test_each_format_goes_to_the_terminal_or_into_a_file(
    form: str, begin: str, ladder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["graph", ladder, "--format", form]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(begin)
    assert main(["graph", ladder, "--format", form, "--out", str(tmp_path / "picture")]) == 0
    assert (tmp_path / "picture").read_text() == printed


@pytest.mark.parametrize(
    ("args", "status", "problem"),
    [
        (["--queue", "order"], EXIT_USAGE, "no queue 'order'; did you mean 'orders'?"),
        (["--vhost", "shop"], EXIT_DATA, "no virtual host 'shop'"),
        (["--out", "/nowhere/picture"], EXIT_DATA, "/nowhere/picture"),
        (["--release", "9.9"], EXIT_USAGE, "no release '9.9'"),
    ],
)
def test_what_is_wrong_is_named(
    args: list[str], status: int, problem: str, ladder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["graph", ladder, *args]) == status
    assert problem in " ".join(capsys.readouterr().err.split())


def test_a_queue_of_two_virtual_hosts_needs_the_name_of_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = {"vhosts": [{"name": "eu"}, {"name": "us"}]}
    both["queues"] = [{"name": "orders", "vhost": name} for name in ("eu", "us")]
    path = tmp_path / "definitions.json"
    path.write_text(json.dumps(both))
    assert main(["graph", str(path), "--queue", "orders"]) == EXIT_USAGE
    assert "name one with --vhost (eu, us)" in " ".join(capsys.readouterr().err.split())
    assert main(["graph", str(path), "--queue", "orders", "--vhost", "us"]) == 0


def test_five_hundred_queues_take_seconds_and_leave_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    groups = range(167)
    queues = [
        each
        for n in groups
        for each in (
            queue(f"{n}.work", queue_type="quorum", dead_letter_exchange=f"{n}.dlx", dead_letter_routing_key="retry"),
            queue(f"{n}.retry", message_ttl=30_000, dead_letter_exchange="", dead_letter_routing_key=f"{n}.work"),
            queue(f"{n}.parking"),
        )
    ]
    bindings = [(f"{n}.dlx", f"{n}.{name}", name) for n in groups for name in ("retry", "parking")]
    path = tmp_path / "definitions.json"
    path.write_text(json.dumps(topology(queues, {f"{n}.dlx": "direct" for n in groups}, bindings)))
    began = time.process_time()
    assert main(["graph", str(path), "--format", "html"]) == 0
    assert time.process_time() - began < 10
    captured = capsys.readouterr()
    assert "note: Left out: " in captured.err
    assert "To see them: --queue NAME, or --most " in captured.out
    assert len(captured.out) < 200_000
