"""Random topologies, and questions about them."""

from __future__ import annotations

import random
from typing import Any

from dlx.topology import Binding, Exchange, Queue, Topology
from simulator.definitions import Definitions
from simulator.testing.strategies import definitions_document
from simulator.whatif.differences import Side
from simulator.whatif.playback import Unseen
from simulator.whatif.settings_given import read_setting, with_settings
from simulator.whatif.sides import side_of

KEYS = ("order.one", "order.two", "stock.one", "*.one", "#")


def random_topology(given: random.Random) -> Topology:
    """Queues that dead-letter into each other, some of them with TTLs, which often end in the same millisecond."""
    names = [f"q{number}" for number in range(given.randint(2, 6))]
    queues, bindings = [], []
    for name in names:
        arguments: dict[str, Any] = {}
        if given.random() < 0.6:
            arguments["x-message-ttl"] = given.choice((1, 10, 100, 1_000, 5_000))
        if given.random() < 0.8:
            arguments["x-dead-letter-exchange"] = given.choice(("", "topics", "all"))
            if given.random() < 0.7:
                arguments["x-dead-letter-routing-key"] = given.choice((*names, "order.one", "nowhere"))
        quorum = given.random() < 0.3 and "x-message-ttl" not in arguments
        if quorum:
            arguments |= {"x-queue-type": "quorum", "x-delivery-limit": given.randint(0, 3)}
        queues.append(Queue(name=name, type="quorum" if quorum else "classic", arguments=arguments))
        bindings += [
            Binding(source=given.choice(("topics", "all")), destination=name, routing_key=given.choice(KEYS))
            for _ in range(given.randint(0, 2))
        ]
    return Topology.of(
        exchanges=[Exchange(name="topics", type="topic"), Exchange(name="all", type="fanout")],
        queues=queues,
        bindings=bindings,
    )


def settings(topology: Topology, given: random.Random) -> list[str]:
    queue = given.choice([*topology.queues])
    return given.choice(
        [[f"queue:{queue}.x-message-ttl=7"], [f"queue:{queue}.x-message-ttl=20000"], [],
         [f"queue:{queue}.x-dead-letter-exchange=", f"queue:{queue}.x-dead-letter-routing-key="]]
    )  # fmt: skip


def random_question(given: random.Random) -> tuple[Side, Side, Unseen]:
    """Both sides, and what consumers do with deliveries that the log does not have."""
    release = given.choice(("3.8", "3.10", "4.0", "4.3"))
    against = given.choice((release, release, "4.3", "3.10"))
    unseen: Unseen = given.choice(("ack", "repeat"))
    topology = random_topology(given)
    own = Definitions(definitions_document(topology, release), "definitions.json")
    texts = [text for text in settings(topology, given) if not text.endswith("=") or _has(own, text)]
    other = with_settings(own, [read_setting(each, own) for each in texts])
    return side_of(own, release), side_of(other, against), unseen


def _has(definitions: Definitions, text: str) -> bool:
    """Tell whether a queue has the argument that a setting removes."""
    queue, _, key = text.removeprefix("queue:").removesuffix("=").partition(".")
    return any(each["name"] == queue and key in each["arguments"] for each in definitions.document["queues"])
