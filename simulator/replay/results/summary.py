"""Sums up a replay: its totals, and the differences that occur most often."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from simulator.definitions import Definitions
from simulator.events import Event
from simulator.markup import element, join, table
from simulator.replay.results.full_queues import OverfullQueue, UnfilledQueue
from simulator.replay.results.held_up import HoldingQueue, holding_queues, with_true_ends
from simulator.replay.results.late_bindings import LateBinding
from simulator.replay.results.untested import NOT_LOOKED_FOR, UntestedSettings
from simulator.replay.rows.assumptions import DEFAULT_ASSUMPTIONS, Assumptions, LateStretch
from simulator.replay.rows.tables import Table, rows, select
from simulator.replay.rows.verdict_words import BAD, MEANINGS, VERDICTS, What
from simulator.replay.search.copies import Fate

FINDINGS_MAX = 20
_PARTS = """
    SELECT event, vhost, queue, verdict, array_distinct(transform(unchecked, one -> one.what)) AS unchecked,
        count(*) AS rows, sum(CAST(first AS BIGINT)) AS messages, sum(new_deaths) AS deaths,
        count_if(last AND size(dead_ends) > 0) AS ended, max(time_us) AS until_us
    FROM {replayed}
    GROUP BY 1, 2, 3, 4, 5"""
_IS_OVER = "ending.certain AND time_us + ending.after_ms * 1000 < %d"
_WITH_FATE = "size(filter(dead_ends, ending -> ending.fate {} '{}')) > 0"
_IS_AT = "size(filter(dead_ends, ending -> ending.fate {} '{}' AND {})) > 0"
_LOST = f"""
    SELECT count_if(lost) AS lost, count_if(NOT lost AND may_be_lost) AS may_be_lost,
        count_if(held) AS held, count_if(NOT held AND may_be_held) AS may_be_held
    FROM (
        SELECT {_IS_AT.format("=", Fate.LOST, _IS_OVER)} AS lost,
            {_WITH_FATE.format("=", Fate.LOST)} AS may_be_lost,
            {_IS_AT.format("<>", Fate.LOST, _IS_OVER)} AS held,
            {_WITH_FATE.format("<>", Fate.LOST)} AS may_be_held
        FROM {{ended}}
        WHERE last
    )"""
_LOST_MESSAGES = f"""
    SELECT vhost, queue, why, lost, may_be_lost, held, may_be_held, first.file, first.line, first.message,
        delivered_there
    FROM (
        SELECT vhost, ending.queue, ending.why,
            count_if(is_over AND is_loss) AS lost, count_if(NOT is_over AND is_loss) AS may_be_lost,
            count_if(is_over AND NOT is_loss) AS held, count_if(NOT is_over AND NOT is_loss) AS may_be_held,
            min(struct(time_us, file, line, message)) AS first,
            count_if(NOT is_over AND event = '{Event.DELIVERED.value}' AND seen_in = ending.queue) AS delivered_there
        FROM (
            SELECT *, {_IS_OVER} AS is_over, ending.fate = '{Fate.LOST}' AS is_loss
            FROM (
                SELECT vhost, file, line, time_us, message, event, queue AS seen_in, explode(dead_ends) AS ending
                FROM {{ended}}
                WHERE last
            )
        )
        GROUP BY 1, 2, 3
    )
    ORDER BY lost DESC, held DESC, may_be_lost DESC, may_be_held DESC, vhost, queue, why
    LIMIT %d"""
_FINDINGS = """
    SELECT verdict, coalesce(why, difference.field) AS what, difference.behaviours AS behaviours, count(*) AS count,
        count(DISTINCT queue) AS queues,
        min_by(
            struct(queue, message, file, line, difference.expected AS expected, difference.seen AS seen),
            struct(time_us, file, line)
        ) AS example
    FROM (
        SELECT *, explode(CASE WHEN size(differences) > 0 THEN differences ELSE array(NULL) END) AS difference
        FROM {replayed}
        WHERE verdict IN ('differ', 'unexplained')
    )
    GROUP BY 1, 2, 3
    ORDER BY count DESC, verdict, what, behaviours
    LIMIT %d"""
_UNCHECKED = """
    SELECT what, name, why, count, first.file, first.line
    FROM (
        SELECT one.what, one.name, one.why, count(*) AS count, min(struct(time_us, file, line)) AS first
        FROM (SELECT file, line, time_us, explode(unchecked) AS one FROM {replayed})
        GROUP BY 1, 2, 3
    )
    ORDER BY count DESC, what, name, why
    LIMIT %d"""
_HOPS = """
    SELECT message, vhost, time_us, verdict, step, step > 0 OR new_deaths = new_hops AS first_copy, hop.*
    FROM (
        SELECT *, place - size(hops) + new_hops AS step
        FROM {replayed} LATERAL VIEW posexplode(hops) AS place, hop
        WHERE new_hops > 0
    )
    WHERE step >= 0"""


SMALL_US = 5_000_000
"""How far off times may be for a tracer on a busy machine to be likely."""
_BY_TIME = f"""
    SELECT count(*) AS deliveries, count(DISTINCT misfit.kind) AS kinds, max(misfit.by_us) AS by_us
    FROM {{replayed}}
    WHERE event = '{Event.DELIVERED.value}' AND verdict IN ('differ', 'unexplained')
        AND misfit.kind IN ('early', 'late')"""
_UNDELIVERED = f"""
    SELECT coalesce(sum(settled - delivered), 0) AS undelivered
    FROM (
        SELECT count_if(event = '{Event.DELIVERED.value}') AS delivered,
            count_if(event NOT IN ('{Event.PUBLISHED.value}', '{Event.DELIVERED.value}')) AS settled
        FROM {{replayed}} GROUP BY vhost, message, queue
    )
    WHERE settled > delivered"""


_SIDES = f"""
    WITH died_in AS (
        SELECT DISTINCT vhost, died_in FROM (
            SELECT vhost, explode(transform(hops, hop -> hop.queue)) AS died_in
            FROM {{replayed}} WHERE verdict IN {BAD}
            UNION ALL
            SELECT vhost, queue AS died_in FROM {{replayed}} JOIN (
                SELECT DISTINCT vhost, message FROM {{replayed}} WHERE verdict IN {BAD} AND coalesce(size(hops), 0) < 1
            ) USING (vhost, message)
        )
    ), good AS (
        SELECT DISTINCT vhost, message, file, line, time_us FROM (
            SELECT vhost, message, file, line, time_us, explode(transform(hops, hop -> hop.queue)) AS died_in
            FROM {{replayed}} WHERE event = '{Event.DELIVERED.value}' AND verdict = 'agree'
        ) JOIN died_in USING (vhost, died_in)
    ), lives AS (
        SELECT vhost, message, min(time_us) AS since_us, max(time_us) AS last_us,
            min(CASE WHEN verdict IN {BAD} THEN time_us END) AS bad_us
        FROM {{replayed}} GROUP BY 1, 2
    ), bounds AS (
        SELECT count(bad_us) AS bad, max(CASE WHEN bad_us IS NOT NULL THEN since_us END) AS until_us,
            max(first_bad_us) AS from_us, count(CASE WHEN since_us >= first_bad_us THEN bad_us END) AS bad_later
        FROM (SELECT *, min(bad_us) OVER () AS first_bad_us FROM lives) known
    )
    SELECT max(bad) AS bad, max(until_us) AS until_us, max(from_us) AS from_us,
        max(bad_later) AS bad_later, count(time_us) AS good,
        count(CASE WHEN since_us > until_us THEN 1 END) AS good_after,
        count(CASE WHEN last_us < from_us THEN 1 END) AS good_before
    FROM bounds LEFT JOIN (
        SELECT good.time_us, lives.since_us, lives.last_us FROM good JOIN lives USING (vhost, message)
        WHERE lives.bad_us IS NULL
    ) placed ON TRUE"""
BY_CHANCE = 0.01
"""How likely it may be, at most, that what differs lies on one side of a moment by chance."""


class Change(msgspec.Struct, frozen=True):
    """A moment at which definitions were probably changed: all that is not as predicted lies on one side of it.

    Attributes:
        at_us: when the definitions that hold afterwards begin, in microseconds since 1970.
        wrong_before: whether that is the side before it: then it is of messages published before it.
    """

    at_us: int
    wrong_before: bool


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of a replay.

    Attributes:
        messages, deliveries: how many there were; each delivery has one of the four verdicts.
        dead_letters: how many deaths were reconstructed.
        agree, differ, ambiguous, unexplained: how many deliveries have that verdict.
        broken_lines: how many lines of the log could not be read.
        unchecked: how many deliveries, and publishes, leave something unchecked, by the words of
            ``simulator.replay.rows.verdict_words``.
        lost: how many messages died, by the rules, where no dead letter reaches a queue, and were not seen again.
        may_be_lost: how many were seen last where they are lost like that if they were rejected, or have expired since.
        held: how many messages died, by the rules, where no queue takes their dead letters, and which at-least-once
            dead-lettering therefore keeps in their queue; with those that others hold up.
        may_be_held: how many were seen last where they are held like that if they were rejected, or have expired since.
        holding: the queues in which held messages hold up all that die later.
        misrouted: how many publishes the broker routed to other queues than the rules and definitions do.
        overfull: the queues that held more messages at once than the definitions allow.
        unfilled: the queues in which more messages died of a length limit than can have been too many.
        late: when rows were written late, and by how much.
        untested: the settings in force that the log did not put to the test, by queue; ``None``: nobody looked.
        untested_more: how many there are in further queues.
        left_out: how many rows there are of virtual hosts that the definitions are not of, by virtual host.
        twice: how many rows stood in the log twice, and count once.
        undelivered: how many acknowledgements, rejections and returns there are without a delivery before.
        tolerance_ms: the tolerance with which all deliveries would be as predicted, where all that are not are off by
            little, and in one direction.
        behind_us: how long before an earlier row of its log a row was written, if that is above the tolerance;
            microseconds.
        changed: when the definitions were probably changed, if what is not as predicted shows that.
        measured_us: how late rows arrived, at most, as the capture measured it, if that is the tolerance; microseconds.
        redacted: whether values of headers are redacted in the log, so that headers exchanges may use any binding.
        bound_later: the queues that dead letters reached only from some moment on, though the definitions bind them.
    """

    messages: int
    deliveries: int
    dead_letters: int
    agree: int
    differ: int
    ambiguous: int
    unexplained: int
    broken_lines: int
    unchecked: dict[What, int] = {}
    lost: int = 0
    may_be_lost: int = 0
    held: int = 0
    may_be_held: int = 0
    holding: tuple[HoldingQueue, ...] = ()
    misrouted: int = 0
    overfull: tuple[OverfullQueue, ...] = ()
    unfilled: tuple[UnfilledQueue, ...] = ()
    untested: dict[str, tuple[str, ...]] | None = None
    untested_more: int = 0
    late: tuple[LateStretch, ...] = ()
    left_out: dict[str, int] = {}
    twice: int = 0
    undelivered: int = 0
    tolerance_ms: int = 0
    behind_us: int = 0
    changed: Change | None = None
    measured_us: int = 0
    redacted: bool = False
    bound_later: tuple[LateBinding, ...] = ()

    @property
    def explained(self) -> bool:
        """Whether the rules explain every delivery, where every publish went, and what the queues held."""
        wrong = self.differ + self.unexplained + self.misrouted or self.overfull
        return not wrong and not any(each.certain for each in self.unfilled)

    @property
    def has_dead_ends(self) -> bool:
        """Whether messages are lost or held, or may be."""
        return bool(self.lost or self.may_be_lost or self.held or self.may_be_held)

    @property
    def agreement_percent(self) -> float:
        """The share of deliveries that agree, rounded down to 0.01; 100.0 for a log without deliveries."""
        return self.agree * 10_000 // self.deliveries / 100 if self.deliveries else 100.0

    def _repr_html_(self) -> str:
        """Return the totals as notebooks show them."""
        return _totals_html(self)


