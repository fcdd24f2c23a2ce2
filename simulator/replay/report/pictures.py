"""The pictures of a replay, as plotly figures: for the report, and for notebooks.

Backgrounds are transparent and colours of middle lightness, so that the figures
stand on light and dark pages. Names are escaped: plotly reads text as HTML.
"""

from __future__ import annotations

import html
import math
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from dlx.deaths import DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED
from simulator.pictures.curves import Box, box_around, label_place, segments, svg_path
from simulator.pictures.layout import ArrowRoute, Layout, layered
from simulator.replay.report.data import REPUBLISHED, DeathPath, ReportData
from simulator.replay.report.grouping import (
    ARROWS_MAX,
    MIXED,
    PUBLISHED,
    Arrow,
    FlowNode,
    QueueGroup,
    QueueTotals,
    arrows,
    most_used,
)

COLOURS = {
    PUBLISHED: "#7c8aa0",
    REJECTED: "#d64562",
    EXPIRED: "#d98a1f",
    MAXLEN: "#8561c5",
    DELIVERY_LIMIT: "#2b8fae",
    MIXED: "#8a7f70",
}
QUEUE, EXCHANGE, ALARM = "#4f7fc4", "#8593a8", "#c026d3"
INK = "#1f2937"
MARGIN = 24.0
NAME_MAX = 30
PATHS_SHOWN = 15
_OTHERS = "other queues"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def colour(reason: str) -> str:
    """Return the colour of a reason; forged ones have none of their own."""
    return COLOURS.get(PUBLISHED if reason == REPUBLISHED else reason, COLOURS[MIXED])


def utc(time_us: int) -> datetime:
    """Return the time, given in microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=time_us)


def flow_picture(group: QueueGroup, most: int = ARROWS_MAX) -> go.Figure:
    """Draw the queues and exchanges of a group and the messages between them, from top to bottom.

    Shows the ``most`` used arrows; ``simulator.replay.report.grouping.arrows`` has all.
    """
    shown = most_used(arrows(group), most)
    nodes: dict[FlowNode, list[str]] = {}
    for arrow in shown:
        for node in (arrow.source, arrow.target):
            nodes.setdefault(node, _lines(node, group, shown))
    for queue in group.queues if len(nodes) < most else ():
        nodes.setdefault(FlowNode("queue", queue), _lines(FlowNode("queue", queue), group, shown))
    sizes = {node: _size(lines) for node, lines in nodes.items()}
    plan = layered(sizes, [(arrow.source, arrow.target) for arrow in shown])
    drawing = _FigureDrawing(group, plan, sizes)
    for node, lines in nodes.items():
        drawing.node(node, lines)
    largest = max((arrow.messages for arrow in shown), default=1)
    for arrow, route in zip(shown, plan.routes, strict=True):
        drawing.arrow(arrow, route, largest)
    return drawing.figure()


def _lines(node: FlowNode, group: QueueGroup, shown: list[Arrow]) -> list[str]:
    """Return the text in a node's box."""
    if node.kind == "entry":
        return [f"published {_sum(node, shown):,}"]
    if node.kind == "nowhere":
        return ["no queue"]
    if node.kind == "others":
        sources = {kind.queue for kind in group.arriving if kind.to_queue == node.name}
        return [f"{len(sources):,} other queues"]
    if node.kind == "exchange":
        published = sum(a.messages for a in shown if a.source == node and a.reason == PUBLISHED)
        return [_short(node.name), *([f"published {published:,}"] if published else [])]
    queue = group.queues.get(node.name) or group.beyond[node.name]
    lines = [_short(node.name), f"{queue.delivered:,} delivered" if queue.delivered else "nothing delivered"]
    if queue.unseen:
        lines.append(f"{queue.unseen:,} not seen again")
    if node.name in group.losing:
        lines.append("can lose messages")
    if queue.unlike:
        lines.append(f"{queue.unlike:,} not as predicted")
    return lines


def _sum(node: FlowNode, shown: list[Arrow]) -> int:
    return sum(arrow.messages for arrow in shown if arrow.source == node)


def _short(name: str) -> str:
    if name == "":
        return "(default exchange)"
    return name if len(name) <= NAME_MAX else f"{name[: NAME_MAX // 2]}…{name[-NAME_MAX // 2 + 1 :]}"


