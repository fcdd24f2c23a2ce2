"""Writes the report as one HTML page that needs no network. Without scripts it lacks pictures and messages alone."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import msgspec
import numpy as np
from plotly.offline import get_plotlyjs

from simulator.markup import Html, details, element, join, number, plural, section, table, text
from simulator.pictures.html import timeline_css
from simulator.replay.report.data import ReportData
from simulator.replay.report.grouping import ARROWS_MAX, MIXED, QueueGroup, arrows, groups, totals_by_queue
from simulator.replay.report.message_lives import as_json
from simulator.replay.report.pictures import (
    COLOURS,
    colour,
    deaths_picture,
    flow_picture,
    several_vhosts,
    utc,
)
from simulator.replay.report.sections import (
    books_section,
    coverage_section,
    findings_section,
    losses_section,
    messages_section,
    repairs_section,
    table_section,
    unchecked_section,
)
from simulator.replay.results.headline import headline
from simulator.replay.rows.verdict_words import VERDICTS, Name

GROUPS_SHOWN = 100
PATHS_SHOWN = 40
ROWS_SHOWN = 500
MEANINGS: dict[Name, str] = {
    "agree": "agree: delivered exactly as predicted",
    "ambiguous": "ambiguous: delivered as predicted, but several paths are possible",
    "differ": "differ: delivered, but not as predicted",
    "unexplained": "unexplained: no path that the rules allow leads there",
}
BYTES_MAX = 2_000_000
LIVES_MIN = 100
"""A page is smaller than this, unless it is larger with the lives of only this number of messages."""
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


def page(data: ReportData) -> str:
    """Return the page as HTML, with the lives of as many messages as fit. The same data makes the same page."""
    shown = groups(data)[:GROUPS_SHOWN]
    figures = _figures(data, shown)
    while True:
        whole = _page(data, shown, {**figures, "messages": as_json(data.messages)})
        if len(whole.encode()) < BYTES_MAX or len(data.messages) <= LIVES_MIN:
            return whole
        data = msgspec.structs.replace(data, messages=data.messages[: max(LIVES_MIN, len(data.messages) * 7 // 8)])


def _page(data: ReportData, shown: tuple[QueueGroup, ...], figures: Mapping[str, Any]) -> str:
    body = element(
        "main",
        _headline(data),
        losses_section(data),
        books_section(data.balance),
        messages_section(data),
        _paths(data),
        _flows(data, shown),
        _times(data),
        findings_section(data, _shares(data)),
        repairs_section(data.repairs),
        unchecked_section(data),
        coverage_section(data.coverage),
        _vanishing(data),
        table_section(data),
        _reading(),
    )
    title = f"Dead letters replayed under RabbitMQ {data.rules}"
    return document(title, body, figures)


def document(title: str, body: Html, figures: Mapping[str, Any]) -> str:
    """Return a whole page that needs no network; ``figures`` are drawn by ``page.js``."""
    packed = _packed(msgspec.json.encode(figures))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"{element('title', title)}<style>{_file('page.css')}{timeline_css()}</style></head>\n<body>{body}\n"
        f'<script type="text/plain" id="figures">{packed}</script>\n'
        f'<script type="text/plain" id="plotly">{_plotly()}</script>\n'
        f"<script>{_file('page.js')}</script></body></html>\n"
    )


@cache
def _plotly() -> str:
    """Return plotly's script, which is 4.8 MB as it is."""
    return _packed(get_plotlyjs().encode())


def _packed(content: bytes) -> str:
    """Return the content compressed, as text that ``page.js`` reads: two characters are 13 bits, a last one six.

    These are the 93 characters from ``!`` to ``~`` without ``<``, so nothing in them can end their element.
    """
    bits = np.unpackbits(np.frombuffer(zlib.compress(content, 9), np.uint8))
    padded = np.pad(bits, (0, -len(bits) % 13)).reshape(-1, 13)
    values = padded @ (1 << np.arange(12, -1, -1, dtype=np.uint16))
    digits = np.stack(np.divmod(values, 93), axis=1).ravel()
    if 0 < len(bits) % 13 <= 6:
        digits = np.append(digits[:-2], values[-1] >> 7)
    codes = digits + ord("!")
    codes += codes >= ord("<")
    return codes.astype(np.uint8).tobytes().decode("ascii")


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _figures(data: ReportData, shown: tuple[QueueGroup, ...]) -> dict[str, Any]:
    """Return the figures, by the place where each is drawn."""
    flows = [{"caption": _caption(group), "figure": plain_figure(flow_picture(group))} for group in shown]
    found: dict[str, Any] = {"flows": flows}
    if data.deaths:
        found["deaths"] = plain_figure(deaths_picture(data))
    return found


def plain_figure(figure: Any) -> Any:
    """Return a figure of plotly as plain JSON values."""
    return msgspec.json.decode(figure.to_json())


