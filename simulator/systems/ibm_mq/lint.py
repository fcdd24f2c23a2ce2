"""Finds what a rules table may say, but is likely a mistake."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence

import msgspec

from simulator.systems.ibm_mq.handler import text_fits
from simulator.systems.ibm_mq.mqdlh import FORMAT_DEAD
from simulator.systems.ibm_mq.rules_table import (
    ANY,
    DEST_Q,
    REPLY_Q,
    USUAL_INPUTQ,
    Action,
    Control,
    Pattern,
    Problem,
    Rule,
    RulesTable,
)

_FOR_GOOD = (Action.IGNORE, Action.DISCARD)


def lint(table: RulesTable, rule_lines: Sequence[int]) -> Iterator[Problem]:
    """Yield a warning for each thing that is allowed and likely a mistake."""
    catch_all = [rule.action for rule in table.rules if rule.is_catch_all]
    if set(catch_all) <= {Action.RETRY}:
        what = "every message whose tries have failed" if catch_all else "every message"
        text = f"no rule takes {what}; without a last one such as ACTION(FWD) FWDQ(REALLY.DEAD.QUEUE) some stay"
        yield Problem(rule_lines[-1], 1, text)
    final: list[tuple[int, Rule]] = []
    for line, rule in zip(rule_lines, table.rules, strict=True):
        before = next((found for found in final if covers(found[1].pattern, rule.pattern)), None)
        if before is not None:
            whose = "every message" if before[1].is_catch_all else "all its messages"
            yield Problem(line, 1, f"the rule is never reached; that of line {before[0]} takes {whose} for good")
        elif rule.action in _FOR_GOOD:
            final.append((line, rule))
        for text in _doubts(rule, table.control):
            yield Problem(line, 1, text)


def _doubts(rule: Rule, control: Control) -> Iterator[str]:
    if rule.fwdq == REPLY_Q and text_fits(rule.pattern.replyq, ""):
        yield f"FWDQ({REPLY_Q}) fails where the reply queue is blank; the pattern REPLYQ(?*) leaves that out"
    if rule.fwdq in (DEST_Q, REPLY_Q) and rule.header:
        yield f"FWDQ({rule.fwdq}) hands the application a message with its MQDLH in front; HEADER(NO) takes that off"
    if rule.pattern.format == FORMAT_DEAD:
        what = "FORMAT is that of the data behind the MQDLH, and not of the message on the queue"
        yield f"FORMAT({FORMAT_DEAD}) is for messages with two MQDLHs: {what}"
    if rule.is_catch_all and rule.action == Action.DISCARD:
        yield "the rule discards every message that comes to it"
    if rule.retry > 1 and rule.action in _FOR_GOOD:
        why = "IGNORE puts nothing" if rule.action == Action.IGNORE else "DISCARD always succeeds"
        yield f"RETRY({rule.retry}) cannot happen: {why}"
    if _puts_to_destination(rule) and not rule.pattern.destq:
        yield "the put cannot succeed: the pattern is for messages whose DESTQ is blank, and the rule puts them there"
    queue = rule.pattern.destq if _puts_to_destination(rule) else rule.fwdq
    if queue == (control.inputq or USUAL_INPUTQ) and rule.fwdqm in ("", control.inputqm):
        unless = "" if control.inputq else ", if the queue manager names it as its dead-letter queue"
        yield f"the rule puts messages into {queue}, which the handler reads{unless}: they come back without end"


def _puts_to_destination(rule: Rule) -> bool:
    """Return whether the rule puts a message to the queue that its MQDLH names."""
    return rule.action == Action.RETRY or rule.fwdq == DEST_Q


_WILDCARDS = re.compile(r"[?*]+")


def covers(wide: Pattern, narrow: Pattern) -> bool:
    """Return whether every message of ``narrow`` fits ``wide``; ``False`` also where it is hard to tell."""
    for field in msgspec.structs.fields(Pattern):
        one, other = getattr(wide, field.name), getattr(narrow, field.name)
        if one != other and not (_text_covers(_ordered(one), _ordered(other)) if isinstance(one, str) else one is None):
            return False
    return True


def _ordered(pattern: str) -> str:
    """Return an equal pattern: of wildcards beside each other all ``?`` first, and at most one ``*``."""
    return _WILDCARDS.sub(lambda found: "?" * found[0].count("?") + "*" * ("*" in found[0]), pattern)


@functools.lru_cache(maxsize=4096)
def _text_covers(wide: str, narrow: str) -> bool:
    if wide == ANY:
        return True
    if not wide:
        return not narrow
    if wide[0] == "*":
        return _text_covers(wide[1:], narrow) or (bool(narrow) and _text_covers(wide, narrow[1:]))
    if not narrow or narrow[0] == "*" or wide[0] not in ("?", narrow[0]):
        return False
    return _text_covers(wide[1:], narrow[1:])
