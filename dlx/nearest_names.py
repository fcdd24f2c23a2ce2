"""Suggests names to a person who asked for one that does not exist."""

from __future__ import annotations

from collections.abc import Iterable

NEAREST_MAX = 3
SHOWN_MAX = 5


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> list[str]:
    """Return up to three known names that come near ``name``, the nearest first.

    Args:
        name: the name that does not exist.
        known: every name that does; the empty one is left out.
        cutoff: how alike they must be, 0 to 1.
    """
    from difflib import get_close_matches  # imported here: few misspell a name, and everybody waits for imports

    return get_close_matches(name, sorted({each for each in known if each}), n=NEAREST_MAX, cutoff=cutoff)


def suggestion(name: str, known: Iterable[str], how_to_list: str | None = None) -> str:
    """Return the known names that come near ``name`` as a question, or, if no name does, the first few of all.

    Args:
        name: the name that does not exist.
        known: every name that does; the empty one is left out.
        how_to_list: what to say in place of the first few of many, which nobody looks for.
    """
    names = sorted({each for each in known if each})
    near = nearest(name, names)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    if not names:
        return "none is defined"
    if how_to_list is not None and len(names) > SHOWN_MAX:
        return how_to_list
    more = f" and {len(names) - SHOWN_MAX} more" if len(names) > SHOWN_MAX else ""
    return f"there are {', '.join(map(repr, names[:SHOWN_MAX]))}{more}"
