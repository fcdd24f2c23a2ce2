"""Which findings of ``dlx lint`` are told, by its options."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from simulator.analysis.lint.rule import RULES, rule_named


class Rules(click.ParamType):  # type: ignore[type-arg]  # which takes an argument from click 8.4 on
    """Codes or names of rules, with commas between several."""

    name = "RULE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the codes. Fails with the nearest name for what is no rule."""
        if not isinstance(value, str):
            return value
        try:
            return [rule_named(each.strip()).code for each in value.split(",")]
        except KeyError as error:
            self.fail(str(error.args[0]), param, ctx)


def chosen(select: Iterable[list[str]], ignore: Iterable[list[str]]) -> frozenset[str]:
    """Return the codes of the rules whose findings are told."""
    selected = {code for codes in select for code in codes} or set(RULES)
    return frozenset(selected.difference(*ignore))
