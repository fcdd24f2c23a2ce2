"""One run of the dead-letter queue handler: when it visits which message, what it does with it, and when it ends.

It browses from the head of the queue to its end, and on when messages arrive. The first
message whose put fails becomes the retry point: RETRYINT later the handler goes back to it
and browses on from there, so later messages that failed are tried again too. Every ten
RETRYINT it scans the whole queue, which finds what arrived before its place. It remembers
every message that it has seen and left, and each visit of one counts as a try.

At a visit each rule that fits is tried as often as its RETRY says, in the order of the table. So
the number of earlier visits decides which rule is next. Neither IGNORE nor DISCARD can fail: the
rules that follow them are not reached.

In a pattern ``?`` matches one character, but not a trailing blank, ``*`` any number of them.
There is no escape. Case counts; trailing blanks do not.

Source: IBM MQ's documentation of how the rules table is processed, of patterns, of RETRYINT and WAIT;
the retry point and the ten intervals are how IBM's sample handler behaves.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from enum import StrEnum

import msgspec

from simulator.systems.ibm_mq.mqdlh import DeadMessage, Mqdlh, MqdlhError, header_of, without_header
from simulator.systems.ibm_mq.queue import DeadLetterQueue, Position, Queued
from simulator.systems.ibm_mq.rules_table import (
    ANY,
    DEST_Q,
    DEST_Q_MGR,
    REPLY_Q,
    REPLY_Q_MGR,
    Action,
    ParsedTable,
    Pattern,
    PutAuthority,
    Rule,
)

FULL_SCAN_INTERVALS = 10
OK = 0
_US = 1_000_000


# What is done with a message at one visit


def fits(pattern: Pattern, message: DeadMessage, header: Mqdlh) -> bool:
    """Return whether every keyword of the pattern fits the message or its MQDLH."""
    texts = (
        (pattern.applidat, message.appl_identity_data),
        (pattern.applname, message.put_appl_name),
        (pattern.destq, header.dest_q_name),
        (pattern.destqm, header.dest_q_mgr_name),
        (pattern.format, header.format),  # of the message as it was sent; its MQMD says that an MQDLH follows
        (pattern.replyq, message.reply_to_q),
        (pattern.replyqm, message.reply_to_q_mgr),
        (pattern.userid, message.user_identifier),
    )
    numbers = (
        (pattern.appltype, message.put_appl_type),
        (pattern.feedback, message.feedback),
        (pattern.msgtype, message.msg_type),
        (pattern.persist, message.persistence),
        (pattern.reason, header.reason),
    )
    return all(wanted is None or wanted == number for wanted, number in numbers) and all(
        text_fits(wanted, text) for wanted, text in texts
    )


def text_fits(pattern: str, text: str) -> bool:
    """Return whether a text fits a pattern with wildcards."""
    return pattern == ANY or _compiled(pattern.rstrip(" ")).fullmatch(text.rstrip(" ")) is not None


@functools.lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile the pattern to a regular expression.

    The text between two ``*`` is matched once, as early as possible: backtracking would find
    nothing more, and would take exponential time.
    """
    first, *rest = (_literal(part) for part in pattern.split("*"))
    if not rest:
        return re.compile(first, re.DOTALL)
    *middle, last = rest
    return re.compile(first + "".join(f"(?>.*?{part})" for part in middle) + ".*" + last, re.DOTALL)


def _literal(part: str) -> str:
    return "".join("." if character == "?" else re.escape(character) for character in part)


class RuleAttempt(msgspec.Struct, frozen=True):
    """A rule, its index in the table, and which of its tries this is, from 1."""

    index: int
    rule: Rule
    attempt: int


class Put(msgspec.Struct, frozen=True):
    """A message on its way from the dead-letter queue.

    Attributes:
        queue: where it goes; empty where a blank field named it.
        queue_manager: empty: the local one.
        message: what is put; its context is that of the message on the dead-letter queue.
        with_header: whether the MQDLH is still there.
        user: whose authority puts it; ``None``: the handler's own.
    """

    queue: str
    queue_manager: str
    message: DeadMessage
    with_header: bool
    user: str | None


def choose(rules: Sequence[Rule], message: DeadMessage, header: Mqdlh, visits: int) -> RuleAttempt | None:
    """Choose the rule for a message that was visited ``visits`` times before; ``None``: IGNORE is assumed."""
    tries = 0
    for index, rule in enumerate(rules):
        if not fits(rule.pattern, message, header):
            continue
        if rule.action == Action.IGNORE or visits < tries + rule.retry:
            return RuleAttempt(index, rule, visits - tries + 1)
        tries += rule.retry
    return None


