"""Writes a graph as one HTML page with the picture in it; the page fetches nothing."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib import resources

from simulator.events import Happened
from simulator.pictures.graph import Graph
from simulator.pictures.life_graph import life_graph
from simulator.pictures.svg import COLOURS, as_svg

_STYLE = f"""
body {{ font: 14px/1.5 system-ui, sans-serif; color: #1f2937; background: #ffffff; margin: 1.5rem; }}
h1 {{ font-size: 1.2rem; overflow-wrap: anywhere; }}
.picture {{ overflow: auto; border: 1px solid #d1d5db; }}
.dead-letter {{ color: {COLOURS["dead letter"]}; }} .loss {{ color: {COLOURS["loss"]}; }}
"""
_LEGEND = (
    "Round boxes are exchanges, square ones queues. Bindings are solid, with their keys; "
    '<span class="dead-letter">dead letters</span> are dashed, with the reasons that the queue\'s settings allow and '
    'the routing key; <span class="loss">losses</span> are red, with the reason.'
)


def as_html(graph: Graph) -> str:
    """Return the page."""
    title = escape(graph.title)
    head = f'<meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
    body = f"<h1>{title}</h1>\n{as_fragment(graph)}"
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}</body></html>\n'


def as_fragment(graph: Graph) -> str:
    """Return the picture with its legend and notes, to stand in a page or a notebook."""
    notes = "".join(f"<li>{escape(note)}</li>" for note in graph.notes)
    listed = f"<ul>{notes}</ul>\n" if notes else ""
    return f'<p>{_LEGEND}</p>\n{listed}<div class="picture" style="overflow: auto">{as_svg(graph)}</div>\n'


def life_fragment(events: Sequence[Happened], sentences: Sequence[str]) -> str:
    """Return the way of a message as a picture, and its history in sentences, to stand in a page or a notebook."""
    told = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    picture = as_svg(life_graph("The path of a message", events))
    return f'<div style="overflow: auto">{picture}</div>\n<ol>{told}</ol>\n'


# The style of a message's timeline, which the live page and the reports share.


def timeline_css() -> str:
    """Return the style of a list of the class ``life``, whose items have a time (``when``) and a paragraph."""
    return resources.files(__package__).joinpath("timeline.css").read_text(encoding="utf-8")
