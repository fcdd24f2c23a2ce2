"""Applications in other languages: the simulator keeps what a server keeps, and lint says what users report."""

from __future__ import annotations

import json

import pytest

from dlx.releases import release
from simulator.analysis.lint.linting import lint
from simulator.definitions import parse_definitions
from tests.clients.cache import UnobtainableError
from tests.integration.frameworks.other_languages import APPLICATIONS, RELEASE, run_application
from tests.integration.frameworks.running import check_recorded, recorded, recorded_simulator, simulated
from tests.live.servers import LiveServer


@pytest.mark.frameworks
@pytest.mark.parametrize("name", APPLICATIONS)
def test_the_simulator_keeps_what_a_server_kept(name: str) -> None:
    with recorded_simulator(RELEASE) as (broker, recorder):
        outcome = run_application(name, broker)
    assert outcome.exit_code == 0, outcome.output
    assert outcome.left() == recorded(name)
    check_recorded(recorder.recording, outcome)


@pytest.mark.parametrize("name", APPLICATIONS)
def test_a_server_keeps_what_the_simulator_of_its_release_keeps(name: str, live_server: LiveServer) -> None:
    try:
        theirs = run_application(name, live_server)
    except UnobtainableError as error:
        pytest.skip(str(error))
    with simulated(live_server.release) as broker:
        ours = run_application(name, broker)
    # An old server refuses some declarations, which ends the application: how far it came is compared as well.
    assert (ours.exit_code, ours.left()) == (theirs.exit_code, theirs.left()), f"{ours.output}\n{theirs.output}"
    assert theirs.exit_code == 0 or live_server.release != RELEASE, theirs.output


@pytest.mark.parametrize("name", APPLICATIONS)
def test_lint_finds_what_users_report(name: str) -> None:
    application = APPLICATIONS[name]
    exported = {"vhosts": [{"name": "/"}], **recorded(name)["definitions"]}
    definitions = parse_definitions(json.dumps(exported).encode(), name)
    found: dict[str, set[str]] = {}
    report = lint(definitions, release(RELEASE), application.clients)
    for each in report.findings:
        found.setdefault(each.name, set()).add(each.about.name)
    assert found == application.findings
    assert report.unchecked == application.unchecked
    assert application.reported