def _headline(data: ReportData) -> Html:
    summary, found = data.summary, headline(data.summary, data.rules, data.balance, data.lost)
    tiles = {
        "messages": summary.messages,
        "deliveries observed": summary.deliveries,
        "dead letters reconstructed": summary.dead_letters,
        "queues seen": len(totals_by_queue(data)),
    }
    if summary.broken_lines:
        tiles["broken lines left out"] = summary.broken_lines
    return element(
        "section",
        element("h1", found.text),
        element("p", _about(data), class_="muted"),
        element("ul", *(element("li", each) for each in found.more)) if found.more else "",
        element(
            "div",
            *(element("div", element("b", number(n)), element("span", name)) for name, n in tiles.items()),
            class_="tiles",
        ),
        _contents(data),
        id="verdict",
        class_=found.tone,
    )


def _contents(data: ReportData) -> Html:
    """Return links to the parts of the page."""
    parts = {"losses": "Losses", "messages": "Find a message", "paths": "Paths", "flows": "Pictures", "times": "Times"}
    parts |= {"findings": "Agreement", "vanished": "Settings that lose messages"}
    if not data.messages:
        del parts["messages"]
    return element("nav", *(element("a", title, href=f"#{name}") for name, title in parts.items()))


def _shares(data: ReportData) -> Html:
    """Return how many deliveries have which verdict: the share that agrees, a bar, and in words."""
    counts = {name: getattr(data.summary, name) for name in VERDICTS}
    seen: list[Name] = [name for name in VERDICTS if counts[name]] or ["agree"]
    bar = join(element("i", style=f"flex:{counts[name]};background:var(--{name})") for name in seen)
    legend = join(_key(f"var(--{name})", f"{number(counts[name])} {MEANINGS[name]}") for name in seen)
    told = element("p", element("b", _share(data), class_="share"), " of deliveries agree. ", _cause(data))
    return join([told, element("div", bar, class_="bar"), element("div", legend, class_="legend")])


def _cause(data: ReportData) -> Html:
    """Return whether the release table explains the deliveries that are not as predicted; empty if there are none."""
    if data.summary.explained:
        return Html("")
    known = sum(each.count for each in data.unexplained if each.behaviours)
    unknown = data.summary.unexplained - known
    unknown += sum(cause.count for cause in data.causes if not cause.behaviours)
    if unknown == 0:
        return text("The release table explains all that are not as predicted.")
    return text(f"The release table does not explain {number(unknown)} that are not as predicted.")


def _share(data: ReportData) -> str:
    """Return the share of deliveries that agree; only if all do, it is 100 %, and without any there is none."""
    if not data.summary.deliveries:
        return "none"
    if data.summary.agree == data.summary.deliveries:
        return "100 %"
    return f"{data.summary.agreement_percent:.2f} %"


def _about(data: ReportData) -> str:
    names = [file.file for file in data.files]
    logs = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    version = f" of RabbitMQ {data.captured_on}" if data.captured_on else ""
    times = ""
    if data.span_us is not None:
        first, last = (utc(time_us) for time_us in data.span_us)
        end = f"{last:%H:%M:%S}" if first.date() == last.date() else f"{last:%Y-%m-%d %H:%M:%S}"
        times = f"; {first:%Y-%m-%d %H:%M:%S} to {end} UTC"
    return f"{logs or 'No log'} against {data.definitions}{version}{times}"


def _flows(data: ReportData, shown: tuple[QueueGroup, ...]) -> Html:
    legend = join(_key(shade, "several reasons" if name == MIXED else name) for name, shade in COLOURS.items())
    several = several_vhosts(data)
    buttons = join(_button(index, group, several) for index, group in enumerate(shown))
    hidden = len(groups(data)) - len(shown)
    more = f"The table also has {plural(hidden, 'group')} with fewer dead letters."
    return section(
        "Where the messages went",
        element(
            "p",
            "Square boxes are queues, round boxes are exchanges, and dashed boxes are outside the group. The width of"
            " an arrow shows its share of the messages. An arrow from queue to queue goes through the default"
            " exchange.",
            class_="note",
        ),
        element("div", legend, class_="legend"),
        element(
            "div",
            element(
                "div",
                buttons,
                element("p", more, class_="note") if hidden else "",
                class_="groups",
            ),
            element(
                "div",
                element("div", element("div", id="flow", class_="plot drawing"), class_="scroll"),
                element("p", id="flow-caption", class_="note"),
            ),
            class_="flows",
        ),
        details("All flows as a table", _flow_table(data)),
        id_="flows",
    )


def _key(shade: str, name: str) -> Html:
    """Return one entry of a legend."""
    return element("span", element("i", style=f"background:{shade}"), name)


