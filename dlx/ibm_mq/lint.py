"""Finds what a rules table may say, but is likely a mistake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dlx.ibm_mq.matching import text_fits
from dlx.ibm_mq.rules_table import REPLY_Q, Action, Rule, RulesTable
from dlx.ibm_mq.rules_table_errors import Problem


def lint(table: RulesTable, rule_lines: Sequence[int]) -> Iterator[Problem]:
    """Yield a warning for each thing that is allowed and likely a mistake."""
    if not any(rule.is_catch_all for rule in table.rules):
        text = "no rule takes every message; without a last one such as ACTION(FWD) FWDQ(REALLY.DEAD.QUEUE) some stay"
        yield Problem(rule_lines[-1], 1, text)
    over: int | None = None
    for line, rule in zip(rule_lines, table.rules, strict=True):
        if over is not None:
            yield Problem(line, 1, f"the rule is never reached; that of line {over} takes every message for good")
        elif rule.is_catch_all and rule.action in (Action.IGNORE, Action.DISCARD):
            over = line
        if _may_forward_nowhere(rule):
            text = f"FWDQ({REPLY_Q}) fails where the reply queue is blank; the pattern REPLYQ(?*) leaves that out"
            yield Problem(line, 1, text)


def _may_forward_nowhere(rule: Rule) -> bool:
    return rule.fwdq == REPLY_Q and text_fits(rule.pattern.replyq, "")
