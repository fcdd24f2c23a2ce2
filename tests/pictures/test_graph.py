"""Pictures of topologies: what is on them, that nothing covers anything, and that each format is well-formed."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlx.releases import release
from simulator.analysis.snapshot import Snapshot
from simulator.analysis.topology_graph import topology_graph
from simulator.definitions import Definitions, read_definitions
from simulator.pictures.curves import overlap
from simulator.pictures.dot import as_dot
from simulator.pictures.graph import Edge, Graph, Node, around, at_most, shortened
from simulator.pictures.html import as_html
from simulator.pictures.mermaid import as_mermaid
from simulator.pictures.svg import Drawing, as_svg, label_size, node_size
from tests.long import some_in_ci
from tests.testing.test_search import topology
from tests.testing.test_trial import queue

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "topologies").glob("*/*.json"))
SMALL = [path for path in EXAMPLES if path.stem not in ("celery-x-death", "nservicebus")]  # as large as celery


def drawn(document: dict[str, Any], rules: str = "4.3") -> Graph:
    return topology_graph(Snapshot(Definitions(document, "definitions"), release(rules)))


def losses(graph: Graph) -> dict[str, tuple[str, ...]]:
    return {edge.source.name: edge.label for edge in graph.edges if edge.kind == "loss"}


LADDER = topology(
    [
        queue("orders", queue_type="quorum", dead_letter_exchange="dlx", dead_letter_routing_key="retry"),
        queue("wait", message_ttl=90_000, dead_letter_exchange="", dead_letter_routing_key="orders"),
        queue("log", max_length=10, overflow="reject-publish"),
        queue("old", message_ttl=1_000, dead_letter_exchange="gone"),
    ],
    {"shop": "topic", "dlx": "direct"},
    [("shop", "orders", f"order.{each}") for each in "abcde"] + [("dlx", "wait", "retry"), ("shop", "log", "#")],
)


def test_nodes_have_their_limits_and_dead_letters_their_reasons_and_keys() -> None:
    graph = drawn(LADDER)
    assert graph.nodes[Node("queue", "orders", "/")] == ("orders", "quorum", "delivery limit 20")
    assert graph.nodes[Node("queue", "wait", "/")] == ("wait", "TTL 1 min 30 s")
    assert graph.nodes[Node("queue", "log", "/")] == ("log", "at most 10 messages, reject-publish")
    assert graph.nodes[Node("exchange", "shop", "/")] == ("shop", "topic")
    edges = {(edge.source.name, edge.target.name): edge for edge in graph.edges if edge.kind != "loss"}
    assert edges["shop", "orders"].label == ("order.a", "order.b", "order.c", "and 2 more")
    assert edges["orders", "dlx"].kind == "dead letter"
    assert edges["orders", "dlx"].label == ("rejected, delivery_limit", "key retry")
    assert edges["wait", "orders"].label == ("rejected, expired",)


def test_arguments_of_bindings_are_told_as_json() -> None:
    arguments = {"x-match": "all", "paid": True, "tries": 2}
    bound = {"vhost": "/", "source": "h", "destination": "a", "destination_type": "queue", "routing_key": ""}
    document = {**topology([queue("a")], {"h": "headers"}), "bindings": [{**bound, "arguments": arguments}]}
    assert [edge.label for edge in drawn(document).edges] == [("paid=true tries=2 x-match=all",)]


def test_losses_are_red_with_the_reason_and_a_missing_exchange_is_a_node() -> None:
    graph = drawn(LADDER)
    assert losses(graph) == {
        "wait": ("expired", "cycle: back to orders"),
        "orders": ("delivery_limit", "cycle: back to wait"),
        "old": ("rejected, expired",),
    }
    assert graph.nodes[Node("missing", "gone", "/")] == ("gone", "no such exchange")
    assert losses(drawn(LADDER, "3.13")).keys() == {"old"}  # which has no default delivery limit


def test_exchanges_of_plugins_have_their_types_and_shovels_are_arrows() -> None:
    document = topology(
        [queue("jobs"), queue("a"), queue("b")],
        {"later": "x-delayed-message", "some": "x-random", "any": "x-jms-topic"},
        [("later", "jobs", "jobs"), ("some", "a", ""), ("some", "b", ""), ("any", "a", "")],
    )
    delayed = next(each for each in document["exchanges"] if each["name"] == "later")
    delayed["arguments"] = {"x-delayed-type": "direct"}
    moves = {"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://", "dest-exchange": "later"}
    away = {**moves, "dest-uri": "amqp://elsewhere"}
    shovels = [{"vhost": "/", "component": "shovel", "name": name, "value": value}
               for name, value in (("back", {**moves, "dest-exchange-key": "jobs"}), ("away", away))]  # fmt: skip
    graph = drawn({**document, "parameters": shovels}, "4.0")
    assert graph.nodes[Node("exchange", "later", "/")] == ("later", "x-delayed-message", "routes as direct")
    assert graph.nodes[Node("exchange", "some", "/")] == ("some", "x-random")
    assert graph.nodes[Node("exchange", "any", "/")] == ("any", "x-jms-topic")
    assert [(edge.source.name, edge.target.name, edge.kind, edge.label) for edge in graph.edges] == [
        ("later", "jobs", "binding", ("jobs", "after x-delay")),
        ("some", "a", "binding", ("one of these",)),
        ("some", "b", "binding", ("one of these",)),
        ("any", "a", "binding", ()),
        ("a", "later", "shovel", ("shovel back", "key jobs")),
    ]
    well_formed(graph)


@pytest.mark.parametrize("path", some_in_ci(EXAMPLES, SMALL), ids=lambda path: path.stem)
def test_the_examples_that_lose_messages_have_red_edges_and_only_they(path: Path) -> None:
    graph = topology_graph(Snapshot(read_definitions(path), release("4.3")))
    keeps = {"delay-behind-a-longer-one", "full-queue-refuses", "held-for-ever", "own-dead-letter-exchange"}
    if path.parent.name != "frameworks":  # whether those lose messages, their clients decide
        assert bool(losses(graph)) == (path.parent.name == "broken" and path.stem not in keeps)
    well_formed(graph)


def well_formed(graph: Graph) -> None:
    drawing = Drawing(graph)
    boxes = [*drawing.boxes.values(), *drawing.labels.values()]
    assert not [pair for pair in combinations(boxes, 2) if overlap(*pair)]
    for left, top, right, bottom in boxes:
        assert left >= -1
        assert top >= -1
        assert right <= drawing.width
        assert bottom <= drawing.height
    for node, (left, top, right, bottom) in drawing.boxes.items():
        width, height = node_size(graph.nodes[node])
        assert (round(right - left, 3), round(bottom - top, 3)) == (round(width, 3), round(height, 3))
    root = ET.fromstring(drawing.svg())
    texts = ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert len(texts) == sum(map(len, graph.nodes.values())) + sum(len(edge.label) for edge in graph.edges)
    assert drawing.labels.keys() == {number for number, edge in enumerate(graph.edges) if edge.label}


NODES = st.lists(
    st.builds(Node, st.sampled_from(["queue", "exchange"]), st.text(max_size=30)), min_size=1, max_size=12, unique=True
)
LINES = st.lists(st.text(max_size=30), max_size=3).map(tuple)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    nodes = draw(NODES)
    ends, kinds = st.sampled_from(nodes), st.sampled_from(["binding", "dead letter", "alternate", "loss", "shovel"])
    edges = draw(st.lists(st.builds(Edge, ends, ends, kinds, LINES), max_size=20))
    return Graph("drawn", {node: (node.name, *draw(LINES)) for node in nodes}, tuple(edges))


@settings(max_examples=200, deadline=None)
@given(graphs())
def test_nothing_covers_anything_in_random_graphs(graph: Graph) -> None:
    well_formed(graph)


def test_labels_and_names_of_any_kind_are_escaped_everywhere() -> None:
    odd = 'a"b\\<c>&|#;\n\x07\N{CJK UNIFIED IDEOGRAPH-4E2D}'
    graph = drawn(topology([queue(odd, message_ttl=1_000)], {"x": "topic"}, [("x", odd, odd)]))
    well_formed(graph)
    assert "<c>" not in as_html(graph)
    assert '"b' not in as_mermaid(graph)
    assert 'a\\"b\\\\<c>' in as_dot(graph)


def test_html_fetches_nothing_and_has_the_picture_and_the_notes() -> None:
    graph = at_most(drawn(LADDER), 3, "To see them: --most 99.")
    page = as_html(graph)
    assert "src=" not in page
    assert "href=" not in page
    assert "<script" not in page
    assert "@import" not in page
    assert "<svg" in page
    assert "To see them: --most 99." in page


def test_one_queue_has_what_leads_to_it_and_where_its_dead_letters_go() -> None:
    part = around(drawn(LADDER), Node("queue", "wait", "/"))
    assert {node.name for node in part.nodes} == {"wait", "dlx", "orders"}
    assert {(edge.source.name, edge.kind) for edge in part.edges} == {
        ("orders", "dead letter"),
        ("dlx", "binding"),
        ("wait", "dead letter"),
        ("wait", "loss"),
    }


def test_of_a_large_topology_whole_parts_that_lose_messages_are_kept_and_the_rest_is_told() -> None:
    many = topology([queue(f"q{number}") for number in range(500)] + [queue("bad", message_ttl=5)])
    graph = at_most(drawn(many), 10, "See --queue.")
    assert len(graph.nodes) == 10
    assert Node("lost", "bad", "/") in graph.nodes
    assert graph.notes == ("Left out: 492 queues; none of them loses messages. See --queue.",)
    hub = Graph(
        "hub",
        {Node("queue", str(number)): (str(number),) for number in range(9)},
        tuple(Edge(Node("queue", "0"), Node("queue", str(number)), "loss") for number in range(1, 9)),
    )
    assert len(at_most(hub, 4, "").nodes) == 4


def test_of_one_part_with_more_boxes_the_losing_queues_are_drawn_with_what_is_around_them() -> None:
    names = [f"q{number}" for number in range(100)]
    losing = names[40], names[70]
    one = topology(
        [queue(name, dead_letter_exchange="gone" if name in losing else None) for name in names],
        {"events": "topic"},
        [("events", name, name) for name in names],
    )
    found = at_most(drawn(one), 60, "See --queue.")
    assert len(found.nodes) == 60
    assert {edge.source.name for edge in found.edges if edge.kind == "loss"} == set(losing)
    assert {Node("exchange", "events", "/"), Node("missing", "gone", "/")} <= found.nodes.keys()
    assert found.notes[0] == "Left out: 42 queues; none of them loses messages. See --queue."


def test_the_middle_of_a_long_name_is_left_out_and_wide_characters_take_their_room() -> None:
    assert len(shortened("x" * 200)) == 34
    assert label_size(("\N{CJK UNIFIED IDEOGRAPH-4E2D}" * 9,))[0] > label_size(("x" * 9,))[0]
    assert as_svg(Graph("none", {}, ())).startswith("<svg")


def test_mermaid_and_dot_have_every_node_and_edge() -> None:
    graph = drawn(LADDER)
    chart, dot = as_mermaid(graph), as_dot(graph)
    assert chart.startswith("flowchart LR\n")
    assert chart.count("-->") + chart.count("-.->") == dot.count(" -> ") == len(graph.edges)
    assert dot.count("shape=box") == len(graph.nodes)
    assert '-.->|"expired<br/>cycle#58; back to orders"|' in chart
