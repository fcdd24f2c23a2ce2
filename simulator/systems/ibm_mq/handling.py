"""Decides what the handler does with a message at one visit: which rule it takes, and what it puts where.

Each rule that fits is tried as often as its RETRY says, in the order of the table. So the
number of earlier visits decides which rule is next. Neither IGNORE nor DISCARD can
fail: the rules that follow them are not reached.

In a pattern ``?`` matches one character, but not a trailing blank, ``*`` any number of them.
There is no escape. Case counts; trailing blanks do not.

Source: IBM MQ's documentation of how the rules table is processed, and of patterns.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import msgspec

from simulator.systems.ibm_mq.mqdlh import DeadMessage, Mqdlh, without_header
from simulator.systems.ibm_mq.rules_table import (
    ANY,
    DEST_Q,
    DEST_Q_MGR,
    REPLY_Q,
    REPLY_Q_MGR,
    Action,
    Pattern,
    PutAuthority,
    Rule,
)


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
