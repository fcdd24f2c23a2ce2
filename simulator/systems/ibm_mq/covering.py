"""Decides whether every message that fits one pattern fits another."""

from __future__ import annotations

import functools
import re

import msgspec

from simulator.systems.ibm_mq.rules_table import ANY, Pattern

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
