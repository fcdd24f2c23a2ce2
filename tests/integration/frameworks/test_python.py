"""Frameworks in Python leave the same on the simulator as on RabbitMQ 4.3, and lint finds where they lose messages.

``recorded/`` has what each left on a server: what it declared, and each message with its headers. The live tests
compare it with servers again.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dlx.releases import release
from simulator.analysis.lint.linting import lint
from simulator.definitions import parse_definitions
from simulator.lint_reports.project import read_config
from simulator.testing.brokers.servers import Server
from tests.docs.test_examples import BLOCK
from tests.integration.frameworks.python_frameworks import (
    FRAMEWORKS,
    HERE,
    RELEASE,
    ROOT,
    run_application,
    run_example,
)
from tests.integration.frameworks.running import Outcome, check_recorded, recorded, recorded_simulator

DEAD_LETTERED = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "parked"}
PAGES = ("celery", "kombu", "dramatiq", "faststream", "aio-pika")


def assert_leaves_what_is_recorded(name: str, broker: Server) -> Outcome:
    outcome = run_application(name, broker)
    assert outcome.exit_code == 0, outcome.output
    assert outcome.left() == recorded(name)
    return outcome


@pytest.mark.frameworks
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_it_leaves_the_same_on_the_simulator(name: str) -> None:
    with recorded_simulator(RELEASE) as (broker, recorder):
        outcome = assert_leaves_what_is_recorded(name, broker)
    check_recorded(recorder.recording, outcome)


@pytest.mark.frameworks
@pytest.mark.parametrize("name", PAGES)
def test_the_examples_of_its_page_print_what_is_shown(name: str) -> None:
    page = ROOT / "docs/how-to/frameworks" / f"{name}.md"
    blocks = [each for each in BLOCK.findall(page.read_text(encoding="utf-8")) if "def test_" not in each[0]]
    assert blocks
    assert [run_example(code) for code, _ in blocks] == [printed for _, printed in blocks]


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_it_leaves_the_same_on_a_server(name: str, live_server: Server) -> None:
    if live_server.release != RELEASE:
        pytest.skip(f"what frameworks leave is recorded on {RELEASE}")
    assert_leaves_what_is_recorded(name, live_server)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_lint_finds_where_it_loses_messages(name: str) -> None:
    exported = {"vhosts": [{"name": "/"}], **recorded(name)["definitions"]}
    report = lint(
        parse_definitions(json.dumps(exported).encode(), name),
        release(RELEASE),
        read_config(HERE / "apps" / f"{name}.toml").clients,
    )
    found: dict[str, set[str]] = {}
    for each in report.findings:
        found.setdefault(each.name, set()).add(re.sub(r"\d+", "*", each.about.name))
    assert found == FRAMEWORKS[name].lint
    assert report.unchecked == ()


@pytest.mark.parametrize("page", sorted((ROOT / "docs/how-to/frameworks").glob("*.md")), ids=lambda page: page.stem)
def test_what_its_page_states_of_clients_is_right_for_any_application(page: Path, tmp_path: Path) -> None:
    (stated,) = re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    config = tmp_path / "dlx.toml"
    config.write_text(stated, encoding="utf-8")
    queues = [
        {"name": name, "vhost": "/", "durable": True, "arguments": arguments}
        for name, arguments in (("mine", {}), ("kept", DEAD_LETTERED), ("parked", {}))
    ]
    exported = {"vhosts": [{"name": "/"}], "queues": queues}
    report = lint(
        parse_definitions(json.dumps(exported).encode(), "any"), release(RELEASE), read_config(config).clients
    )
    assert {each.about.name for each in report.findings if each.name == "no-dlx-on-rejecting"} == {"mine"}
    assert not [each for each in report.unchecked if not each.startswith("clients.queue[")]
