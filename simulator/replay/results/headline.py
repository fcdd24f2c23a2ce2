"""The first thing that a replay says: whether the log and the rules agree, and how far that goes.

It is one for the report and the terminal. It is bad where deliveries differ or messages were certainly lost or held,
by the rules or by the counters of the broker. It is good only where every delivery agrees, nothing is unchecked,
messages died, and none was lost or held. What is certain comes first, and after it what depends on what consumers did,
which a log does not show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from simulator.broker import WORKER_PREFETCH
from simulator.replay.results.counters import Balance
from simulator.replay.results.held_up import hold_up_text
from simulator.replay.results.summary import Change, LostMessages, Summary
from simulator.replay.rows.assumptions import LateStretch
from simulator.replay.rows.verdict_words import What
from simulator.time_spans import moment, span

_LACKING: dict[What, str] = {
    "queue": "the definitions lack the queue, or one that the message died in",
    "publish": "the log does not have the publish of the message before",
    "definitions": "the message was published before the definitions changed",
}

_IN_PART = "as far as it was checked"
QUEUES_NAMED = 3

Tone = Literal["good", "open", "bad"]


class Headline(NamedTuple):
    """What a replay found, in one sentence, its tone, and what else there is to know."""

    tone: Tone
    text: str
    more: tuple[str, ...] = ()


def headline(
    summary: Summary, rules: str, balance: Balance | None = None, lost: Sequence[LostMessages] = ()
) -> Headline:
    """Return the headline of a replay under the rules of a release.

    ``balance`` is that of the broker's own counters, where they were given; ``lost`` says where messages are lost or
    held, or may be.
    """
    wrong = summary.differ + summary.unexplained
    certain, limits, bound_later = _certain(summary, balance), _limits(summary), _bound_later(summary)
    remarks = [*bound_later, *_open(summary, rules, balance, lost)]
    if summary.misrouted and not wrong:
        text = f"{_number(summary.misrouted, 'publish', 'publishes')} went to other queues than {_routes(rules)}"
        return Headline("bad", text, (*limits, *certain, *remarks))
    if wrong and summary.changed is not None:
        return Headline("bad", _changed(wrong, summary.changed), (*limits, *certain, *remarks))
    if wrong:
        differ = "differs" if wrong == 1 else "differ"
        text = f"{_number(wrong, 'delivery', 'deliveries')} of {summary.deliveries:,} {differ} from what {_does(rules)}"
        return Headline("bad", text, (*_only_times(summary), *limits, *certain, *remarks))
    if summary.overfull or any(each.certain for each in summary.unfilled):
        return Headline("bad", limits[0], (*limits[1:], *certain, *remarks))
    remarks = [*limits, *remarks]
    if balance is not None and balance.other_time:
        return Headline("bad", balance.other_time, (*certain, *remarks))
    if balance is not None and balance.unexplained:
        text = f"The broker counted {_number(balance.unexplained, 'dead letter', 'dead letters')}"
        return Headline("bad", f"{text} that nothing in the log explains", (*certain, *remarks))
    text = f"RabbitMQ delivered everything as the rules of {rules} predict"
    in_part = f"{text}, {_IN_PART}" if summary.unchecked or summary.ambiguous else text
    if certain:
        for_sure = summary.lost or summary.held or (balance is not None and balance.astray)
        agrees = f"{in_part}." if summary.deliveries else "The log has no delivery that could be compared."
        return Headline("bad" if for_sure else "open", certain[0], (agrees, *certain[1:], *remarks))
    if bound_later:
        return Headline("open", bound_later[0], (f"{in_part}.", *(each for each in remarks if each != bound_later[0])))
    if not summary.deliveries or not summary.dead_letters:
        return Headline("open", _proves_nothing(summary), tuple(remarks))
    if not remarks:
        return Headline("good", text)
    return Headline("open", f"{text}, {_IN_PART}", tuple(remarks))


def _does(rules: str) -> str:
    return f"RabbitMQ {rules} does with these definitions"


def _routes(rules: str) -> str:
    return f"RabbitMQ {rules} routes them to with these definitions"


def _proves_nothing(summary: Summary) -> str:
    if not summary.deliveries:
        return "The log has no delivery: it proves nothing"
    return "No delivery in this log shows that a message died: it proves nothing about dead letters"


def _only_times(summary: Summary) -> Iterator[str]:
    """Yield which tolerance would take all deliveries that differ, if there is one."""
    if summary.tolerance_ms:
        yield (
            "Only times are wrong, by little, and all in one direction: either rows were written late, as on a busy"
            f" machine, and --tolerance-ms {summary.tolerance_ms} allows for that, or a TTL of the definitions is wrong"
        )


def _limits(summary: Summary) -> list[str]:
    """Return which queues held more than they may, or lost more for their length than they can."""
    found = [
        f"Queue '{each.queue}' held {_number(each.messages, 'message', 'messages')} or more at {moment(each.at_us)},"
        f" which {each.limit} rules out"
        for each in summary.overfull
    ]
    return found + [
        f"{_number(each.deaths, 'message', 'messages')} died of {each.limit} in queue '{each.queue}',"
        f" where the messages of the log allow {each.most:,}"
        for each in sorted(summary.unfilled, key=lambda each: not each.certain)
    ]


def _certain(summary: Summary, balance: Balance | None) -> list[str]:
    """Return what certainly became of messages that no delivery shows again, the worst first."""
    found = []
    if summary.lost:
        ended = ("message was lost: its dead letter", "messages were lost: their dead letters")
        found.append(f"{_number(summary.lost, *ended)} reached no queue")
    if summary.held:
        ended = (
            "message is held in the queue where it died: no queue took its dead letter",
            "messages are held in the queues where they died: no queue took their dead letters",
        )
        found.append(_number(summary.held, *ended))
    found += hold_up_text(summary.holding)
    if balance is not None and balance.lost:
        dead = _number(balance.lost, "message", "messages")
        found.append(f"{dead} died without a dead letter, as the broker counted")
    return found


def _uncertain(summary: Summary, end: str, ends: Sequence[LostMessages]) -> str:
    """Say how many messages end so if that happened to them which a log does not show."""
    own = [each for each in ends if getattr(each, f"may_be_{end}")]
    names = list(dict.fromkeys(f"'{each.queue}'" for each in own))
    more = f" and {len(names) - QUEUES_NAMED:,} more" if len(names) > QUEUES_NAMED else ""
    where = f" in {', '.join(names[:QUEUES_NAMED])}{more}" if names else ""
    count = getattr(summary, f"may_be_{end}")
    messages = _number(count, "message", "messages")
    if own and all(each.delivered_there == getattr(each, f"may_be_{end}") for each in own):
        return f"{messages} last delivered{where}: {end} if consumers rejected {'it' if count == 1 else 'them'}"
    return f"{messages} not seen again: {end} if {'it' if count == 1 else 'they'} died{where}"


def _would_hold_up(summary: Summary, ends: Sequence[LostMessages]) -> Iterator[str]:
    """Yield in which queues the messages that may be held, with those that are, would hold up all others."""
    held: Counter[tuple[str, str]] = Counter()
    may_be: Counter[tuple[str, str]] = Counter()
    for each in ends:
        held[each.vhost, each.queue] += each.held
        may_be[each.vhost, each.queue] += each.may_be_held
    known = {(each.vhost, each.queue) for each in summary.holding}
    for (vhost, queue), count in may_be.items():
        lacking = WORKER_PREFETCH - held[vhost, queue]
        if 0 < lacking <= count and (vhost, queue) not in known:
            some = f"{lacking} of them {'is' if lacking == 1 else 'are'}"
            yield f"If {some} held in '{queue}', it holds {WORKER_PREFETCH}, and these hold up all that will die there"


def _open(summary: Summary, rules: str, balance: Balance | None, lost: Sequence[LostMessages]) -> list[str]:
    """Return what is not known, the most important first."""
    found = []
    if summary.misrouted and summary.differ + summary.unexplained:
        went = _number(summary.misrouted, "publish", "publishes")
        found.append(f"{went} went to other queues than {_routes(rules)}")
    if summary.may_be_lost:
        found.append(_uncertain(summary, "lost", lost))
    if summary.may_be_held:
        found += [_uncertain(summary, "held", lost), *_would_hold_up(summary, lost)]
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
    found += twice_remarks(summary.twice)
    if summary.behind_us:
        found.append(
            f"Rows of the log are out of order, by up to {span(summary.behind_us)}: they were replayed in the order of"
            " their times"
        )
    found += left_out_remarks(summary.left_out)
    return found


def twice_remarks(twice: int) -> list[str]:
    """Return a sentence on how many rows stand in the log twice, if any do."""
    return [f"{_number(twice, 'row stands', 'rows stand')} twice in the log: each counts once"] if twice else []


def left_out_remarks(left_out: Mapping[str, int]) -> list[str]:
    """Return a sentence for each virtual host that the definitions are not of; ``left_out``: its rows in the log."""
    return [
        f"{_number(rows, 'row', 'rows')} of virtual host '{vhost}' {'is' if rows == 1 else 'are'} left out:"
        " the definitions are not of it"
        for vhost, rows in left_out.items()
    ]


def _changed(wrong: int, change: Change) -> str:
    """Return that definitions were changed during the log; the broker is not to blame."""
    at = _iso(change.at_us)
    one = wrong == 1
    before = (
        f"{'is of a message' if one else 'are of messages'} published before"
        if change.wrong_before
        else (f"{'lies' if one else 'lie'} after")
    )
    missing = "EARLIER --definitions FILE" if change.wrong_before else "FILE --definitions LATER"
    return (
        f"{'The delivery' if one else f'All {wrong:,} deliveries'} that {'differs' if one else 'differ'} {before} {at}:"
        f" the definitions were probably changed then. Give those of both times: --definitions {missing}@{at}"
    )


def _bound_later(summary: Summary) -> list[str]:
    """Return which queues dead letters reached only from some moment on: the definitions are of a later time."""
    return [
        f"{_number(each.messages, 'message that died', 'messages that died')} before {_iso(each.at_us)} did not reach"
        f" queue '{each.queue}', though the definitions bind it: the binding was probably added then. Give the"
        f" definitions of both times: --definitions EARLIER --definitions FILE@{_iso(each.at_us)}"
        for each in summary.bound_later
    ]


def _iso(time_us: int) -> str:
    """Return a moment as ``--definitions FILE@TIME`` takes it, not before that one."""
    at = datetime.fromtimestamp(-(-time_us // 1_000) / 1_000, UTC).isoformat(timespec="milliseconds")
    return at.replace("+00:00", "Z")


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
