"""A server with management records what becomes of messages, whatever it began with; one without records nothing."""

from __future__ import annotations

import json
import urllib.request
from base64 import b64encode
from typing import Any

import simulator
from simulator.broker import Broker
from simulator.broker.commands import OpenChannel, OpenConnection, Publish
from simulator.server.in_process import Server
from tests.server.test_command import serving

CHANNEL = ("c", 1)


def publish(server: Server, message_id: str) -> None:
    for command in (OpenConnection("c"), OpenChannel(CHANNEL)):
        server.handle(command)
    server.handle(Publish(CHANNEL, "", "nowhere", {"message_id": message_id}, b"x"))


def lives(management_url: str | None) -> list[dict[str, Any]]:
    request = urllib.request.Request(f"{management_url}api/histories")
    request.add_header("Authorization", f"Basic {b64encode(b'guest:guest').decode()}")
    with urllib.request.urlopen(request, timeout=10) as response:
        found: list[dict[str, Any]] = json.load(response)
    return found


def test_in_process_and_after_a_restart() -> None:
    with simulator.serve(management_port=0) as server:
        publish(server, "first")
        assert [life["message_id"] for life in lives(server.management_url)] == ["first"]
        saved = server.snapshot()
    with simulator.serve(snapshot=saved, management_port=0) as server:
        publish(server, "second")
        assert [life["message_id"] for life in lives(server.management_url)] == ["first", "second"]


def test_not_without_management() -> None:
    with simulator.serve() as server:
        assert server.run(lambda node: (type(node.broker), node.broker.watched)) == (Broker, frozenset())
        saved = server.snapshot()
    with simulator.serve(snapshot=saved, management_port=0) as server:
        publish(server, "m")
        assert [life["message_id"] for life in lives(server.management_url)] == ["m"]


def test_on_the_command_line() -> None:
    with serving() as (_, line):
        assert lives(line.split()[1]) == []
