"""Finds what a rules table may say, but is likely a mistake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simulator.systems.ibm_mq.covering import covers
from simulator.systems.ibm_mq.matching import text_fits
from simulator.systems.ibm_mq.rules_table import DEST_Q, REPLY_Q, Action, Control, Rule, RulesTable
from simulator.systems.ibm_mq.rules_table_errors import Problem

USUAL_INPUTQ = "SYSTEM.DEAD.LETTER.QUEUE"
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
