"""Writes a graph in DOT, the language of Graphviz."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from simulator.pictures.graph import EdgeKind, Graph, NodeKind
from simulator.pictures.svg import COLOURS

_SHAPES: Mapping[NodeKind, str] = {
    "queue": "shape=box",
    "exchange": "shape=box, style=rounded",
    "missing": 'shape=box, style="rounded,dashed"',
    "lost": "shape=box, style=dashed",
    "end": "shape=box, style=rounded",
}
_STYLES: Mapping[EdgeKind, str] = {
    "binding": "solid",
    "alternate": "dotted",
    "dead letter": "dashed",
    "loss": "dashed",
    "shovel": "bold",
}


def as_dot(graph: Graph) -> str:
    """Return the picture of a graph as a directed graph in DOT; its notes are comments."""
    return "\n".join(_lines(graph)) + "\n"


def _lines(graph: Graph) -> Iterator[str]:
    for note in graph.notes:
        yield f"// {' '.join(note.split())}"
    yield "digraph topology {\n    rankdir=LR;"
    yield '    node [fontname="Helvetica", fontsize=12]; edge [fontname="Helvetica", fontsize=11];'
    names = {node: f"n{number}" for number, node in enumerate(graph.nodes, 1)}
    for node, lines in graph.nodes.items():
        look = f'{_SHAPES[node.kind]}, color="{COLOURS[node.kind]}"'
        yield f"    {names[node]} [label={_quoted(lines)}, {look}];"
    for edge in graph.edges:
        look = f'style={_STYLES[edge.kind]}, color="{COLOURS[edge.kind]}", fontcolor="{COLOURS[edge.kind]}"'
        yield f"    {names[edge.source]} -> {names[edge.target]} [label={_quoted(edge.label)}, {look}];"
    yield "}"


def _quoted(lines: tuple[str, ...]) -> str:
    """Return the lines as one string of DOT."""
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(escaped) + '"'
