"""A drawn graph in a page: the page scrolls it, and gives it its own colours."""

from __future__ import annotations

from simulator.markup import Html, element
from simulator.pictures.graph import Graph
from simulator.pictures.svg import as_svg


def picture(graph: Graph) -> Html:
    """Return the picture, which can be scrolled by keys."""
    return element("div", Html(as_svg(graph)), class_="picture", tabindex="0", role="group", aria_label=graph.title)
