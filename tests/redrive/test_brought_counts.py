"""Messages that died of a delivery limit, in a dead-letter queue with the same limit: from 4.3 on a look kills them."""

from __future__ import annotations

from pathlib import Path

import pika
import pytest

from simulator.cli.main import main
from simulator.redrive.how_to_peek import over_limit_from
from simulator.redrive.server import queue_on
from tests.redrive.dead_letters import DEAD, WORK, Place, ready, until


def test_whoever_looks_does_not_lose_them(place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(place, tmp_path, capsys)


def test_whoever_looks_does_not_lose_them_on_a_real_server(
    live_place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check(live_place, tmp_path, capsys)


def check(place: Place, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Look in every way: where that would kill, it is refused, and with leave it kills, names and keeps the message."""
    poison(place)
    server = place.server
    on = [place.amqp_url, DEAD, "--management-url", server.management_url, "--vhost", server.vhost]
    deadly = place.release == "4.3"
    execute = ["--execute", "--journal", str(folder / "journal"), "--only", "id=other"]
    for command in (["inspect"], ["redrive"], ["redrive", *execute]):
        name, *options = command
        code = main([name, *on, *options])
        said = capsys.readouterr()
        if deadly:
            assert code == 65
            assert f"died of the delivery limit of '{WORK}'" in said.err
            assert "--allow exceeds-limit" in said.err
            assert not list(folder.iterdir())  # neither a journal nor an audit file of a run that a check refused
        assert "killed" not in said.out
        assert left(place) == 1
    if deadly:
        assert main(["inspect", *on, "--allow", "exceeds-limit"]) == 1
        assert "Reading killed 'poison'" in capsys.readouterr().out
        assert left(place) == 0


@pytest.mark.parametrize("place", ["4.3"], indirect=True)
def test_queues_that_cannot_bring_such_messages_are_looked_into(place: Place) -> None:
    with place.channel() as channel:
        limits = {"higher": 30, "equal": 20, "lower": 10, "elsewhere": 20}
        for name, limit in limits.items():
            arguments = {"x-queue-type": "quorum", "x-delivery-limit": limit}
            if name != "elsewhere":
                arguments["x-dead-letter-exchange"] = "outer"
            channel.queue_declare(name, durable=True, arguments=arguments)
        channel.queue_declare(DEAD, durable=True, arguments={"x-queue-type": "quorum", "x-delivery-limit": 20})
        for exchange in ("outer", "inner"):
            channel.exchange_declare(exchange, "topic")
        channel.exchange_bind("inner", "outer", "#")
        channel.exchange_bind("outer", "inner", "#")
        channel.queue_bind(DEAD, "inner", "#")
    assert over_limit_from(queue_on(place.server, DEAD).flow, DEAD) == ("higher", "equal")


def poison(place: Place) -> None:
    """Let a message die of the delivery limit."""
    with place.channel() as channel:
        quorum = {"x-queue-type": "quorum"}
        to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD}
        channel.queue_declare(DEAD, durable=True, arguments={**quorum, "x-delivery-limit": 20})
        channel.queue_declare(WORK, durable=True, arguments={**quorum, **to_dead, "x-delivery-limit": 20})
        channel.basic_publish("", WORK, b"body", pika.BasicProperties(message_id="poison"))
        until(lambda: ready(channel, WORK) == 1)
        for _ in range(21):
            with place.channel() as other:
                method, _, _ = other.basic_get(WORK)
                assert method is not None
            until(lambda: ready(channel, WORK) + ready(channel, DEAD) == 1)
        until(lambda: ready(channel, DEAD) == 1)


def left(place: Place) -> int:
    """How many messages wait in the dead-letter queue."""
    with place.channel() as channel:
        return ready(channel, DEAD)
