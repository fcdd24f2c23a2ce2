"""The first thing that a replay says: whether the log and the rules agree, and how far that goes.

It is one for the report and the terminal. It is bad where deliveries differ or messages were certainly lost, by the
rules or by the counters of the broker. It is good only where every delivery agrees, nothing is unchecked, messages
died, and none was lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from simulator.replay.checks.check_texts import moment
from simulator.replay.results.counters import Balance
from simulator.replay.results.summary import Summary
from simulator.replay.rows.assumptions import LateStretch
from simulator.replay.rows.verdict_words import What
from simulator.time_spans import span

_LACKING: dict[What, str] = {
    "queue": "the definitions lack the queue, or one that the message died in",
    "publish": "the log does not have the publish of the message before",
}

_IN_PART = "as far as it was checked"

Tone = Literal["good", "open", "bad"]


class Headline(NamedTuple):
    """What a replay found, in one sentence, its tone, and what else there is to know."""

    tone: Tone
    text: str
    more: tuple[str, ...] = ()


def headline(summary: Summary, rules: str, balance: Balance | None = None) -> Headline:
    """Return the headline of a replay under the rules of a release.

    ``balance`` is that of the broker's own counters, where they were given.
    """
    wrong = summary.differ + summary.unexplained
    if summary.misrouted and not wrong:
        text = f"{_number(summary.misrouted, 'publish', 'publishes')} went to other queues than the rules of {rules}"
        return Headline("bad", f"{text} and the definitions predict", tuple(_open(summary, balance)))
    if wrong:
        are = "is" if wrong == 1 else "are"
        text = f"{_number(wrong, 'delivery', 'deliveries')} of {summary.deliveries:,} {are} not what"
        return Headline("bad", f"{text} the rules of {rules} predict", tuple(_open(summary, balance)))
    remarks = _open(summary, balance)
    if summary.overfull or any(each.certain for each in summary.unfilled):
        return Headline("bad", remarks[0], tuple(remarks[1:]))
    if balance is not None and balance.other_time:
        return Headline("bad", balance.other_time, tuple(remarks))
    if balance is not None and balance.unexplained:
        text = f"The broker counted {_number(balance.unexplained, 'dead letter', 'dead letters')}"
        return Headline("bad", f"{text} that nothing in the log explains", tuple(remarks))
    if not summary.deliveries or not (summary.dead_letters or summary.lost):
        return Headline("open", remarks[0], tuple(remarks[1:]))
    text = f"RabbitMQ delivered everything as the rules of {rules} predict"
    if not remarks:
        return Headline("good", text)
    if summary.lost or summary.may_be_lost or (balance is not None and balance.lost):
        certain = summary.lost or (balance is not None and balance.astray)
        in_part = f"{text}, {_IN_PART}" if summary.unchecked or summary.ambiguous else text
        return Headline("bad" if certain else "open", remarks[0], (f"{in_part}.", *remarks[1:]))
    return Headline("open", f"{text}, {_IN_PART}", tuple(remarks))


def _open(summary: Summary, balance: Balance | None) -> list[str]:
    """Return what is not good or not known, the most important first."""
    found = [
        f"Queue '{each.queue}' held {_number(each.messages, 'message', 'messages')} or more at {moment(each.at_us)},"
        f" which {each.limit} rules out"
        for each in summary.overfull
    ]
    if summary.tolerance_ms:
        found.append(
            "Only times are wrong, by little, and all in one direction: either rows were written late, as on a busy"
            f" machine, and --tolerance-ms {summary.tolerance_ms} allows for that, or a TTL of the definitions is wrong"
        )
    found += [
        f"{_number(each.deaths, 'message', 'messages')} died of {each.limit} in queue '{each.queue}',"
        f" where the messages of the log allow {each.most:,}"
        for each in sorted(summary.unfilled, key=lambda each: not each.certain)
    ]
    if summary.misrouted and summary.differ + summary.unexplained:
        went = _number(summary.misrouted, "publish", "publishes")
        found.append(f"{went} went to other queues than rules and definitions predict")
    if not summary.deliveries:
        found.append("The log has no delivery: it proves nothing")
    elif not (summary.dead_letters or summary.lost):
        found.append("No message died in this log: it proves nothing about dead letters")
    if summary.lost:
        were = "was" if summary.lost == 1 else "were"
        found.append(f"{_number(summary.lost, 'message', 'messages')} {were} lost: their dead letters reached no queue")
    if balance is not None and balance.lost:
        dead = _number(balance.lost, "message", "messages")
        found.append(f"{dead} died without a dead letter, as the broker counted")
    if summary.may_be_lost:
        found.append(
            f"{_number(summary.may_be_lost, 'message', 'messages')} may be lost:"
            " if they were rejected or expired, their dead letters reached no queue"
        )
    if balance is not None:
        found += balance.misfits
        if balance.unseen:
            dead = _number(balance.unseen, "dead letter", "dead letters")
            found.append(f"No delivery shows what happened to {dead} that the broker counted")
    if summary.ambiguous:
        came = _number(summary.ambiguous, "delivery", "deliveries")
        found.append(f"{came} may have come by any of several paths, and nothing shows which")
    if summary.measured_us:
        found.append(
            f"Rows arrived up to {summary.measured_us / 1e6:.1f} s late, as the capture measured: deliveries within"
            " that are not called different"
        )
    if summary.redacted:
        found.append("Values of headers are redacted in the log: routes of headers exchanges are not checked")
    found += [_late(stretch) for stretch in summary.late]
    for what, count in summary.unchecked.items():
        found.append(_not_checked(what, count))
    if summary.broken_lines:
        found.append(f"{_number(summary.broken_lines, 'line', 'lines')} of the log could not be read")
    if summary.undelivered:
        found.append(
            f"{_number(summary.undelivered, 'message', 'messages')} came back from a consumer, or"
            f" {'was' if summary.undelivered == 1 else 'were'} acknowledged, without a delivery: rows of the log are"
            " missing"
        )
    if summary.twice:
        found.append(f"{_number(summary.twice, 'row stands', 'rows stand')} twice in the log: each counts once")
    if summary.behind_us:
        found.append(
            f"Rows of the log are out of order, by up to {span(summary.behind_us)}: they were replayed in the order of"
            " their times"
        )
    found += left_out_remarks(summary.left_out)
    return found


def left_out_remarks(left_out: Mapping[str, int]) -> list[str]:
    """Return a sentence for each virtual host that the definitions are not of; ``left_out``: its rows in the log."""
    return [
        f"{_number(rows, 'row', 'rows')} of virtual host '{vhost}' {'is' if rows == 1 else 'are'} left out:"
        " the definitions are not of it"
        for vhost, rows in left_out.items()
    ]


def _late(stretch: LateStretch) -> str:
    begin, end = moment(stretch.from_us), moment(stretch.until_us)
    least, most = (f"{duration_us // 1_000:,} ms" for duration_us in (stretch.least_us, stretch.most_us))
    late = f"Rows from {begin} to {end} were written late: some by {least} or more, none by more than {most}"
    return f"{late}; no setting is blamed for what this explains, though a TTL that is too long looks the same"


def _not_checked(what: What, count: int) -> str:
    if what == "shared-rows":
        return f"{_number(count, 'row', 'rows')} of one moment may be in two of the logs"
    if what == "rejection":
        showed = _number(count, "delivery shows", "deliveries show")
        return f"{showed} a rejection, and the log does not have the delivery before it: rows of the log are missing"
    if what in _LACKING:
        return f"{_number(count, 'delivery was', 'deliveries were')} not checked: {_LACKING[what]}"
    rows = ("row", "rows") if what == "routing" else ("delivery", "deliveries")  # publishes are routed, too
    return f"{what} was not checked in {_number(count, *rows)}"


def _number(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"
