"""Logs that the simulator's own broker writes on virtual time: every row of its firehose, when it was written."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from dlx.server_plugins import plugins_with
from dlx.topology import Topology
from simulator.bootstrap import import_definitions
from simulator.broker.commands import SetTracing
from simulator.capture.firehose import observe_trace
from simulator.capture.schema import Observation
from simulator.events import Event
from simulator.scenario.player import Player
from simulator.scenario.steps import AnyStep
from simulator.testing.strategies import definitions_document

FIREHOSE = "the firehose"


def broker_log(history: Iterable[AnyStep], topology: Topology, release: str) -> list[Observation]:
    """The log of a broker of that release to which the history is played. Each message has an id."""
    player = Player({}, release=release)
    player.broker.enable(plugins_with(exchange.type for exchange in topology.exchanges.values()))
    import_definitions(player.broker, _with_firehose(definitions_document(topology, release)), player.now_us)
    player.broker.handle(SetTracing("/", True), player.now_us)
    untraced: deque[int] = deque()
    rows: list[Observation] = []
    for step in history:
        player.do(step)
        for happened, message in player.events:
            if happened.queue == FIREHOSE:
                if happened.event == Event.ROUTED:
                    headers = dict(message.headers or {})
                    headers["properties"] = {**headers["properties"], "message_id": f"m{untraced.popleft()}"}
                    row = observe_trace(
                        message.routing_keys[0], headers, b"", file="log", line=len(rows) + 1, time_us=happened.time_us
                    )
                    rows.append(row)
            elif happened.event in (Event.PUBLISHED, Event.DELIVERED):
                untraced.append(happened.uid)
    return rows


def _with_firehose(document: dict[str, Any]) -> dict[str, Any]:
    queue = {"name": FIREHOSE, "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    binding = {
        "source": "amq.rabbitmq.trace", "vhost": "/", "destination": FIREHOSE, "destination_type": "queue",
        "routing_key": "#", "arguments": {},
    }  # fmt: skip
    return {
        **document,
        "queues": [*document.get("queues", ()), queue],
        "bindings": [*document.get("bindings", ()), binding],
    }
