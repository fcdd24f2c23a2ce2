"""Writes the section on what may be behind the deliveries that are not as predicted, each with the rows around it."""

from __future__ import annotations

from simulator.markup import Html, details, element, join, plural, section, table
from simulator.replay.repair.told import Repair, Repairs, ShownRow

REPAIRS_SHOWN = 40


def repairs_section(repairs: Repairs) -> Html:
    """Return the section; empty if every delivery is as predicted."""
    if not repairs.found and not repairs.unexplained:
        return Html("")
    hidden = len(repairs.found) - REPAIRS_SHOWN
    rest = [f"{plural(hidden, 'further explanation')} not listed here; summary.json has all."] if hidden > 0 else []
    if repairs.unexplained:
        rest.append(f"{plural(repairs.unexplained, 'delivery', 'deliveries')} without an explanation.")
    if repairs.left_out:
        rest.append(f"{plural(repairs.left_out, 'message')} not looked at: too many, or with too many rows.")
    return section(
        "What may be behind them",
        element(
            "p",
            "Each explanation is a guess: the smallest change to the log, to the definitions or to what clients did"
            " under which the rules predict these deliveries. The cheapest comes first.",
            class_="note",
        ),
        *(_repair(repair) for repair in repairs.found[:REPAIRS_SHOWN]),
        *(element("p", line, class_="note") for line in rest),
        id_="repairs",
    )


def _repair(repair: Repair) -> Html:
    several = len(repair.likely) > 1
    texts = [
        element("p", "or: " if at else "either: " if several else "", e.text) for at, e in enumerate(repair.likely)
    ]
    title = f"{plural(repair.deliveries, 'delivery', 'deliveries')} of {plural(repair.messages, 'message')}"
    return element(
        "div",
        element("h3", title),
        *texts,
        element("p", "The trace cannot tell which.", class_="note") if several else "",
        details(f"Example: message {repair.message}", _rows(repair.rows)),
        class_="cause",
    )


def _rows(rows: tuple[ShownRow, ...]) -> Html:
    cells = [(row.role, f"{row.file}:{row.line}", row.moment, row.where, row.address, row.deaths) for row in rows]
    return join([table(["", "line", "time (UTC)", "row", "sent to", "deaths, as x-death lists them"], cells)])
