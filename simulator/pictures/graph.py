"""A topology as a graph to draw: nodes with their lines of text, and edges of a few kinds. Writers are beside it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest
from typing import Literal

import msgspec

NodeKind = Literal["queue", "exchange", "missing", "lost", "end"]
EdgeKind = Literal["binding", "alternate", "dead letter", "loss", "shovel"]

NAME_MAX = 34


class Node(msgspec.Struct, frozen=True):
    """A box: ``missing`` is an exchange that is not there, ``lost`` where messages of the queue ``name`` are lost."""

    kind: NodeKind
    name: str
    vhost: str = ""


class Edge(msgspec.Struct, frozen=True):
    """An arrow, and the lines of its label."""

    source: Node
    target: Node
    kind: EdgeKind
    label: tuple[str, ...] = ()


class Graph(msgspec.Struct, frozen=True):
    """What is drawn.

    Attributes:
        title: what it is of.
        nodes: each with the lines in its box, the name first.
        edges: the arrows.
        notes: sentences below the picture: what was left out, what was not checked.
    """

    title: str
    nodes: Mapping[Node, tuple[str, ...]]
    edges: tuple[Edge, ...]
    notes: tuple[str, ...] = ()

    @property
    def losing(self) -> list[Node]:
        """The nodes from which messages are lost, those with the most ways first."""
        ways: defaultdict[Node, int] = defaultdict(int)
        for edge in self.edges:
            if edge.kind == "loss":
                ways[edge.source] += 1
        return sorted(ways, key=lambda node: (-ways[node], node.vhost, node.name))


def shortened(name: str) -> str:
    """Return a name as boxes show it: the middle of a long one is left out."""
    return name if len(name) <= NAME_MAX else f"{name[: NAME_MAX // 2]}…{name[-(NAME_MAX // 2 - 1) :]}"


def around(graph: Graph, node: Node) -> Graph:
    """Return one queue's neighbourhood: what leads to it, from the next queues on, and where its dead letters go."""
    edges = dict.fromkeys([*_followed(graph, node, back=True), *_followed(graph, node, back=False)])
    return _part(graph, [node, *(end for edge in edges for end in (edge.source, edge.target))], edges)


def _followed(graph: Graph, start: Node, *, back: bool) -> Iterator[Edge]:
    """Yield the edges from a queue on, or back, through exchanges as far as other queues."""
    beside: defaultdict[Node, list[Edge]] = defaultdict(list)
    for edge in graph.edges:
        beside[edge.target if back else edge.source].append(edge)
    ahead, seen = [start], {start}
    while ahead:
        for edge in beside[ahead.pop()]:
            yield edge
            other = edge.source if back else edge.target
            if other.kind == "exchange" and other not in seen:
                seen.add(other)
                ahead.append(other)


def at_most(graph: Graph, most: int, how_to_see: str) -> Graph:
    """Return the graph with ``most`` nodes: first those that lose messages, then those connected with them.

    A note says what was left out; it ends with ``how_to_see``.
    """
    if len(graph.nodes) <= most:
        return graph
    pieces = list(_from_losses(graph))
    losing = set(graph.losing)
    kept: set[Node] = set()
    for some in ([piece for piece in pieces if piece[0] in losing], [each for each in pieces if each[0] not in losing]):
        kept |= set(_fitting(some, most - len(kept)))
    left = [node for node in graph.nodes if node not in kept]
    kinds = Counter(node.kind for node in left)
    counts = [
        f"{kinds[kind]:,} {kind}{'s' if kinds[kind] > 1 else ''}" for kind in ("queue", "exchange") if kinds[kind]
    ]
    lose = len(losing - kept)
    more = f", and {lose:,} of them lose messages" if lose else "; none of them loses messages"
    note = f"Left out: {' and '.join(counts)}{more}. {how_to_see}"
    found = _part(graph, kept, [e for e in graph.edges if e.source in kept and e.target in kept])
    return msgspec.structs.replace(found, notes=(note, *graph.notes))


def _fitting(pieces: Sequence[Sequence[Node]], most: int) -> list[Node]:
    """Return the nodes of whole pieces, as long as they fit; then the first ones of those that do not."""
    kept: list[Node] = []
    larger = []
    for piece in pieces:
        if len(kept) + len(piece) <= most:
            kept += piece
        else:
            larger.append(piece)
    in_turn = chain.from_iterable(zip_longest(*larger))
    return [*kept, *islice((node for node in in_turn if node is not None), most - len(kept))]


def _from_losses(graph: Graph) -> Iterator[list[Node]]:
    """Yield the connected pieces of the graph, those first that lose messages; each begins where they are lost."""
    lost: dict[Node, list[Node]] = {node: [node] for node in graph.losing}
    for edge in graph.edges:
        if edge.kind == "loss":
            lost[edge.source].append(edge.target)
    rank = {node: at for at, node in enumerate(lost)}
    beside: defaultdict[Node, list[Node]] = defaultdict(list)
    for edge in graph.edges:
        beside[edge.source].append(edge.target)
        beside[edge.target].append(edge.source)
    seen: set[Node] = set()
    for first in (*lost, *sorted(graph.nodes, key=lambda node: -len(beside[node]))):
        if first not in seen:
            piece = _outward([first], beside)
            seen.update(piece)
            starts = sorted((node for node in piece if node in rank), key=rank.__getitem__)
            yield _outward([each for node in starts for each in lost[node]], beside) if starts else piece


def _outward(starts: Iterable[Node], beside: Mapping[Node, Sequence[Node]]) -> list[Node]:
    """Return nodes and all that is connected with them, the nearest first."""
    found: dict[Node, None] = {}
    ahead = list(starts)
    for node in ahead:
        if node not in found:
            found[node] = None
            ahead += beside[node]
    return list(found)


def _part(graph: Graph, nodes: Iterable[Node], edges: Iterable[Edge]) -> Graph:
    kept = set(nodes)
    found = {node: lines for node, lines in graph.nodes.items() if node in kept}
    return msgspec.structs.replace(graph, nodes=found, edges=tuple(edges))
