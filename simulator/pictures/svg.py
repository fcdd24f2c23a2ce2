"""Draws a graph as SVG: boxes in layers from left to right, labels on the arrows. It needs nothing else to be shown.

The layout goes from top to bottom; here its x and y change places, since boxes of text are wider than high, and pages
are scrolled downwards.

A label takes a place of its own in the layout, so that it covers no box and no other label. Arrows that close a circle
are laid out the other way round, so that all run between the layers, and get their head at the other end.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from html import escape
from itertools import pairwise
from typing import NamedTuple
from unicodedata import east_asian_width

from simulator.pictures.curves import Box, Segment, box_around, segments, svg_path
from simulator.pictures.graph import Edge, EdgeKind, Graph, Node, NodeKind
from simulator.pictures.layout import Size, layered, returning

COLOURS: Mapping[NodeKind | EdgeKind, str] = {
    "queue": "#3b6db5",
    "exchange": "#6b7a90",
    "missing": "#c8102e",
    "lost": "#c8102e",
    "end": "#6b7a90",
    "binding": "#6b7a90",
    "alternate": "#6b7a90",
    "dead letter": "#b06f00",
    "loss": "#c8102e",
    "shovel": "#6b7a90",
}
DASHES: Mapping[EdgeKind, str] = {
    "dead letter": "7 4",
    "alternate": "2 3",
    "binding": "",
    "loss": "7 4",
    "shovel": "9 3 2 3",
}
INK, PAPER = "#1f2937", "#ffffff"
NAME_SIZE, TEXT_SIZE = 12.0, 11.0
MARGIN = 20.0

_Place = Node | int
"""A node, or the label of the edge of that number."""


class _Segment(NamedTuple):
    """A piece of an arrow between two places, and at which end it has the head: ``start`` is the upper one."""

    edge: int
    upper: _Place
    lower: _Place
    head: str


class Drawing:
    """A graph with a place for everything.

    Attributes:
        graph: as given.
        boxes: the box of each node.
        labels: the box of the label of each edge that has one, by the edge's number.
        width, height: of the whole picture, in pixels.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        sizes: dict[_Place, Size] = {node: node_size(lines) for node, lines in graph.nodes.items()}
        sizes |= {number: label_size(edge.label) for number, edge in enumerate(graph.edges) if edge.label}
        up = returning(graph.nodes, [(edge.source, edge.target) for edge in graph.edges])
        self._pieces = [piece for number in range(len(graph.edges)) for piece in self._ways(number, number in up)]
        arrows = [(piece.upper, piece.lower) for piece in self._pieces]
        turned = {place: (height, width) for place, (width, height) in sizes.items()}
        plan = layered(turned, arrows, width_wanted=math.inf)
        self._curves = [[_turned(curve) for curve in segments(route)] for route in plan.routes]
        found = {place: box_around((y, x), *sizes[place]) for place, (x, y) in plan.centres.items()}
        self.boxes: dict[Node, Box] = {place: box for place, box in found.items() if isinstance(place, Node)}
        self.labels: dict[int, Box] = {place: box for place, box in found.items() if isinstance(place, int)}
        self.width, self.height = plan.height + 2 * MARGIN, plan.width + 2 * MARGIN

    def _ways(self, number: int, up: bool) -> Iterator[_Segment]:
        """Yield the pieces of an arrow: one, or one before its label and one behind it."""
        edge = self.graph.edges[number]
        if edge.source == edge.target and edge.label:  # there and back again
            yield _Segment(number, edge.source, number, "")
            yield _Segment(number, edge.source, number, "start")
            return
        stops: list[_Place] = [edge.source, *([number] if edge.label else []), edge.target]
        for source, target in pairwise(stops):
            upper, lower = (target, source) if up else (source, target)
            yield _Segment(number, upper, lower, "" if target is number else "start" if up else "end")

    def svg(self) -> str:
        """Return the picture as one ``svg`` element."""
        w, h = round(self.width), round(self.height)
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-MARGIN:g} {-MARGIN:g} {w} {h}" width="{w}" '
            f'height="{h}" font-family="{escape(FONT)}" role="img">',
            f"<title>{_text(self.graph.title)}</title>",
            *_heads(),
            f'<rect x="{-MARGIN:g}" y="{-MARGIN:g}" width="{w}" height="{h}" fill="{PAPER}"/>',
            *self._paths(),
            *(part for number, box in self.labels.items() for part in _label(self.graph.edges[number], box)),
            *(part for node, box in self.boxes.items() for part in _box(node, self.graph.nodes[node], box)),
            "</svg>",
        ]
        return "\n".join(lines) + "\n"

    def _paths(self) -> Iterator[str]:
        for piece, curves in zip(self._pieces, self._curves, strict=True):
            kind = self.graph.edges[piece.edge].kind
            dashes = f' stroke-dasharray="{DASHES[kind]}"' if DASHES[kind] else ""
            head = f' marker-{piece.head}="url(#{_head_of(kind)})"' if piece.head else ""
            path = f'd="{svg_path(curves)}" stroke="{COLOURS[kind]}"{dashes}{head}'
            yield f'<path {path} fill="none" stroke-width="1.6"/>'


