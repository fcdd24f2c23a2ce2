"""The management API answers as the running servers do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live.servers import LiveServer
from tests.management.client import Real, Simulated
from tests.management.compare import differences
from tests.management.comparison import Session, run
from tests.management.scenarios import SCENARIOS


@pytest.fixture(scope="session")
def session(live_server: LiveServer) -> Iterator[Session]:
    """One virtual host for all scenarios: making and deleting many of them wears a server out."""
    with Session(Real(live_server.management_url)) as session:
        yield session


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_answers_are_those_of_the_server(live_server: LiveServer, session: Session, scenario: str) -> None:
    calls = SCENARIOS[scenario]
    wanted = session.run(calls, settle=True)
    found = run(calls, Simulated(live_server.release))
    # Its health is the whole server's, where other virtual hosts come and go; and of a connection that has closed, a
    # server that missed its end tells for ever: another virtual host has none.
    if differences(calls, found, wanted):
        wanted = run(calls, Real(live_server.management_url), settle=True)
    assert not differences(calls, found, wanted)
