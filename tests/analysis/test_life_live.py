"""RabbitMQ is the judge of `dlx explain`: on a server the copies end where a life says, with the deaths that it tells.

Each life is played on the server with its own history, with short times, and ends where time alone changes nothing.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pika
import pytest

from dlx.death_headers import stored_headers
from simulator.analysis.life import StatedOutcome, live
from simulator.scenario.player import Player
from simulator.scenario.steps import Publish
from simulator.testing.brokers.running_server import RunningServer
from simulator.testing.brokers.servers import Server
from simulator.testing.fuzz.topology_under_test import read_topology
from tests.live.servers import LiveServer
from tests.testing.live_player import LivePlayer, quicker_history
from tests.testing.test_search import topology
from tests.testing.test_trial import queue

PATIENT_MS = 2_000  # longer than a consumer needs to connect to a busy server

RETRY = topology(
    [
        queue("orders", dead_letter_exchange="dlx", dead_letter_routing_key="retry"),
        queue("wait", message_ttl=PATIENT_MS, dead_letter_exchange="", dead_letter_routing_key="orders"),
    ],
    {"shop": "topic", "dlx": "direct"},
    [("shop", "orders", "order.*"), ("dlx", "wait", "retry")],
)
FAN = topology(
    [
        queue("first", message_ttl=200, dead_letter_exchange="all"),
        queue("full", max_length=0, dead_letter_exchange="", dead_letter_routing_key="dead"),
        queue("dead"),
    ],
    {"all": "fanout"},
    [("all", name, "") for name in ("first", "full", "dead")],
)
LIMITED = topology(
    [queue("jobs", queue_type="quorum", delivery_limit=2, dead_letter_exchange="dlx"), queue("parked")],
    {"dlx": "fanout"},
    [("dlx", "parked", "")],
)
CIRCLE = topology(
    [
        queue("a", message_ttl=PATIENT_MS, dead_letter_exchange="", dead_letter_routing_key="b"),
        queue("b", message_ttl=PATIENT_MS, dead_letter_exchange="", dead_letter_routing_key="a"),
    ]
)
OTHERS = topology(
    [queue("known", dead_letter_exchange="in"), queue("rest", dead_letter_exchange="nowhere")],
    {"in": {"type": "direct", "arguments": {"alternate-exchange": "other"}}, "other": "fanout"},
    [("in", "known", "k"), ("other", "rest", "")],
)

Case = tuple[dict[str, Any], Publish, dict[str, list[StatedOutcome]]]
CASES: list[Case] = [
    (RETRY, Publish("shop", "order.eu"), {"orders": ["reject", "ack"]}),
    (RETRY, Publish("shop", "order.eu"), {"orders": ["reject", "reject", "reject"]}),
    (RETRY, Publish("shop", "order.eu"), {"orders": ["requeue", "nack", "crash", "reject"]}),
    (RETRY, Publish("shop", "order.eu", expiration_ms=100), {"orders": ["expire"], "wait": ["crash", "reject"]}),
    (RETRY, Publish("shop", "order.eu"), {"orders": ["reject"], "wait": ["reject", "ack"]}),
    (
        RETRY,
        Publish("shop", "order.eu", headers={"x": 1}),
        {"orders": ["reject", "requeue"], "wait": ["crash", "expire"]},
    ),
    (RETRY, Publish("shop", "unknown"), {}),
    (FAN, Publish("", "first"), {}),
    (FAN, Publish("", "first"), {"first": ["reject", "expire"]}),
    (FAN, Publish("all", ""), {"first": ["ack"], "dead": ["reject"]}),
    (FAN, Publish("", "full"), {"dead": ["crash"]}),
    (LIMITED, Publish("", "jobs"), {"jobs": ["crash", "crash", "crash"]}),
    (LIMITED, Publish("", "jobs"), {"jobs": ["requeue", "crash", "requeue"]}),
    (LIMITED, Publish("", "jobs"), {"jobs": ["nack", "nack", "nack"]}),
    (LIMITED, Publish("", "jobs"), {"jobs": ["crash", "reject"], "parked": ["requeue"]}),
    (CIRCLE, Publish("", "a"), {"b": ["reject"], "a": ["expire", "ack"]}),
    (CIRCLE, Publish("", "a"), {"a": ["expire"], "b": ["expire"]}),
    (CIRCLE, Publish("", "a", expiration_ms=100), {"a": ["expire", "reject"], "b": ["crash", "reject", "ack"]}),
    (OTHERS, Publish("in", "k"), {"known": ["reject"]}),
    (OTHERS, Publish("in", "other"), {"rest": ["requeue", "reject"]}),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_copies_end_on_a_server_where_the_life_says(live_server: LiveServer, case: int, tmp_path: Path) -> None:
    document, publish, outcomes = CASES[case]
    life = live(document, publish, outcomes, release=live_server.release)
    assert life.steps
    history = quicker_history(life.history, 1)  # waits are a little longer: a server is not on the dot
    expected = ends(document, live_server.release, history)
    assert Counter(name for name, _ in expected) == Counter(re.findall(r"the queue '([^']*)'", " ".join(life.where)))

    path = tmp_path / "definitions.json"
    path.write_text(json.dumps(document))
    server = Server(live_server.release, live_server.version, live_server.amqp_url, live_server.management_url)
    with RunningServer(server).broker(None, read_topology(path)) as broker, LivePlayer(broker.amqp_url) as player:
        player.play(history)
        player.leave()
        depths = Counter(name for name, _ in expected)
        player.settled(names(document), lambda found: +Counter(found) == depths)
        assert player.idle == []
        assert taken(broker.amqp_url, names(document)) == expected


def names(document: dict[str, Any]) -> list[str]:
    return [each["name"] for each in document["queues"]]


def ends(document: dict[str, Any], release: str, history: Any) -> list[tuple[str, Any]]:
    """The copies that the simulator has in the end: each queue with the deaths of the copy."""
    player = Player(document, release=release)
    player.play(history)
    return in_order((each.name, stored_headers(copy.message)) for each, copy in player.copies())


def taken(url: str, queues: list[str]) -> list[tuple[str, Any]]:
    """The messages that a server has in these queues, taken from them."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    found = []
    for name in queues:
        while True:
            method, properties, _ = channel.basic_get(name, auto_ack=True)
            if method is None:
                break
            found.append((name, properties.headers or {}))
    connection.close()
    return in_order(found)


def in_order(found: Any) -> list[tuple[str, Any]]:
    """Copies by queue, each with its deaths apart from their times."""
    told = [
        (name, [{key: value for key, value in death.items() if key != "time"} for death in headers.get("x-death", ())])
        for name, headers in found
    ]
    return sorted(told, key=repr)
