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


def test_an_alarm_closes_the_windows_of_sessions() -> None:
    with simulator.serve("4.3") as server:
        port = urlsplit(server.amqp_url).port
        assert port is not None
        client = WireClient(port)
        client.open()
        client.begin()
        server.raise_alarm()
        closed = client.receive()[1]
        server.clear_alarm()
        opened = client.receive()[1]
        client.close()

    assert [closed.incoming_window, opened.incoming_window] == [0, 400]


def test_an_alarm_closes_the_windows_of_sessions() -> None:
    node = transcripts.new_node("4.3")
    player = transcripts.NodePlayer(node)
    for resources in ({1: "memory"}, {}):
        node.alarm.raised = resources  # type: ignore[assignment]
        node.settle()

    player.listen()

    assert [line.partition("incoming_window=uint(")[2].partition(")")[0] for line in player.seen] == ["0", "400"]


@pytest.mark.parametrize("release", transcripts.RELEASES)
@pytest.mark.parametrize("name", sorted(transcripts.SCRIPTS))
def test_the_frames_are_those_of_a_real_server(release: str, name: str, request: pytest.FixtureRequest) -> None:
    known = KNOWN.get((release, name))
    if known is not None:
        request.applymarker(pytest.mark.xfail(strict=True, reason=known))
    assert transcripts.simulated(transcripts.SCRIPTS[name], release) == transcripts.recorded(release)[name]
