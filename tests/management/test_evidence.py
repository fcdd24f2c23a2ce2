"""What a row of the management API's table says was seen live, recorded calls decide: a row set back fails them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest

from dlx.releases import RELEASES, VERSIONS, Row, release
from simulator.server.management import request, running_traces
from simulator.server.management.management_releases import TABLE, api_of
from tests.management.client import Simulated
from tests.management.comparison import run
from tests.management.scenarios import SCENARIOS
from tests.management.test_against_recorded import recorded

pytestmark = pytest.mark.slow

# Where it says "live, asked directly" or "live for ...", recorded calls decide nothing of the row, or not all of it.
LIVE = [row for row in TABLE if row.evidence == "live" or row.evidence.startswith("live;")]


@pytest.mark.parametrize("row", LIVE, ids=lambda row: row.name)
def test_recorded_calls_decide_what_was_seen_live(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    def noticed(name: str, value: Any) -> bool:
        """Whether a recorded call of the release fails when the row has another value there."""
        api = msgspec.structs.replace(api_of(release(name)), **{row.name: value})
        for module in (request, running_traces):
            monkeypatch.setattr(module, "api_of", lambda version: api)
        return any(run(SCENARIOS[scenario], Simulated(name)) != wanted for scenario, wanted in recorded(name).items())

    for older, newer in pairwise(RELEASES):
        before, after = row.value_in(VERSIONS[older]), row.value_in(VERSIONS[newer])
        if before != after:
            assert noticed(older, after) or noticed(newer, before), f"between {older} and {newer}"
