"""What stays in the dead-letter queue keeps its order, also where a quorum queue puts what comes back at its end."""

from __future__ import annotations

from pathlib import Path

import pika
import pytest

from simulator.cli.main import main
from simulator.redrive import bring_back
from tests.redrive.dead_letters import DEAD, WORK, Place, declare

MESSAGES = 100  # more than a quorum queue takes back together in order
ALL = [f"m{number}" for number in range(MESSAGES)]
KINDS = [("classic", {}), ("quorum", {}), ("quorum", {"delivery_limit": 50})]
CHOSEN = ["--only", "id~[05]$"]


@pytest.fixture(params=KINDS, ids=["classic", "quorum", "quorum with a limit"])
def filled(request: pytest.FixtureRequest, live_place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A dead-letter queue whose messages have all been looked at once, and so came back to it."""
    monkeypatch.setattr(bring_back, "CANARY_S", 0.0)
    queue_type, arguments = request.param
    declare(live_place, queue_type, **arguments)
    with live_place.channel() as channel:
        channel.confirm_delivery()
        for each in ALL:
            channel.basic_publish("", DEAD, b"body", pika.BasicProperties(message_id=each))
    assert main(["inspect", *on(live_place)]) == 0
    return live_place


@pytest.mark.parametrize(
    ("options", "moved"),
    [
        (["--max", "10", *CHOSEN], ["m0", "m5"]),
        (CHOSEN, ALL[::5]),
        (["--canary", "3", *CHOSEN], ALL[::5]),
        (["--canary", "1", "--max", "2"], ["m0", "m1"]),
        (["--only", f"id={ALL[-1]}"], ALL[-1:]),
    ],
)
def test_what_is_not_moved_keeps_its_order(filled: Place, options: list[str], moved: list[str], tmp_path: Path) -> None:
    journal = ["--journal", str(tmp_path / "journal")]
    assert main(["redrive", *on(filled)[:2], WORK, *on(filled)[2:], "--to", "", "--execute", *journal, *options]) == 0
    assert ids(filled, WORK) == moved
    assert ids(filled, DEAD) == [each for each in ALL if each not in moved]


@pytest.mark.parametrize("command", ["inspect", "redrive"])
def test_a_look_at_the_first_messages_keeps_it(filled: Place, command: str) -> None:
    for _ in range(2):
        main([command, *on(filled), "--max", "3"])
    assert ids(filled, DEAD) == ALL


def on(place: Place) -> list[str]:
    """The dead-letter queue, as commands are given it."""
    server = place.server
    return [place.amqp_url, DEAD, "--management-url", server.management_url, "--vhost", server.vhost]


def ids(place: Place, queue: str) -> list[str]:
    """Take everything out of a queue."""
    return [str(properties.message_id) for _, properties, _ in place.waiting(queue)]