def _totals_html(summary: Summary) -> str:
    """Return the totals as a table, below a sentence that says whether the rules explain the log."""
    explained = "The rules explain every delivery" if summary.explained else "The rules do not explain every delivery"
    open_ = sum(summary.unchecked.values())
    sentence = f"{explained}: {summary.agreement_percent:.2f} % agree." + (
        f" Not checked in full: {open_:,} deliveries." if open_ else ""
    )
    held = {"held": summary.held, "held if they died": summary.may_be_held}
    counts: dict[str, int] = {
        "messages": summary.messages,
        "deliveries": summary.deliveries,
        "dead letters reconstructed": summary.dead_letters,
        **{verdict: getattr(summary, verdict) for verdict in VERDICTS},
        "lost": summary.lost,
        "lost if they died": summary.may_be_lost,
        **(held if any(held.values()) else {}),
        "publishes routed elsewhere": summary.misrouted,
        "broken lines": summary.broken_lines,
    }
    return join([element("p", sentence), table(("of the replay", "count"), counts.items())])


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Deliveries that differ, or are unexplained, in the same way, or publishes that were routed elsewhere.

    Attributes:
        verdict: ``differ`` or ``unexplained``.
        what: the field that differs, or why the delivery is unexplained.
        behaviours: the rows of the release table that cause it.
        count, queues: how many such differences there are, in how many queues; publishes are in none.
        queue, message, file, line, expected, seen: the first of them.
    """

    verdict: str
    what: str
    behaviours: tuple[str, ...]
    count: int
    queues: int
    queue: str
    message: str
    file: str
    line: int
    expected: str
    seen: str


class UncheckedFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Deliveries of which the same was not checked.

    Attributes:
        what, name, why: as in ``simulator.replay.rows.verdict_words.Unchecked``.
        count: how many deliveries there are.
        file, line: where the first of them stands.
    """

    what: What
    name: str
    why: str
    count: int
    file: str
    line: int


