"""Rules tables drawn by Hypothesis."""

from __future__ import annotations

import string
from typing import Any

from hypothesis import strategies as st

from simulator.systems.ibm_mq.constants import known_names
from simulator.systems.ibm_mq.keyword_values import FAMILIES, LENGTHS, NAME_LENGTH, NUMBER_MAX
from simulator.systems.ibm_mq.rules_table import Action, Control, Pattern, PutAuthority, Rule, RulesTable

# What is special in a table turns up often: quotes, blanks, marks, wildcards, brackets.
_CHARACTERS = st.one_of(st.sampled_from("AZaz09./_% '+-*?(),&"), st.characters(codec="latin-1"))
_NAME_CHARACTERS = string.ascii_letters + string.digits + "./_%"
_NAMES = st.text(_NAME_CHARACTERS, min_size=1, max_size=NAME_LENGTH)
_SECONDS = st.integers(0, NUMBER_MAX)


def texts(length: int) -> st.SearchStrategy[str]:
    """Texts that a pattern may hold: as printable as it demands, no longer than the field but for ``*``."""

    def right(text: str) -> bool:
        return text.isprintable() and len(text) - text.count("*") <= length

    return st.text(_CHARACTERS, max_size=length + 3).map(lambda text: text.rstrip(" ")).filter(right)


def numbers(families: tuple[str, ...]) -> st.SearchStrategy[int | None]:
    named = sorted({number for family in families for number in known_names()[family].values()})
    return st.one_of(st.none(), st.sampled_from(named), st.integers(0, NUMBER_MAX))


def patterns() -> st.SearchStrategy[Pattern]:
    fields: dict[str, st.SearchStrategy[Any]] = {
        **{keyword.lower(): texts(length) for keyword, length in LENGTHS.items()},
        **{keyword.lower(): numbers(families) for keyword, families in FAMILIES.items()},
    }
    return st.fixed_dictionaries({}, optional=fields).map(lambda chosen: Pattern(**chosen))


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    action = draw(st.sampled_from(Action))
    rule = {
        "pattern": draw(patterns()),
        "action": action,
        "retry": draw(st.one_of(st.just(1), st.integers(1, NUMBER_MAX))),
        "putaut": draw(st.sampled_from(PutAuthority)),
    }
    if action == Action.FWD:
        rule["fwdq"] = draw(st.one_of(_NAMES, st.sampled_from(["&DESTQ", "&REPLYQ"])))
        rule["fwdqm"] = draw(st.one_of(_NAMES, st.sampled_from(["", "&DESTQM", "&REPLYQM"])))
        rule["header"] = draw(st.booleans())
    return Rule(**rule)


def tables() -> st.SearchStrategy[RulesTable]:
    control = st.builds(
        Control,
        inputq=st.one_of(st.just(""), _NAMES),
        inputqm=st.one_of(st.just(""), _NAMES),
        retryint_s=_SECONDS,
        wait_s=st.one_of(st.none(), _SECONDS),
    )
    return st.builds(RulesTable, control=control, rules=st.lists(rules(), min_size=1, max_size=5).map(tuple))
