"""A drawn graph in a page: the page scrolls it, and gives it its own colours."""

from __future__ import annotations

from simulator.markup import Html, element
from simulator.pictures.graph import Graph
from simulator.pictures.svg import Drawing

_SMALL_PX = 720


def picture(graph: Graph) -> Html:
    """Return the picture, which can be scrolled by keys; one that is little wider than its place becomes smaller."""
    drawing = Drawing(graph)
    kind = "picture small" if drawing.width <= _SMALL_PX else "picture"
    return element("div", Html(drawing.svg()), class_=kind, tabindex="0", role="group", aria_label=graph.title)
