"""Writes the section on the rules that the log has exercised, and those that it has not."""

from __future__ import annotations

from simulator.markup import Html, details, element, section, table
from simulator.replay.coverage.catalogue import RULE_MEANINGS
from simulator.replay.coverage.totals import Coverage
from simulator.replay.coverage.words import headline, queue_line, rules_untried


def coverage_section(coverage: Coverage | None) -> Html:
    """Return the section; empty where it is not known what the log has exercised."""
    if coverage is None:
        return Html("")
    note = (
        "Deliveries that agree show that the broker keeps the rules behind them. They say nothing about the rules that"
        " no delivery needed."
    )
    rules = [(name, RULE_MEANINGS[name]) for name in coverage.missing]
    queues = [(each.vhost, each.queue, *queue_line(each)) for each in coverage.by_queue]
    return section(
        headline(coverage),
        element("p", note, rules_untried(coverage), class_="note"),
        details("Rules that this log has not exercised", table(["rule", "what it says"], rules)) if rules else "",
        details("Deaths by queue", table(["vhost", "queue", "seen", "not seen"], queues)) if queues else "",
        id_="coverage",
    )
