"""What the notebooks share: a quiet Spark session, bars that show in any viewer, and verdicts as lines."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

import pandas as pd
import plotly.graph_objects as go
import pyarrow as pa
from IPython.display import display

from simulator.json_values import canonical_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHADES = ("#6b7280", "#4f7fc4", "#d64562", "#d98a1f")
WIDTH, ROW, GAP, LABELS, TOP = 760, 16, 10, 280, 56
LABEL_MAX = 42
"""Characters of a label that fit into ``LABELS`` pixels."""


VERDICT = ("file", "line", "verdict", "why", "hops", "new_hops", "new_deaths", "differences", "alternatives",
           "unchecked")  # fmt: skip


def session(master: str = "local[*]") -> SparkSession:
    """A Spark session; the greetings of its Java process do not go into the notebook."""
    from simulator.replay import spark_session  # notebooks without Spark need no Java

    with _no_stderr():
        return spark_session(master, "dlx notebook")


def verdict_lines(replayed: pa.Table) -> list[str]:
    """What a replay says of each delivery, as sorted lines of JSON: the same whichever engine replayed, and where."""
    rows = (row for row in replayed.to_pylist() if row["verdict"] is not None)
    return sorted(canonical_json({name: row[name] for name in VERDICT}) + "\n" for row in rows)


@contextmanager
def _no_stderr() -> Iterator[None]:
    """Processes started meanwhile have no stderr: Java writes there past Python."""
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


def bars(title: str, labels: Sequence[str], series: Mapping[str, Sequence[int]]) -> go.Figure:
    """Horizontal bars, a group for each label and one bar in it for each series."""
    traces = [
        go.Bar(name=name, y=labels, x=values, text=values, orientation="h", marker_color=shade)
        for (name, values), shade in zip(series.items(), SHADES, strict=False)
    ]
    figure = go.Figure(traces)
    height = TOP + len(labels) * (len(series) * ROW + GAP) + 60
    figure.update_layout(
        title=title, template="none", barmode="group", width=WIDTH, height=height, margin_l=LABELS,
        showlegend=len(series) > 1, yaxis_autorange="reversed",
    )  # fmt: skip
    return figure


def show_table(rows: Sequence[Mapping[str, Any]], without: str) -> None:
    """Display rows as a table, or say why there are none."""
    if rows:
        display(pd.DataFrame(rows).set_index(next(iter(rows[0]))))
    else:
        print(without)


def show(figure: go.Figure, without: str = "all counts are 0") -> None:
    """Display bars: alive where plotly's figures are known, else as the same bars in SVG; without any, say why."""
    if not any(value for trace in figure.data for value in trace.x):
        print(f"{figure.layout.title.text}: nothing to draw: {without}")
        return
    live = {"data": figure.to_plotly_json()["data"], "layout": _plain(figure.layout.to_plotly_json())}
    forms = {"application/vnd.plotly.v1+json": live, "image/svg+xml": svg(figure)}
    display({**forms, "text/plain": figure.layout.title.text}, raw=True)


def svg(figure: go.Figure) -> str:
    """The bars of a figure as a picture that needs no script."""
    traces, most = figure.data, max(value for trace in figure.data for value in trace.x)
    scale = (WIDTH - LABELS - 60) / max(most, 1)
    parts = [_text(8, 22, figure.layout.title.text, size=16)]
    if len(traces) > 1:
        for index, trace in enumerate(traces):
            x = LABELS + index * 165
            parts += [_rect(x, 34, 10, 10, trace.marker.color), _text(x + 15, 43, trace.name)]
    y = float(TOP)
    for row, label in enumerate(traces[0].y):
        fitting = label if len(label) <= LABEL_MAX else f"…{label[1 - LABEL_MAX :]}"
        parts.append(_text(LABELS - 8, y + len(traces) * ROW / 2 + 4, fitting, anchor="end"))
        for trace in traces:
            length = trace.x[row] * scale
            parts.append(_rect(LABELS, y + 1, length, ROW - 2, trace.marker.color))
            parts.append(_text(LABELS + length + 5, y + ROW - 4, f"{trace.x[row]:,}"))
            y += ROW
        y += GAP
    size = f'width="{WIDTH}" height="{y:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif">'
    return head + f'<rect {size} fill="#ffffff"/>' + "".join(parts) + "</svg>"


def _rect(x: float, y: float, width: float, height: float, shade: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{shade}"/>'


def _text(x: float, y: float, text: str, *, size: int = 12, anchor: str = "start") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"'
    return f'<text {place} fill="#1f2937">{escape(text)}</text>'


def _plain(layout: dict[str, Any]) -> dict[str, Any]:
    """The layout without plotly's template, which is large and here empty."""
    return {name: value for name, value in layout.items() if name != "template"}
