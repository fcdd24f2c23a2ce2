"""Writes the section on what was not checked, by queue and setting."""

from __future__ import annotations

from simulator.markup import Html, element, section, table
from simulator.replay.report.data import ReportData
from simulator.replay.unchecked import MEANINGS


def unchecked_section(data: ReportData) -> Html:
    """Return the section on what the log could neither confirm nor refute; empty if there is nothing."""
    if not data.unchecked:
        return Html("")
    intro = (
        "These deliveries agree with the prediction as far as it goes, but the log can neither confirm nor refute one"
        " part of their explanation."
    )
    meanings = [element("li", element("b", what), f": {MEANINGS[what]}") for what in data.summary.unchecked]
    rows = [(each.what, each.name, each.why, f"{each.file}:{each.line}", each.count) for each in data.unchecked]
    return section(
        "Not checked",
        element("p", intro, class_="note"),
        element("ul", *meanings, class_="note"),
        table(["what", "where", "why", "example", "deliveries"], rows),
        id_="unchecked",
    )
