"""Writes the section on disagreements, by cause and with one example each, and the section on the release table."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from dlx.releases import RELEASES, TABLE, VERSIONS, Row, known_release, stand_in_remark
from simulator.markup import Html, details, element, join, number, plural, section, table
from simulator.replay.report.data import Example, FieldDiffers, ReportData
from simulator.replay.report.messages import message_link
from simulator.replay.report.pictures import several_vhosts
from simulator.replay.report.seriousness import ELSEWHERE, TITLES, seriousness, seriousness_of_cause
from simulator.replay.report.untested import untested_list

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