def _turned(curve: Segment) -> Segment:
    (ax, ay), (bx, by), (cx, cy), (dx, dy) = curve
    return (ay, ax), (by, bx), (cy, cx), (dy, dx)


def node_size(lines: tuple[str, ...]) -> Size:
    """Return width and height of a box with these lines, the first of them bold."""
    first, *more = lines
    widest = max([width(first, NAME_SIZE, bold=True), *(width(line, TEXT_SIZE) for line in more), 34.0])
    return widest + 20, 12 + LINE * len(lines)


def label_size(lines: tuple[str, ...]) -> Size:
    """Return width and height of a label with these lines."""
    return max(width(line, TEXT_SIZE) for line in lines) + 6, LINE * len(lines)


def _heads() -> Iterator[str]:
    yield "<defs>"
    for kind in ("binding", "dead letter", "loss"):
        yield (
            f'<marker id="{_head_of(kind)}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            f'orient="auto-start-reverse"><path d="M 0 0 L 10 5 L 0 10 z" fill="{COLOURS[kind]}"/></marker>'
        )
    yield "</defs>"


def _head_of(kind: EdgeKind) -> str:
    return f"head-{('binding' if kind in ('alternate', 'shovel') else kind).replace(' ', '-')}"


def _box(node: Node, lines: tuple[str, ...], box: Box) -> Iterator[str]:
    left, top, right, bottom = box
    shade = COLOURS[node.kind]
    round_ = 14 if node.kind in ("exchange", "missing", "end") else 4
    dashes = ' stroke-dasharray="5 3"' if node.kind in ("missing", "lost") else ""
    yield f"<g><title>{_text(_describe(node))}</title>"
    yield (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{bottom - top:.1f}" rx="{round_}" '
        f'fill="{PAPER}" stroke="{shade}" stroke-width="1.6"{dashes}/>'
    )
    yield from _texts(lines, box, first=f'font-size="{NAME_SIZE:g}" font-weight="bold"', colour=_ink(node))
    yield "</g>"


def _ink(node: Node) -> str:
    return COLOURS[node.kind] if node.kind in ("missing", "lost") else INK


def _describe(node: Node) -> str:
    where = f" of {node.vhost}" if node.vhost not in ("", "/") else ""
    kind = {"missing": "missing exchange", "lost": "lost from queue"}.get(node.kind, node.kind)
    return f"{kind} {node.name}{where}"


def _label(edge: Edge, box: Box) -> Iterator[str]:
    left, top, right, bottom = box
    size = f'width="{right - left:.1f}" height="{bottom - top:.1f}"'
    yield f'<rect x="{left:.1f}" y="{top:.1f}" {size} fill="{PAPER}" fill-opacity="0.9"/>'
    yield from _texts(edge.label, box, first=f'font-size="{TEXT_SIZE:g}"', colour=COLOURS[edge.kind])


def _texts(lines: tuple[str, ...], box: Box, *, first: str, colour: str) -> Iterator[str]:
    left, top, right, bottom = box
    x, y = (left + right) / 2, (top + bottom) / 2 - LINE * (len(lines) - 1) / 2 + 4
    for number, line in enumerate(lines):
        size = first if number == 0 else f'font-size="{TEXT_SIZE:g}"'
        at = f'x="{x:.1f}" y="{y + LINE * number:.1f}"'
        yield f'<text {at} {size} fill="{colour}" text-anchor="middle">{_text(line)}</text>'


def _text(text: str) -> str:
    """Escape text, with a sign in place of each character that cannot be shown or that XML cannot hold."""
    return escape("".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text))


def as_svg(graph: Graph) -> str:
    """Return the picture of a graph as an SVG document."""
    return Drawing(graph).svg()


# Estimates how wide text is in pictures, in pixels, with no font at hand: rather too wide than too narrow.


FONT = "Arial, Helvetica, 'Liberation Sans', sans-serif"
LINE = 16.0
_WIDE, _NARROW = frozenset("MWmw@%—…"), frozenset("ijltfI.,:;|'!()[] -")


def width(text: str, size: float, *, bold: bool = False) -> float:
    """Return the width of one line of text of that font size."""
    return size * (1.08 if bold else 1.0) * sum(map(_share, text))


def _share(character: str) -> float:
    if east_asian_width(character) in "WF":
        return 1.05
    if character in _WIDE:
        return 0.95
    if character in _NARROW:
        return 0.37
    return 0.72 if character.isupper() else 0.6
