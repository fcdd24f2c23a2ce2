"""Conditions on releases: ``4.3``, ``>=4.0``, ``>=3.10 <4.0``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable

from dlx.releases import RELEASES
from dlx.releases.versions import known_release, numbers
from simulator.nearest_names import suggestion

_TERM = re.compile(r"(>=|<=|>|<|)([0-9][0-9.]*)")
_COMPARE: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    "": operator.eq,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


def fits(release: str, condition: str | list[str] | None) -> bool:
    """Return whether a release fits: all terms of one of the texts. Everything fits ``None``.

    Raises ``ValueError`` for a text that is no condition.
    """
    if condition is None:
        return True
    texts = [condition] if isinstance(condition, str) else condition
    found = [[_term(release, term) for term in _terms(text)] for text in texts]  # all are read: each may be wrong
    return any(map(all, found))


def _terms(text: str) -> list[str]:
    terms = text.split()
    if not terms:
        raise ValueError("an empty condition on releases; expected such as '4.3' or '>=3.10 <4.0'")
    return terms


def _term(release: str, term: str) -> bool:
    found = _TERM.fullmatch(term)
    if found is None:
        raise ValueError(f"{term!r} is no condition on releases; expected such as '4.3' or '>=3.10 <4.0'")
    if known_release(found[2]) != found[2]:
        raise ValueError(f"there is no release {found[2]!r}; {suggestion(found[2], RELEASES)}")
    return _COMPARE[found[1]](numbers(release)[:2], numbers(found[2]))
