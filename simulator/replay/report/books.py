"""Writes the section on what the broker counted, and the replay did or did not find; losses first."""

from __future__ import annotations

from simulator.markup import Html, details, element, join, plural, section, table
from simulator.replay.balance import Balance, Entry
from simulator.replay.balance_texts import remarks, sentences


def books_section(balance: Balance | None) -> Html:
    """Return the section; empty where the broker's counters were not given."""
    if balance is None:
        return Html("")
    heads = ["died", "in", "dead-letter strategy", "counted", "reconstructed", "residual", "what it is"]
    rows = [_row(entry, balance) for entry in balance.entries]
    found = table(heads, rows) if rows else element("p", "The broker counted no dead letters.")
    note = (
        "The broker counts every message that dies. The log shows a death only if a later delivery has it in its"
        " history. The residual is what no delivery shows."
    )
    assumed = element("ul", join(element("li", line) for line in remarks(balance)))
    return section(
        _title(balance),
        element("p", note, class_="note"),
        found,
        details("What this takes for granted", assumed),
        id_="books",
    )


def _title(balance: Balance) -> str:
    if balance.unexplained:
        return f"The books of the broker: {plural(balance.unexplained, 'dead letter')} unexplained"
    if balance.lost:
        return f"{plural(balance.lost, 'message')} lost without a trace"
    return "The books of the broker balance"


def _row(entry: Entry, balance: Balance) -> tuple[object, ...]:
    says = join(map(_sentence, sentences(entry, balance))) if entry.residual else "every one is in the log"
    strategy = "none" if entry.lost else entry.strategy.replace("_", " ")
    where = f"{entry.queue_type} queues"
    return entry.reason, where, strategy, entry.counted, entry.reconstructed, entry.residual, says


def _sentence(sentence: str) -> Html:
    return element("div", sentence)
