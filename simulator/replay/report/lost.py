"""Writes the section on losses, the first of a report: how many, where, and why, each with a few of its messages."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.markup import Html, details, element, join, number, section
from simulator.replay.report.data import MessageLife, ReportData
from simulator.replay.report.grouping import losing_queues, totals_by_queue
from simulator.replay.report.messages import message_link
from simulator.replay.report.pictures import several_vhosts
from simulator.replay.summary import LostMessages

EXAMPLES_SHOWN = 5


def losses_section(data: ReportData) -> Html:
    """Return the section on what was lost or may be, and what may only wait; one sentence if there is nothing."""
    several = several_vhosts(data)
    found = [*_lost(data, several), *_unrouted(data, several), *_vanished(data, several)]
    waiting = list(_waiting(data, several))
    open_ = details("Not seen again, but perhaps only waiting, as in a parking queue", element("ul", *waiting))
    if not found:
        none = element("p", "Nothing in this log points to a loss.")
        return section("Losses", none, open_ if waiting else "", id_="losses")
    note = "A trace has no line for a loss: it follows from where a message was seen last, and from the rules."
    listed = element("ul", *found, class_="losses")
    return section("Losses", element("p", note, class_="note"), listed, open_ if waiting else "", id_="losses")


def _lost(data: ReportData, several: bool) -> Iterator[Html]:
    """Yield lines for each queue and rule by which messages are lost, or may be."""
    for each in data.lost:
        queue = element("code", _named(each.vhost, each.queue, several))
        because = _because(each)
        if each.lost:
            count = element("b", f"{number(each.lost)} lost", class_="bad")
            yield element("li", count, " in ", queue, because, ".", _examples(data, each, "lost"))
        if each.may_be_lost:
            there = each.delivered_there == each.may_be_lost
            count = element("b", f"{number(each.may_be_lost)} {'last delivered' if there else 'not seen again'}")
            where = [" in ", queue] if there else [", lost if they died in ", queue]
            doubt = ": lost if they were rejected" if there else ""
            yield element(
                "li", element("span", count, class_="open"), *where, because, doubt, ".",
                _examples(data, each, "may be lost"),
            )  # fmt: skip


def _because(each: LostMessages) -> str:
    """Return the rule behind a loss as the rest of a sentence that names the queue."""
    why = each.why.replace(f" of queue '{each.queue}'", "", 1)
    return f", whose {why}" if why.startswith("dead-letter ") else f": {why}"


def _examples(data: ReportData, lost: LostMessages, ending: str) -> Html:
    """Return links to a few of the messages that end so, and where the first of all of them is in the log."""
    own = [each for each in data.messages if _ends(each, lost, ending)][:EXAMPLES_SHOWN]
    links = join((message_link(each.message) for each in own), ", ")
    named = join([element("span", "Messages: ", links), ". "]) if own else ""
    first = element("span", f"First at {lost.file}:{lost.line}.", class_="muted") if lost.file else ""
    return element("div", named, first)


def _ends(life: MessageLife, lost: LostMessages, ending: str) -> bool:
    return (life.vhost, life.queue, life.ending, life.why) == (lost.vhost, lost.queue, ending, lost.why)


def _unrouted(data: ReportData, several: bool) -> Iterator[Html]:
    for each in data.publishes or ():
        if each.queue is None:
            count = element("b", f"{number(each.count)} published", class_="bad")
            where = element("code", _named(each.vhost, each.exchange or "(default)", several))
            yield element("li", count, " to the exchange ", where, ", which routed them to no queue.")


def _vanished(data: ReportData, several: bool) -> Iterator[Html]:
    """Yield what was not seen again after queues that lose messages."""
    for name, count in _unseen(data, several, losing=True):
        least = element("b", f"At least {number(count)}", class_="open")
        why = "neither they nor their dead letters were delivered. Some may be among those above."
        yield element("li", least, " not seen again after ", element("code", name), f": {why}")


def _waiting(data: ReportData, several: bool) -> Iterator[Html]:
    for name, count in _unseen(data, several, losing=False):
        yield element("li", f"at least {number(count)} not seen again after ", element("code", name))


def _unseen(data: ReportData, several: bool, *, losing: bool) -> Iterator[tuple[str, int]]:
    """Yield how many copies came into a queue that loses messages, or does not, and were not seen again."""
    totals = totals_by_queue(data)
    loses = {vhost: losing_queues(data, vhost) for vhost in {vhost for vhost, _ in totals}}
    for vhost, queue in sorted(totals, key=lambda place: (-totals[place].unseen, place)):
        count = totals[vhost, queue].unseen
        if count and (queue in loses[vhost]) == losing:
            yield _named(vhost, queue, several), count


def _named(vhost: str, name: str, several: bool) -> str:
    return f"{vhost}: {name}" if several else name