def put_of(rule: Rule, message: DeadMessage, header: Mqdlh) -> Put:
    """Return the put that a rule with the action RETRY or FWD makes."""
    if rule.action == Action.RETRY:
        queue, manager, with_header = header.dest_q_name, header.dest_q_mgr_name, False
    else:
        queue = {DEST_Q: header.dest_q_name, REPLY_Q: message.reply_to_q}.get(rule.fwdq, rule.fwdq)
        manager = {DEST_Q_MGR: header.dest_q_mgr_name, REPLY_Q_MGR: message.reply_to_q_mgr}.get(rule.fwdqm, rule.fwdqm)
        with_header = rule.header
    return Put(
        queue=queue,
        queue_manager=manager,
        message=message if with_header else without_header(message, header),
        with_header=with_header,
        user=message.user_identifier if rule.putaut == PutAuthority.CTX else None,
    )


def is_reported(put: Put, reason: int, header: Mqdlh) -> bool:
    """Return whether a failed put gets an operator message (AMQ8722).

    A put that fails just as the one that killed the message gets no operator message: same queue, same reason.
    """
    place = (header.dest_q_name, header.dest_q_mgr_name)
    return reason != header.reason or (put.queue, put.queue_manager) != place


# A run


class VisitOutcome(StrEnum):
    """What a visit did to a message."""

    REMOVED = "removed"
    BACKED_OUT = "backed out"
    IGNORED = "ignored"
    NOT_HANDLED = "not handled"


class HandlerVisit(msgspec.Struct, frozen=True, kw_only=True):
    """One visit of a message that is worth reporting.

    Attributes:
        time_us: when.
        queued: the message.
        outcome: what it did; ``NOT_HANDLED``: the message has no valid MQDLH.
        chosen: the rule; ``None``: no rule was left, and IGNORE was assumed.
        put: what was put, for RETRY and FWD.
        result: the reason code of the put.
        is_reported: whether the operator was told of it.
        problem: what is wrong with the MQDLH.
    """

    time_us: int
    queued: Queued
    outcome: VisitOutcome
    chosen: RuleAttempt | None = None
    put: Put | None = None
    result: int = OK
    is_reported: bool = False
    problem: str = ""


