"""Draws the path of a scenario's messages under each system: queues, and arrows with how often and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from simulator.pictures.dot import as_dot
from simulator.pictures.graph import Edge, EdgeKind, Graph, Node, NodeKind
from simulator.pictures.mermaid import as_mermaid
from simulator.pictures.svg import as_svg
from simulator.systems.compare import Outcome
from simulator.systems.compare.outcome import ACKNOWLEDGED, LOST, PUBLISHED, Leg

_WRITERS: Mapping[str, Callable[[Graph], str]] = {".svg": as_svg, ".mmd": as_mermaid, ".dot": as_dot}
_ENDS: Mapping[str, NodeKind] = {PUBLISHED: "end", ACKNOWLEDGED: "end", LOST: "lost"}
_KINDS: Mapping[str, EdgeKind] = {"way": "binding", "again": "alternate", "dead letter": "dead letter", "lost": "loss"}


def drawn(outcomes: Sequence[Outcome], suffix: str) -> str:
    """Return the picture in the format of a file name's suffix: ``.svg``, ``.mmd`` (Mermaid) or ``.dot``."""
    nodes: dict[Node, tuple[str, ...]] = {}
    edges: list[Edge] = []
    for outcome in outcomes:
        system = f"{outcome.system} {outcome.version}"
        for leg in outcome.path:
            source, target = _node(leg.source, system), _node(leg.target, system)
            nodes |= {node: _lines(node, system) for node in (source, target)}
            edges.append(Edge(source, target, _KINDS[leg.kind], _label(leg)))
    return _WRITERS[suffix](Graph("One scenario under several systems", nodes, tuple(edges)))


def _node(place: str, system: str) -> Node:
    return Node(_ENDS.get(place, "queue"), place, system)


def _lines(node: Node, system: str) -> tuple[str, ...]:
    """Return the lines in a box; the system stands where its messages come from."""
    return (system, node.name) if node.name == PUBLISHED else (node.name,)


def _label(leg: Leg) -> tuple[str, ...]:
    times = f"{leg.times} ×"
    if leg.kind == "again":
        return (f"{times} again",)
    return (times, leg.why) if leg.why else (times,)