class LostMessages(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that are lost or held in one queue, or may be.

    Attributes:
        vhost, queue: where they died for the last time.
        why: the rule by which their dead letters reach no queue.
        lost, may_be_lost, held, may_be_held: as in ``Summary``.
        file, line: where the first of them was last seen.
        message: the first of them.
        delivered_there: how many of those that may be lost or held were last seen when that queue delivered them.
    """

    vhost: str
    queue: str
    why: str
    lost: int
    may_be_lost: int
    file: str
    line: int
    message: str = ""
    delivered_there: int = 0
    held: int = 0
    may_be_held: int = 0


class MatchesNothingError(ValueError):
    """The definitions and the log have nothing in common; the text says what each has."""


def summarize(
    replayed: Table,
    definitions: Definitions,
    broken_lines: int = 0,
    assumptions: Assumptions = DEFAULT_ASSUMPTIONS,
    overfull: tuple[OverfullQueue, ...] = (),
    unfilled: tuple[UnfilledQueue, ...] = (),
    untested: UntestedSettings = NOT_LOOKED_FOR,
) -> Summary:
    """Return the totals of ``replay``'s result.

    ``overfull``, ``unfilled`` and ``untested`` are what ``overfull_queues``, ``unfilled_queues`` and
    ``untested_settings`` say of it.

    Raises:
        MatchesNothingError: the definitions are those of other virtual hosts or queues.
    """
    parts = rows(_PARTS, replayed=replayed)
    check_match(parts, definitions)
    verdicts: Counter[str] = Counter()
    unchecked: Counter[What] = Counter()
    for part in parts:
        if part["event"] == Event.DELIVERED:
            verdicts[part["verdict"]] += part["rows"]
        unchecked.update(dict.fromkeys(part["unchecked"] or (), part["rows"]))
    verdict_counts: dict[str, Any] = {name: verdicts[name] for name in VERDICTS}
    ends: dict[str, Any] = {}
    if any(part["ended"] for part in parts):
        until_us = max(part["until_us"] for part in parts)
        ends = _lost(replayed, assumptions.traced_until_us(until_us))
    settled = any(part["event"] not in (Event.PUBLISHED, Event.DELIVERED) for part in parts)
    undelivered = rows(_UNDELIVERED, replayed=replayed)[0]["undelivered"] if settled else 0
    return Summary(
        messages=sum(part["messages"] or 0 for part in parts),
        deliveries=sum(verdicts.values()),
        dead_letters=sum(part["deaths"] or 0 for part in parts),
        broken_lines=broken_lines,
        **ends,
        undelivered=int(undelivered),
        tolerance_ms=_tolerance_ms(replayed, verdicts["differ"] + verdicts["unexplained"], assumptions),
        overfull=overfull,
        unfilled=unfilled,
        changed=_changed(replayed) if verdicts["differ"] + verdicts["unexplained"] else None,
        untested=untested.by_queue,
        untested_more=untested.more,
        late=assumptions.lateness.stretches,
        misrouted=sum(
            part["rows"] for part in parts if part["event"] == Event.PUBLISHED and part["verdict"] == "differ"
        ),
        unchecked={what: unchecked[what] for what in MEANINGS if unchecked[what]},
        **verdict_counts,
    )


def _tolerance_ms(replayed: Table, wrong: int, assumptions: Assumptions) -> int:
    """Return the tolerance that would take all wrong deliveries, as ``Summary.tolerance_ms``; 0 if there is none."""
    if not wrong:
        return 0
    (by_time,) = rows(_BY_TIME, replayed=replayed)
    if by_time["deliveries"] < wrong or by_time["kinds"] > 1 or by_time["by_us"] > SMALL_US:
        return 0
    return 100 * math.ceil((assumptions.tolerance_us + int(by_time["by_us"])) / 100_000)


def _changed(replayed: Table) -> Change | None:
    """Return the moment on one side of which all lies that is not as predicted.

    Deaths in the same queues tell: there is none if it may well be by chance, or if most of them agree on that side.
    """
    (found,) = rows(_SIDES, replayed=replayed)
    bad, good = found["bad"], found["good"]
    beyond, before = max((found["good_after"], True), (found["good_before"], False))
    by_chance = (1 - beyond / (bad + good)) ** bad
    if by_chance > BY_CHANCE or good - beyond > bad:
        return None
    if not before and 2 * found["bad_later"] < bad:
        return None  # they were published before: what differs may just come late in their lives
    return Change(found["until_us"] + 1 if before else found["from_us"], before)


def _lost(replayed: Table, until_us: int) -> dict[str, Any]:
    """Return how many messages are lost or held by then, how many others may be, and which queues hold them up."""
    holding = holding_queues(replayed, until_us)
    (row,) = rows(_LOST % (until_us, until_us), ended=with_true_ends(replayed, holding))
    return {**row, "holding": holding}


def lost_messages(
    replayed: Table, assumptions: Assumptions = DEFAULT_ASSUMPTIONS, most: int = FINDINGS_MAX
) -> list[LostMessages]:
    """Return where messages are lost or held, or may be, by queue and rule, those that certainly are first."""
    (ends,) = rows("SELECT max(time_us) AS until_us FROM {replayed}", replayed=replayed)
    if ends["until_us"] is None:
        return []
    until_us = assumptions.traced_until_us(ends["until_us"])
    ended = with_true_ends(replayed, holding_queues(replayed, until_us))
    return [LostMessages(**row) for row in rows(_LOST_MESSAGES % (until_us, most), ended=ended)]


def check_match(parts: Sequence[Mapping[str, Any]], definitions: Definitions) -> None:
    """Raise ``MatchesNothingError`` if definitions have none of the virtual hosts, or of the queues, in these rows."""
    source = definitions.source
    seen = {part["vhost"] for part in parts}
    known = seen if not definitions.vhost_named else seen & set(definitions.vhosts)
    if not known:
        raise MatchesNothingError(
            f"{source}: has virtual host {some_names(definitions.vhosts)}, the log has {some_names(seen)};"
            " export the definitions of the virtual host that was traced"
        )
    queues = {(part["vhost"], part["queue"]) for part in parts if part["queue"] is not None}
    if queues and not any(queue in definitions.topology(vhost).queues for vhost, queue in queues if vhost in known):
        raise MatchesNothingError(
            f"{source}: has none of the queues that the log delivers from, such as"
            f" {some_names({queue for _, queue in queues})}"
        )


def some_names(names: Iterable[str]) -> str:
    """Return the first three names by the alphabet, and how many more there are."""
    ordered = sorted(names)
    shown = ", ".join(repr(name) for name in ordered[:3])
    return shown + (f" and {len(ordered) - 3} more" if len(ordered) > 3 else "")


def findings(replayed: Table, most: int = FINDINGS_MAX) -> list[Finding]:
    """Return what differs or is unexplained, by field and cause, the most frequent first."""
    return [_finding(row) for row in rows(_FINDINGS % most, replayed=replayed)]


def unchecked_findings(replayed: Table, most: int = FINDINGS_MAX) -> list[UncheckedFinding]:
    """Return what was not checked, by queue and setting, the most frequent first."""
    return [UncheckedFinding(**row) for row in rows(_UNCHECKED % most, replayed=replayed)]


def _finding(row: dict[str, Any]) -> Finding:
    example = row["example"]
    return Finding(
        verdict=row["verdict"],
        what=row["what"],
        behaviours=tuple(row["behaviours"] or ()),
        count=row["count"],
        queues=row["queues"],
        queue=example["queue"] or "",
        message=example["message"],
        file=example["file"],
        line=example["line"],
        expected=example["expected"] or "",
        seen=example["seen"] or "",
    )


def hops(replayed: Table) -> Table:
    """Return the dead letters that were reconstructed, one row for each copy.

    A death that put copies into several queues has a row for each; ``first_copy`` is true
    in one of them. The message died between ``earliest_us`` and ``latest_us`` (null where
    nothing is known); ``time_us`` is the time of the delivery that showed the death.
    """
    return select(_HOPS, replayed=replayed)