def _size(lines: list[str]) -> tuple[float, float]:
    widest = max(7.4 * len(lines[0]), *(6.2 * len(line) for line in lines[1:]), 40.0)
    return widest + 22, 12 + 16.0 * len(lines)


class _FigureDrawing:
    """Collects shapes and texts; plotly's pixels are the layout's."""

    def __init__(self, group: QueueGroup, plan: Layout[FlowNode], sizes: dict[FlowNode, tuple[float, float]]) -> None:
        self._group = group
        self._plan = plan
        self._sizes = sizes
        self._shapes: list[dict[str, Any]] = []
        self._texts: list[dict[str, Any]] = []
        self._hover: list[tuple[float, float, str]] = []
        self._heads: list[tuple[float, float, str, str]] = []
        self._taken: list[Box] = [box_around(plan.centres[node], *size) for node, size in sizes.items()]

    def node(self, node: FlowNode, lines: list[str]) -> None:
        """Add a box, square for a queue and round for an exchange."""
        (x, y), (width, height) = self._plan.centres[node], self._sizes[node]
        own = self._group.queues.get(node.name) if node.kind == "queue" else None
        queue = self._group.beyond.get(node.name) if node.kind == "queue" and own is None else own
        edge = node.kind in ("nowhere", "others") or (node.kind == "queue" and own is None)
        loses = queue is not None and node.name in self._group.losing
        alarm = node.kind == "nowhere" or loses
        line = ALARM if alarm else QUEUE if node.kind == "queue" else EXCHANGE
        self._shapes.append(
            {
                "type": "path",
                "path": _rounded(x, y, width, height, 5 if node.kind == "queue" else 13),
                "line": {"color": line, "width": 1.6, "dash": "dash" if edge else "solid"},
                "fillcolor": _fill(line, 0.05 if node.kind == "entry" else 0.13),
                "layer": "above",
            }
        )
        first, *more = (html.escape(text) for text in lines)
        text = f"<b>{first}</b>" if node.kind in ("queue", "exchange") else first
        text += "".join(f"<br><span style='font-size:11px'>{each}</span>" for each in more)
        self._texts.append({"x": x, "y": y, "text": text, "font": {"size": 12, "color": INK}})
        self._hover.append((x, y, _about(node, queue)))

    def arrow(self, arrow: Arrow, route: ArrowRoute, largest: int) -> None:
        """Add a curve as wide as its share, with its count."""
        shade = colour(arrow.reason)
        curves = segments(route)
        self._shapes.append(
            {
                "type": "path",
                "path": svg_path(curves),
                "line": {"color": shade, "width": round(1.2 + 5 * math.sqrt(arrow.messages / largest), 1)},
                "opacity": 0.75,
                "layer": "below",
            }
        )
        x, y = curves[-1][-1]
        self._heads.append((x, y, "triangle-left" if route.back else "triangle-down", shade))
        text = _label(arrow)
        if text:
            width = 6.4 * len(text) + 8
            x, y = label_place(curves, width, 16, self._taken)
            self._taken.append(box_around((x, y), width, 16))
            label = {"x": x, "y": y, "text": html.escape(text), "font": {"size": 11, "color": shade}}
            self._texts.append({**label, "bgcolor": "#ffffff", "borderpad": 1, "name": "label"})
        where = f"{_name(arrow.source)} → {_name(arrow.target)}"
        facts = [f"{html.escape(reason)}: {messages:,}" for reason, messages in arrow.reasons]
        self._hover.append((x, y, "<br>".join([where, *facts])))

    def figure(self) -> go.Figure:
        """Return the figure, as large as its content."""
        figure = go.Figure(layout={"template": "none"})
        figure.add_scatter(
            x=[x for x, _, _ in self._hover],
            y=[y for _, y, _ in self._hover],
            hovertext=[text for _, _, text in self._hover],
            hoverinfo="text",
            mode="markers",
            marker={"size": 34, "symbol": "square", "opacity": 0},
        )
        figure.add_scatter(
            x=[x + 5 * (symbol == "triangle-left") for x, _, symbol, _ in self._heads],
            y=[y - 4 * (symbol == "triangle-down") for _, y, symbol, _ in self._heads],
            mode="markers",
            hoverinfo="skip",
            marker={
                "size": 11,
                "symbol": [symbol for _, _, symbol, _ in self._heads],
                "color": [shade for _, _, _, shade in self._heads],
            },
        )
        width, height = self._plan.width + 2 * MARGIN, self._plan.height + 2 * MARGIN
        hidden = {"visible": False, "fixedrange": True}
        figure.update_layout(
            width=math.ceil(width),
            height=math.ceil(height),
            margin={"l": 0, "r": 0, "t": 0, "b": 0},
            xaxis={"range": [-MARGIN, width - MARGIN], **hidden},
            yaxis={"range": [height - MARGIN, -MARGIN], **hidden},
            shapes=[{**_XY, **shape} for shape in self._shapes],
            annotations=[{**_XY, "showarrow": False, **text} for text in self._texts],
            showlegend=False,
            hovermode="closest",
            **_PAPER,
        )
        return figure


