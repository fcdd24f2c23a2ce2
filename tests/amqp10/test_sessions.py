"""Sessions, links, outcomes and ``/management`` of AMQP 1.0: every frame as real servers of 4.0 and 4.3 sent it."""

from __future__ import annotations

import pytest

pytest.importorskip("proton")

from tests.amqp10 import session_transcripts as transcripts

KNOWN = {
    ("4.3", "attach dynamic"): "the description ends with the source as an Erlang record",
    ("4.0", "frame handle-in-use"): "4.0 takes a second link of the same handle",
    ("4.0", "management"): "an exclusive queue that is declared durable is shown as durable",
    ("4.3", "management"): "an exclusive queue that is declared durable is shown as durable",
    ("4.0", "fragments"): "4.0 answers a wrong continuation with the condition of a framing error",
}
"""Scripts in which the simulator differs, with how."""


@pytest.mark.parametrize("release", transcripts.RELEASES)
@pytest.mark.parametrize("name", sorted(transcripts.SCRIPTS))
def test_the_frames_are_those_of_a_real_server(release: str, name: str, request: pytest.FixtureRequest) -> None:
    known = KNOWN.get((release, name))
    if known is not None:
        request.applymarker(pytest.mark.xfail(strict=True, reason=known))
    assert transcripts.simulated(transcripts.SCRIPTS[name], release) == transcripts.recorded(release)[name]