def _button(index: int, group: QueueGroup, several: bool) -> Html:
    host = f"{group.vhost}: " if several else ""
    facts = [plural(group.dead_letter_count, "dead letter"), plural(len(group.queues), "queue")]
    lines = [element("b", f"{host}{group.name}"), element("span", ", ".join(facts))]
    if group.unlike_count:
        lines.append(element("span", f"{number(group.unlike_count)} not as predicted", class_="bad"))
    if group.unseen_count:
        gone = "gone" if group.losing & group.queues.keys() else None
        lines.append(element("span", f"{number(group.unseen_count)} not seen again", class_=gone))
    return element("button", *lines, type="button", data_flow=index, aria_pressed=str(index == 0).lower())


def _caption(group: QueueGroup) -> str:
    everything = len(arrows(group))
    if everything <= ARROWS_MAX:
        return ""
    return (
        f"The picture shows {ARROWS_MAX} of {everything} arrows: dead letters first, and those with the most messages."
        " The table below has the others."
    )


def _flow_table(data: ReportData) -> Html:
    several = several_vhosts(data)
    rows: list[tuple[object, ...]] = []
    for each in data.dead_letters:
        row = (each.queue, chip(each.reason), each.exchange or "(default)", each.to_queue, each.count)
        rows.append((each.vhost, *row) if several else row)
    for published in data.publishes or ():
        target = published.queue if published.queue is not None else "no queue"
        row = ("", chip("published"), published.exchange or "(default)", target, published.count)
        rows.append((published.vhost, *row) if several else row)
    rows.sort(key=lambda row: -int(str(row[-1])))
    heads = ["from queue", "reason", "exchange", "to queue", "messages"]
    shown = rows[:ROWS_SHOWN]
    note = "" if len(shown) == len(rows) and not data.cut else _note_cut(len(shown), "flows")
    return join([table(["vhost", *heads] if several else heads, shown), note])


def chip(reason: str) -> Html:
    """Return a reason in its colour."""
    return element("span", reason, class_="chip", style=f"background:{colour(reason)}")


def _note_cut(kept: int, what: str) -> Html:
    return element("p", f"These are the {number(kept)} most frequent {what}; there are more.", class_="note")


def _vanishing(data: ReportData) -> Html:
    """Return the queues whose settings lose messages, whether or not any was seen there."""
    several = several_vhosts(data)
    rows = [
        (
            f"{loss.vhost}: {loss.queue}" if several and loss.vhost else loss.queue,
            join(map(chip, loss.reasons), " "),
            loss.why,
        )
        for loss in data.losses
    ]
    intro = "What the definitions say: in these queues a message that dies so is gone, whether or not the log has one."
    found = table(["queue", "reasons", "why"], rows) if rows else element("p", "None loses every message that dies.")
    return section("Settings that lose messages", element("p", intro, class_="note"), found, id_="vanished")


def _times(data: ReportData) -> Html:
    if not data.deaths:
        return section("When they died", element("p", "No dead letters in this log."), id_="times")
    note = (
        "A dead letter counts at the latest moment at which the message can have died: that of the next delivery, or"
        " an earlier one by its TTL or x-death. hops.parquet has the earliest moment, too."
        " The upper part counts all dead letters by reason. The lower part has a row for each queue and reason,"
        " darker where there are more."
    )
    picture = element("div", id="deaths", class_="plot")
    return section("When they died", element("p", note, class_="note"), picture, id_="times")


def _paths(data: ReportData) -> Html:
    several = several_vhosts(data)
    most = max((path.deliveries for path in data.paths), default=1)
    shown = data.paths[:PATHS_SHOWN]
    rows = []
    for path in shown:
        steps = [join([queue, " ", chip(reason)]) for queue, reason in path.deaths]
        host = [element("span", path.vhost, ": ", class_="muted")] if several else []
        share = Html(f'<td class="share-bar"><i style="width:{max(1, 100 * path.deliveries // most)}%"></i></td>')
        rows.append((join([*host, join([*steps, path.queue], " → ")]), share, path.deliveries, path.messages))
    note = (
        "A path lists the deaths between two deliveries of a message, or between its publish and its first delivery."
        " It begins with “republished” where a client published the message again after that queue had delivered it."
    )
    heads = ["path", "", "deliveries", "messages"]
    body = table(heads, rows) if rows else element("p", "No dead letters in this log.")
    more = _note_cut(len(shown), "paths") if len(data.paths) > len(shown) or "paths" in data.cut else ""
    return section("Paths", element("p", note, class_="note"), body, more, id_="paths")


def _reading() -> Html:
    lines = (
        "A dead letter here is one copy in one queue: a death whose dead-letter exchange reaches three queues"
        " makes three. The report counts each once, however many deliveries it led to.",
        "Hops between queues have no line in a trace. The replay reconstructs them: by the rules and the"
        " definitions it searches for a path from an earlier observation to exactly the delivered state.",
        "A dead letter that was never delivered afterwards leaves no trace, so the report does not count it.",
    )
    return section("How to read this", *(element("p", line) for line in lines), id_="reading")