_XY = {"xref": "x", "yref": "y"}
_PAPER: dict[str, Any] = {
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "font": {"family": "system-ui, sans-serif", "size": 12, "color": INK},
    "hoverlabel": {"bgcolor": "#1f2937", "bordercolor": "#1f2937", "font": {"color": "#ffffff"}},
}


def _label(arrow: Arrow) -> str:
    """Return the text on an arrow; empty if the node it comes from says it."""
    if arrow.source.kind == "entry":
        return ""
    if arrow.source.kind == "queue":
        return f"{arrow.reason} {arrow.messages:,}"
    return f"{arrow.messages:,}"


def _name(node: FlowNode) -> str:
    if node.kind == "entry":
        return "publishes to the default exchange"
    if node.kind == "others":
        return "queues of other groups"
    return "no queue" if node.kind == "nowhere" else html.escape(node.name)


def _about(node: FlowNode, queue: QueueTotals | None) -> str:
    if queue is None:
        kind = "exchange " if node.kind == "exchange" else ""
        return f"{kind}<b>{_name(node)}</b>"
    facts = [
        f"published into it: {queue.published:,}",
        f"dead letters into it: {queue.dead_letters_in:,}",
        f"deliveries: {queue.delivered:,}",
        f"dead letters out of it: {queue.dead_letters_out:,}",
    ]
    if queue.unseen:
        facts.append(f"came in and not seen again: at least {queue.unseen:,}")
    if queue.unlike:
        facts.append(f"deliveries not as predicted: {queue.unlike:,}")
    return "<br>".join([f"queue <b>{_name(node)}</b>", *facts])


def _rounded(x: float, y: float, width: float, height: float, radius: float) -> str:
    left, right, top, bottom = x - width / 2, x + width / 2, y - height / 2, y + height / 2
    r = min(radius, height / 2)
    corners = (  # where each corner starts, turns and ends
        ((right - r, top), (right, top), (right, top + r)),
        ((right, bottom - r), (right, bottom), (right - r, bottom)),
        ((left + r, bottom), (left, bottom), (left, bottom - r)),
        ((left, top + r), (left, top), (left + r, top)),
    )
    steps = [f"L {a:.1f},{b:.1f} Q {c:.1f},{d:.1f} {e:.1f},{f:.1f}" for (a, b), (c, d), (e, f) in corners]
    return f"M {left + r:.1f},{top:.1f} " + " ".join(steps) + " Z"


