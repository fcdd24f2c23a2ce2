"""Writes the section on losses, the first of a report: how many, where, and why; and the search for a message."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from simulator.markup import Html, details, element, join, number, plural, section, table
from simulator.replay.report.data import MessageLife, ReportData
from simulator.replay.report.grouping import totals_by_queue
from simulator.replay.report.pictures import several_vhosts
from simulator.replay.summary import LostMessages

EXAMPLES_SHOWN = 5


def losses_section(data: ReportData) -> Html:
    """Return the section on what was lost or may be, and what the log leaves open; one sentence if there is nothing."""
    several = several_vhosts(data)
    found = [*_lost(data, several), *_unrouted(data, several)]
    unseen = list(_unseen(data, several))
    open_ = details("Came in and were not seen again", table(["queue", "messages", ""], unseen)) if unseen else ""
    if not found:
        none = element("p", "Nothing in this log points to a loss." if not unseen else "No rule says that any is lost.")
        return section("Losses", none, open_, id_="losses")
    note = "A trace has no line for a loss: it follows from where a message was seen last, and from the rules."
    listed = element("ul", *found, class_="losses")
    return section("Losses", element("p", note, class_="note"), listed, open_, id_="losses")


def _lost(data: ReportData, several: bool) -> Iterator[Html]:
    """Yield a line for each queue and rule by which messages are lost, or may be."""
    for each in data.lost:
        examples = _examples(data.messages, each.vhost, each.queue)
        first = element("span", f"First at {each.file}:{each.line}.", class_="muted")
        count = element("div", _counted(each, element("code", _named(each.vhost, each.queue, several))))
        yield element("li", count, element("div", each.why), element("div", examples, first))


def _counted(each: LostMessages, queue: Html) -> Html:
    lost = join([element("b", f"{number(each.lost)} lost", class_="bad"), " in ", queue])
    if not each.may_be_lost:
        return lost
    seen = element("b", f"{number(each.may_be_lost)} last delivered", class_="open")
    doubtful = join([seen, *([" there"] if each.lost else [" in ", queue]), ", lost if they were rejected"])
    return join([lost, doubtful], "; ") if each.lost else doubtful


def _examples(lives: tuple[MessageLife, ...], vhost: str, queue: str) -> Html:
    """Return links to a few of the messages that end there."""
    own = [each for each in lives if (each.vhost, each.queue) == (vhost, queue)][:EXAMPLES_SHOWN]
    links = (element("a", each.message, href=f"#message={_quoted(each.message)}") for each in own)
    return join(["Messages: ", join(links, ", "), ". "]) if own else Html("")


def _quoted(name: str) -> str:
    return quote(name, safe="", errors="replace")


def _unrouted(data: ReportData, several: bool) -> Iterator[Html]:
    for each in data.publishes or ():
        if each.queue is None:
            count = element("b", f"{number(each.count)} published", class_="bad")
            where = element("code", _named(each.vhost, each.exchange or "(default)", several))
            yield element("li", element("div", count, " to the exchange ", where, ", which routed them to no queue"))


def _unseen(data: ReportData, several: bool) -> Iterator[tuple[object, ...]]:
    totals = totals_by_queue(data)
    for vhost, queue in sorted(totals, key=lambda key: (-totals[key].unseen, key)):
        if totals[vhost, queue].unseen:
            count = f"at least {number(totals[vhost, queue].unseen)} not seen again"
            why = "neither they nor their dead letters were delivered: dropped, or still in the queue"
            yield _named(vhost, queue, several), count, why


def _named(vhost: str, name: str, several: bool) -> str:
    return f"{vhost}: {name}" if several else name


def messages_section(data: ReportData) -> Html:
    """Return the search for a message and the place of its timeline, which the script fills."""
    if not data.messages:
        return Html("")
    kept, every = len(data.messages), data.summary.messages
    note = f"The page holds {plural(kept, 'message')}"
    if kept < every:
        order = "first those that are lost or may be, then those not as predicted, then those that died"
        note += f" of {number(every)}: {order}"
    note += ". What a consumer publishes again with the same id stands in the same timeline."
    if kept < every:
        note += " Of any other, dlx explain LOG --message ID tells."
    label = "Message id"
    find = element("input", type="search", id="find", placeholder=label, aria_label=label, autocomplete="off")
    return section(
        "A message",
        element("p", note, class_="note"),
        element("div", find, class_="find"),
        element("div", id="hits", aria_live="polite"),
        element("div", id="life", tabindex="-1"),
        id_="messages",
    )
