"""Writes a graph as one HTML page with the picture in it; the page fetches nothing."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib import resources

from simulator.events import Happened
from simulator.pictures.graph import Graph
from simulator.pictures.life_graph import life_graph
from simulator.pictures.svg import COLOURS, Drawing, as_svg

_STYLE = f"""
body {{ font: 14px/1.5 system-ui, sans-serif; color: #1f2937; background: #ffffff; margin: 1.5rem; }}
h1 {{ font-size: 1.2rem; overflow-wrap: anywhere; }}
.picture {{ overflow: auto; border: 1px solid #d1d5db; }}
.picture svg {{ max-width: 100%; min-width: var(--least); height: auto; display: block; }}
.dead-letter {{ color: {COLOURS["dead letter"]}; }} .loss {{ color: {COLOURS["loss"]}; }}
"""
SMALLEST = 0.6
"""How small a picture may become to fit a window: text of less than 7 pixels cannot be read."""
WINDOW = 1_000
"""Pixels of a usual window: the reader is told of a picture that remains wider."""
_LEGEND = (
    "Round boxes are exchanges, square ones queues. Bindings are solid, with their keys; "
    '<span class="dead-letter">dead letters</span> are dashed, with the reasons that the queue\'s settings allow and '
    'the routing key; <span class="loss">losses</span> are red, with the reason.'
)


def as_html(graph: Graph) -> str:
    """Return the page."""
    title = escape(graph.title)
    narrow = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    head = f'<meta charset="utf-8">{narrow}<title>{title}</title><style>{_STYLE}</style>'
    body = f"<h1>{title}</h1>\n{as_fragment(graph)}"
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}</body></html>\n'


def as_fragment(graph: Graph) -> str:
    """Return the picture with its legend and notes, to stand in a page or a notebook."""
    notes = "".join(f"<li>{escape(note)}</li>" for note in graph.notes)
    listed = f"<ul>{notes}</ul>\n" if notes else ""
    drawing = Drawing(graph)
    least = round(SMALLEST * drawing.width)
    wide = f"<p>Scroll sideways: the picture is {drawing.width:,.0f} pixels wide.</p>\n" if least > WINDOW else ""
    picture = f'<div class="picture" tabindex="0" style="overflow: auto; --least: {least}px">{drawing.svg()}</div>\n'
    return f"<p>{_LEGEND}</p>\n{listed}{wide}{picture}"


def life_fragment(events: Sequence[Happened], sentences: Sequence[str]) -> str:
    """Return the way of a message as a picture, and its history in sentences, to stand in a page or a notebook."""
    told = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    picture = as_svg(life_graph("The path of a message", events))
    return f'<div style="overflow: auto">{picture}</div>\n<ol>{told}</ol>\n'


# The style of a message's timeline, which the live page and the reports share.


def timeline_css() -> str:
    """Return the style of a list of the class ``life``, whose items have a time (``when``) and a paragraph."""
    return resources.files(__package__).joinpath("timeline.css").read_text(encoding="utf-8")