def _fill(shade: str, opacity: float) -> str:
    red, green, blue = (int(shade[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


def deaths_picture(data: ReportData) -> go.Figure:
    """Draw dead letters over time: all of them by reason, and below a row for each queue and reason."""
    rows = _death_rows(data)
    heights = [150, max(20, 20 * len(rows))]
    height = sum(heights) + 100
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=24 / height, row_heights=heights)
    figure.add_traces(_death_bars(data), rows=1, cols=1)
    figure.add_trace(_death_heatmap(data, rows), row=2, col=1)
    figure.update_layout(
        template="none",
        height=height,
        barmode="stack",
        margin={"l": 10, "r": 10, "t": 34, "b": 44},
        legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "traceorder": "normal"},
        **_PAPER,
    )
    grid = {"gridcolor": "rgba(128,128,128,0.25)", "zeroline": False}
    figure.update_yaxes(automargin=True, fixedrange=True)
    figure.update_yaxes(title={"text": "dead letters"}, rangemode="tozero", row=1, col=1, **grid)
    figure.update_xaxes(**grid)
    return figure


def _death_rows(data: ReportData) -> dict[str, dict[int, int]]:
    """Return dead letters by start of the interval for each queue and reason, the most last, other queues first."""
    several = several_vhosts(data)
    rows: defaultdict[tuple[str, str], defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
    for each in data.deaths:
        name = _OTHERS if each.queue is None else each.queue
        host = f"{each.vhost}: " if several and each.vhost is not None else ""
        rows[host + name, each.reason][each.start_us] += each.count
    ranked = sorted(rows, key=lambda key: (key[0] != _OTHERS, sum(rows[key].values()), key))
    return {f"{name} {reason}": rows[name, reason] for name, reason in ranked}


def _death_bars(data: ReportData) -> list[go.Bar]:
    """Return dead letters over time, a series for each reason, the most frequent first."""
    totals: defaultdict[str, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
    for each in data.deaths:
        totals[each.reason][each.start_us] += each.count
    return [
        go.Bar(
            x=[_middle(start_us, data) for start_us in totals[reason]],
            y=list(totals[reason].values()),
            name=html.escape(reason),
            marker={"color": colour(reason)},
            width=data.bucket_us / 1000 * 0.9,
        )
        for reason in sorted(totals, key=lambda reason: -sum(totals[reason].values()))
    ]


def _death_heatmap(data: ReportData, rows: Mapping[str, Mapping[int, int]]) -> go.Heatmap:
    """Return dead letters over time, a line for each of the rows."""
    starts = {each.start_us for each in data.deaths}
    steps = range(min(starts), max(starts) + 1, data.bucket_us) if starts else range(0)
    return go.Heatmap(
        x=[_middle(start_us, data) for start_us in steps],
        y=[html.escape(name) for name in rows],
        z=[[counted.get(start_us) for start_us in steps] for counted in rows.values()],
        colorscale=[[0, "rgba(79,127,196,0.25)"], [1, "#2456a6"]],
        showscale=False,
        xgap=1,
        ygap=2,
        hoverongaps=False,
        hovertemplate="%{y}<br>%{x}: %{z} dead letters<extra></extra>",
    )


def _middle(start_us: int, data: ReportData) -> datetime:
    """Return the middle of the interval that starts there."""
    return utc(start_us + data.bucket_us // 2)


def paths_picture(data: ReportData, most: int = PATHS_SHOWN) -> go.Figure:
    """Return the most frequent paths, by deliveries."""
    several = several_vhosts(data)
    ranked = data.paths[:most][::-1]
    figure = go.Figure(layout={"template": "none"})
    figure.add_bar(
        x=[path.deliveries for path in ranked],
        y=[html.escape(f"{path.vhost}: " * several + path_text(path)) for path in ranked],
        text=[f"{path.deliveries:,}" for path in ranked],
        customdata=[path.messages for path in ranked],
        hovertemplate="%{y}<br>%{x:,} deliveries, %{customdata:,} messages<extra></extra>",
        orientation="h",
        marker={"color": [colour(path.deaths[-1][1]) for path in ranked]},
    )
    figure.update_layout(
        height=60 + 26 * len(ranked), margin={"l": 10, "r": 30, "t": 10, "b": 30}, showlegend=False, **_PAPER
    )
    figure.update_yaxes(automargin=True, fixedrange=True)
    figure.update_xaxes(title={"text": "deliveries"}, gridcolor="rgba(128,128,128,0.25)")
    return figure


def several_vhosts(data: ReportData) -> bool:
    """Return whether queue names need their virtual host beside them."""
    hosts = {each.vhost for each in data.deliveries} | {each.vhost for each in data.publishes or ()}
    return len(hosts) > 1


def path_text(path: DeathPath) -> str:
    """Return a path in words: ``work rejected -> wait expired -> work``."""
    return " -> ".join([*(f"{queue} {reason}" for queue, reason in path.deaths), path.queue])
