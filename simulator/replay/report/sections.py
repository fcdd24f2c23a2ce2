"""Writes the sections of a report: losses, disagreements, repairs, coverage, counters, what was not checked."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

from dlx.releases import RELEASES, TABLE, VERSIONS, Row, known_release, stand_in_remark
from simulator.markup import Html, details, element, join, number, plural, section, table
from simulator.replay.checks.differences import ABSENT
from simulator.replay.checks.explain import ROUTED_QUEUES
from simulator.replay.coverage.catalogue import RULE_MEANINGS
from simulator.replay.coverage.totals import Coverage, headline, queue_line, rules_untried
from simulator.replay.repair.repair_report import Repair, Repairs, ShownRow
from simulator.replay.report.data import Example, FieldDiffers, MessageLife, ReportData
from simulator.replay.report.grouping import losing_queues, totals_by_queue
from simulator.replay.report.pictures import several_vhosts
from simulator.replay.results.counters import Balance, BalanceEntry, remarks, sentences
from simulator.replay.results.held_up import hold_up_text
from simulator.replay.results.summary import LostMessages, Summary
from simulator.replay.rows.verdict_words import MEANINGS

# Writes the section on what the broker counted, and the replay did or did not find; losses first.


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
        details("What this assumes", assumed),
        id_="books",
    )


def _title(balance: Balance) -> str:
    if balance.unexplained:
        return f"The books of the broker: {plural(balance.unexplained, 'dead letter')} unexplained"
    if balance.lost:
        return f"{plural(balance.lost, 'message')} lost without a trace"
    return "The books of the broker balance"


def _row(entry: BalanceEntry, balance: Balance) -> tuple[object, ...]:
    told = join(element("div", each) for each in sentences(entry, balance))
    says = told if entry.residual else "every one is in the log"
    strategy = "none" if entry.lost else entry.strategy.replace("_", " ")
    where = f"{entry.queue_type} queues"
    return entry.reason, where, strategy, entry.counted, entry.reconstructed, entry.residual, says


# Writes the section on the rules that the log has exercised, and those that it has not.


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


# Writes the search for a message, whose timeline the script of the page shows, and links to messages.


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
        order = "first those lost or possibly lost, then those not as predicted, then those that died"
        note += f" of {number(every)}: {order}"
    note += ". What a consumer publishes again with the same id is in the same timeline. "
    note += "A step without a line of the log follows from the rules."
    if kept < every:
        note += " For any other, use dlx explain LOG --message ID."
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


# How serious a difference is: a message elsewhere is worse than another count, and that than one header more.
#
# The fields of a queue with the same cause are judged by their example.


TITLES = ("Lost, or elsewhere", "Counts and histories", "Other values", "Headers added or missing")
ELSEWHERE, COUNTS, VALUES, HEADERS = range(len(TITLES))
_ELSEWHERE = ("path", "exchange", "routing_keys", "expiration", ROUTED_QUEUES)
_COUNTS = ("x-death length", "x-death", "x-delivery-count", "x-acquired-count")
_OF_A_DEATH = (".count", ".queue", ".reason", ".exchange")


def seriousness(differs: FieldDiffers) -> int:
    """Return the place of the difference in ``TITLES``: 0 is the most serious."""
    field = differs.field
    if field.startswith(_ELSEWHERE):
        return ELSEWHERE
    if ABSENT in (differs.expected, differs.seen):
        return HEADERS
    if field in _COUNTS or field.endswith(_OF_A_DEATH):
        return COUNTS
    return VALUES


def seriousness_of_cause(found: Iterable[FieldDiffers]) -> int:
    """Return the place in ``TITLES`` of differences with one cause: that of the worst, or of most if none is bad."""
    counts: Counter[int] = Counter()
    for each in found:
        counts[seriousness(each)] += each.count
    bad = [rank for rank in (ELSEWHERE, COUNTS) if counts[rank]]
    return bad[0] if bad else max(counts, key=lambda rank: (counts[rank], -rank), default=VALUES)


# Writes the section on disagreements, by cause and with one example each, and the section on the release table.


FIELDS_SHOWN = 8
"""How many fields of a cause are visible at once, each with an example; a click shows the others."""
_ROWS = {row.name: row for row in TABLE}


def findings_section(data: ReportData, shares: Html) -> Html:
    """Return the section on how far log and rules agree, the most serious differences first.

    ``shares`` shows how many deliveries have which verdict.
    """
    parts = [*_elsewhere_and_other(data), *_ambiguous(data)]
    if not parts:
        parts = [element("p", "Every delivery agrees with the prediction.")]
    return section("Agreement", shares, *parts, untested_list(data.summary), id_="findings")


def _elsewhere_and_other(data: ReportData) -> list[Html]:
    """Return what is unexplained and what differs, by how serious it is; what is unexplained is elsewhere."""
    by_cause: defaultdict[tuple[str, ...], list[FieldDiffers]] = defaultdict(list)
    for each in data.differences:
        by_cause[each.behaviours].append(each)
    by_rank: defaultdict[int, list[Html]] = defaultdict(list)
    by_rank[ELSEWHERE] += _unexplained(data)
    for cause in data.causes:
        fields = by_cause[cause.behaviours]
        by_rank[seriousness_of_cause(fields)].append(_cause(data, cause.behaviours, cause.count, fields))
    parts = [element("p", _upgrade(data))] if data.causes or data.unexplained else []
    for rank in sorted(rank for rank, found in by_rank.items() if found):
        parts += [element("h3", TITLES[rank], class_="rank"), *by_rank[rank]]
    if data.cut & {"differences", "causes"}:
        parts.append(element("p", "The report lists only the most frequent ones.", class_="note"))
    return parts


def _upgrade(data: ReportData) -> str:
    """Explain what the differences mean if another release than that of the rules wrote the log."""
    captured = data.captured_on
    if captured is None:
        return "The definitions do not say which release wrote the log."
    if known_release(captured) == data.rules:
        remark = stand_in_remark(captured)
        return (
            f"RabbitMQ {captured} wrote the log{f'; {remark}' if remark else ', and its rules made the predictions'}."
        )
    return (
        f"RabbitMQ {captured} wrote the log, and the rules of {data.rules} made the predictions."
        " A difference with a cause in the release table is a change between the two."
    )


def _cause(data: ReportData, behaviours: tuple[str, ...], count: int, fields: list[FieldDiffers]) -> Html:
    title: Any = "No row of the release table explains this"
    meanings: list[Html] = []
    if behaviours:
        title = _links(behaviours)
        meanings = [element("p", _ROWS[name].meaning) for name in behaviours if name in _ROWS]
    by_field: defaultdict[str, list[FieldDiffers]] = defaultdict(list)
    for each in fields:
        by_field[each.field].append(each)
    counts = {field: -sum(each.count for each in same) for field, same in by_field.items()}
    ranked = sorted(
        by_field.values(), key=lambda same: (min(map(seriousness, same)), counts[same[0].field], same[0].field)
    )
    examples = [_field(data, same) for same in ranked]
    return element(
        "div",
        element("h3", title, " — ", plural(count, "delivery", "deliveries")),
        *meanings,
        *examples[:FIELDS_SHOWN],
        details(plural(len(examples) - FIELDS_SHOWN, "more field"), join(examples[FIELDS_SHOWN:]))
        if len(examples) > FIELDS_SHOWN
        else "",
        details("By queue", _by_queue(fields)),
        class_="cause",
    )


def _links(behaviours: tuple[str, ...]) -> Html:
    """Return the behaviours, each with a link to its row of the release table below."""
    return join([element("a", name, href=f"#behaviour-{name}") for name in behaviours], ", ")


def _field(data: ReportData, same: list[FieldDiffers]) -> Html:
    """Return one field, with the first example from the queue in which it differs most."""
    most = same[0]
    total = sum(each.count for each in same)
    where = f", {plural(total, 'time')} in {plural(len(same), 'queue')}"
    return element(
        "div",
        element("div", element("code", most.field), element("span", where, class_="muted")),
        versus(most.expected, most.seen),
        element("div", "Example: ", _example(data, most.example), class_="note"),
        class_="field",
    )


def versus(expected: str, seen: str) -> Html:
    """Return the expected value above the seen one."""
    return element(
        "div",
        element("span", "expected", class_="muted"),
        element("pre", expected),
        element("span", "seen", class_="muted"),
        element("pre", seen),
        class_="versus",
    )


def _example(data: ReportData, example: Example) -> Html:
    host = f" of {example.vhost}" if several_vhosts(data) else ""
    held = any(each.message == example.message for each in data.messages)
    return join(
        [
            element("code", _line(example)),
            ", message ",
            message_link(example.message) if held else example.message,
            f", queue {example.queue}{host}",
        ]
    )


def _line(example: Example) -> str:
    return f"{example.file}:{example.line}"


def _by_queue(fields: list[FieldDiffers]) -> Html:
    rows = [
        (each.example.queue, each.field, each.expected, each.seen, _line(each.example), each.count) for each in fields
    ]
    return table(["queue", "field", "expected", "seen", "example", "deliveries"], rows)


def _unexplained(data: ReportData) -> list[Html]:
    if not data.unexplained:
        return []
    rows = [(each.why, _links(each.behaviours), _example(data, each.example), each.count) for each in data.unexplained]
    more = "unexplained" in data.cut
    return [
        element("h3", f"Unexplained — {plural(data.summary.unexplained, 'delivery', 'deliveries')}"),
        table(["why", "cause", "example", "deliveries"], rows),
        element("p", "The report lists only the most frequent ones.", class_="note") if more else Html(""),
    ]


def _ambiguous(data: ReportData) -> list[Html]:
    if not data.ambiguous:
        return []
    rows = [
        (join(each.alternatives, Html("<br>or ")), _example(data, each.example), each.count) for each in data.ambiguous
    ]
    return [
        element("h3", f"Ambiguous — {plural(data.summary.ambiguous, 'delivery', 'deliveries')}"),
        element(
            "p",
            "The delivery is as predicted, but several paths lead to it. The totals above count the first one.",
            class_="note",
        ),
        table(["paths", "example", "deliveries"], rows),
    ]


def table_section(data: ReportData) -> Html:
    """Return the rows of the release table that cause differences; empty if there are none."""
    found = [*(each.behaviours for each in data.causes), *(each.behaviours for each in data.unexplained)]
    named = {name for behaviours in found for name in behaviours}
    rows = [row for row in TABLE if row.name in named]
    if not rows:
        return Html("")
    heads = ["behaviour", *(VERSIONS[name] for name in RELEASES), "evidence"]
    lines = join(_behaviour(row, data.rules) for row in rows)
    head = join(element("th", head) for head in heads)
    return section(
        "The release table",
        element(
            "p",
            "These behaviours cause the differences. The marked column is the release whose rules were used.",
            class_="note",
        ),
        element(
            "div",
            element("table", element("thead", element("tr", head)), element("tbody", lines)),
            class_="scroll",
        ),
        id_="behaviours",
    )


def _behaviour(row: Row, rules: str) -> Html:
    values = join(
        element("td", _shown(value), class_="now" if name == rules else None)
        for name, value in zip(RELEASES, row.values, strict=True)
    )
    name = element("td", element("b", row.name), element("div", row.meaning, class_="note"))
    return element("tr", name, values, element("td", row.evidence, class_="note"), id=f"behaviour-{row.name}")


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    if isinstance(value, frozenset):
        return ", ".join(sorted(value)) or "none"
    return number(value) if isinstance(value, int) else str(value)


# Writes the section on losses, the first of a report: how many, where, and why, each with a few of its messages.


EXAMPLES_SHOWN = 5


def losses_section(data: ReportData) -> Html:
    """Return the section on what is lost or held, or may be, and what may only wait; one sentence if nothing is."""
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
    """Yield lines for each queue and rule that loses or holds messages, or may, and for what these hold up."""
    certain = [("lost", each, each.lost) for each in data.lost] + [("held", each, each.held) for each in data.lost]
    for end, each, count in certain:
        if count:
            told = element("b", f"{number(count)} {end}", class_="bad")
            queue = element("code", _named(each.vhost, each.queue, several))
            yield element("li", told, " in ", queue, _because(each), ".", _examples(data, each, end))
    yield from (element("li", f"{each}.") for each in hold_up_text(data.summary.holding))
    perhaps = [("lost", each, each.may_be_lost) for each in data.lost]
    for end, each, count in [*perhaps, *(("held", each, each.may_be_held) for each in data.lost)]:
        if not count:
            continue
        queue = element("code", _named(each.vhost, each.queue, several))
        there = each.delivered_there == count
        told = element("b", f"{number(count)} {'last delivered' if there else 'not seen again'}")
        where = [" in ", queue] if there else [f", {end} if they died in ", queue]
        doubt = f": {end} if they were rejected" if there else ""
        yield element(
            "li", element("span", told, class_="open"), *where, _because(each), doubt, ".",
            _examples(data, each, f"may be {end}"),
        )  # fmt: skip


def _because(each: LostMessages) -> str:
    """Return the rule behind a dead end as the rest of a sentence that names the queue."""
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


# Writes the section on what may be behind the deliveries that are not as predicted, each with the rows around it.


REPAIRS_SHOWN = 20


def repairs_section(repairs: Repairs) -> Html:
    """Return the section; empty if every delivery is as predicted."""
    if not repairs.found and not repairs.unexplained:
        return Html("")
    hidden = len(repairs.found) - REPAIRS_SHOWN
    rest = [f"{plural(hidden, 'further explanation')} not listed here; summary.json has all."] if hidden > 0 else []
    if repairs.unexplained:
        rest.append(f"{plural(repairs.unexplained, 'delivery', 'deliveries')} without an explanation.")
    if repairs.left_out:
        rest.append(f"{plural(repairs.left_out, 'message')} not examined: too many, or with too many rows.")
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
        element("p", "The trace does not show which.", class_="note") if several else "",
        details(f"Example: message {repair.message}", _rows(repair.rows)),
        class_="cause",
    )


def _rows(rows: tuple[ShownRow, ...]) -> Html:
    cells = [(row.role, f"{row.file}:{row.line}", row.moment, row.where, row.address, row.deaths) for row in rows]
    return table(["", "line", "time (UTC)", "row", "sent to", "deaths, as x-death lists them"], cells)


# Writes the section on what was not checked, by queue and setting.


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


# Writes the settings that the log did not put to the test, to fold out.


def untested_list(summary: Summary) -> Html:
    """Return the settings by queue; empty if there are none, or they were not searched for."""
    if not summary.untested:
        return Html("")
    note = (
        "Every log leaves some out. If these settings were other than the definitions say, the deliveries would"
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
