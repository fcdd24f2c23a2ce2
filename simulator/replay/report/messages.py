"""Writes the search for a message, whose timeline the script of the page shows, and links to messages."""

from __future__ import annotations

from urllib.parse import quote

from simulator.markup import Html, element, number, plural, section
from simulator.replay.report.data import ReportData


def message_link(message: str) -> Html:
    """Return the link to a message's timeline, in the same page."""
    return element("a", message, href=f"#message={quote(message, safe='', errors='replace')}")


def messages_section(data: ReportData) -> Html:
    """Return the search for a message and the place of its timeline, which the script fills."""
    if not data.messages:
        return Html("")
    kept, every = len(data.messages), data.summary.messages
    note = f"The page holds {plural(kept, 'message')}"
    if kept < every:
        order = "first those that are lost or may be, then those not as predicted, then those that died"
        note += f" of {number(every)}: {order}"
    note += ". What a consumer publishes again with the same id stands in the same timeline. "
    note += "A step without a line of the log follows from the rules."
    if kept < every:
        note += " Of any other, dlx explain LOG --message ID tells."
    label = "Message id, queue, or what happened"
    find = element("input", type="search", id="find", placeholder=label, aria_label=label, autocomplete="off")
    return section(
        "A message",
        element("p", note, class_="note"),
        element("div", find, class_="find"),
        element("div", id="hits", aria_live="polite"),
        element("div", id="life", tabindex="-1"),
        id_="messages",
    )