class Handler:
    """A run of the handler; its memory ends with it.

    Args:
        parsed: its rules table.
        queue: the queue that it reads.
        put: makes a put at a time and gives its reason code, 0 for success.
        tell: is called for each visit that is worth telling.
        whole_seconds: whether an interval is over when its seconds, cut to whole ones, are exceeded, as on
            a clock of seconds; else it is over to the microsecond.
        now_us: the time of its start.
    """

    def __init__(
        self,
        parsed: ParsedTable,
        queue: DeadLetterQueue,
        *,
        put: Callable[[Queued, Put, int], int],
        tell: Callable[[HandlerVisit], None],
        whole_seconds: bool,
        now_us: int,
    ) -> None:
        self._rules = parsed.table.rules
        self._wait_s = parsed.table.control.wait_s
        # An interval of no length would scan for ever at one instant.
        self._retry_interval_s = max(parsed.table.control.retryint_s, 1)
        self._queue, self._put, self._tell, self._whole_seconds = queue, put, tell, whole_seconds
        self._visits: dict[tuple[str, str], int] = {}
        self._told_ignored: set[Position] = set()
        self._cursor: Position | None = None
        self._retry_point: Position | None = None
        self._retry_point_us = self._full_scan_us = self._work_us = now_us
        self._scanned_since_work = False
        self.ended_us: int | None = None

    def start(self) -> None:
        """Scan the queue for the first time."""
        self._full_scan(self._full_scan_us)
        self._at_end(self._full_scan_us)

    @property
    def visits(self) -> dict[tuple[str, str], int]:
        """How often each message that was seen and left was visited, by its MsgId and CorrelId."""
        return dict(self._visits)

    @property
    def is_settled(self) -> bool:
        """Whether nothing will happen until a message arrives."""
        if self._wait_s is not None:
            return self.ended_us is not None
        return not len(self._queue) or (self._retry_point is None and self._scanned_since_work)

    def next_us(self) -> int | None:
        """Return when the handler next does something by itself; ``None`` after its end."""
        if self.ended_us is not None:
            return None
        due = [self._due_us(self._full_scan_us, FULL_SCAN_INTERVALS * self._retry_interval_s)]
        if self._retry_point is not None:
            due.append(self._due_us(self._retry_point_us, self._retry_interval_s))
        elif self._wait_s is not None:
            due.append(self._due_us(self._work_us, self._wait_s))
        return min(due)

    def wake(self, now_us: int) -> None:
        """Do what is due, and look at what has arrived."""
        if self.ended_us is not None:
            return
        if now_us >= self._due_us(self._full_scan_us, FULL_SCAN_INTERVALS * self._retry_interval_s):
            self._full_scan(now_us)
        elif self._retry_point is None or now_us < self._due_us(self._retry_point_us, self._retry_interval_s):
            self._browse(now_us)
        elif self._retry_point in self._queue:
            self._retry(self._retry_point, now_us)
        else:
            self._full_scan(now_us)
        self._at_end(now_us)

    def arrived(self) -> None:
        """Record that a message was put on the queue; it may lie ahead of where the handler is."""
        self._scanned_since_work = False

    def _due_us(self, since_us: int, interval_s: int) -> int:
        if self._whole_seconds:
            return (since_us // _US + interval_s + 1) * _US
        return since_us + interval_s * _US

    def _full_scan(self, now_us: int) -> None:
        self._cursor = self._retry_point = None
        self._full_scan_us, self._scanned_since_work = now_us, True
        self._browse(now_us)

    def _retry(self, point: Position, now_us: int) -> None:
        self._retry_point = None
        self._cursor = point
        self._visit(self._queue.at(point), now_us)
        self._browse(now_us)

    def _browse(self, now_us: int) -> None:
        """Go on to the end of the queue."""
        while (queued := self._queue.after(self._cursor)) is not None:
            self._cursor = queued.position
            self._visit(queued, now_us)

    def _at_end(self, now_us: int) -> None:
        """End if there has been nothing to do for long enough and a full scan has shown it."""
        while self._wait_s is not None and self._retry_point is None:
            if now_us < self._due_us(self._work_us, self._wait_s):
                return
            if self._scanned_since_work:
                self.ended_us = now_us
                return
            self._full_scan(now_us)

    def _visit(self, queued: Queued, now_us: int) -> None:
        try:
            header = header_of(queued.message)
        except MqdlhError as error:
            self._tell(
                HandlerVisit(time_us=now_us, queued=queued, outcome=VisitOutcome.NOT_HANDLED, problem=str(error))
            )
            return
        identity = queued.message.identity
        before = self._visits.get(identity, 0)
        if identity not in self._visits:
            self._worked(now_us)
        self._visits[identity] = before + 1
        chosen = choose(self._rules, queued.message, header, before)
        if chosen is None or chosen.rule.action == Action.IGNORE:
            self._ignore(queued, chosen, now_us)
            return
        self._worked(now_us)
        if chosen.rule.action == Action.DISCARD:
            visit = HandlerVisit(time_us=now_us, queued=queued, outcome=VisitOutcome.REMOVED, chosen=chosen)
        else:
            visit = self._try_put(queued, header, chosen, now_us)
        if visit.outcome == VisitOutcome.REMOVED:
            self._queue.remove(queued.position)
            del self._visits[identity]
        elif self._retry_point is None:
            self._retry_point, self._retry_point_us = queued.position, now_us
        self._tell(visit)

    def _try_put(self, queued: Queued, header: Mqdlh, chosen: RuleAttempt, now_us: int) -> HandlerVisit:
        put = put_of(chosen.rule, queued.message, header)
        result = self._put(queued, put, now_us)
        return HandlerVisit(
            time_us=now_us,
            queued=queued,
            outcome=VisitOutcome.REMOVED if result == OK else VisitOutcome.BACKED_OUT,
            chosen=chosen,
            put=put,
            result=result,
            is_reported=result != OK and is_reported(put, result, header),
        )

    def _ignore(self, queued: Queued, chosen: RuleAttempt | None, now_us: int) -> None:
        """Leave a message where it is; report that once, because it stays so."""
        if queued.position not in self._told_ignored:
            self._told_ignored.add(queued.position)
            self._tell(HandlerVisit(time_us=now_us, queued=queued, outcome=VisitOutcome.IGNORED, chosen=chosen))

    def _worked(self, now_us: int) -> None:
        self._work_us, self._scanned_since_work = now_us, False
