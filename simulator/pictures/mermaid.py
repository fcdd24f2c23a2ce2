"""Writes a graph as a Mermaid flowchart, for documents that draw it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from simulator.pictures.graph import EdgeKind, Graph, Node, NodeKind
from simulator.pictures.mermaid_text import quoted
from simulator.pictures.svg import COLOURS

_SHAPES: Mapping[NodeKind, tuple[str, str]] = {
    "queue": ("[", "]"),
    "exchange": ("([", "])"),
    "missing": ("([", "])"),
    "lost": ("{{", "}}"),
    "end": ("([", "])"),
}
_ARROWS: Mapping[EdgeKind, str] = {"binding": "-->", "alternate": "-.->", "dead letter": "-.->", "loss": "-.->"}


def as_mermaid(graph: Graph) -> str:
    """Return the picture of a graph as a Mermaid flowchart; its notes are comments."""
    return "\n".join(_lines(graph)) + "\n"


def _lines(graph: Graph) -> Iterator[str]:
    yield "flowchart LR"
    for note in graph.notes:
        yield f"    %% {' '.join(note.split())}"
    names = {node: f"n{number}" for number, node in enumerate(graph.nodes, 1)}
    for node, lines in graph.nodes.items():
        opening, closing = _SHAPES[node.kind]
        yield f'    {names[node]}{opening}"{_text(lines)}"{closing}{_class(node)}'
    for edge in graph.edges:
        label = f'|"{_text(edge.label)}"|' if edge.label else ""
        yield f"    {names[edge.source]} {_ARROWS[edge.kind]}{label} {names[edge.target]}"
    for kind in ("dead letter", "loss"):
        numbers = ",".join(str(number) for number, edge in enumerate(graph.edges) if edge.kind == kind)
        if numbers:
            yield f"    linkStyle {numbers} stroke:{COLOURS[kind]},color:{COLOURS[kind]}"
    if any(node.kind in ("lost", "missing") for node in graph.nodes):
        yield f"    classDef lost stroke:{COLOURS['lost']},color:{COLOURS['lost']},stroke-dasharray:5 3"


def _text(lines: tuple[str, ...]) -> str:
    return "<br/>".join(map(quoted, lines))


def _class(node: Node) -> str:
    return ":::lost" if node.kind in ("lost", "missing") else ""
