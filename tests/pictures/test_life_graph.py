"""The picture of one message's way."""

from __future__ import annotations

from simulator.analysis.life import StatedOutcome, live
from simulator.pictures.graph import Graph
from simulator.pictures.life_graph import life_graph
from simulator.scenario.steps import Publish
from tests.analysis.test_life import LADDER
from tests.pictures.test_graph import well_formed
from tests.testing.test_search import topology
from tests.testing.test_trial import queue


def way(document: object, publish: Publish, outcomes: dict[str, list[StatedOutcome]]) -> Graph:
    graph = life_graph("life", live(document, publish, outcomes).events)  # type: ignore[arg-type]
    well_formed(graph)
    return graph


def told(graph: Graph) -> list[tuple[str, str, str]]:
    return [(edge.source.name, edge.target.name, " | ".join(edge.label)) for edge in graph.edges]


def test_steps_are_numbered_and_the_same_way_is_drawn_once() -> None:
    graph = way(LADDER, Publish("shop", "order.eu"), {"orders": ["reject", "reject", "crash", "ack"]})
    assert told(graph) == [
        ("published", "orders", "1: publish | shop order.eu"),
        ("orders", "wait", "2, 4: rejected | dlx retry"),
        ("wait", "orders", "3, 5: expired after 1 min | default exchange orders"),
        ("orders", "orders", "6: back (lost channel)"),
        ("orders", "acknowledged", "7: ack"),
    ]


def test_losses_lead_to_their_own_end() -> None:
    assert told(way(LADDER, Publish("", "nobody"), {})) == [("published", "", "1: publish | default exchange nobody")]
    lost = way(topology([queue("brief", message_ttl=5)]), Publish("", "brief"), {"brief": ["expire"]})
    assert told(lost)[-1] == ("brief", "brief", "2: expired | dropped")
    assert lost.edges[-1].kind == "loss"
    full = topology([queue("none", max_length=0, overflow="reject-publish")])
    assert told(way(full, Publish("", "none"), {})) == [
        ("published", "none", "1: publish | default exchange none | refused")
    ]
