"""Suggests names to a person who asked for one that does not exist."""

from __future__ import annotations

from collections.abc import Iterable

NEAREST_MAX = 3
SHOWN_MAX = 5


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return the known names that come near ``name`` as a question, or, if no name does, the first few of all.

    Args:
        name: the name that does not exist.
        known: every name that does; the empty one is left out.
    """
    from difflib import get_close_matches  # imported here: few misspell a name, and everybody waits for imports

    names = sorted({each for each in known if each})
    near = get_close_matches(name, names, n=NEAREST_MAX)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    if not names:
        return "none is defined"
    more = f" and {len(names) - SHOWN_MAX} more" if len(names) > SHOWN_MAX else ""
    return f"there are {', '.join(map(repr, names[:SHOWN_MAX]))}{more}"
