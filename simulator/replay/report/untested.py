"""Writes the settings that the log did not put to the test, to fold out."""

from __future__ import annotations

from simulator.markup import Html, details, element, join, plural, table
from simulator.replay.summary import Summary


def untested_list(summary: Summary) -> Html:
    """Return the settings by queue; empty if there are none, or nobody looked for them."""
    if not summary.untested:
        return Html("")
    note = (
        "Every log leaves some out. Where these settings are other than the definitions say, the deliveries would"
        " agree as well."
    )
    count = sum(map(len, summary.untested.values())) + summary.untested_more
    rows = [(queue, each) for queue, settings in summary.untested.items() for each in settings]
    cut = f"Further queues have {summary.untested_more:,} more."
    return details(
        f"Not tested by this log: {plural(count, 'setting')}",
        join(
            [
                element("p", note, class_="note"),
                table(["queue", "setting in force"], rows),
                element("p", cut, class_="note") if summary.untested_more else Html(""),
            ]
        ),
    )
