"""The answer as one HTML page: what would be lost or saved first, then where messages end, examples, why, how sure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path

import plotly.graph_objects as go

from simulator.files import write_whole
from simulator.markup import Html, element, join, plural, section, table, text
from simulator.replay.report.document import document, plain_figure
from simulator.whatif.answer import SHOWN_MAX, WhatIfAnswer, ends_of, headline, sureness
from simulator.whatif.both_sides import BothHistories
from simulator.whatif.outcomes import told
from simulator.whatif.tally import Tally, Transition

LINKS_MAX = 25
_SIDES = ("#8593a8", "#2b8fae")
_LOST, _SAVED, _MOVED = "rgba(214, 69, 98, 0.55)", "rgba(46, 158, 107, 0.55)", "rgba(133, 147, 168, 0.45)"


def write_page(
    path: Path, answer: WhatIfAnswer, tally: Tally, lives: Mapping[str, BothHistories], names: tuple[str, str]
) -> None:
    """Write the page to ``path``, whole or not at all. ``names`` say what each side is."""
    write_whole(path, page(answer, tally, lives, names))


def page(answer: WhatIfAnswer, tally: Tally, lives: Mapping[str, BothHistories], names: tuple[str, str]) -> str:
    """Return the page as HTML. The same answer makes the same page."""
    figures = {"ends": plain_figure(_ends_picture(tally))} if tally.changed else {}
    figures["delays"] = plain_figure(_delays_picture(tally, names))
    body = element(
        "main",
        _headline(answer, names),
        _ends_section(answer, names),
        _changes_section(answer, lives),
        _why_section(answer),
        section("How long it takes", element("div", id="delays", class_="plot"), id_="times"),
        _sureness_section(answer),
    )
    return document("What other settings would have done", body, figures)


def fragment(answer: WhatIfAnswer) -> str:
    """Return the answer without pictures and lives, to stand in a notebook."""
    names = ("log", "other")
    parts = (_headline(answer, names), _ends_table(answer, names), _why_section(answer), _sureness_section(answer))
    return element("div", *parts)


def _headline(answer: WhatIfAnswer, names: tuple[str, str]) -> Html:
    title, *parts = headline(answer)
    return element(
        "section",
        element("p", f"{names[0]}, against {names[1]}", class_="muted"),
        element("h1", title.text),
        element("ul", *(element("li", part.text) for part in parts)),
        id="verdict",
        class_="" if title.mood == "bad" else title.mood,
    )


def _ends_section(answer: WhatIfAnswer, names: tuple[str, str]) -> Html:
    if not answer.changed:
        return section("Where messages end", element("p", "Each ends as it did."), id_="ends-section")
    note = (
        "Copies that end elsewhere. The picture shows the messages that change: how they ended (left) and how they"
        " would end (right)."
    )
    return section(
        "Where messages end",
        element("p", note, class_="note"),
        _ends_table(answer, names),
        element("div", id="ends", class_="plot"),
        id_="ends-section",
    )


def _ends_table(answer: WhatIfAnswer, names: tuple[str, str]) -> Html:
    rows = [(what, one, other) for what, one, other in ends_of(answer) if one != other]
    return table(("end", *names, "change"), ((what, one, other, f"{other - one:+,}") for what, one, other in rows))


def _ends_picture(tally: Tally) -> go.Figure:
    """Return the messages that change, from their end before to their end after."""
    links: Counter[tuple[str, str]] = Counter()
    colours = {}
    for way, (messages, _) in tally.ways.items():
        pair = told(way.before), told(way.after)
        links[pair] += messages
        colours[pair] = _colour(way)
    shown = sorted(links.items(), key=lambda link: (-link[1], link[0]))[:LINKS_MAX]
    places: dict[tuple[int, str], int] = {}
    for (one, other), _ in shown:
        for name in ((0, one), (1, other)):
            places.setdefault(name, len(places))
    figure = go.Figure(
        go.Sankey(
            node={
                "label": [_short(name) for _, name in places],
                "color": [_SIDES[side] for side, _ in places],
                "pad": 14,
                "thickness": 14,
            },
            link={
                "source": [places[0, one] for (one, _), _ in shown],
                "target": [places[1, other] for (_, other), _ in shown],
                "value": [count for _, count in shown],
                "color": [colours[pair] for pair, _ in shown],
            },
        )
    )
    figure.update_layout(
        height=140 + 34 * len(places), margin={"l": 10, "r": 10, "t": 20, "b": 10}, paper_bgcolor="rgba(0,0,0,0)"
    )
    return figure


def _colour(way: Transition) -> str:
    more = way.after.lost_copies - way.before.lost_copies
    return _LOST if more > 0 else _SAVED if more < 0 else _MOVED


def _short(name: str) -> str:
    escaped = str(text(name))
    return escaped if len(escaped) <= 70 else f"{escaped[:69]}…"


def _delays_picture(tally: Tally, names: tuple[str, str]) -> go.Figure:
    """Return how long messages took from the first publish to their end, on both sides."""
    figure = go.Figure()
    for name, colour, took_ms in zip(names, _SIDES, tally.took_ms, strict=True):
        times = sorted(took_ms)
        upto = accumulate(took_ms[time] for time in times)
        share = [100 * many / took_ms.total() for many in upto]
        took = [time / 1_000 for time in times]
        step = max(1, len(took) // 400)
        figure.add_scatter(
            x=took[::step] + took[-1:], y=share[::step] + share[-1:], name=name, line={"color": colour, "shape": "hv"}
        )
    figure.update_layout(
        height=320,
        margin={"l": 50, "r": 20, "t": 10, "b": 40},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        xaxis={"title": {"text": "seconds from the first publish to the end"}, "type": "log"},
        yaxis={"title": {"text": "messages, %"}},
        legend={"orientation": "h"},
    )
    return figure


def _changes_section(answer: WhatIfAnswer, lives: Mapping[str, BothHistories]) -> Html:
    if not answer.changes:
        return Html("")
    parts = []
    for change in answer.changes[:SHOWN_MAX]:
        words = "lost" if change.lost else "held" if change.held else "saved" if change.saved else "elsewhere"
        title = f"{plural(change.messages, 'message')}, {words}"
        shown = [element("h3", title), element("p", f"{change.before} → {change.after}")]
        example = next((name for name in change.examples if name in lives), None)
        if example is not None:
            sides = join(
                element("div", element("h4", side), Html(history._repr_html_()))
                for side, history in zip(("before", "after"), lives[example], strict=True)
            )
            shown.append(
                element("details", element("summary", f"the life of {example}"), element("div", sides, class_="scroll"))
            )
        parts.append(join(shown))
    rest = len(answer.changes) - SHOWN_MAX
    if rest > 0:
        parts.append(element("p", f"and {plural(rest, 'more way', 'more ways')}", class_="note"))
    return section("How they end differently", *parts, id_="changes")


def _why_section(answer: WhatIfAnswer) -> Html:
    if not answer.causes and not answer.over_represented:
        return Html("")
    parts: list[Html] = []
    if answer.causes:
        parts.append(table(("messages", "because of"), ((cause.messages, cause.what) for cause in answer.causes)))
    if answer.over_represented:
        rows = ((each.messages, each.what, each.value, f"{each.ratio:g}") for each in answer.over_represented)
        parts += [
            element("h3", "What is more common among the messages that change"),
            table(("messages", "what", "value", "times as often"), rows),
        ]
    return section("Why", *parts, id_="why")


def _sureness_section(answer: WhatIfAnswer) -> Html:
    lines = (element("li", line) for line in sureness(answer))
    return section("How sure this is", element("ul", *lines), id_="sure")
